// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  log = [];
  constructor(ctx, env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.log.push("start");
      await scheduler.wait(20);
      this.log.push("end");
    });
    this.log.push("constructed");
  }
  say(x) {
    this.log.push(x);
    return this.log.join(" ");
  }
  async block(x) {
    return this.ctx.blockConcurrencyWhile(async () => {
      this.log.push(`${x} begins`);
      await scheduler.wait(20);
      this.log.push(`${x} ends`);
      return x;
    });
  }
  async blockAndFail() {
    await this.ctx.blockConcurrencyWhile(async () => {
      throw new RangeError("in the block");
    });
  }
  async increment(through) {
    const value = (await this.ctx.storage.get("n")) ?? 0;
    if (through) await scheduler.wait(5);
    await this.ctx.storage.put("n", value + 1);
    return value + 1;
  }
  async transactions() {
    const add = () =>
      this.ctx.storage.transaction(async (txn) => {
        const value = (await txn.get("t")) ?? 0;
        await scheduler.wait(5);
        await txn.put("t", value + 1);
      });
    await Promise.all([add(), add(), add()]);
    return this.ctx.storage.get("t");
  }
  async nested() {
    return this.ctx.blockConcurrencyWhile(() =>
      this.ctx.blockConcurrencyWhile(async () => "inner"),
    );
  }
}

export default suite({
  worker: {
    async "a block in the constructor holds events back"({ env }) {
      equal(
        await env.CELL.getByName("a").say("call"),
        "constructed start end call",
      );
    },
    async "blocks run one after the other and hold calls back"({ env }) {
      const stub = env.CELL.getByName("b");
      await stub.say("|");
      const all = [stub.block("x"), stub.block("y"), stub.say("call")];
      equal(await Promise.all(all), [
        "x",
        "y",
        "constructed start end | x begins x ends y begins y ends call",
      ]);
    },
    async "the result of a block is returned"({ env }) {
      equal(await env.CELL.getByName("c").block("value"), "value");
    },
    async "a block that fails resets the object"({ env }) {
      const name = "d";
      const stub = env.CELL.getByName(name);
      await stub.say("before");
      await rejects(stub.blockAndFail(), {
        name: "RangeError",
        message: "in the block",
      });
      equal(
        await env.CELL.getByName(name).say("after"),
        "constructed start end after",
      );
    },
    async "storage operations keep other events out"({ env }) {
      const stub = env.CELL.getByName("e");
      const all = await Promise.all(
        Array.from({ length: 20 }, () => stub.increment(false)),
      );
      equal(
        all,
        Array.from({ length: 20 }, (_, i) => i + 1),
      );
    },
    async "other awaits let events in"({ env }) {
      const stub = env.CELL.getByName("f");
      equal(
        await Promise.all([stub.increment(true), stub.increment(true)]),
        [1, 1],
      );
    },
    async "transactions are one after the other"({ env }) {
      equal(await env.CELL.getByName("g").transactions(), 3);
    },
    async "blocks may be nested"({ env }) {
      equal(await env.CELL.getByName("h").nested(), "inner");
    },
  },
});
