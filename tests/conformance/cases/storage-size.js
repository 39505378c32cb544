// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite } from "../support/check.js";

const object = {
  "grows and shrinks in whole pages"({ sql }) {
    sql.exec("CREATE TABLE t (b)");
    const start = sql.databaseSize;
    const sizes = [];
    for (const bytes of [10, 4_000, 50_000, 1_000_000]) {
      sql.exec("INSERT INTO t VALUES (?)", new Uint8Array(bytes));
      sizes.push((sql.databaseSize - start) / 4_096);
    }
    sql.exec("DELETE FROM t");
    sizes.push((sql.databaseSize - start) / 4_096);
    return sizes;
  },
  "a table and an index take a page each"({ sql }) {
    sql.exec("CREATE TABLE first (x)");
    const start = sql.databaseSize;
    sql.exec("CREATE TABLE t (x)");
    const table = sql.databaseSize - start;
    sql.exec("CREATE INDEX i ON t (x)");
    const index = sql.databaseSize - start;
    sql.exec("DROP TABLE t");
    return [table, index, sql.databaseSize - start];
  },
  "follows a rollback"({ sql, storage }) {
    sql.exec("CREATE TABLE t (b)");
    const start = sql.databaseSize;
    let inside;
    try {
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES (?)", new Uint8Array(100_000));
        inside = sql.databaseSize - start;
        throw new Error("undone");
      });
    } catch {}
    return [inside, sql.databaseSize - start];
  },
  "is a number that cannot be set"({ sql }) {
    const before = sql.databaseSize;
    let error = null;
    try {
      sql.databaseSize = 5;
    } catch ({ name }) {
      error = name;
    }
    return [typeof before, error, sql.databaseSize === before, before % 4_096];
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
