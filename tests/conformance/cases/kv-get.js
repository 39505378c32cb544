// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, triedAsync } from "../support/check.js";

const object = {
  async "one key of any type"({ storage }) {
    const seen = {};
    const keys = [undefined, null, 5, -0, 1.5, true, "", 7n, {}, () => 1];
    for (const key of keys) {
      await triedAsync(() => storage.put(String(key), `at ${String(key)}`));
      seen[String(key)] = await triedAsync(() => storage.get(key));
    }
    seen.symbol = await triedAsync(() => storage.get(Symbol("s")));
    seen.date = await triedAsync(() => storage.get(new Date(0)));
    seen.none = await triedAsync(() => storage.get());
    return seen;
  },
  async "a list of keys of any type"({ storage }) {
    await storage.put({ 1: "one", a: "a", null: "null", undefined: "u" });
    return {
      mixed: await triedAsync(() => storage.get([1, "a", null, undefined])),
      empty: await triedAsync(() => storage.get([])),
      set: await triedAsync(() => storage.get(new Set(["a"]))),
      generator: await triedAsync(() =>
        storage.get(
          (function* () {
            yield "a";
          })(),
        ),
      ),
      arrayLike: await triedAsync(() => storage.get({ length: 1, 0: "a" })),
      typed: await triedAsync(() => storage.get(new Uint8Array([1]))),
      nested: await triedAsync(() => storage.get([["a"]])),
      symbol: await triedAsync(() => storage.get([Symbol("s")])),
      hole: await triedAsync(() => storage.get(["a", , "1"])),
    };
  },
  async "doubled and absent keys of a list"({ storage }) {
    await storage.put({ b: 2, a: 1 });
    return {
      doubled: await storage.get(["b", "a", "b", "none", "a"]),
      order: [...(await storage.get(["b", "a"])).keys()],
      absent: await storage.get(["x", "y"]),
    };
  },
  async "options that are no object"({ storage }) {
    await storage.put("k", 1);
    const seen = {};
    for (const options of [undefined, null, 5, "x", true, [], () => 1]) {
      seen[String(options) || "[]"] = await triedAsync(() =>
        storage.get("k", options),
      );
    }
    return seen;
  },
  async "option values of any type"({ storage }) {
    await storage.put("k", 1);
    const seen = {};
    for (const name of ["allowConcurrency", "noCache", "allowUnconfirmed"]) {
      for (const value of [true, false, undefined, null, "yes", 0, {}]) {
        seen[`${name}: ${String(value)}`] = await triedAsync(() =>
          storage.get("k", { [name]: value }),
        );
      }
    }
    return seen;
  },
  async "an option whose getter throws"({ storage }) {
    return triedAsync(() =>
      storage.get("k", {
        get noCache() {
          throw new RangeError("from the getter");
        },
      }),
    );
  },
  async "errors reject and do not throw"({ storage }) {
    const kinds = {};
    const calls = {
      get: () => storage.get(),
      put: () => storage.put(),
      delete: () => storage.delete(),
      list: () => storage.list({ limit: 0 }),
      setAlarm: () => storage.setAlarm(-5),
      noAlarm: () => storage.setAlarm(),
      transaction: () => storage.transaction(),
    };
    for (const [name, call] of Object.entries(calls)) {
      let promise;
      try {
        promise = call();
        kinds[name] = promise instanceof Promise ? "promise" : typeof promise;
      } catch (error) {
        kinds[name] = `throws ${error.name}: ${error.message}`;
      }
      if (promise instanceof Promise) {
        kinds[`${name} settles`] = await triedAsync(promise);
      }
    }
    return kinds;
  },
  async "methods need their storage"({ storage }) {
    const seen = {};
    for (const name of ["get", "put", "delete", "list", "sync", "deleteAll"]) {
      const method = storage[name];
      seen[name] = await triedAsync(() => method("k", 1));
      seen[`${name}.call`] = await triedAsync(() => method.call({}, "k", 1));
    }
    return seen;
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
