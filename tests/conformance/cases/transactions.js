// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, rejects, suite, throws } from "../support/check.js";

const object = {
  async "transaction returns the result and commits"({ storage }) {
    const result = await storage.transaction(async (txn) => {
      await txn.put("a", 1);
      equal(await txn.get("a"), 1);
      return "done";
    });
    equal([result, await storage.get("a")], ["done", 1]);
  },
  async "a throw rolls back and rejects, the object lives"({ storage, self }) {
    self.alive = true;
    await storage.put("a", 1);
    await rejects(
      storage.transaction(async (txn) => {
        await txn.put("a", 2);
        throw new RangeError("no");
      }),
      { name: "RangeError", message: "no" },
    );
    equal([await storage.get("a"), self.alive], [1, true]);
  },
  async "rollback undoes, and nothing may follow it"({ storage }) {
    await storage.put("a", 1);
    await storage.transaction(async (txn) => {
      await txn.put("a", 2);
      await txn.delete("a");
      txn.rollback();
      await rejects(async () => txn.get("a"), {
        name: "Error",
        message: "Cannot get() on rolled back transaction",
      });
    });
    equal(await storage.get("a"), 1);
  },
  async "a transaction covers SQL too"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    await rejects(
      storage.transaction(async () => {
        sql.exec("INSERT INTO t VALUES (1)");
        throw new Error("no");
      }),
      { message: "no" },
    );
    equal(sql.exec("SELECT count(*) AS n FROM t").one().n, 0);
  },
  "transactionSync commits and returns"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    const result = storage.transactionSync(() => {
      sql.exec("INSERT INTO t VALUES (1)");
      return "done";
    });
    equal(
      [result, sql.exec("SELECT x FROM t").toArray()],
      ["done", [{ x: 1 }]],
    );
  },
  "transactionSync rolls back level by level"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    storage.transactionSync(() => {
      sql.exec("INSERT INTO t VALUES (1)");
      throws(
        () =>
          storage.transactionSync(() => {
            sql.exec("INSERT INTO t VALUES (2)");
            storage.kv.put("k", 2);
            throw new Error("inner");
          }),
        { message: "inner" },
      );
      storage.transactionSync(() => sql.exec("INSERT INTO t VALUES (3)"));
    });
    equal(
      [sql.exec("SELECT x FROM t ORDER BY x").toArray(), storage.kv.get("k")],
      [[{ x: 1 }, { x: 3 }], undefined],
    );
    throws(
      () =>
        storage.transactionSync(() => {
          storage.transactionSync(() => sql.exec("INSERT INTO t VALUES (4)"));
          throw new Error("outer");
        }),
      { message: "outer" },
    );
    equal(sql.exec("SELECT count(*) AS n FROM t").one().n, 2);
  },
  "transaction statements in SQL are refused"({ sql }) {
    const message =
      "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript API is safer because it will automatically roll back on exceptions, and because it interacts correctly with Durable Objects' automatic atomic write coalescing.";
    for (const text of [
      "BEGIN",
      "COMMIT",
      "ROLLBACK",
      "SAVEPOINT x",
      "RELEASE x",
    ]) {
      throws(() => sql.exec(text), { name: "Error", message });
    }
  },
  async "txn is closed after its transaction"({ storage }) {
    let kept;
    await storage.transaction(async (txn) => {
      kept = txn;
    });
    await rejects(async () => kept.get("a"), {
      name: "Error",
      message:
        "Cannot call get() on transaction that has already committed: did you move `txn` outside of the closure?",
    });
    await rejects(
      storage.transaction(async () => storage.deleteAll()),
      {
        name: "Error",
        message: "Cannot call deleteAll() within a transaction",
      },
    );
  },
  async "an alarm is rolled back with its transaction"({ storage }) {
    await rejects(
      storage.transaction(async (txn) => {
        await txn.setAlarm(Date.now() + 100_000);
        throw new Error("no");
      }),
      { message: "no" },
    );
    equal(await storage.getAlarm(), null);
  },
  async "a throw in the same turn does not undo writes"({ storage }) {
    try {
      storage.put("a", 1);
      throw new Error("caught");
    } catch {
      equal(await storage.get("a"), 1);
    }
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
