// config: {"date": "2026-08-03", "flags": ["nodejs_als"]}
import { AsyncLocalStorage } from "node:async_hooks";
import { equal, suite } from "../support/check.js";

export default suite({
  worker: {
    "AsyncLocalStorage without the rest of Node.js"() {
      const storage = new AsyncLocalStorage();
      equal(
        storage.run(1, () => storage.getStore()),
        1,
      );
    },
  },
});
