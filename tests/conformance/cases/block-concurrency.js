// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { inspect, suite, triedAsync } from "../support/check.js";

export class Cell extends DurableObject {
  born = Math.random();
  constructor(ctx, env) {
    super(ctx, env);
    if (ctx.id.name === "fails in the constructor") {
      ctx.blockConcurrencyWhile(async () => {
        throw new RangeError("in the constructor's block");
      });
    }
    if (ctx.id.name === "ready") {
      ctx.blockConcurrencyWhile(async () => {
        await scheduler.wait(10);
        this.ready = await ctx.storage.get("k");
      });
    }
  }
  which() {
    return this.born;
  }
  isReady() {
    return ["ready" in this, this.ready];
  }
  /** Runs a block with one of the callbacks below, and tells what came of it. */
  async block(kind) {
    const callbacks = {
      waits: async () => {
        await scheduler.wait(50);
        throw new TypeError("later");
      },
      value: async () => 5,
      plain: () => 5,
      nothing: async () => {},
      throws: () => {
        throw new RangeError("at once");
      },
      rejects: async () => {
        throw new TypeError("later");
      },
      text: async () => {
        throw "a text";
      },
      absent: undefined,
      object: {},
    };
    return inspect(await this.ctx.blockConcurrencyWhile(callbacks[kind]));
  }
  async caught() {
    try {
      await this.ctx.blockConcurrencyWhile(async () => {
        throw new Error("caught?");
      });
    } catch (error) {
      return `caught ${error.message}`;
    }
  }
  async nested(depth) {
    const nest = (left) =>
      left === 0
        ? Promise.resolve("at the bottom")
        : this.ctx.blockConcurrencyWhile(() => nest(left - 1));
    return nest(depth);
  }
  async writeAndFail() {
    await this.ctx.storage.put("committed", 1);
    await this.ctx.storage.sync();
    await this.ctx.blockConcurrencyWhile(async () => {
      this.ctx.storage.put("uncommitted", 1);
      throw new Error("reset");
    });
  }
  async keys() {
    return [...(await this.ctx.storage.list()).keys()];
  }
  async waitUntilFails() {
    this.ctx.waitUntil(Promise.reject(new Error("not fatal")));
    return "answered";
  }
}

/** What a call gives, and whether the object was reset by it. */
async function outcome(env, name, call) {
  const stub = env.CELL.getByName(name);
  const before = await stub.which();
  const result = await triedAsync(() => call(stub));
  const after = await env.CELL.getByName(name).which();
  return [result, before === after ? "lives" : "was reset"];
}

const kinds = "value plain nothing throws rejects text absent object".split(
  " ",
);

export default suite({
  worker: {
    async "callbacks of every kind"({ env }) {
      const seen = {};
      for (const kind of kinds) {
        seen[kind] = await outcome(env, kind, (stub) => stub.block(kind));
      }
      return seen;
    },
    "a failure cannot be caught": ({ env }) =>
      outcome(env, "caught", (stub) => stub.caught()),
    "depths that pass": async ({ env }) => [
      await outcome(env, "depth 1", (stub) => stub.nested(1)),
      await outcome(env, "depth 10", (stub) => stub.nested(10)),
      await outcome(env, "depth 60", (stub) => stub.nested(60)),
    ],
    async "a failure undoes what was not committed"({ env }) {
      const result = await outcome(env, "undo", (stub) => stub.writeAndFail());
      return [...result, await env.CELL.getByName("undo").keys()];
    },
    async "a block in the constructor is done before the first call"({ env }) {
      return env.CELL.getByName("ready").isReady();
    },
    async "a block in the constructor that fails"({ env }) {
      const name = "fails in the constructor";
      return [
        await triedAsync(() => env.CELL.getByName(name).which()),
        await triedAsync(() => env.CELL.getByName(name).which()),
      ];
    },
    "a rejected waitUntil is not fatal": ({ env }) =>
      outcome(env, "waitUntil", (stub) => stub.waitUntilFails()),
    async "others that wait get the error"({ env }) {
      const stub = env.CELL.getByName("waiters");
      await stub.which();
      const calls = [stub.block("waits"), stub.which(), stub.keys()];
      const results = await Promise.allSettled(calls);
      return results.map(({ status, reason }) => [status, reason?.message]);
    },
  },
});
