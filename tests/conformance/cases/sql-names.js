// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

const run = (sql, text) => tried(() => sql.exec(text).toArray());
const each = (sql, texts) =>
  Object.fromEntries(texts.map((text) => [text, run(sql, text)]));

const object = {
  "the engine's tables"({ sql, storage }) {
    storage.kv.put("k", 1);
    return each(sql, [
      "SELECT * FROM _cf_KV",
      "SELECT count(*) FROM _cf_KV",
      "SELECT 1 FROM _cf_KV",
      "SELECT key FROM _CF_kv",
      'SELECT key FROM "_cf_KV"',
      "SELECT key FROM [_cf_KV]",
      "SELECT key FROM main._cf_KV",
      "SELECT (SELECT key FROM _cf_KV)",
      "WITH x AS (SELECT * FROM _cf_KV) SELECT * FROM x",
      "SELECT * FROM _cf_METADATA",
      "SELECT * FROM _cf_NONE",
      "INSERT INTO _cf_KV VALUES ('a', x'00')",
      "UPDATE _cf_KV SET value = x'00'",
      "DELETE FROM _cf_KV",
      "DROP TABLE _cf_KV",
      "DROP TABLE IF EXISTS _cf_KV",
      "ALTER TABLE _cf_KV ADD COLUMN x",
      "ALTER TABLE _cf_KV RENAME TO kv",
      "ALTER TABLE _cf_KV DROP COLUMN value",
      "CREATE INDEX i ON _cf_KV (value)",
      "CREATE TRIGGER g AFTER INSERT ON _cf_KV BEGIN SELECT 1; END",
      "CREATE VIEW v AS SELECT * FROM _cf_KV",
      "SELECT * FROM v",
      "CREATE TABLE copy AS SELECT * FROM _cf_KV",
      "ANALYZE _cf_KV",
      "REINDEX _cf_KV",
      "EXPLAIN SELECT * FROM _cf_KV",
      "EXPLAIN QUERY PLAN SELECT * FROM _cf_KV",
    ]);
  },
  "names that begin so"({ sql }) {
    sql.exec("CREATE TABLE t (a)");
    return each(sql, [
      "CREATE TABLE _cf_mine (x)",
      "CREATE TABLE _CF_mine (x)",
      "CREATE TABLE IF NOT EXISTS _cf_mine (x)",
      "CREATE TABLE cf_mine (x)",
      "CREATE TABLE _cfmine (x)",
      "CREATE TABLE ok (_cf_column)",
      "CREATE INDEX _cf_i ON t (a)",
      "CREATE VIEW _cf_v AS SELECT 1",
      "CREATE TRIGGER _cf_g AFTER INSERT ON t BEGIN SELECT 1; END",
      "CREATE VIRTUAL TABLE _cf_f USING fts5(x)",
      "CREATE VIRTUAL TABLE _cf_r USING rtree(id, a, b)",
      "ALTER TABLE t RENAME TO _cf_t",
      "ALTER TABLE t RENAME COLUMN a TO _cf_a",
      "ALTER TABLE t ADD COLUMN _cf_b",
      "SELECT 1 AS _cf_alias",
      "WITH _cf_cte AS (SELECT 1 AS x) SELECT x FROM _cf_cte",
      "SELECT x FROM (SELECT 1 AS x) AS _cf_sub",
      "SELECT t.* FROM t AS _cf_t2",
      "CREATE TABLE r (x REFERENCES _cf_KV (key))",
      "INSERT INTO r VALUES ('a')",
      "PRAGMA foreign_key_check",
      "SELECT name FROM sqlite_master WHERE name LIKE '%cf%' AND name NOT IN ('_cf_KV', '_cf_METADATA') ORDER BY name",
    ]);
  },
  "what the schema shows"({ sql, storage }) {
    storage.kv.put("k", 1);
    sql.exec("CREATE TABLE t (a UNIQUE)");
    return each(sql, [
      "SELECT type, name FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name",
      "SELECT sql FROM sqlite_schema WHERE name = 't'",
      "SELECT name FROM sqlite_master WHERE name = '_cf_KV'",
      "SELECT name FROM pragma_table_list WHERE name = '_cf_KV'",
    ]);
  },
  "the schema itself"({ sql }) {
    sql.exec("CREATE TABLE t (a)");
    return each(sql, [
      "INSERT INTO sqlite_master VALUES ('table', 'x', 'x', 0, '')",
      "UPDATE sqlite_master SET sql = ''",
      "DELETE FROM sqlite_master",
      "DROP TABLE sqlite_master",
      "CREATE TABLE sqlite_mine (x)",
      "CREATE TABLE t (a)",
      "CREATE TABLE IF NOT EXISTS t (b)",
      "CREATE TABLE T (a)",
      "CREATE INDEX t ON t (a)",
      "CREATE VIEW t AS SELECT 1",
    ]);
  },
  "what a script may not do at all": ({ sql }) =>
    each(sql, [
      "ATTACH ':memory:' AS x",
      "ATTACH 'file' AS x",
      "DETACH main",
      "VACUUM",
      "VACUUM INTO 'x'",
      "BEGIN",
      "BEGIN IMMEDIATE",
      "COMMIT",
      "END",
      "ROLLBACK",
      "SAVEPOINT s",
      "RELEASE s",
      "ROLLBACK TO s",
      "CREATE TEMP TABLE t (x)",
      "CREATE TEMPORARY VIEW v AS SELECT 1",
      "CREATE TEMP TRIGGER g AFTER INSERT ON t BEGIN SELECT 1; END",
      "CREATE TABLE temp.t (x)",
      "SELECT * FROM temp.sqlite_master",
      "SELECT * FROM sqlite_temp_schema",
      "CREATE TABLE other.t (x)",
      "EXPLAIN SELECT 1",
      "EXPLAIN QUERY PLAN SELECT 1",
      "EXPLAIN BEGIN",
      "REINDEX",
      "ANALYZE",
      "ANALYZE main",
    ]),
  "renaming and dropping columns"({ sql }) {
    sql.exec("CREATE TABLE t (a, b, c); CREATE INDEX i ON t (b)");
    return each(sql, [
      "ALTER TABLE t RENAME COLUMN a TO z",
      "ALTER TABLE t RENAME COLUMN none TO z",
      "ALTER TABLE t DROP COLUMN c",
      "ALTER TABLE t DROP COLUMN b",
      "ALTER TABLE t ADD COLUMN d NOT NULL",
      "ALTER TABLE t ADD COLUMN d NOT NULL DEFAULT 5",
      "ALTER TABLE t ADD COLUMN e PRIMARY KEY",
      "ALTER TABLE t RENAME TO u",
      "ALTER TABLE u RENAME TO sqlite_u",
      "SELECT * FROM u",
      "SELECT sql FROM sqlite_master ORDER BY name",
    ]);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
