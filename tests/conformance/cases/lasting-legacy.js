// config: {"objects": {"PROBE": "Probe"}, "kv": ["Probe"]}
// The same for a class that is not SQLite-backed.
import { equal, probe, rejects, suite } from "../support/check.js";

const object = {
  "values and lists": [
    ({ storage }) =>
      storage.put({ b: new Map([[1, 2]]), a: new Date(1), ä: 3n }),
    async ({ storage }) =>
      equal(
        [...(await storage.list())],
        [
          ["a", new Date(1)],
          ["b", new Map([[1, 2]])],
          ["ä", 3n],
        ],
      ),
  ],
  "a transaction, kept and rolled back": [
    async ({ storage }) => {
      await storage.transaction(async (txn) => {
        await txn.put("kept", 1);
      });
      await rejects(
        storage.transaction(async (txn) => {
          await txn.put("kept", 2);
          throw new Error("undone");
        }),
        { message: "undone" },
      );
      await storage.transaction(async (txn) => {
        await txn.put("kept", 3);
        txn.rollback();
      });
    },
    async ({ storage }) => equal(await storage.get("kept"), 1),
  ],
  "an alarm": [
    async ({ storage }) => {
      const at = Date.now() + 3_600_000;
      await storage.setAlarm(at);
      return at;
    },
    async ({ storage, before }) => {
      equal(await storage.getAlarm(), before);
      await storage.deleteAlarm();
    },
    async ({ storage }) => equal(await storage.getAlarm(), null),
  ],
  deleteAll: [
    async ({ storage }) => {
      await storage.put({ a: 1, b: 2 });
      await storage.deleteAll();
      await storage.put("c", 3);
    },
    async ({ storage }) => equal([...(await storage.list())], [["c", 3]]),
  ],
};

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
