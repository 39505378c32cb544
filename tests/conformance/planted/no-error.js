import { rejects, suite } from "../support/check.js";

export default suite({
  worker: {
    "an error that does not come": () => rejects(Promise.resolve(1), {}),
  },
});
