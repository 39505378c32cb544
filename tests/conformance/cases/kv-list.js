// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, triedAsync } from "../support/check.js";

const names = ["", "a", "a\0", "aa", "ab", "b", "b1", "b2", "c", "é", "￿", "𐍈"];
const fill = (storage) =>
  storage.put(Object.fromEntries(names.map((name, i) => [name, i])));

const listed = async (storage, options) => {
  const seen = await triedAsync(() => storage.list(options));
  return seen instanceof Map ? [...seen.keys()] : seen;
};

async function each(storage, all) {
  await fill(storage);
  const seen = {};
  for (const options of all) {
    seen[JSON.stringify(options)] = await listed(storage, options);
  }
  return seen;
}

const object = {
  ranges: ({ storage }) =>
    each(storage, [
      {},
      { start: "a" },
      { start: "a\0" },
      { startAfter: "a" },
      { startAfter: "" },
      { startAfter: "zzz" },
      { end: "b" },
      { end: "" },
      { end: "a" },
      { start: "a", end: "a" },
      { start: "b", end: "a" },
      { startAfter: "a", end: "b" },
      { startAfter: "a", end: "a\0" },
      { start: "é" },
      { start: "￿" },
      { end: "𐍈" },
      { startAfter: "￿" },
    ]),
  prefixes: ({ storage }) =>
    each(storage, [
      { prefix: "" },
      { prefix: "a" },
      { prefix: "b" },
      { prefix: "z" },
      { prefix: "￿" },
      { prefix: "𐍈" },
      { prefix: "b", start: "b1" },
      { prefix: "b", start: "a" },
      { prefix: "b", start: "c" },
      { prefix: "b", end: "b2" },
      { prefix: "b", end: "a" },
      { prefix: "b", end: "z" },
      { prefix: "b", startAfter: "b1" },
      { prefix: "b", startAfter: "b" },
      { prefix: "b", startAfter: "a" },
      { prefix: "a", start: "aa", end: "ab" },
    ]),
  "reverse keeps the meaning of start and end": ({ storage }) =>
    each(storage, [
      { reverse: true },
      { reverse: true, start: "b" },
      { reverse: true, startAfter: "b" },
      { reverse: true, end: "b" },
      { reverse: true, start: "aa", end: "b2" },
      { reverse: true, prefix: "b" },
      { reverse: true, prefix: "b", limit: 1 },
      { reverse: true, prefix: "a", startAfter: "aa", limit: 1 },
      { reverse: true, start: "c", end: "a" },
      { reverse: false, limit: 2 },
    ]),
  limits: ({ storage }) =>
    each(storage, [
      { limit: 1 },
      { limit: 100 },
      { limit: 1.9 },
      { limit: 0.5 },
      { limit: 0 },
      { limit: -1 },
      { limit: "2" },
      { limit: "x" },
      { limit: null },
      { limit: true },
      { limit: [3] },
      { limit: 2147483647 },
      { limit: 2147483648 },
      { limit: 4294967297 },
      { limit: 1e300 },
    ]),
  async "limits that JSON has no text for"({ storage }) {
    await fill(storage);
    return {
      NaN: await listed(storage, { limit: NaN }),
      Infinity: await listed(storage, { limit: Infinity }),
      "-Infinity": await listed(storage, { limit: -Infinity }),
      bigint: await listed(storage, { limit: 2n }),
      undefined: await listed(storage, { limit: undefined }),
      symbol: await listed(storage, { limit: Symbol("s") }),
    };
  },
  "options of other types": ({ storage }) =>
    each(storage, [
      { start: null },
      { start: 5 },
      { end: null },
      { end: true },
      { prefix: null },
      { prefix: 5 },
      { startAfter: null },
      { start: "a", startAfter: "a" },
      { start: "a", startAfter: null },
      { start: null, startAfter: "b" },
      { reverse: "yes", limit: 1 },
      { reverse: 0, limit: 1 },
      { reverse: null, limit: 1 },
      { unknown: 1, limit: 1 },
      null,
      [],
      5,
      "x",
      true,
    ]),
  async "what a list gives"({ storage }) {
    await storage.put({ b: { x: 1 }, a: [2] });
    const list = await storage.list();
    const again = await storage.list();
    return [
      list instanceof Map,
      [...list],
      list.get("b") === again.get("b"),
      await storage.list({ prefix: "none" }),
    ];
  },
  async "a list between writes that are not awaited"({ storage }) {
    await storage.put({ a: 1, b: 1, c: 1, d: 1 });
    storage.put("aa", 2);
    storage.delete("b");
    storage.put("c", 2);
    const list = storage.list({ start: "a", limit: 3 });
    const last = storage.list({ reverse: true, limit: 2 });
    storage.put("ab", 3);
    storage.delete(["a", "d"]);
    const after = storage.list();
    return [[...(await list)], [...(await last)], [...(await after)]];
  },
  async "options of concurrency and caching"({ storage }) {
    await fill(storage);
    return each(storage, [
      { limit: 1, allowConcurrency: true },
      { limit: 1, noCache: true },
      { limit: 1, allowConcurrency: "x" },
      { limit: 1, noCache: null },
    ]);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
