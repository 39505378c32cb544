// config: {"checkMs": 400}
import { suite } from "../support/check.js";

export default suite({
  worker: {
    "a check that never ends": () => scheduler.wait(1_000_000),
  },
});
