// config: {"objects": {"CELL": "Cell", "OTHER": "Other"}}
import { DurableObject } from "cloudflare:workers";
import { suite } from "../support/check.js";

export class Other extends DurableObject {
  async answer(ms) {
    await scheduler.wait(ms);
    return "answer";
  }
  async fetch() {
    return new Response("fetched");
  }
}

export class Cell extends DurableObject {
  log = [];
  note(text) {
    this.log.push(text);
  }
  taken() {
    return this.log.splice(0);
  }
  /** Counts through storage, with `options` on each operation. */
  async count(options) {
    const n = (await this.ctx.storage.get("n", options)) ?? 0;
    await this.ctx.storage.put("n", n + 1, options);
    return n + 1;
  }
  async countBulk() {
    const n = (await this.ctx.storage.get(["n"])).get("n") ?? 0;
    await this.ctx.storage.put({ n: n + 1, other: n });
    return n + 1;
  }
  async countList() {
    const n = (await this.ctx.storage.list({ prefix: "n" })).get("n") ?? 0;
    await this.ctx.storage.delete("other");
    await this.ctx.storage.put("n", n + 1);
    return n + 1;
  }
  async countAlarm() {
    const at = (await this.ctx.storage.getAlarm()) ?? 4_102_444_800_000;
    await this.ctx.storage.setAlarm(at + 1);
    return at - 4_102_444_800_000;
  }
  alarm() {}
  async countSql() {
    const { sql } = this.ctx.storage;
    sql.exec("CREATE TABLE IF NOT EXISTS t (n)");
    const { n } = sql.exec("SELECT count(*) AS n FROM t").one();
    sql.exec("INSERT INTO t VALUES (1)");
    return n;
  }
  async countTransaction() {
    return this.ctx.storage.transaction(async (txn) => {
      const n = (await txn.get("n")) ?? 0;
      await scheduler.wait(2);
      await txn.put("n", n + 1);
      return n + 1;
    });
  }
  async countOverCall() {
    const n = (await this.ctx.storage.get("n")) ?? 0;
    await this.env.OTHER.getByName("o").answer(5);
    await this.ctx.storage.put("n", n + 1);
    return n + 1;
  }
  async countOverFetch() {
    const n = (await this.ctx.storage.get("n")) ?? 0;
    await this.env.OTHER.getByName("o").fetch("http://x/");
    await this.ctx.storage.put("n", n + 1);
    return n + 1;
  }
  async countOverTimer() {
    const n = (await this.ctx.storage.get("n")) ?? 0;
    await scheduler.wait(5);
    await this.ctx.storage.put("n", n + 1);
    return n + 1;
  }
  /** A timer and an answer become due while a block is open. */
  async blocked() {
    const timer = new Promise((resolve) =>
      setTimeout(() => {
        this.note("timer");
        resolve();
      }, 5),
    );
    const call = this.env.OTHER.getByName("o")
      .answer(5)
      .then(() => this.note("answer"));
    await this.ctx.blockConcurrencyWhile(async () => {
      this.note("block begins");
      await scheduler.wait(40);
      this.note("block ends");
    });
    await Promise.all([timer, call]);
    return this.taken();
  }
  async begunInside() {
    await this.ctx.blockConcurrencyWhile(async () => {
      await scheduler.wait(5);
      await this.env.OTHER.getByName("o").answer(1);
      const response = await this.env.OTHER.getByName("o").fetch("http://x/");
      this.note(await response.text());
    });
    return this.taken();
  }
  async order() {
    const { storage } = this.ctx;
    const done = [];
    const mark = (name, promise) => promise.then(() => done.push(name));
    await Promise.all([
      mark("put", storage.put("a", 1)),
      mark("get", storage.get("a")),
      mark("list", storage.list()),
      mark("delete", storage.delete("a")),
      mark("get again", storage.get("a")),
      mark("microtask", Promise.resolve()),
    ]);
    return done;
  }
}

const together = async (stub, method, ...rest) =>
  (
    await Promise.all(Array.from({ length: 10 }, () => stub[method](...rest)))
  ).sort((a, b) => a - b);

const counting = (method, ...rest) =>
  async function ({ env }) {
    const name = `${method} ${JSON.stringify(rest)}`;
    return together(env.CELL.getByName(name), method, ...rest);
  };

export default suite({
  worker: {
    "get and put keep other events out": counting("count"),
    "so do get and put with options": counting("count", { noCache: true }),
    "so do bulk operations": counting("countBulk"),
    "so do list and delete": counting("countList"),
    "so do alarms": counting("countAlarm"),
    "SQL has no awaits": counting("countSql"),
    "transactions are one after the other": counting("countTransaction"),
    "a call lets them in": counting("countOverCall"),
    "a fetch lets them in": counting("countOverFetch"),
    "a timer lets them in": counting("countOverTimer"),
    "timers and answers wait for a block": ({ env }) =>
      env.CELL.getByName("blocked").blocked(),
    "what a block began runs inside it": ({ env }) =>
      env.CELL.getByName("inside").begunInside(),
    async "events during a block come after it, in order"({ env }) {
      const stub = env.CELL.getByName("events");
      const blocked = stub.blocked();
      const notes = ["one", "two", "three"].map((text) => stub.note(text));
      const inside = await blocked;
      await Promise.all(notes);
      const rest = await stub.taken();
      return [inside.slice(0, 2), [...inside.slice(2), ...rest].sort()];
    },
  },
});
