// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, suite } from "../support/check.js";

const object = {
  async "thousands of keys"({ storage }) {
    const key = (i) => `k${String(i).padStart(5, "0")}`;
    for (let i = 0; i < 3_000; i++) storage.put(key(i), i);
    await storage.sync();
    const all = await storage.list();
    equal([all.size, all.get("k02999")], [3_000, 2_999]);
    equal(
      [...(await storage.list({ start: "k01000", limit: 2 })).keys()],
      ["k01000", "k01001"],
    );
    const some = await storage.get(
      Array.from({ length: 300 }, (_, i) => key(i * 10)),
    );
    equal([some.size, some.get("k02990")], [300, 2_990]);
    equal(await storage.delete([...all.keys()]), 3_000);
    equal((await storage.list()).size, 0);
  },
  "a cursor over many rows"({ sql }) {
    sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, text TEXT)");
    sql.exec(
      "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 20000) INSERT INTO t SELECT n, 'row ' || n FROM c",
    );
    let sum = 0;
    for (const { id } of sql.exec("SELECT * FROM t")) sum += id;
    equal(sum, 200_010_000);
    equal(sql.exec("SELECT * FROM t").toArray().length, 20_000);
    const few = sql.exec("SELECT * FROM t ORDER BY id");
    few.next();
    equal(few.rowsRead < 20_000, true);
  },
  "many inserts in one turn"({ sql, storage }) {
    sql.exec("CREATE TABLE t (a, b)");
    storage.transactionSync(() => {
      for (let i = 0; i < 2_000; i++)
        sql.exec("INSERT INTO t VALUES (?, ?)", i, `${i}`);
    });
    equal(sql.exec("SELECT count(*) AS n, sum(a) AS s FROM t").one(), {
      n: 2_000,
      s: 1_999_000,
    });
  },
  async "a value that grows and shrinks"({ storage }) {
    for (const size of [1, 100_000, 10, 1_500_000, 0]) {
      await storage.put("v", new Uint8Array(size));
      equal((await storage.get("v")).byteLength, size);
    }
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
