// config: {"objects": {"PROBE": "Probe", "SILENT": "Silent"}}
import { DurableObject } from "cloudflare:workers";
import { probe, suite, triedAsync } from "../support/check.js";

const far = 4_102_444_800_000;

const object = {
  async "times of any type"({ storage }) {
    const seen = {};
    const times = {
      number: far,
      date: new Date(far + 1),
      fraction: far + 0.9,
      text: String(far + 2),
      badText: "soon",
      null: null,
      undefined: undefined,
      NaN,
      Infinity,
      zero: 0,
      negative: -1,
      badDate: new Date(NaN),
      object: {},
      bigint: BigInt(far),
      boolean: true,
      huge: 8.64e15 + 1,
    };
    for (const [name, time] of Object.entries(times)) {
      await storage.deleteAlarm();
      const set = await triedAsync(() => storage.setAlarm(time));
      const alarm = await storage.getAlarm();
      seen[name] = [set, alarm === null || alarm > far - 1 ? alarm : "soon"];
    }
    return seen;
  },
  async "options are taken"({ storage }) {
    return [
      await triedAsync(() => storage.setAlarm(far, { allowUnconfirmed: true })),
      await triedAsync(() => storage.setAlarm(far, null)),
      await triedAsync(() => storage.setAlarm(far, 5)),
      await triedAsync(() => storage.getAlarm({ allowConcurrency: true })),
      await triedAsync(() => storage.getAlarm(5)),
      await triedAsync(() => storage.deleteAlarm({ allowConcurrency: true })),
      await triedAsync(() => storage.deleteAlarm(5)),
    ];
  },
  async "set, replaced and deleted in one turn"({ storage }) {
    storage.setAlarm(far);
    const first = storage.getAlarm();
    storage.setAlarm(far + 5);
    const second = storage.getAlarm();
    storage.deleteAlarm();
    const third = storage.getAlarm();
    storage.setAlarm(far + 7);
    return [await first, await second, await third, await storage.getAlarm()];
  },
  async "a past time becomes the present"({ storage }) {
    const before = Date.now();
    storage.setAlarm(before - 100_000);
    const alarm = await storage.getAlarm();
    await storage.deleteAlarm();
    return [alarm >= before - 1, alarm <= Date.now() + 1_000];
  },
  async "an alarm in a transaction"({ storage }) {
    await storage.setAlarm(far);
    await triedAsync(() =>
      storage.transaction(async (txn) => {
        await txn.setAlarm(far + 5);
        throw new Error("undone");
      }),
    );
    const seen = [await storage.getAlarm()];
    await storage.transaction(async (txn) => {
      await txn.deleteAlarm();
      seen.push(await txn.getAlarm());
      txn.rollback();
    });
    seen.push(await storage.getAlarm());
    await storage.transaction((txn) => txn.setAlarm(far + 9));
    seen.push(await storage.getAlarm());
    return seen;
  },
  async "an alarm is no key"({ storage, sql }) {
    await storage.setAlarm(far);
    return [
      [...(await storage.list())],
      sql
        .exec(
          "SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf\\_%' ESCAPE '\\'",
        )
        .toArray(),
    ];
  },
  async "a class without a handler"({ env }) {
    return env.SILENT.getByName("x").all();
  },
};

export class Silent extends DurableObject {
  async all() {
    const { storage } = this.ctx;
    return [
      await storage.getAlarm(),
      String(await storage.setAlarm(far).catch((error) => error)),
      String(await storage.deleteAlarm()),
      String(
        await storage
          .transaction((txn) => txn.setAlarm(far))
          .catch((error) => error),
      ),
    ];
  }
}

export class Probe extends probe(object) {
  alarm() {}
}
export default suite({ object });
