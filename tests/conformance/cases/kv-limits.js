// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const object = {
  async "long keys"({ storage }) {
    const seen = {};
    for (const length of [2_048, 2_049, 10_000, 1_000_000]) {
      const key = "k".repeat(length);
      const put = await triedAsync(() => storage.put(key, 1));
      seen[length] = [put, await triedAsync(() => storage.get(key))];
    }
    return seen;
  },
  async "large values"({ storage }) {
    const seen = {};
    for (const length of [131_072, 2_000_000, 2_097_000, 2_199_000]) {
      const put = await triedAsync(() =>
        storage.put("k", new Uint8Array(length)),
      );
      const got = await triedAsync(() => storage.get("k"));
      seen[length] = [put, got?.byteLength];
    }
    return seen;
  },
  async "values that are too large"({ storage }) {
    await storage.put("k", "before");
    const seen = {};
    for (const length of [2_200_001, 2_300_000, 5_000_000]) {
      const put = await triedAsync(() =>
        storage.put("k", new Uint8Array(length)),
      );
      seen[length] = [put, await triedAsync(() => storage.get("k"))];
    }
    seen.kv = tried(() => storage.kv.put("k", new Uint8Array(2_300_000)));
    seen.alive = await triedAsync(() => storage.get("k"));
    return seen;
  },
  async "one value of many that is too large"({ storage }) {
    const put = await triedAsync(() =>
      storage.put({ a: 1, b: new Uint8Array(2_300_000), c: 3 }),
    );
    return [put, [...(await storage.list()).keys()]];
  },
  async "many keys at once"({ storage }) {
    const names = Array.from({ length: 1_000 }, (_, i) => `k${i}`);
    const entries = Object.fromEntries(names.map((name, i) => [name, i]));
    return {
      put: await triedAsync(() => storage.put(entries)),
      get: (await triedAsync(() => storage.get(names))).size,
      delete: await triedAsync(() => storage.delete(names)),
    };
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
