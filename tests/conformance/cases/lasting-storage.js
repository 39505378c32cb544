// config: {"objects": {"PROBE": "Probe"}}
// What an object wrote is there when its memory is not.
import { equal, probe, rejects, suite } from "../support/check.js";

const values = {
  d: new Date(3),
  m: new Map([[1, new Set([2])]]),
  b: new Uint8Array([1, 2, 255]),
  n: null,
  i: 7n,
  z: -0,
  nan: NaN,
  e: new RangeError("r"),
};

const object = {
  "values of every type": [
    ({ storage }) => storage.put("v", values),
    async ({ storage }) => equal(await storage.get("v"), values),
  ],
  "each phase adds to what the one before wrote": [
    ({ storage }) => storage.put("list", [1]),
    async ({ storage }) =>
      storage.put("list", [...(await storage.get("list")), 2]),
    async ({ storage }) =>
      storage.put("list", [...(await storage.get("list")), 3]),
    async ({ storage }) => equal(await storage.get("list"), [1, 2, 3]),
  ],
  "many keys, in their order": [
    async ({ storage }) => {
      for (let i = 0; i < 300; i += 100) {
        const some = Array.from({ length: 100 }, (_, j) => [`k${i + j}`, j]);
        await storage.put(Object.fromEntries(some));
      }
    },
    async ({ storage }) => {
      const keys = [...(await storage.list({ prefix: "k" })).keys()];
      equal([keys.length, keys], [300, [...keys].sort()]);
    },
  ],
  "a value as large as is allowed": [
    ({ storage }) => storage.put("large", "x".repeat(2_000_000)),
    async ({ storage }) =>
      equal((await storage.get("large")).length, 2_000_000),
  ],
  "what was deleted stays away": [
    async ({ storage }) => {
      await storage.put({ a: 1, b: 2 });
      await storage.delete("a");
    },
    async ({ storage }) => equal([...(await storage.list())], [["b", 2]]),
  ],
  "deleteAll leaves nothing": [
    async ({ storage, sql }) => {
      sql.exec("CREATE TABLE t (x)");
      await storage.put("a", 1);
      await storage.setAlarm(Date.now() + 3_600_000);
      await storage.deleteAll();
    },
    async ({ storage, sql }) => {
      const tables = "SELECT name FROM sqlite_master WHERE name = 't'";
      equal(
        [
          (await storage.list()).size,
          sql.exec(tables).toArray(),
          await storage.getAlarm(),
        ],
        [0, [], null],
      );
    },
  ],
  "the synchronous key-value API shares its keys": [
    ({ storage }) => storage.kv.put("s", { deep: [1] }),
    async ({ storage }) =>
      equal(
        [storage.kv.get("s"), await storage.get("s")],
        [{ deep: [1] }, { deep: [1] }],
      ),
  ],
  "tables, indexes, triggers and views": [
    ({ sql }) => {
      sql.exec(`CREATE TABLE t (id INTEGER PRIMARY KEY AUTOINCREMENT, x TEXT);
        CREATE TABLE log (x);
        CREATE UNIQUE INDEX i ON t (x);
        CREATE VIEW v AS SELECT count(*) AS n FROM t;
        CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.x); END;
        INSERT INTO t (x) VALUES ('a'), ('b')`);
      sql.exec("DELETE FROM t WHERE x = 'b'");
    },
    ({ sql }) => {
      sql.exec("INSERT INTO t (x) VALUES (?)", "c");
      equal(sql.exec("SELECT * FROM t ORDER BY id").toArray(), [
        { id: 1, x: "a" },
        { id: 3, x: "c" },
      ]);
      equal(sql.exec("SELECT n FROM v").one(), { n: 2 });
      equal(sql.exec("SELECT count(*) AS n FROM log").one(), { n: 3 });
    },
  ],
  "full-text search": [
    ({ sql }) => {
      sql.exec("CREATE VIRTUAL TABLE f USING fts5 (body)");
      sql.exec("INSERT INTO f VALUES ('red apples'), ('green pears')");
    },
    ({ sql }) =>
      equal(sql.exec("SELECT body FROM f WHERE f MATCH 'pears'").toArray(), [
        { body: "green pears" },
      ]),
  ],
  "a transaction that was rolled back left nothing": [
    async ({ storage }) => {
      await storage.put("x", "before");
      await rejects(
        storage.transaction(async (txn) => {
          await txn.put("x", "inside");
          throw new Error("not to be");
        }),
        { message: "not to be" },
      );
    },
    async ({ storage }) => equal(await storage.get("x"), "before"),
  ],
  "transactionSync in part undone": [
    ({ storage, sql }) => {
      sql.exec("CREATE TABLE t (x)");
      storage.transactionSync(() => {
        sql.exec("INSERT INTO t VALUES (1)");
        try {
          storage.transactionSync(() => {
            sql.exec("INSERT INTO t VALUES (2)");
            throw new Error("inner");
          });
        } catch {
          sql.exec("INSERT INTO t VALUES (3)");
        }
      });
    },
    ({ sql }) =>
      equal(
        [...sql.exec("SELECT x FROM t").raw()].map(([x]) => x),
        [1, 3],
      ),
  ],
  "a write that nobody awaited": [
    ({ storage }) => {
      storage.put("u", 1);
      storage.put("w", 2, { allowUnconfirmed: true });
    },
    async ({ storage }) =>
      equal([await storage.get("u"), await storage.get("w")], [1, 2]),
  ],
  "the size of the database": [
    ({ sql }) => {
      sql.exec("CREATE TABLE t (x)");
      sql.exec("INSERT INTO t VALUES (zeroblob(100000))");
      return sql.databaseSize;
    },
    ({ sql, before }) => equal(sql.databaseSize, before),
  ],
  "an alarm that is not due": [
    async ({ storage }) => {
      const at = Date.now() + 3_600_000;
      await storage.setAlarm(at);
      return at;
    },
    async ({ storage, before }) => equal(await storage.getAlarm(), before),
  ],
  "an alarm that was deleted": [
    async ({ storage }) => {
      await storage.setAlarm(Date.now() + 3_600_000);
      await storage.deleteAlarm();
    },
    async ({ storage }) => equal(await storage.getAlarm(), null),
  ],
  "id and name": [
    ({ ctx }) => [String(ctx.id), ctx.id.name],
    ({ ctx, before }) => equal([String(ctx.id), ctx.id.name], before),
  ],
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
