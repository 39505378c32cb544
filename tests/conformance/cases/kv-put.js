// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, triedAsync } from "../support/check.js";

const all = async (storage) => [...(await storage.list())];

const object = {
  async "one key of any type"({ storage }) {
    const seen = {};
    for (const key of [undefined, null, 5, true, "", 7n, () => 1]) {
      seen[String(key)] = await triedAsync(() => storage.put(key, 1));
    }
    seen.symbol = await triedAsync(() => storage.put(Symbol("s"), 1));
    seen.stored = await all(storage);
    return seen;
  },
  async "a missing value"({ storage }) {
    return {
      absent: await triedAsync(() => storage.put("k")),
      undefined: await triedAsync(() => storage.put("k", undefined)),
      options: await triedAsync(() => storage.put("k", undefined, {})),
      nothing: await triedAsync(() => storage.put()),
      null: await triedAsync(() => storage.put("n", null)),
      stored: await all(storage),
    };
  },
  async "what a put resolves to"({ storage }) {
    return [
      await storage.put("a", 1),
      await storage.put({ b: 1 }),
      await storage.put({}),
    ];
  },
  async "objects of entries"({ storage }) {
    class Entries {
      own = 1;
      get inherited() {
        return 2;
      }
    }
    const hidden = { seen: 1 };
    Object.defineProperty(hidden, "hidden", { value: 2, enumerable: false });
    hidden[Symbol("s")] = 3;
    const seen = {};
    const put = async (name, entries, ...rest) => {
      await storage.deleteAll();
      const outcome = await triedAsync(() => storage.put(entries, ...rest));
      seen[name] = [outcome, await all(storage)];
    };
    await put("instance", new Entries());
    await put("hidden", hidden);
    await put("array", ["x", "y"]);
    await put("hole", ["x", , "y"]);
    await put("map", new Map([["m", 1]]));
    await put("date", new Date(0));
    await put("bytes", new Uint8Array([7, 8]));
    await put("integer keys", { 10: 1, 9: 2, b: 3 });
    await put("undefined values", { a: undefined, b: 1 });
    await put("only undefined", { a: undefined });
    await put("inherited", Object.create({ inherited: 1 }));
    await put("null prototype", Object.assign(Object.create(null), { a: 1 }));
    await put("string object", new String("ab"));
    await put("with options", { a: 1 }, { noCache: true });
    await put("with a value", { a: 1 }, "value");
    await put("with null", { a: 1 }, null);
    return seen;
  },
  async "a value that cannot be stored leaves the whole call undone"({
    storage,
  }) {
    const outcome = await triedAsync(() =>
      storage.put({ a: 1, b: () => 1, c: 3 }),
    );
    return [outcome, await all(storage)];
  },
  async "a getter that throws leaves the whole call undone"({ storage }) {
    const outcome = await triedAsync(() =>
      storage.put({
        a: 1,
        get b() {
          throw new RangeError("from the getter");
        },
      }),
    );
    return [outcome, await all(storage)];
  },
  async "values are taken at the call"({ storage }) {
    const value = { list: [1] };
    const bytes = new Uint8Array([1, 2, 3]);
    const pending = [storage.put("v", value), storage.put({ w: value, bytes })];
    value.list.push(2);
    value.more = true;
    bytes[0] = 9;
    await Promise.all(pending);
    return all(storage);
  },
  async "a getter is read once"({ storage }) {
    let reads = 0;
    const counted = {
      get x() {
        return ++reads;
      },
    };
    await storage.put("k", counted);
    return [reads, await storage.get("k"), await storage.get("k")];
  },
  async "overwriting with another type"({ storage }) {
    const seen = [];
    for (const value of [1, "text", { a: 1 }, null, new Uint8Array(3)]) {
      await storage.put("k", value);
      seen.push(await storage.get("k"));
    }
    return seen;
  },
  async "put and delete in one turn"({ storage }) {
    storage.put("a", 1);
    storage.delete("a");
    storage.put("b", 1);
    storage.put("b", 2);
    storage.delete("c");
    storage.put("c", 3);
    return all(storage);
  },
  async "reads that began before a put"({ storage }) {
    await storage.put("k", "old");
    const before = storage.get("k");
    storage.put("k", "new");
    const after = storage.get("k");
    return [await before, await after];
  },
  async "keys that are not well-formed"({ storage }) {
    const seen = {};
    for (const key of ["\ud800", "a\udc00b", "\ud83d\ude00", "\0", "a\0b"]) {
      await triedAsync(() => storage.put(key, key.length));
      seen[escape(key)] = [await storage.get(key), await storage.get("\ufffd")];
    }
    seen.listed = (await all(storage)).map(([key]) => escape(key));
    return seen;
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
