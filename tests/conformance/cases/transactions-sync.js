// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const rows = (sql) =>
  sql.exec("SELECT x FROM t ORDER BY x").raw().toArray().flat();

const object = {
  "what it returns and throws": ({ storage }) => ({
    value: storage.transactionSync(() => 5),
    object: storage.transactionSync(() => ({ a: 1 })),
    arguments: storage.transactionSync((...args) => args.length),
    thrown: tried(() =>
      storage.transactionSync(() => {
        throw new RangeError("no");
      }),
    ),
    text: tried(() =>
      storage.transactionSync(() => {
        throw "a text";
      }),
    ),
    undefined: tried(() =>
      storage.transactionSync(() => {
        throw undefined;
      }),
    ),
    nothing: tried(() => storage.transactionSync()),
    noFunction: tried(() => storage.transactionSync({})),
  }),
  async "an async function is not awaited"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    const promise = storage.transactionSync(async () => {
      sql.exec("INSERT INTO t VALUES (1)");
      await null;
      sql.exec("INSERT INTO t VALUES (2)");
      return "done";
    });
    const seen = [
      rows(sql),
      promise instanceof Promise,
      await promise,
      rows(sql),
    ];
    const rejected = storage.transactionSync(async () => {
      sql.exec("INSERT INTO t VALUES (3)");
      throw new Error("rejected");
    });
    seen.push(await triedAsync(rejected), rows(sql));
    return seen;
  },
  "levels are undone one by one"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    const at = (x, fail, inner) =>
      tried(() =>
        storage.transactionSync(() => {
          sql.exec("INSERT INTO t VALUES (?)", x);
          inner?.();
          if (fail) throw new Error(`undone ${x}`);
        }),
      );
    at(1, false, () => {
      at(2, true, () => at(3, false));
      at(4, false, () => at(5, true, () => at(6, false)));
    });
    return rows(sql);
  },
  "many levels"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    const nest = (depth) =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES (?)", depth);
        if (depth > 0) nest(depth - 1);
        else throw new Error("at the bottom");
      });
    const outcome = tried(() => nest(100));
    const caught = (depth) =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES (?)", depth);
        if (depth === 0) throw new Error("at the bottom");
        tried(() => caught(depth - 1));
      });
    caught(100);
    return [outcome, rows(sql).length];
  },
  async "key-value writes of both kinds are undone"({ storage }) {
    storage.kv.put("a", 1);
    tried(() =>
      storage.transactionSync(() => {
        storage.kv.put("a", 2);
        storage.kv.put("b", 2);
        storage.put("c", 2);
        storage.kv.delete("a");
        throw new Error("undone");
      }),
    );
    return [...(await storage.list())];
  },
  async "alarms are undone"({ storage }) {
    const when = Date.now() + 1e6;
    await storage.setAlarm(when);
    tried(() =>
      storage.transactionSync(() => {
        storage.setAlarm(when + 5);
        throw new Error("undone");
      }),
    );
    const seen = [(await storage.getAlarm()) === when];
    tried(() =>
      storage.transactionSync(() => {
        storage.deleteAlarm();
        throw new Error("undone");
      }),
    );
    seen.push((await storage.getAlarm()) === when);
    return seen;
  },
  "tables are undone"({ storage, sql }) {
    tried(() =>
      storage.transactionSync(() => {
        sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1)");
        throw new Error("undone");
      }),
    );
    return tried(() => sql.exec("SELECT * FROM t"));
  },
  "an error of SQL inside, caught or not"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE)");
    const uncaught = tried(() =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES (1)");
        sql.exec("INSERT INTO t VALUES (1)");
      }),
    );
    const caught = storage.transactionSync(() => {
      sql.exec("INSERT INTO t VALUES (2)");
      const error = tried(() => sql.exec("INSERT INTO t VALUES (2)"));
      sql.exec("INSERT INTO t VALUES (3)");
      return error;
    });
    return [uncaught, caught, rows(sql)];
  },
  "what was written before stays"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    sql.exec("INSERT INTO t VALUES (1)");
    tried(() =>
      storage.transactionSync(() => {
        sql.exec("DELETE FROM t");
        throw new Error("undone");
      }),
    );
    sql.exec("INSERT INTO t VALUES (2)");
    return rows(sql);
  },
  "transactions in SQL are refused inside too"({ storage, sql }) {
    return [
      "BEGIN",
      "COMMIT",
      "ROLLBACK",
      "SAVEPOINT a",
      "RELEASE _cf_savepoint_0",
    ].map((text) =>
      tried(() => storage.transactionSync(() => sql.exec(text))).text.slice(
        0,
        60,
      ),
    );
  },
  async "deleteAll and transaction() inside"({ storage }) {
    storage.kv.put("k", 1);
    let deleted;
    let transacted;
    tried(() =>
      storage.transactionSync(() => {
        deleted = triedAsync(() => storage.deleteAll());
        transacted = triedAsync(() =>
          storage.transaction(async (txn) => txn.put("t", 1)),
        );
      }),
    );
    return [await deleted, await transacted, [...(await storage.list())]];
  },
  async "deferred foreign keys"({ storage, sql }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id) DEFERRABLE INITIALLY DEFERRED)",
    );
    const mended = tried(() =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO c VALUES (1)");
        sql.exec("INSERT INTO p VALUES (1)");
        return "mended";
      }),
    );
    sql.exec("INSERT INTO c VALUES (2)");
    sql.exec("INSERT INTO p VALUES (2)");
    const undone = tried(() =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO c VALUES (3)");
        throw new Error("undone");
      }),
    );
    return [mended, undone, sql.exec("SELECT p FROM c").toArray()];
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
