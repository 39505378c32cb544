// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, suite, throws } from "../support/check.js";

const object = {
  "engine tables are out of reach"({ storage, sql }) {
    storage.kv.put("k", 1);
    throws(() => sql.exec("SELECT * FROM _cf_KV"), {
      name: "Error",
      message: "access to _cf_KV.key is prohibited: SQLITE_AUTH",
    });
    throws(() => sql.exec("CREATE TABLE _cf_x (y)"), {
      name: "Error",
      message: "not authorized: SQLITE_AUTH",
    });
    throws(() => sql.exec("DROP TABLE _cf_KV"), { name: "Error" });
  },
  "ATTACH, VACUUM and most pragmas are refused"({ sql }) {
    throws(() => sql.exec("ATTACH ':memory:' AS x"), {
      name: "Error",
      message: "not authorized: SQLITE_AUTH",
    });
    throws(() => sql.exec("VACUUM"), { name: "Error" });
    throws(() => sql.exec("PRAGMA journal_mode = DELETE"), {
      name: "Error",
      message: "not authorized: SQLITE_AUTH",
    });
    throws(() => sql.exec("PRAGMA user_version"), { name: "Error" });
  },
  "allowed pragmas work"({ sql }) {
    sql.exec("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT NOT NULL)");
    equal(
      sql
        .exec("PRAGMA table_info(t)")
        .toArray()
        .map(({ name }) => name),
      ["a", "b"],
    );
    equal(sql.exec("PRAGMA quick_check").one(), { quick_check: "ok" });
    sql.exec("PRAGMA foreign_keys");
    equal(sql.exec("SELECT name FROM pragma_table_info('t')").toArray(), [
      { name: "a" },
      { name: "b" },
    ]);
  },
  "foreign keys are on"({ sql }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id))",
    );
    throws(() => sql.exec("INSERT INTO c VALUES (1)"), {
      message:
        "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)",
    });
  },
  "functions: JSON, math, dates, FTS5"({ sql }) {
    equal(
      sql
        .exec(
          `SELECT json_extract('{"a":[1,2]}', '$.a[1]') AS x, pow(2, 10) AS p, date(0, 'unixepoch') AS d`,
        )
        .one(),
      { x: 2, p: 1024, d: "1970-01-01" },
    );
    sql.exec("CREATE VIRTUAL TABLE f USING fts5 (body)");
    sql.exec("INSERT INTO f VALUES ('the quick fox'), ('slow dog')");
    equal(
      sql
        .exec(
          "SELECT highlight(f, 0, '[', ']') AS h FROM f WHERE f MATCH 'quick'",
        )
        .one(),
      { h: "the [quick] fox" },
    );
  },
  "forbidden functions are refused"({ sql }) {
    throws(() => sql.exec("SELECT sqlite_version()"), {
      name: "Error",
      message:
        "not authorized to use function: sqlite_version at offset 7: SQLITE_ERROR",
    });
    throws(() => sql.exec("SELECT load_extension('x')"), { name: "Error" });
  },
  "long patterns and many columns are refused"({ sql }) {
    throws(() => sql.exec(`SELECT 'a' LIKE '${"%a".repeat(26)}'`), {
      message: /LIKE or GLOB pattern too complex/,
    });
    throws(
      () =>
        sql.exec(
          `CREATE TABLE t (${Array.from({ length: 101 }, (_, i) => `c${i}`).join(", ")})`,
        ),
      { message: /too many columns/ },
    );
    throws(() => sql.exec(`SELECT ${"1+".repeat(120)}1`), {
      message: /Expression tree is too large/,
    });
    throws(
      () =>
        sql.exec(
          `SELECT ${Array(101).fill("?").join(",")}`,
          ...Array(101).fill(1),
        ),
      { message: /^too many SQL variables/ },
    );
    throws(() => sql.exec(`SELECT '${"x".repeat(100_000)}'`), {
      message: /^statement too long/,
    });
  },
  "temporary tables are refused"({ sql }) {
    throws(() => sql.exec("CREATE TEMP TABLE t (x)"), { name: "Error" });
  },
  "views, triggers and indexes work"({ sql }) {
    sql.exec(
      "CREATE TABLE t (x); CREATE TABLE log (x); CREATE INDEX i ON t (x); CREATE VIEW v AS SELECT x * 2 AS y FROM t",
    );
    sql.exec(
      "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.x); END",
    );
    sql.exec("INSERT INTO t VALUES (21)");
    equal(
      [sql.exec("SELECT y FROM v").one(), sql.exec("SELECT x FROM log").one()],
      [{ y: 42 }, { x: 21 }],
    );
    sql.exec("ALTER TABLE t RENAME COLUMN x TO z");
    equal(sql.exec("SELECT z FROM t").one(), { z: 21 });
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
