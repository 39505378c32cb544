// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const run = (sql, text, ...bindings) =>
  tried(() => sql.exec(text, ...bindings).toArray());
const each = (sql, texts) =>
  Object.fromEntries(texts.map((text) => [text, run(sql, text)]));

const object = {
  constraints({ sql }) {
    sql.exec(
      "CREATE TABLE t (id INTEGER PRIMARY KEY, u UNIQUE, n NOT NULL DEFAULT 1, k CHECK (k > 0), named CONSTRAINT my_name CHECK (named < 10), r REFERENCES t (id)); CREATE UNIQUE INDEX two ON t (n, k); CREATE UNIQUE INDEX expr ON t (abs(named)); CREATE TABLE w (a PRIMARY KEY, b) WITHOUT ROWID; CREATE TABLE s (i INTEGER) STRICT",
    );
    sql.exec(
      "INSERT INTO t VALUES (1, 1, 1, 1, 1, NULL); INSERT INTO w VALUES ('a', 1)",
    );
    return each(sql, [
      "INSERT INTO t (id) VALUES (1)",
      "INSERT INTO t (id, u) VALUES (2, 1)",
      "INSERT INTO t (id, n) VALUES (2, NULL)",
      "INSERT INTO t (id, k) VALUES (2, 0)",
      "INSERT INTO t (id, named) VALUES (2, 10)",
      "INSERT INTO t (id, r) VALUES (2, 99)",
      "INSERT INTO t (id, n, k) VALUES (2, 1, 1)",
      "INSERT INTO t (id, named) VALUES (2, -1)",
      "INSERT INTO t (id) VALUES ('text')",
      "INSERT INTO w VALUES ('a', 2)",
      "INSERT INTO w VALUES (NULL, 2)",
      "INSERT INTO s VALUES ('x')",
      "UPDATE t SET id = NULL",
      "UPDATE t SET n = NULL",
      "DELETE FROM none",
    ]);
  },
  "syntax and names": ({ sql }) =>
    each(sql, [
      "SELEC",
      "SELECT",
      "SELECT FROM",
      "SELECT 'open",
      'SELECT "open',
      "SELECT (1",
      "SELECT 1)",
      "SELECT @",
      "SELECT 1 2",
      "SELECT * FROM",
      "SELECT * FROM none",
      "SELECT none",
      "SELECT none.x",
      "SELECT x.y.z",
      "SELECT a, b FROM (SELECT 1 AS a)",
      "SELECT a FROM (SELECT 1 AS a), (SELECT 2 AS a)",
      "SELECT nofunction(1)",
      "SELECT abs()",
      "SELECT abs(1, 2)",
      "SELECT count(DISTINCT 1, 2)",
      "SELECT sum(count(*))",
      "SELECT 1 WHERE count(*) > 1",
      "SELECT 1 GROUP BY 5",
      "SELECT 1 ORDER BY 5",
      "SELECT 1 LIMIT 'x'",
      "SELECT 1 UNION SELECT 1, 2",
      "SELECT (SELECT 1, 2)",
      "SELECT 1 IN (SELECT 1, 2)",
      "SELECT row_number()",
      "SELECT 1 COLLATE nothere",
      "INSERT INTO none VALUES (1)",
      "CREATE TABLE t (a, a)",
      "CREATE TABLE t ()",
      "CREATE TABLE t (a PRIMARY KEY, b PRIMARY KEY)",
      "CREATE TABLE t (a) WITHOUT ROWID",
      "CREATE TABLE t (a REFERENCES none)",
      "CREATE INDEX i ON none (a)",
      "DROP TABLE none",
      "DROP VIEW none",
      "DROP INDEX none",
      "DROP TRIGGER none",
      "ALTER TABLE none ADD COLUMN x",
      "EXPLAIN",
      "ünknown",
      "SELECT 0x",
      "SELECT 1e",
      "SELECT 12abc",
      "SELECT x'1'",
      "SELECT 99999999999999999999999",
      "-",
      "SELECT 'a' || ",
    ]),
  "counts of columns"({ sql }) {
    sql.exec("CREATE TABLE t (a, b); CREATE VIEW v AS SELECT a FROM t");
    return each(sql, [
      "INSERT INTO t VALUES (1)",
      "INSERT INTO t VALUES (1, 2, 3)",
      "INSERT INTO t (a) VALUES (1, 2)",
      "INSERT INTO t (a, none) VALUES (1, 2)",
      "INSERT INTO t SELECT 1",
      "INSERT INTO t VALUES (1, 2), (3)",
      "UPDATE t SET none = 1",
      "UPDATE t SET (a, b) = (SELECT 1)",
      "INSERT INTO v VALUES (1)",
      "UPDATE v SET a = 1",
      "DELETE FROM v",
      "DROP TABLE v",
      "DROP VIEW t",
    ]);
  },
  "values at run time": ({ sql }) =>
    each(sql, [
      "SELECT abs(-9223372036854775808)",
      "SELECT sum(x) FROM (SELECT 9223372036854775807 AS x UNION ALL SELECT 1)",
      "SELECT json('x')",
      "SELECT json_extract('{}', 'bad path')",
      "SELECT json_object('a')",
      "SELECT json_object(1, 2)",
      "SELECT json_array(x'01')",
      "SELECT 'a' LIKE 'b' ESCAPE 'cd'",
      "SELECT substr()",
      "SELECT char(-1)",
      "SELECT printf('%s')",
      "SELECT unhex('zz')",
      "SELECT zeroblob(-1)",
      "SELECT round('x')",
      "SELECT strftime()",
      "SELECT date('now', 'bad')",
      "SELECT likelihood(1, 2)",
      "SELECT ntile(0) OVER ()",
      "SELECT nth_value(1, 0) OVER ()",
      "SELECT group_concat(1, 2, 3)",
    ]),
  "RAISE in triggers"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    for (const kind of ["ABORT", "FAIL"]) {
      sql.exec(
        `CREATE TRIGGER g_${kind} BEFORE INSERT ON t WHEN new.x = '${kind}' BEGIN SELECT RAISE(${kind}, 'raised ${kind}'); END`,
      );
    }
    sql.exec(
      "CREATE TRIGGER g_IGNORE BEFORE INSERT ON t WHEN new.x = 'IGNORE' BEGIN SELECT RAISE(IGNORE); END",
    );
    return {
      ...each(sql, [
        "INSERT INTO t VALUES (1), ('ABORT')",
        "INSERT INTO t VALUES (2), ('FAIL')",
        "INSERT INTO t VALUES (3), ('IGNORE'), (4)",
      ]),
      stored: run(sql, "SELECT x FROM t"),
      raise: run(sql, "SELECT RAISE(ABORT, 'x')"),
    };
  },
  "conflict clauses"({ sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE); INSERT INTO t VALUES (1)");
    return {
      ...each(sql, [
        "INSERT OR ABORT INTO t VALUES (2), (1)",
        "INSERT OR FAIL INTO t VALUES (3), (1), (4)",
        "INSERT OR IGNORE INTO t VALUES (5), (1), (6)",
        "INSERT OR REPLACE INTO t VALUES (1), (7)",
        "UPDATE OR IGNORE t SET x = 1",
        "UPDATE OR FAIL t SET x = 1",
      ]),
      stored: run(sql, "SELECT x FROM t ORDER BY x"),
    };
  },
  "an error is an Error, with nothing else on it"({ sql }) {
    try {
      sql.exec("SELEC");
    } catch (error) {
      return [
        error.constructor.name,
        error instanceof Error,
        Object.keys(error),
        typeof error.stack,
        error.cause,
        error.code,
      ];
    }
  },
  async "an error in a rejected promise is the same"({ storage, sql }) {
    const seen = await triedAsync(() =>
      storage.transaction(async () => sql.exec("SELECT * FROM none")),
    );
    return [
      seen,
      tried(() => storage.transactionSync(() => sql.exec("SELEC"))),
    ];
  },
  "division, casts and other things that are no errors": ({ sql }) =>
    each(sql, [
      "SELECT 1 / 0 AS v",
      "SELECT CAST('x' AS INTEGER) AS v",
      "SELECT 'a' + 1 AS v",
      "SELECT -'5x' AS v",
      "SELECT NOT 'x' AS v",
      "SELECT 1 LIMIT -1",
      "SELECT 1 LIMIT 0",
      "SELECT 5 % 0 AS v",
      'SELECT "none" AS v',
      "SELECT * FROM (SELECT 1 AS a UNION SELECT 'x')",
    ]),
};

export class Probe extends probe(object) {}
export default suite({ object });
