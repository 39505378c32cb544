// config: {"objects": {"PROBE": "Probe"}}
import { AsyncLocalStorage } from "node:async_hooks";
import { equal, probe, suite, throws } from "../support/check.js";

const storage = new AsyncLocalStorage();
const store = () => storage.getStore();

/** Holds when code that `start` leads to sees the value of the caller. */
const follows = (start) => async () => {
  const seen = await storage.run("value", () => start(store));
  equal([seen, store()], ["value", undefined]);
};

const worker = {
  "run passes arguments and gives back what the function returns"() {
    equal(
      storage.run({ a: 1 }, (x, y) => [store(), x, y], 2, 3),
      [{ a: 1 }, 2, 3],
    );
    equal(store(), undefined);
  },
  "run nests, and an exception ends it"() {
    const seen = storage.run(1, () => {
      throws(
        () =>
          storage.run(2, () => {
            throw new Error(`in ${store()}`);
          }),
        { message: "in 2" },
      );
      return store();
    });
    equal(seen, 1);
  },
  "exit hides the value"() {
    equal(
      storage.run(1, () => [storage.exit((x) => [store(), x], 7), store()]),
      [[undefined, 7], 1],
    );
  },
  "storages do not touch each other"() {
    const other = new AsyncLocalStorage();
    equal(
      storage.run(1, () => other.run(2, () => [store(), other.getStore()])),
      [1, 2],
    );
  },
  "default value and name"() {
    const own = new AsyncLocalStorage({ defaultValue: 9, name: "own" });
    equal(
      [
        own.getStore(),
        own.name,
        own.exit(() => own.getStore()),
        own.run(undefined, () => own.getStore()),
        storage.name,
      ],
      [9, "own", undefined, undefined, ""],
    );
  },
  "enterWith and disable are not there"() {
    throws(() => storage.enterWith(1), {
      name: "Error",
      message: "asyncLocalStorage.enterWith() is not implemented",
    });
    throws(() => storage.disable(), {
      name: "Error",
      message: "asyncLocalStorage.disable() is not implemented",
    });
  },
  "what is no function is refused"() {
    throws(() => storage.run(1, 5), {
      name: "TypeError",
      message:
        "Failed to execute 'run' on 'AsyncLocalStorage': parameter 2 is not of type 'function'.",
    });
    throws(() => AsyncLocalStorage.bind(5), { name: "TypeError" });
    throws(() => AsyncLocalStorage.snapshot()(5), {
      name: "TypeError",
      message: "The first argument must be a function",
    });
  },
  "bind and snapshot keep the values of their moment"() {
    const bound = storage.run(4, () =>
      AsyncLocalStorage.bind((x) => [store(), x]),
    );
    const snapshot = storage.run(5, () => AsyncLocalStorage.snapshot());
    const seen = storage.run(6, () => [
      bound(1),
      snapshot((x) => [store(), x], 2),
      store(),
    ]);
    equal(seen, [[4, 1], [5, 2], 6]);
  },
  "a snapshot of no value hides one"() {
    const snapshot = AsyncLocalStorage.snapshot();
    equal(
      storage.run(1, () => snapshot(store)),
      undefined,
    );
  },
  "promises: await": follows(async (get) => {
    await null;
    return get();
  }),
  "promises: then": follows((get) => Promise.resolve().then(get)),
  "promises: a thenable": follows((get) =>
    Promise.resolve().then(() => ({ then: (done) => done(get()) })),
  ),
  "promises: settled by somebody else": follows((get) => {
    const { promise, resolve } = Promise.withResolvers();
    const seen = promise.then(get);
    storage.run("other", resolve);
    return seen;
  }),
  "promises: rejected by somebody else": follows((get) => {
    const { promise, reject } = Promise.withResolvers();
    const seen = promise.catch(get);
    storage.run("other", () => reject(new Error("x")));
    return seen;
  }),
  "timers: setTimeout": follows(
    (get) => new Promise((done) => setTimeout(() => done(get()), 1)),
  ),
  "timers: setInterval": follows(
    (get) =>
      new Promise((done) => {
        const timer = setInterval(() => {
          clearInterval(timer);
          done(get());
        }, 1);
      }),
  ),
  "timers: setImmediate": follows(
    (get) => new Promise((done) => setImmediate(() => done(get()))),
  ),
  "timers: scheduler.wait": follows(async (get) => {
    await scheduler.wait(1);
    return get();
  }),
  queueMicrotask: follows(
    (get) => new Promise((done) => queueMicrotask(() => done(get()))),
  ),
  "async generators": follows(async (get) => {
    async function* values() {
      await null;
      yield get();
    }
    for await (const value of values()) return value;
  }),
  "generators see the value of who asks": () => {
    function* values() {
      yield store();
      yield store();
    }
    const all = storage.run("made", values);
    const next = (value) => storage.run(value, () => all.next().value);
    equal([next(1), next(2)], [1, 2]);
  },
  "bodies and digests": follows(async (get) => {
    await new Response("x").text();
    await crypto.subtle.digest("SHA-256", new Uint8Array(2));
    return get();
  }),
  "event listeners see the value of who dispatches"() {
    const target = new EventTarget();
    let seen;
    storage.run("listens", () =>
      target.addEventListener("x", () => {
        seen = store();
      }),
    );
    storage.run("dispatches", () => target.dispatchEvent(new Event("x")));
    equal(seen, "dispatches");
  },
  "abort listeners see the value of who aborts"() {
    const controller = new AbortController();
    let seen;
    storage.run("listens", () =>
      controller.signal.addEventListener("abort", () => {
        seen = store();
      }),
    );
    storage.run("aborts", () => controller.abort());
    equal(seen, "aborts");
  },
  "streams: start sees who constructs, pull who reads": async () => {
    const seen = {};
    const source = {
      start() {
        seen.start = store();
      },
      pull(controller) {
        seen.pull = store();
        controller.enqueue("chunk");
        controller.close();
      },
    };
    const stream = storage.run(
      "constructs",
      () => new ReadableStream(source, { highWaterMark: 0 }),
    );
    // The start has ended before somebody reads.
    await scheduler.wait(1);
    await storage.run("reads", async () => {
      for await (const _ of stream) seen.loop = store();
    });
    equal(seen, { start: "constructs", pull: "reads", loop: "reads" });
  },
  "streams: write sees who writes": async () => {
    const seen = {};
    const sink = {
      start() {
        seen.start = store();
      },
      write() {
        seen.write = store();
      },
      close() {
        seen.close = store();
      },
    };
    const stream = storage.run("constructs", () => new WritableStream(sink));
    await scheduler.wait(1);
    await storage.run("writes", async () => {
      const writer = stream.getWriter();
      await writer.write(1);
      await writer.close();
    });
    equal(seen, { start: "constructs", write: "writes", close: "writes" });
  },
  "unhandled rejections are told with the value of who rejects": async () => {
    let seen;
    const listener = (event) => {
      seen = store();
      event.preventDefault();
    };
    addEventListener("unhandledrejection", listener);
    storage.run("rejects", () => void Promise.reject(new Error("x")));
    for (let i = 0; i < 200 && seen === undefined; i++) {
      await scheduler.wait(10);
    }
    removeEventListener("unhandledrejection", listener);
    equal(seen, "rejects");
  },
  "two computations that overlap stay apart": async () => {
    const one = async (value) =>
      storage.run(value, async () => {
        const seen = [];
        for (let i = 0; i < 5; i++) {
          await scheduler.wait(i % 2);
          seen.push(store());
        }
        return seen;
      });
    const [a, b] = await Promise.all([one("a"), one("b")]);
    equal([a, b], [Array(5).fill("a"), Array(5).fill("b")]);
  },
  "a call to an object takes no value along, and its answer finds it": async ({
    env,
  }) => {
    const stub = env.PROBE.getByName("called");
    const seen = await storage.run("caller", async () => {
      const inside = await stub.inside();
      return [inside, store()];
    });
    equal(seen, [null, "caller"]);
  },
};

const object = {
  "storage operations": (context) =>
    follows(async (get) => {
      await context.storage.put("k", 1);
      await context.storage.get("k");
      await context.storage.list();
      return get();
    })(),
  transactions: (context) =>
    follows((get) =>
      context.storage.transaction(async (txn) => {
        await txn.put("k", 1);
        return get();
      }),
    )(),
  transactionSync: (context) =>
    follows((get) => context.storage.transactionSync(get))(),
  blockConcurrencyWhile: (context) =>
    follows((get) =>
      context.ctx.blockConcurrencyWhile(async () => {
        await scheduler.wait(1);
        return get();
      }),
    )(),
  "behind blockConcurrencyWhile": (context) =>
    follows(async (get) => {
      await context.ctx.blockConcurrencyWhile(() => scheduler.wait(1));
      return get();
    })(),
};

export class Probe extends probe(object) {
  inside() {
    return store() ?? null;
  }
}
export default suite({ worker, object });
