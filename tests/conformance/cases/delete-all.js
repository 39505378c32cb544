// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried, triedAsync } from "../support/check.js";

const tables = (sql) =>
  sql
    .exec(
      "SELECT type, name FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\' ORDER BY name",
    )
    .raw()
    .toArray();

const object = {
  async "keys, tables and everything on them go"({ storage, sql }) {
    await storage.put({ a: 1, b: 2 });
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id)); CREATE INDEX i ON c (p); CREATE VIEW v AS SELECT * FROM p; CREATE TRIGGER g AFTER DELETE ON p BEGIN SELECT RAISE(ABORT, 'no'); END; CREATE VIRTUAL TABLE f USING fts5(x); CREATE VIRTUAL TABLE r USING rtree(id, a, b); CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT)",
    );
    sql.exec(
      "INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); INSERT INTO f VALUES ('x'); INSERT INTO auto DEFAULT VALUES",
    );
    const before = tables(sql).length;
    const result = await triedAsync(() => storage.deleteAll());
    return [before > 10, result, tables(sql), [...(await storage.list())]];
  },
  async "the object can be used on, at once and later"({ storage, sql }) {
    await storage.put("a", 1);
    sql.exec("CREATE TABLE t (x)");
    storage.deleteAll();
    storage.put("b", 2);
    sql.exec("CREATE TABLE t (y); INSERT INTO t VALUES (1)");
    await storage.sync();
    return [[...(await storage.list())], sql.exec("SELECT * FROM t").toArray()];
  },
  async "writes of the same turn go too"({ storage }) {
    storage.put("a", 1);
    storage.kv.put("b", 1);
    const deleted = storage.deleteAll();
    const during = storage.get("a");
    await deleted;
    return [await during, [...(await storage.list())]];
  },
  async "the alarm goes"({ storage }) {
    await storage.setAlarm(Date.now() + 1e7);
    await storage.deleteAll();
    return storage.getAlarm();
  },
  async "an alarm set right after wins"({ storage }) {
    await storage.setAlarm(Date.now() + 1e7);
    const deleted = storage.deleteAll();
    const set = storage.setAlarm(Date.now() + 2e7);
    await Promise.all([deleted, set]);
    return typeof (await storage.getAlarm());
  },
  async "twice, and on an empty object"({ storage }) {
    return [
      await triedAsync(() => storage.deleteAll()),
      await triedAsync(() => storage.deleteAll()),
      await Promise.all([storage.deleteAll(), storage.deleteAll()]),
    ];
  },
  async "options are taken"({ storage }) {
    await storage.put("a", 1);
    return [
      await triedAsync(() => storage.deleteAll({ allowUnconfirmed: true })),
      await triedAsync(() => storage.deleteAll(null)),
      await triedAsync(() => storage.deleteAll(5)),
    ];
  },
  async "the size shrinks"({ storage, sql }) {
    sql.exec("CREATE TABLE t (b)");
    sql.exec("INSERT INTO t VALUES (?)", new Uint8Array(500_000));
    await storage.sync();
    const before = sql.databaseSize;
    await storage.deleteAll();
    return sql.databaseSize < before / 10;
  },
  async "settings of the connection"({ storage, sql }) {
    await storage.deleteAll();
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id))",
    );
    return [
      sql.exec("PRAGMA foreign_keys").one(),
      tried(() => sql.exec("INSERT INTO c VALUES (1)")),
    ];
  },
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
