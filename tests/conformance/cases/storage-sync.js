// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, triedAsync } from "../support/check.js";

const object = {
  async "sync resolves to nothing, with and without writes"({ storage, sql }) {
    const seen = [await triedAsync(() => storage.sync())];
    storage.put("k", 1);
    seen.push(await triedAsync(() => storage.sync()));
    sql.exec("CREATE TABLE t (x)");
    seen.push(await triedAsync(() => storage.sync()));
    storage.put("k", 2, { allowUnconfirmed: true });
    seen.push(await triedAsync(() => storage.sync()));
    seen.push(await storage.get("k"));
    return seen;
  },
  async "many at once"({ storage }) {
    const all = Array.from({ length: 20 }, (_, i) => {
      storage.put(`k${i}`, i);
      return storage.sync();
    });
    return [new Set(await Promise.all(all)).size, (await storage.list()).size];
  },
  async "in a block and in a transaction"({ storage, ctx }) {
    return [
      await triedAsync(() =>
        ctx.blockConcurrencyWhile(async () => {
          storage.put("a", 1);
          await storage.sync();
          return "in a block";
        }),
      ),
    ];
  },
  async "after a rolled back transaction"({ storage }) {
    await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("k", 1);
        throw new Error("undone");
      }),
    );
    return [await triedAsync(() => storage.sync()), await storage.get("k")];
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
