import { equal, suite, throws } from "../support/check.js";

export default suite({
  worker: {
    "listeners run in order, once, and can be removed"() {
      const target = new EventTarget();
      const seen = [];
      const gone = () => seen.push("gone");
      target.addEventListener("x", () => seen.push(1));
      target.addEventListener("x", gone);
      target.addEventListener("x", () => seen.push(2), { once: true });
      target.removeEventListener("x", gone);
      target.dispatchEvent(new Event("x"));
      target.dispatchEvent(new Event("x"));
      equal(seen, [1, 2, 1]);
    },
    "preventDefault is reported for cancelable events"() {
      const target = new EventTarget();
      target.addEventListener("x", (event) => event.preventDefault());
      equal(target.dispatchEvent(new Event("x", { cancelable: true })), false);
    },
    "CustomEvent carries detail; stopImmediatePropagation stops"() {
      const target = new EventTarget();
      let detail;
      target.addEventListener("x", (event) => {
        detail = event.detail;
        event.stopImmediatePropagation();
      });
      target.addEventListener("x", () => (detail = "late"));
      target.dispatchEvent(new CustomEvent("x", { detail: 7 }));
      equal(detail, 7);
    },
    "a signal removes its listeners"() {
      const target = new EventTarget();
      const controller = new AbortController();
      let count = 0;
      target.addEventListener("x", () => count++, {
        signal: controller.signal,
      });
      controller.abort();
      target.dispatchEvent(new Event("x"));
      equal(count, 0);
    },
    async "MessageChannel passes clones"() {
      const { port1, port2 } = new MessageChannel();
      const got = new Promise(
        (resolve) => (port2.onmessage = (event) => resolve(event.data)),
      );
      port1.postMessage({ a: [1] });
      equal(await got, { a: [1] });
      port1.close();
    },
    "DOMException has names and codes"() {
      const error = new DOMException("m", "AbortError");
      equal(
        [error.name, error.code, error instanceof Error],
        ["AbortError", 20, true],
      );
      throws(
        () => {
          throw error;
        },
        { message: "m" },
      );
    },
  },
});
