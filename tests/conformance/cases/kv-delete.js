// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, triedAsync } from "../support/check.js";

const object = {
  async "one key of any type"({ storage }) {
    await storage.put({ 5: 1, null: 1, undefined: 1, true: 1 });
    const seen = {};
    for (const key of [5, null, true, undefined, "none", "", {}, 1n]) {
      seen[String(key)] = await triedAsync(() => storage.delete(key));
    }
    seen.nothing = await triedAsync(() => storage.delete());
    seen.left = [...(await storage.list()).keys()];
    return seen;
  },
  async "a list of keys"({ storage }) {
    await storage.put({ a: 1, b: 1, c: 1, 7: 1 });
    return {
      counted: await triedAsync(() => storage.delete(["a", "none", "a", 7])),
      empty: await triedAsync(() => storage.delete([])),
      set: await triedAsync(() => storage.delete(new Set(["b"]))),
      left: [...(await storage.list()).keys()],
    };
  },
  async "twice in one turn"({ storage }) {
    await storage.put("a", 1);
    return Promise.all([
      storage.delete("a"),
      storage.delete("a"),
      storage.get("a"),
      storage.delete(["a"]),
    ]);
  },
  async "what was written in the same turn"({ storage }) {
    storage.put("a", 1);
    const first = storage.delete("a");
    storage.put({ a: 1, b: 2 });
    const both = storage.delete(["a", "b", "c"]);
    return [await first, await both, (await storage.list()).size];
  },
  async options({ storage }) {
    const seen = {};
    for (const options of [
      { allowUnconfirmed: true },
      { noCache: true },
      { allowConcurrency: true },
      null,
      5,
      "x",
    ]) {
      await storage.put("k", 1);
      seen[JSON.stringify(options)] = await triedAsync(() =>
        storage.delete("k", options),
      );
    }
    return seen;
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
