// config: {"objects": {"CELL": "Cell", "FRAGILE": "Fragile"}}
// Identity, alarms and life of objects across the end of their memory.
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Cell extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    // Construction counts itself, before any event.
    ctx.blockConcurrencyWhile(async () => {
      this.born = ((await ctx.storage.get("born")) ?? 0) + 1;
      await ctx.storage.put("born", this.born);
    });
  }
  async set(ms) {
    await this.ctx.storage.setAlarm(Date.now() + ms);
  }
  async alarm({ retryCount, isRetry }) {
    const seen = { retryCount, isRetry, name: this.ctx.id.name ?? null };
    const fired = (await this.ctx.storage.get("fired")) ?? [];
    await this.ctx.storage.put("fired", [...fired, seen]);
  }
  put(key, value) {
    return this.ctx.storage.put(key, value);
  }
  get(key) {
    return this.ctx.storage.get(key);
  }
  lives() {
    return this.born;
  }
  about() {
    return [String(this.ctx.id), this.ctx.id.name ?? null];
  }
}

/** Fails to be constructed once it was told to. */
export class Fragile extends DurableObject {
  constructor(ctx, env) {
    super(ctx, env);
    if (ctx.storage.kv.get("broken")) throw new RangeError("told to fail");
  }
  break() {
    this.ctx.storage.kv.put("broken", true);
  }
  ok() {
    return "ok";
  }
}

const fired = async (stub) => {
  for (let i = 0; i < 400; i++) {
    const list = await stub.get("fired");
    if (list) return list;
    await scheduler.wait(20);
  }
  throw new Error("the alarm did not fire within 8 s");
};

export default suite({
  worker: {
    "an object by name is the same object": [
      async ({ env }) => {
        const stub = env.CELL.getByName("by name");
        await stub.put("k", "v");
        return stub.about();
      },
      async ({ env, before }) => {
        const stub = env.CELL.getByName("by name");
        equal([await stub.get("k"), await stub.about()], ["v", before]);
        equal(String(env.CELL.idFromName("by name")), before[0]);
      },
    ],
    "an object by id is the same object, and learns its name": [
      async ({ env }) => {
        await env.CELL.getByName("by id").put("k", "v");
        return String(env.CELL.idFromName("by id"));
      },
      async ({ env, before }) => {
        const stub = env.CELL.get(env.CELL.idFromString(before));
        equal(await stub.get("k"), "v");
      },
    ],
    "a unique id stays valid": [
      async ({ env }) => {
        const id = env.CELL.newUniqueId();
        await env.CELL.get(id).put("k", "unique");
        return String(id);
      },
      async ({ env, before }) => {
        const stub = env.CELL.get(env.CELL.idFromString(before));
        equal(
          [await stub.get("k"), await stub.about()],
          ["unique", [before, null]],
        );
      },
    ],
    "an alarm wakes the object, once": [
      async ({ env }) => env.CELL.getByName("woken").set(1_500),
      async ({ env }) => {
        const stub = env.CELL.getByName("woken");
        await fired(stub);
        await scheduler.wait(200);
        equal(await stub.get("fired"), [
          { retryCount: 0, isRetry: false, name: "woken" },
        ]);
      },
    ],
    "an alarm that has fired does not fire again": [
      async ({ env }) => {
        const stub = env.CELL.getByName("fired");
        await stub.set(10);
        await fired(stub);
      },
      async ({ env }) => {
        await scheduler.wait(200);
        equal((await env.CELL.getByName("fired").get("fired")).length, 1);
      },
    ],
    "an alarm that came due in between fires": [
      ({ env }) => env.CELL.getByName("due").set(50),
      async ({ env }) => {
        const stub = env.CELL.getByName("due");
        await fired(stub);
        equal(await stub.get("fired"), [
          { retryCount: 0, isRetry: false, name: "due" },
        ]);
      },
    ],
    "a constructor that fails does not touch what is stored": [
      ({ env }) => env.FRAGILE.getByName("f").break(),
      async ({ env }) => {
        // In a process that goes on, the object of before may serve still.
        const stub = env.FRAGILE.getByName("f");
        const outcome = await stub.ok().catch((error) => error.message);
        equal(["ok", "told to fail"].includes(outcome), true);
      },
    ],
    "many objects": [
      async ({ env }) => {
        const puts = Array.from({ length: 40 }, (_, i) =>
          env.CELL.getByName(`many ${i}`).put("n", i),
        );
        await Promise.all(puts);
      },
      async ({ env }) => {
        const gets = Array.from({ length: 40 }, (_, i) =>
          env.CELL.getByName(`many ${i}`).get("n"),
        );
        equal(
          await Promise.all(gets),
          Array.from({ length: 40 }, (_, i) => i),
        );
      },
    ],
    "calls of one stub keep their order when they wake the object": [
      ({ env }) => env.CELL.getByName("order").put("k", 0),
      async ({ env }) => {
        const stub = env.CELL.getByName("order");
        const calls = [];
        for (let i = 1; i <= 20; i++) calls.push(stub.put("k", i));
        calls.push(stub.get("k"));
        equal((await Promise.all(calls)).at(-1), 20);
      },
    ],
  },
});
