// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    if (ctx.id.name === "never") throw new RangeError("constructed badly");
  }
  abort() {
    this.ctx.abort("why");
  }
  block() {
    return this.ctx.blockConcurrencyWhile(async () => {
      throw new TypeError("in the block");
    });
  }
  fail() {
    throw Object.assign(new RangeError("plain"), { code: 5 });
  }
  wait() {
    return scheduler.wait(3_000);
  }
  fetch() {
    throw new RangeError("in fetch");
  }
  ok() {
    return "ok";
  }
}

const reset = { durableObjectReset: true, remote: undefined };
const remote = { durableObjectReset: undefined, remote: true };

export default suite({
  worker: {
    async "a reset is marked as such, not as remote"({ env }) {
      await rejects(env.CELL.getByName("a").abort(), {
        message: "why",
        ...reset,
      });
      await rejects(env.CELL.getByName("b").block(), {
        name: "TypeError",
        message: "in the block",
        ...reset,
      });
    },
    async "a constructor that throws is a reset"({ env }) {
      await rejects(env.CELL.getByName("never").ok(), {
        name: "RangeError",
        message: "constructed badly",
        ...reset,
      });
    },
    async "an exception is marked as remote and names the object"({ env }) {
      const stub = env.CELL.getByName("d");
      await rejects(stub.fail(), {
        name: "RangeError",
        message: "plain",
        code: 5,
        durableObjectId: String(stub.id),
        ...remote,
      });
      await rejects(stub.fetch("http://x/"), {
        message: "in fetch",
        ...remote,
      });
    },
    async "a reset ends what is in progress"({ env }) {
      const stub = env.CELL.getByName("e");
      const waiting = stub.wait();
      await env.CELL.getByName("e")
        .abort()
        .catch(() => {});
      await rejects(waiting, { message: "why", ...reset });
    },
    async "a stub is no thenable, and has no own methods"({ env }) {
      const stub = env.CELL.getByName("f");
      equal(
        [typeof stub.then, Object.keys(stub).sort()],
        ["undefined", ["id", "name"]],
      );
      equal((await stub) === stub, true);
    },
    async "the stack shows the caller, not the object"({ env }) {
      const { stack } = await env.CELL.getByName("g")
        .fail()
        .catch((error) => error);
      equal(
        [stack.split("\n")[0], /Cell\.fail/.test(stack)],
        ["RangeError: plain", false],
      );
    },
  },
});
