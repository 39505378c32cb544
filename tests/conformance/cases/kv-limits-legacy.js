// config: {"objects": {"PROBE": "Probe"}, "kv": ["Probe"]}
import { probe, suite, triedAsync } from "../support/check.js";

const object = {
  async "long keys"({ storage }) {
    const seen = {};
    for (const key of [
      "k".repeat(2_048),
      "k".repeat(2_049),
      "é".repeat(1_025),
    ]) {
      const name = `${key[0]} ${key.length}`;
      seen[`${name} put`] = await triedAsync(() => storage.put(key, 1));
      seen[`${name} put many`] = await triedAsync(() =>
        storage.put({ [key]: 1 }),
      );
      seen[`${name} get`] = await triedAsync(() => storage.get(key));
      seen[`${name} get many`] = await triedAsync(() => storage.get([key]));
      seen[`${name} delete`] = await triedAsync(() => storage.delete(key));
      seen[`${name} list`] = await triedAsync(() =>
        storage.list({ start: key }),
      );
      seen[`${name} prefix`] = await triedAsync(() =>
        storage.list({ prefix: key }),
      );
    }
    return Object.fromEntries(
      Object.entries(seen).map(([name, value]) => [name, value]),
    );
  },
  async "large values"({ storage }) {
    const seen = {};
    for (const length of [131_000, 131_060, 131_072, 131_073, 200_000]) {
      seen[`text ${length}`] = await triedAsync(() =>
        storage.put("k", "x".repeat(length)),
      );
      seen[`bytes ${length}`] = await triedAsync(() =>
        storage.put("k", new Uint8Array(length)),
      );
    }
    seen.many = await triedAsync(() =>
      storage.put({ a: 1, b: new Uint8Array(200_000) }),
    );
    seen.kept = [...(await storage.list()).keys()];
    return seen;
  },
  async "many keys at once"({ storage }) {
    const seen = {};
    for (const count of [128, 129]) {
      const names = Array.from({ length: count }, (_, i) => `k${i}`);
      const entries = Object.fromEntries(names.map((name, i) => [name, i]));
      seen[`put ${count}`] = await triedAsync(() => storage.put(entries));
      const got = await triedAsync(() => storage.get(names));
      seen[`get ${count}`] = got.size ?? got;
      seen[`delete ${count}`] = await triedAsync(() => storage.delete(names));
    }
    const doubled = Array(129).fill("k0");
    seen.doubled = await triedAsync(() => storage.get(doubled));
    return seen;
  },
  async "undefined values count"({ storage }) {
    const entries = Object.fromEntries(
      Array.from({ length: 200 }, (_, i) => [`k${i}`, undefined]),
    );
    entries.a = 1;
    const put = await triedAsync(() => storage.put(entries));
    return [put, [...(await storage.list()).keys()]];
  },
  async "members of a KV-backed storage"({ storage }) {
    const seen = {};
    const member = async (name, run) => {
      seen[name] = await triedAsync(run);
    };
    await member("sql", () => typeof storage.sql);
    await member("databaseSize", () => storage.sql.databaseSize);
    await member("kv", () => typeof storage.kv);
    await member("kv.get", () => storage.kv.get("k"));
    await member("kv.put", () => storage.kv.put("k", 1));
    await member("kv.delete", () => storage.kv.delete("k"));
    await member("kv.list", () => storage.kv.list());
    await member("transactionSync", () => storage.transactionSync(() => 1));
    await member("transaction", () => storage.transaction(async () => 1));
    await member("sync", () => storage.sync());
    return seen;
  },
  async "lists, transactions and alarms as in the other kind"({ storage }) {
    await storage.put({ b: 1, a: 2, é: 3 });
    const seen = [[...(await storage.list({ start: "b", reverse: true }))]];
    await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("b", 5);
        await txn.setAlarm(Date.now() + 1e6);
        throw new Error("undone");
      }),
    );
    seen.push(await storage.get("b"), await storage.getAlarm());
    await storage.deleteAll();
    seen.push((await storage.list()).size);
    return seen;
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
