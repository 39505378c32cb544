import { equal, suite } from "../support/check.js";

export default suite({
  worker: {
    "a value that is wrong": () =>
      equal(new Map([[1, undefined]]), new Map([[1, null]])),
  },
});
