// config: {"objects": {"CELL": "Cell", "OTHER": "Other"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite, throws } from "../support/check.js";

export class Other extends DurableObject {}

const kept = {};

const illegal =
  "TypeError: Illegal invocation: function called with incorrect `this` reference. See https://developers.cloudflare.com/workers/observability/errors/#illegal-invocation-errors for details.";

const attempt = (run) => {
  try {
    return run();
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
};

export class Cell extends DurableObject {
  keep() {
    kept.stub = this.env.CELL.getByName("kept");
    kept.promise = scheduler.wait(5).then(() => "settled");
  }
  async useKept() {
    return [await kept.promise, await kept.stub.say()];
  }
  say() {
    return "said";
  }
  constructors() {
    const { ctx } = this;
    const classes = [ctx, ctx.storage, ctx.storage.sql, ctx.id];
    return classes.map((of) => attempt(() => new of.constructor()));
  }
  names() {
    const { ctx } = this;
    return [ctx, ctx.storage, ctx.storage.sql, ctx.id].map(
      (of) => of.constructor.name,
    );
  }
  detached() {
    const { blockConcurrencyWhile, waitUntil, abort } = this.ctx;
    return [blockConcurrencyWhile, waitUntil, abort].map((method) =>
      attempt(() => method(async () => {})),
    );
  }
  identity() {
    const { ctx } = this;
    return [
      ctx.id === ctx.id,
      ctx.storage === ctx.storage,
      ctx.exports === ctx.exports,
      String(ctx),
    ];
  }
  waitUntilTakesAnything() {
    return [this.ctx.waitUntil(5), this.ctx.waitUntil(Promise.resolve())];
  }
  exported() {
    return Object.keys(this.ctx.exports).sort();
  }
}

let lastEnv = null;
let lastCtx = null;
let lastStub = null;

export default suite({
  worker: {
    async "env is one object, ctx is not"({ env, ctx }) {
      lastEnv ??= env;
      lastCtx ??= ctx;
      equal(lastEnv === env, true);
      const { exports } = ctx;
      equal(exports === ctx.exports, true);
    },
    "env is the same again, ctx another"({ env, ctx }) {
      if (lastEnv === null) return;
      equal([lastEnv === env, lastCtx === ctx], [true, false]);
    },
    "illegal constructors"({ env, ctx }) {
      const illegalConstructor = {
        name: "TypeError",
        message: "Illegal constructor",
      };
      for (const of of [env.CELL, env.CELL.getByName("a"), ctx]) {
        throws(() => new of.constructor(), illegalConstructor);
      }
      throws(
        () => new (env.CELL.newUniqueId().constructor)(),
        illegalConstructor,
      );
    },
    async "illegal constructors in an object"({ env }) {
      equal(
        await env.CELL.getByName("b").constructors(),
        Array(4).fill("TypeError: Illegal constructor"),
      );
    },
    async "names of classes"({ env }) {
      equal(await env.CELL.getByName("c").names(), [
        "DurableObjectState",
        "DurableObjectStorage",
        "SqlStorage",
        "DurableObjectId",
      ]);
      equal(
        [env.CELL.constructor.name, env.CELL.getByName("c").constructor.name],
        ["DurableObjectNamespace", "DurableObject"],
      );
    },
    async "methods that are taken off ctx"({ env }) {
      equal(await env.CELL.getByName("d").detached(), Array(3).fill(illegal));
    },
    async "what an object finds in ctx stays the same"({ env }) {
      equal(await env.CELL.getByName("e").identity(), [
        true,
        true,
        true,
        "[object DurableObjectState]",
      ]);
    },
    async "waitUntil takes anything and returns nothing"({ env }) {
      equal(await env.CELL.getByName("f").waitUntilTakesAnything(), [
        undefined,
        undefined,
      ]);
    },
    async "ctx.exports lists the classes"({ env }) {
      equal(await env.CELL.getByName("g").exported(), [
        "Cell",
        "Other",
        "default",
      ]);
    },
    async "events of one object share what they make"({ env }) {
      const stub = env.CELL.getByName("h");
      await stub.keep();
      equal(await stub.useKept(), ["settled", "said"]);
    },
    async "a stub of another request is refused (first half)"({ env }) {
      lastStub = env.CELL.getByName("i");
      equal(await lastStub.say(), "said");
    },
    async "a stub of another request is refused (second half)"() {
      if (lastStub === null) return;
      await rejects(async () => await lastStub.say(), {
        name: "Error",
        message:
          /^Cannot perform I\/O on behalf of a different request\. I\/O objects \(such as streams/,
      });
    },
    "arguments of the namespace"({ env }) {
      const notA = (what, type) => ({
        name: "TypeError",
        message: `Failed to execute '${what}' on 'DurableObjectNamespace': parameter 1 is not of type '${type}'.`,
      });
      throws(() => env.CELL.get(undefined), notA("get", "DurableObjectId"));
      throws(() => env.CELL.idFromName(), notA("idFromName", "string"));
      throws(() => env.CELL.getByName(), notA("getByName", "string"));
    },
    async "hints about the place are taken"({ env }) {
      for (const locationHint of ["weur", "apac-ne", "nowhere"]) {
        equal(await env.CELL.getByName("j", { locationHint }).say(), "said");
      }
      const routed = env.CELL.getByName("j", { routingMode: "primary-only" });
      equal(await routed.say(), "said");
      throws(() => env.CELL.getByName("j", { routingMode: "other" }), {
        name: "RangeError",
        message: "unknown routingMode: other",
      });
    },
    "no jurisdiction is no restriction"({ env }) {
      const id = env.CELL.newUniqueId({});
      equal(
        [id.jurisdiction, typeof env.CELL.jurisdiction().newUniqueId],
        [undefined, "function"],
      );
    },
    "equals wants an id"({ env }) {
      const id = env.CELL.idFromName("a");
      throws(() => id.equals("a"), {
        name: "TypeError",
        message:
          "Failed to execute 'equals' on 'DurableObjectId': parameter 1 is not of type 'DurableObjectId'.",
      });
      equal(id.equals(env.OTHER.idFromName("a")), false);
    },
    "the id of a long name keeps it"({ env }) {
      equal(env.CELL.idFromName("n".repeat(2_000)).name.length, 2_000);
    },
  },
});
