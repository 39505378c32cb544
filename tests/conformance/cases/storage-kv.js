// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, rejects, suite, throws } from "../support/check.js";

const object = {
  async "get of an absent key is undefined"({ storage }) {
    equal(await storage.get("none"), undefined);
  },
  async "values keep their types"({ storage }) {
    const value = {
      d: new Date(3),
      m: new Map([[1, new Set([2])]]),
      b: new Uint8Array([1, 2]),
      a: new ArrayBuffer(2),
      n: null,
      u: undefined,
      i: 7n,
      r: /x/,
      nan: NaN,
      e: new TypeError("t"),
    };
    await storage.put("k", value);
    equal(await storage.get("k"), value);
  },
  async "each get gives a fresh clone; later changes do not count"({
    storage,
  }) {
    const value = { list: [1] };
    await storage.put("k", value);
    value.list.push(2);
    const [a, b] = [await storage.get("k"), await storage.get("k")];
    equal([a, a === b], [{ list: [1] }, false]);
  },
  async "many keys at once"({ storage }) {
    await storage.put({ a: 1, b: 2, c: undefined, d: null });
    const got = await storage.get(["d", "b", "none", "a", "c"]);
    equal(got instanceof Map, true);
    equal(
      [...got],
      [
        ["a", 1],
        ["b", 2],
        ["d", null],
      ],
    );
  },
  async "put of undefined is a TypeError"({ storage }) {
    await rejects(async () => storage.put("k", undefined), {
      name: "TypeError",
      message: "put() called with undefined value.",
    });
  },
  async "delete tells whether it was there"({ storage }) {
    await storage.put("k", 1);
    equal(
      [await storage.delete("k"), await storage.delete("k")],
      [true, false],
    );
    await storage.put({ a: 1, b: 2 });
    equal(await storage.delete(["a", "none", "b"]), 2);
  },
  async "list is in the order of UTF-8 bytes"({ storage }) {
    await storage.put({ b: 1, a: 2, ä: 3, "𐍈": 4, "￿": 5, A: 6, "": 7 });
    equal(
      [...(await storage.list()).keys()],
      ["", "A", "a", "b", "ä", "￿", "𐍈"],
    );
  },
  async "list options"({ storage }) {
    await storage.put(
      Object.fromEntries(["a", "b1", "b2", "b3", "c"].map((k, i) => [k, i])),
    );
    const keys = async (options) =>
      [...(await storage.list(options)).keys()].join(" ");
    equal(await keys({ start: "b1", end: "c" }), "b1 b2 b3");
    equal(await keys({ startAfter: "b1" }), "b2 b3 c");
    equal(await keys({ prefix: "b", limit: 2 }), "b1 b2");
    equal(await keys({ prefix: "b", reverse: true, limit: 2 }), "b3 b2");
    equal(await keys({ start: "b", end: "b3", reverse: true }), "b2 b1");
    equal(await keys({ end: "b2" }), "a b1");
    equal(await keys({ prefix: "b", start: "b2" }), "b2 b3");
    equal(await keys({ start: "c", end: "a" }), "");
  },
  async "bad list options are refused"({ storage }) {
    await rejects(async () => storage.list({ limit: 0 }), {
      name: "TypeError",
      message: "List limit must be positive.",
    });
    await rejects(async () => storage.list({ start: "a", startAfter: "a" }), {
      name: "TypeError",
      message: "list() cannot be called with both start and startAfter values.",
    });
  },
  async "list sees writes that are not awaited"({ storage }) {
    storage.put("a", 1);
    storage.put("b", 2);
    storage.delete("a");
    equal([...(await storage.list())], [["b", 2]]);
  },
  async "deleteAll leaves nothing"({ storage, sql }) {
    await storage.put({ a: 1, b: 2 });
    sql.exec("CREATE TABLE t (x)");
    await storage.deleteAll();
    equal((await storage.list()).size, 0);
    equal(
      sql.exec("SELECT count(*) AS n FROM sqlite_master WHERE name = 't'").one()
        .n,
      0,
    );
    await storage.put("c", 3);
    equal(await storage.get("c"), 3);
  },
  async "large values pass"({ storage }) {
    const big = "x".repeat(1_000_000);
    await storage.put("big", big);
    equal((await storage.get("big")) === big, true);
  },
  async "what cannot be cloned is a DataCloneError"({ storage }) {
    await rejects(async () => storage.put("k", () => 1), {
      name: "DataCloneError",
    });
  },
  async "keys of many kinds"({ storage }) {
    for (const key of ["", " ", "a/b", "ü€𐍈", "x".repeat(2_048), "\0"]) {
      await storage.put(key, key.length);
      equal(await storage.get(key), key.length, key.slice(0, 10));
    }
  },
  async "options are taken"({ storage }) {
    await storage.put("k", 1, { allowUnconfirmed: true, noCache: true });
    equal(await storage.get("k", { allowConcurrency: true, noCache: true }), 1);
    await storage.sync();
  },
  "the synchronous API sees the same data"({ storage }) {
    storage.kv.put("a", { x: 1 });
    storage.kv.put("b", 2);
    equal([storage.kv.get("a"), storage.kv.get("none")], [{ x: 1 }, undefined]);
    equal([...storage.kv.list({ prefix: "b" })], [["b", 2]]);
    equal([storage.kv.delete("a"), storage.kv.delete("a")], [true, false]);
  },
  "a second kv.list() ends the first"({ storage }) {
    storage.kv.put("a", 1);
    storage.kv.put("b", 2);
    const first = storage.kv.list();
    first.next();
    storage.kv.list().next();
    throws(() => first.next(), {
      name: "Error",
      message:
        "kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.",
    });
  },
  async "the synchronous and the asynchronous API share keys"({ storage }) {
    storage.kv.put("k", 1);
    equal(await storage.get("k"), 1);
    await storage.put("k", 2);
    equal(storage.kv.get("k"), 2);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
