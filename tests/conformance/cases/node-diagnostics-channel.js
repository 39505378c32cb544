import { AsyncLocalStorage } from "node:async_hooks";
import * as diagnostics from "node:diagnostics_channel";
import { equal, rejects, suite, throws } from "../support/check.js";

const { channel, tracingChannel } = diagnostics;
const phases = ["start", "end", "asyncStart", "asyncEnd", "error"];

/** Subscribes to every phase, and notes what comes. */
function record(tracing) {
  const seen = [];
  const subscriber = (phase) => (message) =>
    seen.push([phase, { ...message, error: message.error?.message }]);
  tracing.subscribe(
    Object.fromEntries(phases.map((phase) => [phase, subscriber(phase)])),
  );
  return seen;
}

export default suite({
  worker: {
    "a name has one channel"() {
      const one = channel("same");
      equal([channel("same") === one, one.hasSubscribers], [true, false]);
    },
    "subscribers hear message and name, until they leave"() {
      const seen = [];
      const subscriber = (message, name) => seen.push([message, name]);
      diagnostics.subscribe("heard", subscriber);
      const heard = channel("heard");
      heard.publish({ a: 1 });
      equal(
        [heard.hasSubscribers, diagnostics.hasSubscribers("heard")],
        [true, true],
      );
      diagnostics.unsubscribe("heard", subscriber);
      heard.publish(2);
      equal([seen, heard.hasSubscribers], [[[{ a: 1 }, "heard"]], false]);
    },
    "symbols are names too"() {
      const name = Symbol("name");
      let seen;
      channel(name).subscribe((_, of) => {
        seen = of === name;
      });
      channel(name).publish(1);
      equal(seen, true);
    },
    "a subscriber that throws fails the publication"() {
      channel("throws").subscribe(() => {
        throw new Error("by the subscriber");
      });
      throws(() => channel("throws").publish(1), {
        message: "by the subscriber",
      });
    },
    "what is no function is refused"() {
      throws(() => channel("refuses").subscribe(5), { name: "TypeError" });
      throws(() => new diagnostics.Channel("x"), {
        name: "TypeError",
        message: "Illegal constructor",
      });
    },
    "stores are bound for a call"() {
      const storage = new AsyncLocalStorage();
      const bound = channel("bound");
      bound.bindStore(storage, (data) => ({ ...data, more: true }));
      const seen = bound.runStores(
        { a: 1 },
        function (x) {
          return [storage.getStore(), this.y, x];
        },
        { y: 2 },
        3,
      );
      equal(seen, [{ a: 1, more: true }, 2, 3]);
      bound.unbindStore(storage);
      equal(
        bound.runStores({}, () => storage.getStore()),
        undefined,
      );
    },
    traceSync() {
      const tracing = tracingChannel("sync");
      const seen = record(tracing);
      equal(
        tracing.traceSync((x) => x + 1, { c: 1 }, null, 2),
        3,
      );
      const bad = () => {
        throw new Error("bad");
      };
      throws(() => tracing.traceSync(bad, { c: 2 }), { message: "bad" });
      equal(seen, [
        ["start", { c: 1, error: undefined }],
        ["end", { c: 1, result: 3, error: undefined }],
        ["start", { c: 2, error: undefined }],
        ["error", { c: 2, error: "bad" }],
        ["end", { c: 2, error: "bad" }],
      ]);
    },
    async tracePromise() {
      const tracing = tracingChannel("promise");
      const seen = record(tracing);
      equal(
        await tracing.tracePromise(async (x) => x + 1, { c: 1 }, null, 2),
        3,
      );
      const bad = async () => {
        throw new Error("bad");
      };
      await rejects(tracing.tracePromise(bad, { c: 2 }), { message: "bad" });
      equal(
        seen.map(([phase]) => phase),
        [
          ["start", "end", "asyncStart", "asyncEnd"],
          ["start", "end", "error", "asyncStart", "asyncEnd"],
        ].flat(),
      );
      equal(seen[2][1], { c: 1, result: 3, error: undefined });
    },
    traceCallback() {
      const tracing = tracingChannel("callback");
      const seen = record(tracing);
      const work = (x, done) => {
        done(null, x + 1);
        return "returned";
      };
      const done = (error, value) => seen.push(["callback", error, value]);
      equal(
        tracing.traceCallback(work, 1, { c: 1 }, null, 2, done),
        "returned",
      );
      equal(
        seen.map(([phase]) => phase),
        ["start", "asyncStart", "callback", "asyncEnd", "end"],
      );
    },
  },
});
