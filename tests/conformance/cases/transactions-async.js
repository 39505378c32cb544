// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const all = async (storage) => [...(await storage.list())];

const object = {
  "what a transaction resolves to": async ({ storage }) => ({
    value: await triedAsync(storage.transaction(async () => 5)),
    plain: await triedAsync(() => storage.transaction(() => 5)),
    nothing: await triedAsync(() => storage.transaction(async () => {})),
    throws: await triedAsync(() =>
      storage.transaction(() => {
        throw new RangeError("at once");
      }),
    ),
    rejects: await triedAsync(() =>
      storage.transaction(async () => {
        throw new RangeError("later");
      }),
    ),
    notAnError: await triedAsync(() =>
      storage.transaction(async () => {
        throw "a text";
      }),
    ),
    undefined: await triedAsync(() => storage.transaction(undefined)),
    object: await triedAsync(() => storage.transaction({})),
    options: await triedAsync(() => storage.transaction(async () => 1, {})),
  }),
  async "members of a transaction"({ storage }) {
    return storage.transaction(async (txn) => {
      const names = [];
      for (
        let at = txn;
        at && at !== Object.prototype;
        at = Object.getPrototypeOf(at)
      ) {
        names.push(
          ...Reflect.ownKeys(at).filter((name) => typeof name === "string"),
        );
      }
      return {
        names: [...new Set(names)]
          .sort()
          .filter((name) => name !== "constructor"),
        tag: Object.prototype.toString.call(txn),
        constructor: tried(() => new txn.constructor()),
        argument: tried(() => txn.get.call({}, "k")) instanceof Promise,
      };
    });
  },
  async "all operations of a transaction"({ storage }) {
    await storage.put({ a: 1, b: 2, c: 3 });
    const inside = await storage.transaction(async (txn) => [
      await txn.get("a"),
      await txn.get(["a", "b"]),
      await txn.put("d", 4),
      await txn.put({ e: 5, f: 6 }),
      await txn.delete("a"),
      await txn.delete(["b", "none"]),
      [...(await txn.list({ start: "c", limit: 2 }))],
      await txn.getAlarm(),
      await txn.setAlarm(Date.now() + 1e7),
      typeof (await txn.getAlarm()),
      await txn.deleteAlarm(),
      await txn.getAlarm(),
    ]);
    return [...inside, await all(storage)];
  },
  async "errors of a transaction's operations"({ storage }) {
    return storage.transaction(async (txn) => ({
      get: await triedAsync(() => txn.get()),
      put: await triedAsync(() => txn.put("k", undefined)),
      delete: await triedAsync(() => txn.delete()),
      list: await triedAsync(() => txn.list({ limit: 0 })),
      clone: await triedAsync(() => txn.put("k", () => 1)),
      alarm: await triedAsync(() => txn.setAlarm(-1)),
      options: await triedAsync(() => txn.get("k", 5)),
    }));
  },
  async "rollback, and what may follow it"({ storage }) {
    await storage.put("k", "before");
    const seen = {};
    seen.result = await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("k", "inside");
        seen.rollback = tried(() => txn.rollback());
        for (const [name, call] of Object.entries({
          get: () => txn.get("k"),
          getMany: () => txn.get(["k"]),
          put: () => txn.put("k", 1),
          delete: () => txn.delete("k"),
          list: () => txn.list(),
          getAlarm: () => txn.getAlarm(),
          setAlarm: () => txn.setAlarm(Date.now() + 1e6),
          deleteAlarm: () => txn.deleteAlarm(),
        })) {
          seen[name] = await triedAsync(call);
        }
        seen.again = tried(() => txn.rollback());
        seen.outside = await triedAsync(() => storage.get("k"));
        seen.outsidePut = await triedAsync(() => storage.put("after", 1));
        return "returned";
      }),
    );
    seen.kept = await all(storage);
    return seen;
  },
  async "rollback and then a throw"({ storage }) {
    await storage.put("k", "before");
    const result = await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("k", "inside");
        txn.rollback();
        throw new Error("after the rollback");
      }),
    );
    return [result, await storage.get("k")];
  },
  async "a transaction after its end"({ storage }) {
    let kept;
    await storage.transaction(async (txn) => {
      kept = txn;
    });
    const seen = {};
    for (const [name, call] of Object.entries({
      get: () => kept.get("k"),
      put: () => kept.put("k", 1),
      delete: () => kept.delete("k"),
      list: () => kept.list(),
      getAlarm: () => kept.getAlarm(),
      setAlarm: () => kept.setAlarm(Date.now() + 1e6),
      deleteAlarm: () => kept.deleteAlarm(),
      rollback: () => kept.rollback(),
    })) {
      seen[name] = await triedAsync(call);
    }
    await triedAsync(() =>
      storage.transaction(async (txn) => {
        kept = txn;
        throw new Error("undone");
      }),
    );
    seen.afterThrow = await triedAsync(() => kept.get("k"));
    return seen;
  },
  async "operations that are not awaited belong to it"({ storage }) {
    await triedAsync(() =>
      storage.transaction(async (txn) => {
        txn.put("a", 1);
        storage.put("b", 2);
        throw new Error("undone");
      }),
    );
    await storage.transaction(async (txn) => {
      txn.put("c", 3);
      storage.put("d", 4);
    });
    return all(storage);
  },
  async "nested transactions"({ storage }) {
    const seen = {};
    seen.result = await triedAsync(() =>
      storage.transaction(async (outer) => {
        await outer.put("outer", 1);
        seen.inner = await triedAsync(() =>
          storage.transaction(async (inner) => {
            seen.sees = await inner.get("outer");
            await inner.put("inner", 1);
          }),
        );
        seen.undone = await triedAsync(() =>
          storage.transaction(async (inner) => {
            await inner.put("undone", 1);
            throw new Error("inner");
          }),
        );
        seen.within = await all(storage);
      }),
    );
    seen.after = await all(storage);
    return seen;
  },
  async "a nested transaction is undone with the outer one"({ storage }) {
    await triedAsync(() =>
      storage.transaction(async () => {
        await storage.transaction(async (inner) => inner.put("k", 1));
        throw new Error("outer");
      }),
    );
    return all(storage);
  },
  async "transactionSync inside"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    await storage.transaction(async (txn) => {
      await txn.put("a", 1);
      storage.transactionSync(() => sql.exec("INSERT INTO t VALUES (1)"));
      tried(() =>
        storage.transactionSync(() => {
          sql.exec("INSERT INTO t VALUES (2)");
          storage.kv.put("b", 1);
          throw new Error("undone");
        }),
      );
    });
    return [await all(storage), sql.exec("SELECT x FROM t").toArray()];
  },
  async "two at once, one after the other"({ storage }) {
    const log = [];
    const one = (name, fail) =>
      storage.transaction(async (txn) => {
        log.push(`${name} begins`);
        const n = (await txn.get("n")) ?? 0;
        await scheduler.wait(1);
        await txn.put("n", n + 1);
        log.push(`${name} ends`);
        if (fail) throw new Error(name);
      });
    const results = await Promise.allSettled([
      one("a"),
      one("b", true),
      one("c"),
    ]);
    return [log, results.map(({ status }) => status), await storage.get("n")];
  },
  async "deleteAll and sync inside"({ storage }) {
    await storage.put("k", 1);
    return storage.transaction(async () => [
      await triedAsync(() => storage.deleteAll()),
      await storage.get("k"),
    ]);
  },
  async "a transaction with SQL that fails"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE); INSERT INTO t VALUES (1)");
    const result = await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("k", 1);
        const caught = tried(() => sql.exec("INSERT INTO t VALUES (1)"));
        sql.exec("INSERT INTO t VALUES (2)");
        return caught;
      }),
    );
    return [
      result,
      await storage.get("k"),
      sql.exec("SELECT x FROM t").toArray(),
    ];
  },
  async "tables made in a transaction that fails"({ storage, sql }) {
    await triedAsync(() =>
      storage.transaction(async () => {
        sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
        await scheduler.wait(1);
        throw new Error("undone");
      }),
    );
    const gone = tried(() => sql.exec("SELECT * FROM t").toArray());
    sql.exec("CREATE TABLE t (y)");
    return [gone, sql.exec("SELECT * FROM t").columnNames];
  },
  async "blockConcurrencyWhile and transactions in each other"({
    storage,
    ctx,
  }) {
    const inBlock = await ctx.blockConcurrencyWhile(() =>
      storage.transaction(async (txn) => {
        await txn.put("a", 1);
        return "in the block";
      }),
    );
    const inTransaction = await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.put("b", 1);
        return ctx.blockConcurrencyWhile(async () => txn.get("b"));
      }),
    );
    return [inBlock, inTransaction, await all(storage)];
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
