// Storage work of one object, many times over in one request.
import { DurableObject } from "cloudflare:workers";

const rows = 1_000;

export class Store extends DurableObject {
  setUp() {
    const { sql } = this.ctx.storage;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS t (id INTEGER PRIMARY KEY, name TEXT, score REAL, note TEXT, n INTEGER); CREATE TABLE IF NOT EXISTS b (id INTEGER PRIMARY KEY, data BLOB); DELETE FROM t; DELETE FROM b",
    );
    for (let i = 0; i < rows; i++) {
      const note = i % 3 ? `note ${i}` : null;
      const values = [i, `name ${i}`, i / 7, note, i * 3];
      sql.exec("INSERT INTO t VALUES (?, ?, ?, ?, ?)", ...values);
      sql.exec("INSERT INTO b VALUES (?, ?)", i, new Uint8Array(10_000));
    }
    for (let i = 0; i < 10_000; i++) this.ctx.storage.kv.put(`k${i}`, { i });
  }

  async work(kind, times) {
    const { storage } = this.ctx;
    const { sql } = storage;
    const kinds = {
      objects: () => sql.exec("SELECT * FROM t").toArray().length,
      raw: () => sql.exec("SELECT * FROM t").raw().toArray().length,
      iterate: () => [...sql.exec("SELECT * FROM t")].length,
      one: () => sql.exec("SELECT * FROM t WHERE id = ?", 500).one().n,
      insert: () =>
        sql.exec("UPDATE t SET n = ? WHERE id = ?", 1, 7).rowsWritten,
      blobs: () => sql.exec("SELECT * FROM b").toArray().length,
      async puts() {
        for (let i = 0; i < 10_000; i++) storage.put(`k${i}`, { i });
      },
      async awaitedPuts() {
        for (let i = 0; i < 10_000; i++) await storage.put(`k${i}`, { i });
      },
      async gets() {
        for (let i = 0; i < 10_000; i++) await storage.get(`k${i}`);
      },
      kvPuts() {
        for (let i = 0; i < 10_000; i++) storage.kv.put(`k${i}`, { i });
      },
      kvGets() {
        for (let i = 0; i < 10_000; i++) storage.kv.get(`k${i}`);
      },
      list: async () => (await storage.list({ prefix: "k" })).size,
    };
    for (let i = 0; i < times; i++) await kinds[kind]();
  }
}

export default {
  async fetch(request, env) {
    const { searchParams } = new URL(request.url);
    const stub = env.STORE.getByName("one");
    const kind = searchParams.get("kind");
    if (kind === null) await stub.setUp();
    else await stub.work(kind, Number(searchParams.get("times")));
    return new Response("done");
  },
};
