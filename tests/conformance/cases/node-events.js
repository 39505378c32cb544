import EventEmitter, * as events from "node:events";
import { AsyncLocalStorage } from "node:async_hooks";
import { equal, rejects, suite, throws } from "../support/check.js";

const { on, once } = events;

const listeners = {
  "the class and its names"() {
    equal(
      [
        events.EventEmitter === EventEmitter,
        EventEmitter.EventEmitter === EventEmitter,
        EventEmitter.name,
        EventEmitter.defaultMaxListeners,
        String(events.errorMonitor),
        String(events.captureRejectionSymbol),
      ],
      [
        true,
        true,
        "EventEmitter",
        10,
        "Symbol(events.errorMonitor)",
        "Symbol(nodejs.rejection)",
      ],
    );
  },
  "listeners are called in order, once or always"() {
    const emitter = new EventEmitter();
    const seen = [];
    emitter.on("a", () => seen.push(1));
    emitter.prependListener("a", () => seen.push(0));
    emitter.once("a", () => seen.push(2));
    emitter.prependOnceListener("a", () => seen.push(-1));
    equal(
      [emitter.emit("a"), emitter.emit("a"), emitter.emit("none")],
      [true, true, false],
    );
    equal([seen, emitter.listenerCount("a")], [[-1, 0, 1, 2, 0, 1], 2]);
  },
  "this and arguments"() {
    const emitter = new EventEmitter();
    let seen;
    emitter.on("a", function (...args) {
      seen = [this === emitter, args];
    });
    emitter.emit("a", 1, 2, 3, 4);
    equal(seen, [true, [1, 2, 3, 4]]);
  },
  "a listener removed while the event runs is still called"() {
    const emitter = new EventEmitter();
    const seen = [];
    const second = () => seen.push("second");
    emitter.on("a", () => {
      seen.push("first");
      emitter.off("a", second);
    });
    emitter.on("a", second);
    emitter.emit("a");
    emitter.emit("a");
    equal(seen, ["first", "second", "first"]);
  },
  "newListener and removeListener"() {
    const emitter = new EventEmitter();
    const seen = [];
    const note = (what) => (name, listener) =>
      seen.push([what, name, typeof listener, emitter.listenerCount(name)]);
    emitter.on("newListener", note("new"));
    emitter.on("removeListener", note("removed"));
    const listener = () => {};
    emitter.once("x", listener);
    emitter.off("x", listener);
    equal(seen, [
      ["new", "removeListener", "function", 0],
      ["new", "x", "function", 0],
      ["removed", "x", "function", 0],
    ]);
  },
  "lists of names and listeners"() {
    const emitter = new EventEmitter();
    const listener = () => {};
    emitter.once("b", listener);
    emitter.on("a", listener).on("a", listener);
    emitter.on(Symbol.for("s"), listener);
    equal(emitter.eventNames().map(String), ["b", "a", "Symbol(s)"]);
    const [raw] = emitter.rawListeners("b");
    equal(
      [
        emitter.listeners("b")[0] === listener,
        raw !== listener,
        raw.listener === listener,
        emitter.listenerCount("a", listener),
        EventEmitter.listenerCount(emitter, "a"),
      ],
      [true, true, true, 2, 2],
    );
    emitter.off("a", listener);
    equal(emitter.listenerCount("a"), 1);
    equal(emitter.removeAllListeners("a").eventNames().length, 2);
    equal(emitter.removeAllListeners().eventNames(), []);
  },
  "what is no listener is refused"() {
    throws(() => new EventEmitter().on("a", 5), {
      name: "TypeError",
      code: "ERR_INVALID_ARG_TYPE",
      message:
        'The "listener" argument must be of type function. Received type number (5)',
    });
    throws(() => new EventEmitter().once("a"), {
      message:
        'The "listener" argument must be of type function. Received undefined',
    });
  },
  "limits of listeners"() {
    const emitter = new EventEmitter();
    equal(
      [
        emitter.getMaxListeners(),
        emitter.setMaxListeners(3) === emitter,
        events.getMaxListeners(emitter),
      ],
      [10, true, 3],
    );
    events.setMaxListeners(4, emitter);
    equal(emitter.getMaxListeners(), 4);
    throws(() => emitter.setMaxListeners(-1), {
      name: "RangeError",
      code: "ERR_OUT_OF_RANGE",
      message:
        'The value of "n" is out of range. It must be a non-negative number. Received -1',
    });
  },
  "classes of old"() {
    function Old() {
      EventEmitter.call(this);
    }
    Object.setPrototypeOf(Old.prototype, EventEmitter.prototype);
    const old = new Old();
    let seen;
    old.on("a", (value) => {
      seen = value;
    });
    old.emit("a", 4);
    equal([seen, old instanceof EventEmitter], [4, true]);
    class Young extends EventEmitter {}
    equal(new Young().emit("a"), false);
  },
};

const errors = {
  "an error that nobody hears is thrown"() {
    const emitter = new EventEmitter();
    throws(() => emitter.emit("error", new RangeError("r")), {
      name: "RangeError",
      message: "r",
    });
    throws(() => emitter.emit("error", { a: 1 }), {
      code: "ERR_UNHANDLED_ERROR",
      message: "Unhandled error. ({ a: 1 })",
      context: { a: 1 },
    });
    throws(() => emitter.emit("error"), {
      message: "Unhandled error. (undefined)",
    });
  },
  "errorMonitor hears first and handles nothing"() {
    const emitter = new EventEmitter();
    const seen = [];
    emitter.on(events.errorMonitor, ({ message }) => seen.push(message));
    throws(() => emitter.emit("error", new Error("m")), { message: "m" });
    emitter.on("error", () => seen.push("handled"));
    emitter.emit("error", new Error("n"));
    equal(seen, ["m", "n", "handled"]);
  },
  async captureRejections() {
    const emitter = new EventEmitter({ captureRejections: true });
    const seen = [];
    const bad = async () => {
      throw new Error("bad");
    };
    emitter.on("error", ({ message }) => seen.push(message));
    emitter.on("a", bad);
    emitter.emit("a");
    await scheduler.wait(1);
    emitter[events.captureRejectionSymbol] = ({ message }, name, ...args) =>
      seen.push([message, name, args]);
    emitter.emit("a", 5);
    await scheduler.wait(1);
    equal(seen, ["bad", ["bad", "a", [5]]]);
  },
};

const waits = {
  async "once gives the arguments"() {
    const emitter = new EventEmitter();
    const promise = once(emitter, "a");
    emitter.emit("a", 1, 2);
    equal([await promise, emitter.eventNames()], [[1, 2], []]);
  },
  async "once fails with the error"() {
    const emitter = new EventEmitter();
    const promise = once(emitter, "a");
    emitter.emit("error", new Error("bad"));
    await rejects(promise, { message: "bad" });
    const wanted = once(emitter, "error");
    emitter.emit("error", new Error("wanted"));
    equal((await wanted)[0].message, "wanted");
  },
  async "once is aborted"() {
    const controller = new AbortController();
    const { signal } = controller;
    const promise = once(new EventEmitter(), "a", { signal });
    controller.abort();
    const expected = {
      name: "AbortError",
      code: "ABORT_ERR",
      message: "The operation was aborted",
    };
    await rejects(promise, expected);
    await rejects(once(new EventEmitter(), "a", { signal }), expected);
  },
  async "once on an EventTarget"() {
    const target = new EventTarget();
    const promise = once(target, "a");
    target.dispatchEvent(new Event("a"));
    equal((await promise)[0].type, "a");
    await rejects(once({}, "a"), { code: "ERR_INVALID_ARG_TYPE" });
  },
  async "on iterates over what came and what comes"() {
    const emitter = new EventEmitter();
    const iterator = on(emitter, "a");
    emitter.emit("a", 1);
    equal(await iterator.next(), { value: [1], done: false });
    const next = iterator.next();
    emitter.emit("a", 2);
    equal(await next, { value: [2], done: false });
    await iterator.return();
    equal(await iterator.next(), { value: undefined, done: true });
    equal(emitter.eventNames(), []);
  },
  async "on fails with the error"() {
    const emitter = new EventEmitter();
    const iterator = on(emitter, "a");
    emitter.emit("error", new Error("oops"));
    await rejects(iterator.next(), { message: "oops" });
  },
  async "on is aborted"() {
    const controller = new AbortController();
    const iterator = on(new EventEmitter(), "a", { signal: controller.signal });
    const next = iterator.next();
    controller.abort();
    await rejects(next, { name: "AbortError" });
  },
  addAbortListener() {
    const controller = new AbortController();
    let count = 0;
    const listener = () => count++;
    events.addAbortListener(controller.signal, listener);
    events.addAbortListener(controller.signal, listener)[Symbol.dispose]();
    events.addAbortListener(controller.signal, () => count++);
    controller.abort();
    equal(count, 1);
  },
  EventEmitterAsyncResource() {
    const storage = new AsyncLocalStorage();
    const emitter = storage.run(
      5,
      () => new events.EventEmitterAsyncResource({ name: "e" }),
    );
    let seen;
    emitter.on("a", () => {
      seen = storage.getStore();
    });
    emitter.emit("a");
    equal([seen, typeof emitter.asyncResource], [5, "object"]);
  },
};

export default suite({ worker: { ...listeners, ...errors, ...waits } });
