import * as hooks from "node:async_hooks";
import { AsyncLocalStorage, AsyncResource } from "node:async_hooks";
import { equal, suite, throws } from "../support/check.js";

const storage = new AsyncLocalStorage();
const store = () => storage.getStore();

export default suite({
  worker: {
    "runs with the values of its construction"() {
      const resource = storage.run(3, () => new AsyncResource("T"));
      const seen = resource.runInAsyncScope(
        function (x) {
          return [store(), this.y, x];
        },
        { y: 1 },
        5,
      );
      equal([seen, store()], [[3, 1, 5], undefined]);
    },
    "bind and its receiver"() {
      const resource = storage.run(3, () => new AsyncResource("T"));
      const bound = resource.bind(function (x) {
        return [store(), this?.y, x];
      });
      equal(
        storage.run(4, () => bound.call({ y: 2 }, 5)),
        [3, undefined, 5],
      );
      equal(bound.asyncResource === resource, true);
      const fixed = resource.bind(
        function () {
          return this.y;
        },
        { y: 3 },
      );
      equal(fixed.call({ y: 2 }), 3);
    },
    "static bind"() {
      const bound = storage.run(6, () =>
        AsyncResource.bind(
          function (x) {
            return [store(), x, this.z];
          },
          "T",
          { z: 2 },
        ),
      );
      equal(bound(5), [6, 5, 2]);
    },
    "can be extended"() {
      class Job extends AsyncResource {
        constructor() {
          super("JOB");
        }
        finish() {
          return this.runInAsyncScope(store);
        }
      }
      const job = storage.run("j", () => new Job());
      equal(job.finish(), "j");
    },
    "ids are zero, hooks hear nothing"() {
      const resource = new AsyncResource("T");
      equal(
        [
          resource.asyncId(),
          resource.triggerAsyncId(),
          resource.emitDestroy() === resource,
          hooks.executionAsyncId(),
          hooks.triggerAsyncId(),
          hooks.executionAsyncResource(),
        ],
        [0, 0, false, 0, 0, {}],
      );
      const hook = hooks.createHook({
        init() {
          throw new Error("heard");
        },
      });
      equal([hook.enable() === hook, hook.disable() === hook], [true, true]);
    },
    "what is no function is refused"() {
      throws(() => new AsyncResource("T").bind(5), { name: "TypeError" });
      throws(() => new AsyncResource("T").runInAsyncScope(5), {
        name: "TypeError",
      });
    },
  },
});
