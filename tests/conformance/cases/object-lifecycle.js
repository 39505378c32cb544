// config: {"objects": {"CELL": "Cell", "FRAGILE": "Fragile"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

const lives = new Map();

export class Cell extends DurableObject {
  born = Symbol("born");
  constructor(ctx, env) {
    super(ctx, env);
    const key = String(ctx.id);
    lives.set(key, (lives.get(key) ?? 0) + 1);
    this.life = lives.get(key);
  }
  which() {
    return this.life;
  }
  async write(value) {
    await this.ctx.storage.put("k", value);
  }
  read() {
    return this.ctx.storage.get("k");
  }
  async writeAndAbort() {
    this.ctx.storage.put("k", "uncommitted");
    this.ctx.abort("the reason");
  }
  abortWithError() {
    this.ctx.abort(new RangeError("an error"));
  }
  abortPlain() {
    this.ctx.abort();
  }
  background() {
    this.ctx.waitUntil(
      scheduler.wait(30).then(() => this.ctx.storage.put("k", "background")),
    );
  }
  same(ctxToo) {
    return [
      this.ctx.storage === this.ctx.storage,
      typeof this.env.CELL.get,
      this.ctx.props,
    ];
  }
}

/** Cannot be constructed before the time that it stored. */
export class Fragile extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    if (Date.now() < ctx.storage.kv.get("from")) {
      throw new RangeError("in the constructor");
    }
  }
  async break(ms) {
    await this.ctx.storage.put("from", Date.now() + ms);
    await this.ctx.storage.sync();
    this.ctx.abort("broken");
  }
  ok() {
    return "ok";
  }
}

export default suite({
  worker: {
    async "memory is kept from call to call"({ env }) {
      const stub = env.CELL.getByName("kept");
      equal(
        [await stub.which(), await env.CELL.getByName("kept").which()],
        [1, 1],
      );
    },
    async "abort ends the object and tells the caller why"({ env }) {
      const stub = env.CELL.getByName("abort");
      await stub.write("kept");
      await rejects(stub.writeAndAbort(), {
        name: "Error",
        message: "the reason",
      });
      const fresh = env.CELL.getByName("abort");
      equal([await fresh.which(), await fresh.read()], [2, "kept"]);
    },
    async "abort with an Error and with nothing"({ env }) {
      await rejects(env.CELL.getByName("e").abortWithError(), {
        name: "Error",
        message: "RangeError: an error",
      });
      await rejects(env.CELL.getByName("p").abortPlain(), {
        name: "Error",
        message: "Application called abort() to reset Durable Object.",
      });
    },
    async "a stub of an aborted object stays broken"({ env }) {
      const stub = env.CELL.getByName("broken");
      await rejects(stub.writeAndAbort(), { message: "the reason" });
      await rejects(stub.which(), { message: "the reason" });
      equal(await env.CELL.getByName("broken").which(), 2);
    },
    async "an exception in the constructor fails the call; the next call tries again"({
      env,
    }) {
      await rejects(env.FRAGILE.getByName("x").break(300), {
        message: "broken",
      });
      await rejects(env.FRAGILE.getByName("x").ok(), {
        name: "RangeError",
        message: "in the constructor",
      });
      await scheduler.wait(350);
      equal(await env.FRAGILE.getByName("x").ok(), "ok");
    },
    async "work goes on after the answer"({ env }) {
      const stub = env.CELL.getByName("background");
      await stub.background();
      await scheduler.wait(60);
      equal(await stub.read(), "background");
    },
    async "ctx and env of an object"({ env }) {
      equal(await env.CELL.getByName("same").same(), [true, "function", {}]);
    },
  },
});
