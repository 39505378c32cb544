import { suite } from "../support/check.js";

export default suite({
  worker: {
    "sees what was not recorded"() {
      return { one: 1, two: [2] };
    },
  },
});
