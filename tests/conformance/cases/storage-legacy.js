// config: {"objects": {"PROBE": "Probe"}, "kv": ["Probe"]}
import { equal, probe, suite, throws } from "../support/check.js";

const object = {
  async "put, get, list and delete work"({ storage }) {
    await storage.put({ a: 1, b: [2] });
    equal(
      [...(await storage.list({ reverse: true }))],
      [
        ["b", [2]],
        ["a", 1],
      ],
    );
    equal(
      [await storage.delete("a"), await storage.get("a")],
      [true, undefined],
    );
  },
  "SQL is refused"({ storage }) {
    throws(() => storage.sql.exec("SELECT 1"), {
      name: "Error",
      message:
        /^SQL is not enabled for this Durable Object class. To enable it, change `new_classes` to `new_sqlite_classes`/,
    });
  },
  "the synchronous KV API is refused"({ storage }) {
    throws(() => storage.kv.get("k"), {
      name: "Error",
      message:
        /^The storage.kv \(synchronous KV\) API is only available for SQLite-backed Durable Objects/,
    });
  },
  async "a transaction can be rolled back"({ storage }) {
    await storage.put("k", 1);
    await storage.transaction(async (txn) => {
      await txn.put("k", 2);
      txn.rollback();
    });
    equal(await storage.get("k"), 1);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
