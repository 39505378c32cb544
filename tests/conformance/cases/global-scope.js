import { equal, suite } from "../support/check.js";

const attempt = (run) => {
  try {
    const value = run();
    if (value instanceof Promise)
      return value.then(
        () => "allowed",
        (error) => error.message,
      );
    return "allowed";
  } catch (error) {
    return error.message;
  }
};

const timeout = attempt(() => setTimeout(() => {}, 1));
const random = attempt(() => crypto.getRandomValues(new Uint8Array(1)));
const uuid = attempt(() => crypto.randomUUID());
const fetching = attempt(() => fetch("http://127.0.0.1:9/"));
const loopTime = Date.now();
const evaluated = attempt(() => new Function("return 1")());
const hashed = await attempt(() =>
  crypto.subtle.digest("SHA-256", new Uint8Array()),
);

const text =
  "Disallowed operation called within global scope. Asynchronous I/O (ex: fetch() or connect()), setting a timeout, and generating random values are not allowed within global scope. To fix this error, perform this operation within a handler. https://developers.cloudflare.com/workers/runtime-apis/handlers/";

export default suite({
  worker: {
    "timers are refused"() {
      equal(timeout, text);
    },
    "random values are refused"() {
      equal([random, uuid], [text, text]);
    },
    async "fetch is refused"() {
      equal(await fetching, text);
    },
    "digests are allowed"() {
      equal(hashed, "allowed");
    },
    "eval is allowed at start-up"() {
      equal(evaluated, "allowed");
    },
    "the time is zero"() {
      equal(loopTime, 0);
    },
  },
});
