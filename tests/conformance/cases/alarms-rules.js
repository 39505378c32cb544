// config: {"objects": {"PROBE": "Probe", "CELL": "Cell", "EARLY": "Early", "SILENT": "Silent"}, "checkMs": 15000}
import { DurableObject } from "cloudflare:workers";
import { equal, inspect, probe, suite } from "../support/check.js";
import { lines } from "../support/websocket.js";

/** A value, or name and message of what is thrown or rejected. */
async function settled(run) {
  try {
    return inspect(await run());
  } catch (error) {
    return `${error.name}: ${error.message}`;
  }
}

const far = () => Date.now() + 3_600_000;

const object = {
  async "times that setAlarm takes"({ storage }) {
    const tries = {
      nothing: [],
      undefined: [undefined],
      null: [null],
      zero: [0],
      "minus one": [-1],
      one: [1],
      NaN: [NaN],
      Infinity: [Infinity],
      fraction: [Date.now() + 3_600_000.7],
      string: [String(far())],
      text: ["tomorrow"],
      date: [new Date(far())],
      "date before 1970": [new Date(-5)],
      "invalid date": [new Date(NaN)],
      object: [{}],
      bigint: [BigInt(far())],
      boolean: [true],
      "far future": [8.64e15],
      beyond: [1e300],
    };
    const seen = {};
    for (const [what, args] of Object.entries(tries)) {
      await storage.deleteAlarm();
      seen[what] = await settled(() => storage.setAlarm(...args));
    }
    await storage.deleteAlarm();
    equal(lines(seen), [
      "nothing: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "undefined: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "null: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "zero: TypeError: setAlarm() cannot be called with an alarm time <= 0",
      "minus one: TypeError: setAlarm() cannot be called with an alarm time <= 0",
      "one: undefined",
      "NaN: TypeError: The value cannot be converted because it is not a valid Date.",
      "Infinity: TypeError: The value cannot be converted because it is not a valid Date.",
      "fraction: undefined",
      "string: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "text: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "date: undefined",
      "date before 1970: TypeError: setAlarm() cannot be called with an alarm time <= 0",
      "invalid date: TypeError: The value cannot be converted because it is not a valid Date.",
      "object: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "bigint: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "boolean: TypeError: Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
      "far future: TypeError: This API doesn't support dates after 2189.",
      "beyond: TypeError: This API doesn't support dates after 2189.",
    ]);
  },
  async "what getAlarm says"({ storage }) {
    const at = far();
    const seen = [await storage.getAlarm()];
    await storage.setAlarm(at + 0.7);
    seen.push((await storage.getAlarm()) - at);
    await storage.setAlarm(new Date(at + 10));
    seen.push((await storage.getAlarm()) - at);
    storage.setAlarm(at + 20);
    seen.push((await storage.getAlarm()) - at);
    storage.deleteAlarm();
    seen.push(await storage.getAlarm());
    equal(seen, [null, 0, 10, 20, null]);
  },
  async "a time in the past is read as set or as now"({ storage }) {
    const before = Date.now();
    storage.setAlarm(before - 100_000);
    const at = await storage.getAlarm();
    await storage.deleteAlarm();
    equal(
      [at === null, at === before - 100_000, at >= before],
      [false, false, true],
    );
  },
  async "put, list and the alarm do not mix"({ storage }) {
    await storage.setAlarm(far());
    equal((await storage.list()).size, 0);
    equal(await storage.delete("alarm"), false);
    equal((await storage.getAlarm()) !== null, true);
    await storage.deleteAlarm();
  },
  async "an alarm set in a transaction that is rolled back"({ storage }) {
    const at = far();
    await storage.setAlarm(at);
    const inside = [];
    await storage.transaction(async (txn) => {
      await txn.setAlarm(at + 5);
      inside.push((await txn.getAlarm()) - at);
      txn.rollback();
    });
    const seen = [inside, (await storage.getAlarm()) - at];
    await settled(() =>
      storage.transaction(async (txn) => {
        await txn.deleteAlarm();
        inside.push(await txn.getAlarm());
        throw new Error("no");
      }),
    );
    seen.push((await storage.getAlarm()) - at);
    await storage.transaction(async (txn) => {
      await txn.deleteAlarm();
    });
    seen.push(await storage.getAlarm());
    await storage.transaction(async (txn) => {
      await txn.setAlarm(at + 7);
    });
    seen.push((await storage.getAlarm()) - at);
    await storage.deleteAlarm();
    equal(seen, [[5, null], 0, 0, null, 7]);
  },
  async "an alarm set in transactionSync that throws"({ storage }) {
    const at = far();
    await storage.setAlarm(at);
    try {
      storage.transactionSync(() => {
        storage.setAlarm(at + 5);
        throw new Error("no");
      });
    } catch {}
    equal((await storage.getAlarm()) - at, 0);
    await storage.deleteAlarm();
  },
  async "options are taken"({ storage }) {
    const at = far();
    await storage.setAlarm(at, {
      allowConcurrency: true,
      allowUnconfirmed: true,
    });
    equal((await storage.getAlarm({ allowConcurrency: true })) - at, 0);
    await storage.deleteAlarm({ allowConcurrency: true });
    equal(await storage.getAlarm(), null);
  },
  async "deleteAlarm without an alarm"({ storage }) {
    equal(await settled(() => storage.deleteAlarm()), "undefined");
  },
  async "deleteAll and the alarm"({ storage }) {
    await storage.setAlarm(far());
    await storage.put("a", 1);
    await storage.deleteAll();
    equal([await storage.getAlarm(), (await storage.list()).size], [null, 0]);
  },
};

export class Probe extends probe(object) {
  alarm() {}
}

/** Has no handler. */
export class Silent extends DurableObject {
  async tries() {
    const { storage } = this.ctx;
    return [
      await settled(() => storage.setAlarm(far())),
      await settled(() => storage.getAlarm()),
      await settled(() => storage.deleteAlarm()),
      await settled(() => storage.transaction((txn) => txn.setAlarm(far()))),
    ];
  }
}

/** Sets an alarm in its constructor. */
export class Early extends DurableObject {
  fired = 0;
  constructor(ctx, env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      if (
        (await ctx.storage.getAlarm()) === null &&
        !(await ctx.storage.get("set"))
      ) {
        await ctx.storage.put("set", true);
        await ctx.storage.setAlarm(Date.now() + 30);
      }
    });
  }
  async alarm() {
    this.fired++;
  }
  async state() {
    return [this.fired, await this.ctx.storage.getAlarm()];
  }
}

/** Runs a list of steps in its alarm handler, a list for each run. */
export class Cell extends DurableObject {
  log = [];
  async alarm(info) {
    const { storage } = this.ctx;
    const steps = this.runs?.shift() ?? [];
    this.log.push(`run ${info.retryCount} ${info.isRetry}`);
    this.infos = [...(this.infos ?? []), info];
    for (const [step, value] of steps) {
      if (step === "get") this.log.push(`get ${await storage.getAlarm()}`);
      if (step === "set") await storage.setAlarm(Date.now() + value);
      if (step === "keep") await storage.setAlarm(this.at);
      if (step === "delete") await storage.deleteAlarm();
      if (step === "put") await storage.put("key", value);
      if (step === "wait") await scheduler.wait(value);
      if (step === "note") this.log.push(value);
      if (step === "later")
        this.ctx.waitUntil(
          scheduler.wait(value).then(() => this.log.push("later")),
        );
      if (step === "reject")
        this.ctx.waitUntil(Promise.reject(new Error("in waitUntil")));
      if (step === "throw") throw new Error("by the handler");
      if (step === "abort") this.ctx.abort("by the handler");
      if (step === "nothrowset") storage.setAlarm(Date.now() + value);
    }
    this.log.push("done");
  }
  async plan(ms, ...runs) {
    this.runs = runs;
    this.at = Date.now() + ms;
    await this.ctx.storage.setAlarm(this.at);
  }
  async read() {
    return this.log;
  }
  async at2() {
    return this.infos.map((info) => [
      Object.keys(info).sort(),
      info.scheduledTime - this.at,
      typeof info.scheduledTime,
    ]);
  }
  async note(what) {
    this.log.push(what);
  }
  async state() {
    const { storage } = this.ctx;
    const at = await storage.getAlarm();
    return [
      this.log,
      at === null ? null : Math.round((at - Date.now()) / 1000),
      (await storage.get("key")) ?? null,
    ];
  }
  async del() {
    await this.ctx.storage.deleteAlarm();
  }
  async move(ms) {
    await this.ctx.storage.setAlarm(Date.now() + ms);
  }
}

/** The log of a cell once it is `count` long. */
async function logged(stub, count, ms = 8_000) {
  for (const end = Date.now() + ms; Date.now() < end;) {
    const log = await stub.read();
    if (log.length >= count) break;
    await scheduler.wait(20);
  }
  await scheduler.wait(30);
  return stub.state();
}

const cell = (env, name) => env.CELL.getByName(name);

export default suite({
  object,
  worker: {
    async "what the handler is told"({ env }) {
      const stub = cell(env, "told");
      await stub.plan(20);
      await logged(stub, 2);
      equal(await stub.at2(), [
        [["isRetry", "retryCount", "scheduledTime"], 0, "number"],
      ]);
    },
    async "getAlarm in the handler, before and after setting one"({ env }) {
      const stub = cell(env, "get");
      await stub.plan(10, [["get"], ["set", 3_600_000], ["note", "set"]]);
      equal(await logged(stub, 4), [
        ["run 0 false", "get null", "set", "done"],
        3600,
        null,
      ]);
    },
    async "a handler that sets and deletes again"({ env }) {
      const stub = cell(env, "setdelete");
      await stub.plan(10, [["set", 3_600_000], ["delete"], ["get"]]);
      equal(await logged(stub, 3), [
        ["run 0 false", "get null", "done"],
        null,
        null,
      ]);
    },
    async "a handler that throws keeps its writes and is tried again"({ env }) {
      const stub = cell(env, "throws");
      await stub.plan(10, [["put", "kept"], ["throw"]], [["note", "again"]]);
      equal(await logged(stub, 4), [
        ["run 0 false", "run 1 true", "again", "done"],
        null,
        "kept",
      ]);
    },
    async "a handler that sets a new alarm and throws"({ env }) {
      const stub = cell(env, "supersedes");
      await stub.plan(10, [["set", 300], ["throw"]], [["get"]]);
      equal(await logged(stub, 4), [
        ["run 0 false", "run 0 false", "get null", "done"],
        null,
        null,
      ]);
    },
    async "a handler that deletes the alarm and throws"({ env }) {
      const stub = cell(env, "deletes");
      await stub.plan(10, [["delete"], ["throw"]]);
      equal(await logged(stub, 3, 4_000), [["run 0 false"], null, null]);
    },
    async "a pending retry is replaced by a new alarm"({ env }) {
      const stub = cell(env, "replaces");
      await stub.plan(10, [["throw"]], [["note", "second"]]);
      await logged(stub, 1);
      await scheduler.wait(100);
      await stub.move(50);
      const [log, at] = await logged(stub, 4);
      // Whether the new alarm is told that it took a retry's place is left to the runtime.
      equal(
        [log[0], ...log.slice(2), at],
        ["run 0 false", "second", "done", null],
      );
    },
    async "a pending retry is deleted"({ env }) {
      const stub = cell(env, "deleted");
      await stub.plan(10, [["throw"]]);
      await logged(stub, 1);
      await scheduler.wait(100);
      const between = (await stub.state())[1] === null;
      await stub.del();
      equal(
        [between, await logged(stub, 2, 3_500)],
        [false, [["run 0 false"], null, null]],
      );
    },
    async "two handlers of one object never overlap"({ env }) {
      const stub = cell(env, "overlap");
      await stub.plan(10, [
        ["set", 10],
        ["wait", 300],
        ["note", "waited"],
      ]);
      equal(await logged(stub, 5), [
        ["run 0 false", "waited", "done", "run 0 false", "done"],
        null,
        null,
      ]);
    },
    async "requests run while a handler waits"({ env }) {
      const stub = cell(env, "interleaves");
      await stub.plan(10, [
        ["wait", 300],
        ["note", "waited"],
      ]);
      await logged(stub, 1);
      await stub.note("request");
      equal(await logged(stub, 4), [
        ["run 0 false", "request", "waited", "done"],
        null,
        null,
      ]);
    },
    async "an alarm moved while its handler runs fires again"({ env }) {
      const stub = cell(env, "moved");
      await stub.plan(10, [["wait", 300]]);
      await logged(stub, 1);
      await stub.move(10);
      equal(await logged(stub, 4), [
        ["run 0 false", "done", "run 0 false", "done"],
        null,
        null,
      ]);
    },
    async "an alarm deleted while its handler runs"({ env }) {
      const stub = cell(env, "deletedmeanwhile");
      await stub.plan(10, [["wait", 200], ["throw"]]);
      await logged(stub, 1);
      await stub.del();
      equal(await logged(stub, 3, 3_500), [["run 0 false"], null, null]);
    },
    async "waitUntil in a handler"({ env }) {
      const stub = cell(env, "waituntil");
      await stub.plan(10, [["later", 100]]);
      equal(await logged(stub, 3), [
        ["run 0 false", "done", "later"],
        null,
        null,
      ]);
    },
    async "waitUntil that rejects is no failure"({ env }) {
      const stub = cell(env, "rejects");
      await stub.plan(10, [["reject"]]);
      equal(await logged(stub, 3, 3_000), [
        ["run 0 false", "done"],
        null,
        null,
      ]);
    },
    async "an alarm that is not awaited is set all the same"({ env }) {
      const stub = cell(env, "unawaited");
      await stub.plan(10, [["nothrowset", 3_600_000]]);
      equal(await logged(stub, 2), [["run 0 false", "done"], 3600, null]);
    },
    async "an alarm moved before it is due fires once, at its new time"({
      env,
    }) {
      const stub = cell(env, "movedbefore");
      await stub.plan(60);
      await stub.plan(250);
      await scheduler.wait(150);
      const early = await stub.read();
      equal(
        [early, await logged(stub, 2)],
        [[], [["run 0 false", "done"], null, null]],
      );
    },
    async "an alarm deleted before it is due"({ env }) {
      const stub = cell(env, "deletedbefore");
      await stub.plan(60);
      await stub.del();
      await scheduler.wait(200);
      equal(await stub.state(), [[], null, null]);
    },
    async "a class without a handler"({ env }) {
      equal(await env.SILENT.getByName("s").tries(), [
        "TypeError: Your Durable Object class must have an alarm() handler in order to call setAlarm()",
        "null",
        "undefined",
        "TypeError: Your Durable Object class must have an alarm() handler in order to call setAlarm()",
      ]);
    },
    async "an alarm set in the constructor"({ env }) {
      const stub = env.EARLY.getByName("e");
      for (let i = 0; i < 100; i++) {
        if ((await stub.state())[0] > 0) break;
        await scheduler.wait(20);
      }
      equal(await stub.state(), [1, null]);
    },
  },
});
