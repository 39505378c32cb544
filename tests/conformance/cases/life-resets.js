// config: {"objects": {"CELL": "Cell"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

const lives = new Map();

/** Takes some tens of milliseconds of work, in which calls made at once have all been sent. */
function dawdle() {
  let sum = 0;
  for (let i = 0; i < 30_000_000; i++) sum += Math.sqrt(i);
  return sum;
}

export class Cell extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    const { name } = ctx.id;
    this.life = (lives.get(name) ?? 0) + 1;
    lives.set(name, this.life);
    if (this.life > 1) return;
    if (name.startsWith("throws")) {
      dawdle();
      throw new RangeError("constructor");
    }
    if (name === "aborts") ctx.abort("in the constructor");
    if (name.startsWith("blocks")) {
      ctx.blockConcurrencyWhile(async () => {
        await scheduler.wait(10);
        throw new TypeError("in the first block");
      });
    }
  }
  which() {
    return this.life;
  }
  abort(reason) {
    this.ctx.abort(reason);
  }
  async abortLater() {
    setTimeout(() => this.ctx.abort("later"), 5);
    await scheduler.wait(2_000);
  }
  abortAndGoOn() {
    try {
      this.ctx.abort("and gone");
    } catch {
      return "went on";
    }
  }
  async abortAndPut() {
    try {
      this.ctx.abort("no more storage");
    } catch {}
    await this.ctx.storage.put("k", "late");
  }
  async abortInWaitUntil() {
    this.ctx.waitUntil(scheduler.wait(5).then(() => this.ctx.abort("late")));
    return "answered";
  }
  get() {
    return this.ctx.storage.get("k");
  }
  async put(value) {
    await this.ctx.storage.put("k", value);
  }
  async wait(ms) {
    await scheduler.wait(ms);
    return this.life;
  }
  async block() {
    await this.ctx.blockConcurrencyWhile(async () => {
      throw new TypeError("in the block");
    });
  }
  async blockCaught() {
    try {
      await this.ctx.blockConcurrencyWhile(async () => {
        throw new TypeError("caught");
      });
    } catch {
      return "caught it";
    }
  }
  async blockThrows() {
    await this.ctx.blockConcurrencyWhile(() => {
      throw new RangeError("at once");
    });
  }
  blockValue() {
    return this.ctx.blockConcurrencyWhile(() => 5);
  }
  fetch() {
    return new Response(String(this.life));
  }
}

const reset = { durableObjectReset: true, remote: undefined };
const outcome = (promise) =>
  promise.then(
    (value) => value,
    (error) =>
      `${error.name}: ${error.message} ${error.durableObjectReset === true}`,
  );

export default suite({
  worker: {
    async "a broken stub stays broken, for calls and for fetch"({ env }) {
      const stub = env.CELL.getByName("broken");
      await rejects(stub.abort("why"), { message: "why", ...reset });
      await rejects(stub.which(), { message: "why", ...reset });
      await rejects(stub.fetch("http://x/"), { message: "why", ...reset });
      equal(await env.CELL.getByName("broken").which(), 2);
    },
    async "each call of a broken stub gets an error of its own"({ env }) {
      const stub = env.CELL.getByName("own");
      await outcome(stub.abort("why"));
      const errors = await Promise.all(
        [stub.which(), stub.which()].map((call) => call.catch((e) => e)),
      );
      equal(
        [errors[0] === errors[1], ...errors.map(({ message }) => message)],
        [false, "why", "why"],
      );
    },
    async "an exception breaks no stub"({ env }) {
      const stub = env.CELL.getByName("sound");
      await rejects(stub.nothing(), { name: "TypeError" });
      equal(await stub.which(), 1);
    },
    async "a stub that was not used before reaches the new instance"({ env }) {
      const [one, other] = [1, 2].map(() => env.CELL.getByName("two"));
      await outcome(one.abort("why"));
      equal(await other.which(), 2);
    },
    async "everybody who waits for a failing constructor gets its error"({
      env,
    }) {
      const calls = [1, 2, 3].map(() => env.CELL.getByName("throws a").which());
      equal(
        await Promise.all(calls.map(outcome)),
        Array(3).fill("RangeError: constructor true"),
      );
      equal(await env.CELL.getByName("throws a").which(), 2);
    },
    async "a stub whose constructor failed stays broken"({ env }) {
      const stub = env.CELL.getByName("throws b");
      await rejects(stub.which(), { message: "constructor", ...reset });
      await rejects(stub.which(), { message: "constructor", ...reset });
      equal(await env.CELL.getByName("throws b").which(), 2);
    },
    async "a constructor may abort"({ env }) {
      await rejects(env.CELL.getByName("aborts").which(), {
        message: "in the constructor",
        ...reset,
      });
      equal(await env.CELL.getByName("aborts").which(), 2);
    },
    async "everybody who waits for a failing first block gets its error"({
      env,
    }) {
      const calls = [1, 2].map(() => env.CELL.getByName("blocks a").which());
      equal(
        await Promise.all(calls.map(outcome)),
        Array(2).fill("TypeError: in the first block true"),
      );
      equal(await env.CELL.getByName("blocks a").which(), 2);
    },
    async "simultaneous first calls meet one instance"({ env }) {
      const calls = Array.from({ length: 20 }, () =>
        env.CELL.getByName("first").which(),
      );
      equal(await Promise.all(calls), Array(20).fill(1));
    },
    async "a block that fails resets, with its own error"({ env }) {
      await rejects(env.CELL.getByName("block").block(), {
        name: "TypeError",
        message: "in the block",
        ...reset,
      });
      equal(await env.CELL.getByName("block").which(), 2);
    },
    async "catching the failure of a block does not help"({ env }) {
      equal(
        await outcome(env.CELL.getByName("caught").blockCaught()),
        "TypeError: caught true",
      );
    },
    async "a block that throws at once resets too"({ env }) {
      equal(
        await outcome(env.CELL.getByName("at once").blockThrows()),
        "RangeError: at once true",
      );
    },
    async "a block may return a plain value"({ env }) {
      equal(await env.CELL.getByName("plain").blockValue(), 5);
    },
    async "catching abort does not help"({ env }) {
      equal(
        await outcome(env.CELL.getByName("on").abortAndGoOn()),
        "Error: and gone true",
      );
    },
    async "an aborted object writes nothing more"({ env }) {
      const stub = env.CELL.getByName("written");
      await stub.put("before");
      equal(await outcome(stub.abortAndPut()), "Error: no more storage true");
      equal(await env.CELL.getByName("written").get(), "before");
    },
    async "abort from a timer ends what waits"({ env }) {
      equal(
        await outcome(env.CELL.getByName("later").abortLater()),
        "Error: later true",
      );
    },
    async "abort from waitUntil comes after the answer"({ env }) {
      const stub = env.CELL.getByName("wu");
      equal(await stub.abortInWaitUntil(), "answered");
      await scheduler.wait(50);
      equal(await env.CELL.getByName("wu").which(), 2);
    },
    async "what is in progress fails with the reason, its stub is broken"({
      env,
    }) {
      const stub = env.CELL.getByName("busy");
      const waiting = outcome(stub.wait(2_000));
      await scheduler.wait(10);
      await outcome(env.CELL.getByName("busy").abort("killed"));
      equal(await waiting, "Error: killed true");
      equal(await outcome(stub.which()), "Error: killed true");
    },
  },
});
