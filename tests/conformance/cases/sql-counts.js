// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite } from "../support/check.js";

/** Rows read and written by a statement that is read to its end. */
function counts(sql, text, ...bindings) {
  const cursor = sql.exec(text, ...bindings);
  const rows = cursor.toArray().length;
  return `${rows} rows, ${cursor.rowsRead} read, ${cursor.rowsWritten} written`;
}
const each = (sql, texts) =>
  Object.fromEntries(texts.map((text) => [text, counts(sql, text)]));

function table(sql, count) {
  sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, a, b)");
  sql.exec(
    "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < ?) INSERT INTO t SELECT n, n % 10, n FROM c",
    count,
  );
}

const object = {
  "reading a table"({ sql }) {
    table(sql, 100);
    return each(sql, [
      "SELECT * FROM t",
      "SELECT * FROM t WHERE id = 5",
      "SELECT * FROM t WHERE id = 500",
      "SELECT * FROM t WHERE id > 90",
      "SELECT * FROM t WHERE id IN (1, 2, 300)",
      "SELECT * FROM t WHERE b = 5",
      "SELECT * FROM t LIMIT 10",
      "SELECT * FROM t LIMIT 10 OFFSET 20",
      "SELECT * FROM t ORDER BY id DESC LIMIT 3",
      "SELECT * FROM t ORDER BY b LIMIT 3",
      "SELECT count(*) FROM t",
      "SELECT count(*) FROM t WHERE a = 1",
      "SELECT max(id) FROM t",
      "SELECT max(b) FROM t",
      "SELECT a, count(*) FROM t GROUP BY a",
      "SELECT DISTINCT a FROM t",
      "SELECT 1",
      "SELECT 1 UNION SELECT 2",
      "VALUES (1), (2), (3)",
      "SELECT EXISTS (SELECT 1 FROM t WHERE b > 50)",
      "SELECT * FROM t WHERE 0",
    ]);
  },
  "reading through an index"({ sql }) {
    table(sql, 100);
    sql.exec("CREATE INDEX i ON t (a)");
    return each(sql, [
      "SELECT * FROM t WHERE a = 1",
      "SELECT a FROM t WHERE a = 1",
      "SELECT id FROM t WHERE a = 1 AND b > 50",
      "SELECT * FROM t WHERE a = 99",
      "SELECT * FROM t WHERE a IN (1, 2)",
      "SELECT * FROM t WHERE a > 7",
      "SELECT max(a) FROM t",
      "SELECT count(*) FROM t",
      "SELECT * FROM t ORDER BY a LIMIT 5",
      "SELECT DISTINCT a FROM t",
      "SELECT * FROM t WHERE a = 1 OR id = 5",
    ]);
  },
  "joins and subqueries"({ sql }) {
    table(sql, 20);
    sql.exec(
      "CREATE TABLE u (t_id REFERENCES t (id), x); INSERT INTO u SELECT id, b FROM t",
    );
    return each(sql, [
      "SELECT * FROM t JOIN u ON u.t_id = t.id",
      "SELECT * FROM t, u",
      "SELECT * FROM t WHERE id IN (SELECT t_id FROM u WHERE x > 10)",
      "SELECT *, (SELECT count(*) FROM u WHERE t_id = t.id) FROM t",
      "SELECT * FROM t LEFT JOIN u ON u.x = t.b AND u.x < 5",
      "WITH w AS (SELECT * FROM t WHERE a = 1) SELECT * FROM w, w AS w2",
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 50) SELECT n FROM c",
      "SELECT id, sum(b) OVER (ORDER BY id) FROM t",
    ]);
  },
  "writing a table"({ sql }) {
    table(sql, 20);
    return each(sql, [
      "INSERT INTO t VALUES (100, 1, 1)",
      "INSERT INTO t VALUES (101, 1, 1), (102, 1, 1)",
      "INSERT INTO t (a) VALUES (1) RETURNING id",
      "INSERT INTO t SELECT id + 200, a, b FROM t WHERE id < 5",
      "INSERT OR IGNORE INTO t VALUES (1, 1, 1)",
      "INSERT OR REPLACE INTO t VALUES (1, 1, 1)",
      "REPLACE INTO t VALUES (999, 1, 1)",
      "INSERT INTO t VALUES (1, 5, 5) ON CONFLICT DO UPDATE SET a = 7",
      "INSERT INTO t VALUES (1, 5, 5) ON CONFLICT DO NOTHING",
      "UPDATE t SET a = 5 WHERE id = 3",
      "UPDATE t SET a = 5 WHERE id < 10",
      "UPDATE t SET a = 5 WHERE b = 4",
      "UPDATE t SET id = id + 1000 WHERE id = 7",
      "UPDATE t SET a = a",
      "DELETE FROM t WHERE id = 4",
      "DELETE FROM t WHERE id = 4444",
      "DELETE FROM t WHERE b = 5 RETURNING *",
      "DELETE FROM t WHERE id < 9",
      "DELETE FROM t",
      "DELETE FROM t",
    ]);
  },
  "writing with indexes"({ sql }) {
    sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, a UNIQUE, b, c)");
    sql.exec("CREATE INDEX i ON t (b); CREATE INDEX p ON t (c) WHERE c > 10");
    return each(sql, [
      "INSERT INTO t VALUES (1, 1, 1, 1)",
      "INSERT INTO t VALUES (2, 2, 2, 20)",
      "INSERT INTO t VALUES (3, NULL, NULL, NULL)",
      "UPDATE t SET b = 9 WHERE id = 1",
      "UPDATE t SET a = 9 WHERE id = 1",
      "UPDATE t SET c = 30 WHERE id = 1",
      "UPDATE t SET c = 5 WHERE id = 1",
      "UPDATE t SET a = 10, b = 10, c = 10 WHERE id = 1",
      "UPDATE t SET id = 7 WHERE id = 1",
      "INSERT OR REPLACE INTO t VALUES (7, 10, 1, 1)",
      "DELETE FROM t WHERE id = 2",
      "DELETE FROM t",
    ]);
  },
  "tables without rowid, and texts as keys"({ sql }) {
    sql.exec(
      "CREATE TABLE w (k TEXT PRIMARY KEY, v) WITHOUT ROWID; CREATE TABLE s (k TEXT PRIMARY KEY, v)",
    );
    return each(sql, [
      "INSERT INTO w VALUES ('a', 1), ('b', 2)",
      "INSERT INTO s VALUES ('a', 1), ('b', 2)",
      "SELECT * FROM w WHERE k = 'a'",
      "SELECT * FROM s WHERE k = 'a'",
      "UPDATE w SET v = 5 WHERE k = 'a'",
      "UPDATE s SET v = 5 WHERE k = 'a'",
      "UPDATE w SET k = 'c' WHERE k = 'a'",
      "UPDATE s SET k = 'c' WHERE k = 'a'",
      "DELETE FROM w WHERE k = 'b'",
      "DELETE FROM s WHERE k = 'b'",
    ]);
  },
  "triggers and foreign keys"({ sql }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id) ON DELETE CASCADE); CREATE INDEX ci ON c (p); CREATE TABLE log (x); CREATE TRIGGER g AFTER INSERT ON p BEGIN INSERT INTO log VALUES (new.id), (-new.id); END",
    );
    return each(sql, [
      "INSERT INTO p VALUES (1), (2)",
      "INSERT INTO c VALUES (1), (1), (2)",
      "DELETE FROM p WHERE id = 1",
      "SELECT * FROM log",
    ]);
  },
  "changes of the schema"({ sql }) {
    return each(sql, [
      "CREATE TABLE t (id INTEGER PRIMARY KEY, a)",
      "CREATE TABLE IF NOT EXISTS t (x)",
      "CREATE TABLE k (a PRIMARY KEY)",
      "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)",
      "CREATE INDEX i ON t (a)",
      "CREATE VIEW v AS SELECT * FROM t",
      "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
      "ALTER TABLE t ADD COLUMN b",
      "ALTER TABLE t RENAME COLUMN b TO c",
      "ALTER TABLE t DROP COLUMN c",
      "CREATE TABLE s AS SELECT * FROM t",
      "ANALYZE t",
      "DROP INDEX i",
      "DROP TABLE t",
      "DROP TABLE IF EXISTS none",
      "CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT, x)",
      "INSERT INTO auto (x) VALUES (1), (2)",
      "CREATE VIRTUAL TABLE f USING fts5(x)",
      "INSERT INTO f VALUES ('one two')",
      "SELECT * FROM f WHERE f MATCH 'one'",
      "CREATE VIRTUAL TABLE r USING rtree(id, a, b)",
      "INSERT INTO r VALUES (1, 1, 2)",
      "SELECT * FROM r",
      "PRAGMA table_info(s)",
      "PRAGMA quick_check",
      "SELECT * FROM json_each('[1,2,3]')",
      "SELECT name FROM sqlite_master WHERE name = 's'",
    ]);
  },
  "counts while it is read"({ sql }) {
    table(sql, 10);
    const cursor = sql.exec("SELECT id FROM t WHERE b % 2 = 0");
    const seen = [[cursor.rowsRead, cursor.rowsWritten]];
    for (let i = 0; i < 6; i++) {
      cursor.next();
      seen.push(cursor.rowsRead);
    }
    return seen;
  },
  "counts of a statement that runs again"({ sql }) {
    table(sql, 10);
    const run = () => counts(sql, "SELECT * FROM t WHERE id < ?", 4);
    return [run(), run(), run()];
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
