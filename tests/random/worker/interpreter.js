// Runs programs of storage calls (see ../generate.mjs) and answers what each step gave.
import { DurableObject } from "cloudflare:workers";

/** A text that tells values apart. */
function show(value) {
  if (value === undefined) return "undefined";
  if (typeof value === "bigint") return `${value}n`;
  if (value instanceof Error) return `${value.name}: ${value.message}`;
  if (value instanceof Date) return `Date(${value.getTime()})`;
  if (value instanceof Map) return `Map(${[...value].map(show).join(" ")})`;
  if (value instanceof Set) return `Set(${[...value].map(show).join(" ")})`;
  if (value instanceof ArrayBuffer) return show(new Uint8Array(value));
  if (value instanceof Uint8Array) return `bytes(${value})`;
  if (Array.isArray(value)) return `[${value.map(show).join(", ")}]`;
  if (value === null || typeof value !== "object") return JSON.stringify(value);
  const entries = Object.entries(value).map(([k, v]) => `${k}: ${show(v)}`);
  return `{${entries.join(", ")}}`;
}

/** Makes a value of the program: JSON has no word for some of them. */
function make(value) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value)) return value.map(make);
  const [kind] = Object.keys(value);
  if (kind === "$undefined") return undefined;
  if (kind === "$date") return new Date(value[kind]);
  if (kind === "$map") return new Map(make(value[kind]));
  if (kind === "$bytes") return new Uint8Array(value[kind]);
  if (kind === "$bigint") return BigInt(value[kind]);
  if (kind === "$function") return () => {};
  return Object.fromEntries(
    Object.entries(value).map(([k, v]) => [k, make(v)]),
  );
}

/** The plan: what `deleteAll` and the like may meet. */
const asynchronous = {
  get: (target, key) => target.get(key),
  put: (target, ...rest) => target.put(...rest),
  delete: async (target, key) => target.delete(key),
  list: (target, options) => target.list(options),
  getAlarm: (target) => target.getAlarm(),
  setAlarm: (target, at) => target.setAlarm(at),
  deleteAlarm: (target) => target.deleteAlarm(),
};

export class Machine extends DurableObject {
  cursors = new Map();
  pending = [];

  alarm() {}

  /** Runs the steps of one event. */
  async run({ steps, plant }) {
    this.plant = plant;
    const trace = [];
    await this.steps(steps, trace, this.ctx.storage);
    return trace;
  }

  async steps(steps, trace, target) {
    for (const step of steps) {
      if (step.op === "throw") throw new Error(step.args[0]);
      const label = `${step.op} ${JSON.stringify(step.args ?? [])}`;
      const outcome = async () => {
        try {
          return show(await this.step(step, trace, target));
        } catch (error) {
          if (error?.passes) throw error;
          return `throws ${show(error)}`;
        }
      };
      if (step.later) {
        this.pending.push(outcome().then((text) => `${label} = ${text}`));
      } else if (step.op === "join") {
        for (const text of await Promise.all(this.pending.splice(0))) {
          trace.push(`joined ${text}`);
        }
      } else {
        trace.push(`${label} = ${await outcome()}`);
      }
    }
  }

  step({ op, args = [], steps, through, end }, trace, target) {
    const { storage } = this.ctx;
    const { sql, kv } = storage;
    const values = args.map(make);
    if (this.plant && op === "delete") return false;
    if (asynchronous[op]) {
      return asynchronous[op](through ? storage : target, ...values);
    }
    switch (op) {
      case "kv.get":
        return kv.get(...values);
      case "kv.put":
        return kv.put(...values);
      case "kv.delete":
        return kv.delete(...values);
      case "kv.list":
        return [...kv.list(...values)];
      case "sql":
        return sql.exec(...values).toArray();
      case "sql.raw": {
        const cursor = sql.exec(...values);
        return [cursor.columnNames, cursor.raw().toArray()];
      }
      case "sql.one":
        return sql.exec(...values).one();
      case "sql.open":
        this.cursors.set(values[0], sql.exec(...values.slice(1)));
        return "opened";
      case "sql.next":
        return this.cursors.get(values[0])?.next();
      case "sql.rest":
        return this.cursors.get(values[0])?.toArray();
      case "transactionSync":
        return this.sync(steps, end, trace);
      case "transaction":
        return storage.transaction(async (txn) => {
          await this.steps(steps, trace, txn);
          if (end === "throw") throw new Error("the end of a transaction");
          if (end === "rollback") txn.rollback();
          return end;
        });
      case "block":
        return this.ctx.blockConcurrencyWhile(async () => {
          await this.steps(steps, trace, storage);
          return "the end of a block";
        });
      case "deleteAll":
        // Kept at once: on workerd no reset undoes it, on celld one of the same turn does.
        return storage.deleteAll().then(() => {
          this.touch();
          return storage.sync();
        });
      case "touch":
        return this.touch();
      case "sync":
        return storage.sync();
      case "turn":
        return null;
      case "wait":
        return scheduler.wait(0);
      case "abort":
        return this.ctx.abort("aborted by the program");
      default:
        throw new Error(`no such step: ${op}`);
    }
  }

  /** Uses all of the engine's tables: workerd makes them when they are used, celld at first. */
  touch() {
    const { storage } = this.ctx;
    storage.kv.put("touched", 1);
    storage.kv.delete("touched");
    storage.setAlarm(4_102_444_800_000);
    storage.deleteAlarm();
  }

  /** Steps without promises, in a transaction. */
  sync(steps, end, trace) {
    return this.ctx.storage.transactionSync(() => {
      for (const step of steps) {
        const label = `${step.op} ${JSON.stringify(step.args ?? [])}`;
        let text;
        try {
          text = show(this.step(step, trace, this.ctx.storage));
        } catch (error) {
          text = `throws ${show(error)}`;
        }
        trace.push(`${label} = ${text}`);
      }
      if (end === "throw") throw new Error("the end of a transaction");
      return end;
    });
  }
}

/** Runs a program event by event, each on a fresh stub, as what comes after a reset needs it. */
async function runProgram(env, { name, events }, plant) {
  const traces = [];
  await env.MACHINE.getByName(name).run({ steps: [{ op: "touch" }] });
  for (const steps of events) {
    const stub = env.MACHINE.getByName(name);
    try {
      traces.push(await stub.run({ steps, plant }));
    } catch (error) {
      traces.push([`the event failed: ${show(error)}`]);
    }
  }
  // Nothing of the program stays in memory.
  await env.MACHINE.getByName(name)
    .run({ steps: [{ op: "abort" }] })
    .catch(() => {});
  return traces;
}

export default {
  async fetch(request, env) {
    if (request.method !== "POST") return new Response("ready");
    const { programs, plant } = await request.json();
    const runs = programs.map((program) => runProgram(env, program, plant));
    return Response.json(await Promise.all(runs));
  },
};
