// config: {"objects": {"PROBE": "Probe", "CELL": "Cell", "SILENT": "Silent"}}
import { DurableObject } from "cloudflare:workers";
import { equal, probe, rejects, suite } from "../support/check.js";

const object = {
  async "set, get and delete"({ storage }) {
    equal(await storage.getAlarm(), null);
    const when = Date.now() + 60_000;
    await storage.setAlarm(when);
    equal(await storage.getAlarm(), when);
    await storage.setAlarm(new Date(when + 5));
    equal(await storage.getAlarm(), when + 5);
    await storage.deleteAlarm();
    equal(await storage.getAlarm(), null);
  },
  async "a time that is not positive is refused"({ storage }) {
    const expected = {
      name: "TypeError",
      message: "setAlarm() cannot be called with an alarm time <= 0",
    };
    await rejects(async () => storage.setAlarm(0), expected);
    await rejects(async () => storage.setAlarm(-1), expected);
  },
  async "deleteAll deletes the alarm"({ storage }) {
    await storage.setAlarm(Date.now() + 60_000);
    await storage.deleteAll();
    equal(await storage.getAlarm(), null);
  },
};

export class Probe extends probe(object) {
  alarm() {}
}

export class Silent extends DurableObject {
  async set() {
    await this.ctx.storage.setAlarm(Date.now() + 1_000);
  }
}

export class Cell extends DurableObject {
  fired = [];
  async alarm(info) {
    const how = this.how;
    this.how = undefined;
    this.fired.push({
      info: { ...info, retryCount: info.retryCount, isRetry: info.isRetry },
      inside: await this.ctx.storage.getAlarm(),
    });
    if (how === "again") await this.ctx.storage.setAlarm(Date.now() + 10);
    if (how === "throw") throw new Error("the first try fails");
    await this.ctx.storage.put("fired", this.fired.length);
  }
  async set(ms, how) {
    this.how = how;
    const at = Date.now() + ms;
    await this.ctx.storage.setAlarm(at);
    return at;
  }
  async state() {
    return {
      fired: this.fired,
      stored: await this.ctx.storage.get("fired"),
      alarm: await this.ctx.storage.getAlarm(),
      name: this.ctx.id.name,
    };
  }
}

async function fires(stub, count, ms = 2_000) {
  for (let waited = 0; waited < ms; waited += 10) {
    const state = await stub.state();
    if (state.fired.length >= count) return state;
    await scheduler.wait(10);
  }
  throw new Error(`the alarm did not fire ${count} times in ${ms} ms`);
}

export default suite({
  object,
  worker: {
    async "an alarm fires, and is gone while it runs"({ env }) {
      const stub = env.CELL.getByName("fires");
      await stub.set(20);
      const { fired } = await fires(stub, 1);
      equal(
        [fired[0].info.retryCount, fired[0].info.isRetry, fired[0].inside],
        [0, false, null],
      );
      equal((await stub.state()).alarm, null);
    },
    async "a time in the past fires at once"({ env }) {
      const stub = env.CELL.getByName("past");
      await stub.set(-100_000);
      await fires(stub, 1);
    },
    async "an alarm set in its handler fires again"({ env }) {
      const stub = env.CELL.getByName("again");
      await stub.set(5, "again");
      equal((await fires(stub, 2)).fired.length, 2);
    },
    async "a later alarm replaces the earlier one"({ env }) {
      const stub = env.CELL.getByName("replaced");
      await stub.set(500);
      await stub.set(100_000);
      await scheduler.wait(700);
      equal((await stub.state()).fired, []);
    },
    async "a handler that throws is tried again after two seconds"({ env }) {
      const stub = env.CELL.getByName("retry");
      await stub.set(5, "throw");
      const { fired } = await fires(stub, 2, 5_000);
      equal([fired[1].info.retryCount, fired[1].info.isRetry], [1, true]);
    },
    async "a class without a handler is refused"({ env }) {
      await rejects(env.SILENT.getByName("x").set(), {
        name: "TypeError",
        message:
          "Your Durable Object class must have an alarm() handler in order to call setAlarm()",
      });
    },
  },
});
