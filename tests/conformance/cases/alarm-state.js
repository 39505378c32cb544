// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  async alarm() {
    const { storage } = this.ctx;
    await storage.put("name", this.ctx.id.name);
    await storage.put("fired", ((await storage.get("fired")) ?? 0) + 1);
    if (await storage.get("abort")) {
      await storage.delete("abort");
      this.ctx.abort("from the alarm");
    }
  }
  async inTransaction(ms) {
    await this.ctx.storage.transaction(async (txn) => {
      await txn.put("set", true);
      await txn.setAlarm(Date.now() + ms);
    });
  }
  async setAndAbort() {
    this.ctx.storage.setAlarm(Date.now() + 20);
    this.ctx.abort("after setAlarm");
  }
  async setAndAbortInside() {
    await this.ctx.storage.put("abort", true);
    await this.ctx.storage.setAlarm(Date.now() + 5);
  }
  async state() {
    return [
      await this.ctx.storage.get("fired"),
      await this.ctx.storage.get("name"),
      await this.ctx.storage.getAlarm(),
    ];
  }
}

const fired = async (env, name, ms = 2_000) => {
  for (let waited = 0; waited < ms; waited += 20) {
    const state = await env.CELL.getByName(name)
      .state()
      .catch(() => []);
    if (state[0]) return state;
    await scheduler.wait(20);
  }
};

export default suite({
  worker: {
    async "an alarm of a transaction fires"({ env }) {
      await env.CELL.getByName("t").inTransaction(10);
      equal(await fired(env, "t"), [1, "t", null]);
    },
    async "an alarm that was not committed does not fire"({ env }) {
      await rejects(env.CELL.getByName("a").setAndAbort(), {
        message: "after setAlarm",
      });
      await scheduler.wait(100);
      equal(await env.CELL.getByName("a").state(), [
        undefined,
        undefined,
        null,
      ]);
    },
  },
});
