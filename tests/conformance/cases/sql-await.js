// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, rejects, suite, throws } from "../support/check.js";

const object = {
  async "a cursor may be kept over an await"({ sql }) {
    sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2), (3)");
    const cursor = sql.exec("SELECT x FROM t ORDER BY x");
    equal(cursor.next().value, { x: 1 });
    await scheduler.wait(5);
    equal(cursor.toArray(), [{ x: 2 }, { x: 3 }]);
  },
  async "a cursor ends when its table changes its shape"({ sql }) {
    sql.exec("CREATE TABLE t (x); INSERT INTO t VALUES (1), (2)");
    const cursor = sql.exec("SELECT x FROM t");
    cursor.next();
    throws(() => sql.exec("DROP TABLE t"), { message: /locked/ });
    cursor.toArray();
    sql.exec("DROP TABLE t");
  },
  "a statement that fails changes nothing"({ sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE)");
    throws(() => sql.exec("INSERT INTO t VALUES (1), (2), (1)"), {
      message: /UNIQUE/,
    });
    equal(sql.exec("SELECT count(*) AS n FROM t").one().n, 0);
  },
  "statements before the failing one stay"({ sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE)");
    throws(
      () => sql.exec("INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"),
      { message: /UNIQUE/ },
    );
    equal(sql.exec("SELECT count(*) AS n FROM t").one().n, 1);
  },
  "deferred foreign keys are checked at the end"({ sql, storage }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id))",
    );
    storage.transactionSync(() => {
      sql.exec("PRAGMA defer_foreign_keys = ON");
      sql.exec("INSERT INTO c VALUES (1)");
      sql.exec("INSERT INTO p VALUES (1)");
    });
    equal(sql.exec("SELECT count(*) AS n FROM c").one().n, 1);
  },
  "generated columns, upserts, windows and CTEs"({ sql }) {
    sql.exec(
      "CREATE TABLE t (k TEXT PRIMARY KEY, n INTEGER DEFAULT 1, twice AS (n * 2) STORED)",
    );
    for (let i = 0; i < 3; i++)
      sql.exec(
        "INSERT INTO t (k) VALUES ('a') ON CONFLICT (k) DO UPDATE SET n = n + 1",
      );
    sql.exec("INSERT INTO t (k) VALUES ('b')");
    equal(
      sql
        .exec("SELECT k, twice, sum(n) OVER (ORDER BY k) AS s FROM t")
        .toArray(),
      [
        { k: "a", twice: 6, s: 3 },
        { k: "b", twice: 2, s: 4 },
      ],
    );
    equal(
      sql
        .exec("WITH a(x) AS (VALUES (1), (2)) SELECT max(x) AS m FROM a")
        .one(),
      { m: 2 },
    );
  },
  async "a rejected transaction leaves the object usable"({ storage, sql }) {
    sql.exec("CREATE TABLE t (x)");
    await rejects(
      storage.transaction(async () => {
        sql.exec("INSERT INTO t VALUES (1)");
        sql.exec("SELEC");
      }),
      { message: /syntax error/ },
    );
    sql.exec("INSERT INTO t VALUES (2)");
    equal(sql.exec("SELECT x FROM t").toArray(), [{ x: 2 }]);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
