// config: {"objects": {"CELL": "Cell"}, "skip": {"evict": "the next try may wake the object while it is told to leave"}}
import { DurableObject } from "cloudflare:workers";
import { equal, suite } from "../support/check.js";

export class Cell extends DurableObject {
  failures = 0;
  async alarm() {
    if (await this.ctx.storage.get("fails")) {
      this.failures++;
      throw new Error("told to fail");
    }
    const count = (await this.ctx.storage.get("fired")) ?? 0;
    await this.ctx.storage.put("fired", count + 1);
  }
  async begin() {
    await this.ctx.storage.put("fails", true);
    await this.ctx.storage.setAlarm(Date.now() + 1);
  }
  repair() {
    return this.ctx.storage.put("fails", false);
  }
  async state() {
    return [this.failures, (await this.ctx.storage.get("fired")) ?? 0];
  }
}

/** Waits until the number at `position` of the object's state is positive, and returns it. */
async function until(stub, position) {
  for (let i = 0; i < 400; i++) {
    const number = (await stub.state())[position];
    if (number > 0) return number;
    await scheduler.wait(20);
  }
  throw new Error("nothing came within 8 s");
}

export default suite({
  worker: {
    "an alarm that fails is tried until it succeeds": [
      async ({ env }) => {
        const stub = env.CELL.getByName("fails");
        await stub.begin();
        await until(stub, 0);
      },
      async ({ env }) => {
        const stub = env.CELL.getByName("fails");
        await stub.repair();
        equal(await until(stub, 1), 1);
      },
    ],
  },
});
