import { equal, rejects, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "abort fires once with its reason"() {
      const controller = new AbortController();
      let fired = 0;
      controller.signal.addEventListener("abort", () => fired++);
      controller.signal.onabort = () => fired++;
      controller.abort("why");
      controller.abort("again");
      equal(
        [fired, controller.signal.aborted, controller.signal.reason],
        [2, true, "why"],
      );
    },
    "the default reason is an AbortError"() {
      const signal = AbortSignal.abort();
      equal(
        [signal.reason.name, signal.reason.constructor.name],
        ["AbortError", "DOMException"],
      );
      throws(() => signal.throwIfAborted(), { name: "AbortError" });
    },
    async "timeout aborts with a TimeoutError"() {
      const signal = AbortSignal.timeout(5);
      await new Promise((resolve) => signal.addEventListener("abort", resolve));
      equal(signal.reason.name, "TimeoutError");
    },
    "any follows its sources"() {
      const a = new AbortController();
      const b = new AbortController();
      const any = AbortSignal.any([a.signal, b.signal]);
      equal(any.aborted, false);
      b.abort("b");
      a.abort("a");
      equal([any.aborted, any.reason], [true, "b"]);
    },
    async "scheduler.wait obeys a signal"() {
      const controller = new AbortController();
      const waiting = scheduler.wait(10_000, { signal: controller.signal });
      controller.abort(new Error("enough"));
      await rejects(waiting, { message: "enough" });
    },
    async "fetch with an aborted signal rejects"() {
      await rejects(
        fetch("http://127.0.0.1:9/", { signal: AbortSignal.abort() }),
        { name: "AbortError" },
      );
    },
  },
});
