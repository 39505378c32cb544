import { suite } from "../support/check.js";

export default suite({
  worker: {
    "sees what nobody recorded"() {
      return 1;
    },
  },
});
