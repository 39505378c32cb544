// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const fill = (kv) => {
  for (const key of ["a", "b", "c", "d", "e"]) kv.put(key, key.toUpperCase());
};
const keys = (iterable) => tried(() => [...iterable].map(([key]) => key));

const object = {
  "keys and values of any type"({ storage: { kv } }) {
    const seen = {};
    for (const key of [undefined, null, 5, true, "", {}, ["x"], 7n]) {
      const name = `${typeof key} ${String(key)}`;
      seen[`put ${name}`] = tried(() => kv.put(key, `at ${name}`));
      seen[`get ${name}`] = tried(() => kv.get(key));
    }
    seen.symbol = tried(() => kv.get(Symbol("s")));
    seen.list = tried(() => [...kv.list()].map(([key]) => key));
    return seen;
  },
  "missing arguments"({ storage: { kv } }) {
    return {
      get: tried(() => kv.get()),
      put: tried(() => kv.put()),
      putOne: tried(() => kv.put("k")),
      putUndefined: tried(() => kv.put("k", undefined)),
      putObject: tried(() => kv.put({ a: 1 })),
      putNull: tried(() => kv.put("n", null)),
      delete: tried(() => kv.delete()),
      function: tried(() => kv.put("f", () => 1)),
      stored: keys(kv.list()),
    };
  },
  "what the calls return"({ storage: { kv } }) {
    return [
      kv.put("a", 1),
      kv.get("a"),
      kv.delete("a"),
      kv.delete("a"),
      kv.get("a"),
      tried(() => kv.get("a", { noCache: true })),
      tried(() => kv.put("a", 1, { allowUnconfirmed: true })),
    ];
  },
  "values are fresh clones"({ storage: { kv } }) {
    const value = { list: [1] };
    kv.put("k", value);
    value.list.push(2);
    const first = kv.get("k");
    first.list.push(3);
    return [kv.get("k"), first === kv.get("k")];
  },
  "list options"({ storage: { kv } }) {
    fill(kv);
    const seen = {};
    for (const options of [
      {},
      { start: "b" },
      { startAfter: "b" },
      { end: "c" },
      { prefix: "c" },
      { reverse: true },
      { limit: 2 },
      { limit: 0 },
      { limit: -1 },
      { start: "b", end: "d", reverse: true, limit: 1 },
      { start: "a", startAfter: "a" },
      null,
      5,
      "x",
    ]) {
      seen[JSON.stringify(options)] = tried(() =>
        [...kv.list(options)].map(([key]) => key).join(" "),
      );
    }
    return seen;
  },
  "the iterator of a list"({ storage: { kv } }) {
    fill(kv);
    const list = kv.list();
    const seen = [
      Object.prototype.toString.call(list),
      typeof list.next,
      list[Symbol.iterator]() === list,
      typeof list.return,
      Array.isArray(list),
      list.next(),
    ];
    for (const entry of list) {
      seen.push(entry);
      break;
    }
    seen.push(list.next(), [...list], list.next());
    return seen;
  },
  "changes while a list is read"({ storage: { kv } }) {
    const seen = {};
    const during = (name, change, options) => {
      for (const [key] of [...kv.list()]) kv.delete(key);
      fill(kv);
      const list = kv.list(options);
      const first = list.next().value;
      change();
      seen[name] = [first, tried(() => [...list])];
    };
    during("put ahead", () => kv.put("cc", "new"));
    during("put behind", () => kv.put("A", "new"));
    during("change ahead", () => kv.put("d", "new"));
    during("change the next", () => kv.put("b", "new"));
    during("delete ahead", () => kv.delete("d"));
    during("delete the next", () => kv.delete("b"));
    during("delete everything", () =>
      ["a", "b", "c", "d", "e"].forEach((key) => kv.delete(key)),
    );
    during("reverse", () => kv.delete("c"), { reverse: true });
    during("get", () => kv.get("c"));
    return seen;
  },
  "a change before the first entry"({ storage: { kv } }) {
    fill(kv);
    const list = kv.list();
    kv.delete("a");
    kv.put("0", 1);
    return keys(list);
  },
  "a second list ends the first"({ storage: { kv } }) {
    fill(kv);
    const first = kv.list();
    first.next();
    const second = kv.list({ start: "c" });
    return [
      tried(() => first.next()),
      second.next(),
      tried(() => first.next()),
      tried(() => [...second]),
      tried(() => [...first]),
    ];
  },
  "a list that is done is not ended by the next"({ storage: { kv } }) {
    fill(kv);
    const first = kv.list({ limit: 1 });
    const seen = [first.next(), first.next()];
    kv.list();
    seen.push(tried(() => first.next()));
    return seen;
  },
  async "an asynchronous list does not end it"({ storage }) {
    const { kv } = storage;
    fill(kv);
    const list = kv.list();
    list.next();
    await storage.list();
    await storage.put("f", 1);
    return keys(list);
  },
  async "a list over awaits, deleteAll and rollback"({ storage }) {
    const { kv } = storage;
    fill(kv);
    const seen = {};
    let list = kv.list();
    list.next();
    await scheduler.wait(1);
    seen.wait = keys(list);
    list = kv.list();
    list.next();
    tried(() =>
      storage.transactionSync(() => {
        kv.delete("c");
        throw new Error("undone");
      }),
    );
    seen.rollback = keys(list);
    list = kv.list();
    list.next();
    await storage.deleteAll();
    seen.deleteAll = keys(list);
    return seen;
  },
  async "both interfaces in one turn"({ storage }) {
    const { kv } = storage;
    storage.put("a", 1);
    const seen = [kv.get("a")];
    kv.put("a", 2);
    seen.push(await storage.get("a"));
    const got = storage.get("a");
    kv.put("a", 3);
    seen.push(await got, await storage.get("a"));
    return seen;
  },
  async "methods need their object"({ storage: { kv } }) {
    const seen = {};
    for (const name of ["get", "put", "delete", "list"]) {
      seen[name] = await triedAsync(() => (0, kv[name])("k", 1));
    }
    return seen;
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
