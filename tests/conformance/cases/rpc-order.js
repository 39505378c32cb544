// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import { DurableObject, RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Log extends RpcTarget {
  #entries = [];
  async add(entry, ms = 0) {
    this.#entries.push(entry);
    if (ms > 0) await scheduler.wait(ms);
    return this.#entries.length;
  }
  all() {
    return this.#entries;
  }
}

export class Named extends WorkerEntrypoint {
  log() {
    return new Log();
  }
  call(f, ...args) {
    return f(...args);
  }
  async slowCall(f, ms) {
    await scheduler.wait(ms);
    return f(ms);
  }
}

export class Cell extends DurableObject {
  log() {
    return new Log();
  }
  lateLog() {
    return scheduler.wait(20).then(() => new Log());
  }
  block(ms) {
    return this.ctx.blockConcurrencyWhile(() => scheduler.wait(ms));
  }
  ping() {
    return "pong";
  }
  callInSection(named) {
    return this.ctx.blockConcurrencyWhile(() => named.call((x) => x + 1, 1));
  }
  callBack(named, ms) {
    return named.slowCall((x) => x + 1, ms);
  }
  async burst(f, count) {
    const calls = [];
    for (let i = 0; i < count; i++) calls.push(f(i));
    return Promise.all(calls);
  }
  counter() {
    const { storage } = this.ctx;
    return () => {
      const n = (storage.kv.get("n") ?? 0) + 1;
      storage.kv.put("n", n);
      return n;
    };
  }
  stored() {
    return this.ctx.storage.get("n");
  }
  async read(stream) {
    let text = "";
    for await (const chunk of stream.pipeThrough(new TextDecoderStream()))
      text += chunk;
    return text;
  }
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const numbers = (count) => Array.from({ length: count }, (_, i) => i);

export default suite({
  worker: {
    async "calls on one stub arrive in order, whatever they take"({ env }) {
      for (const callee of [env.NAMED, fresh(env)]) {
        using log = await callee.log();
        await Promise.all(numbers(50).map((i) => log.add(i, 20 - (i % 20))));
        equal([...(await log.all())], numbers(50));
      }
    },
    async "calls on a promise arrive in order, before those on its result"({
      env,
    }) {
      const promise = fresh(env).lateLog();
      const early = numbers(5).map((i) => promise.add(i));
      using log = await promise;
      const late = log.add("late");
      await Promise.all([...early, late]);
      equal([...(await log.all())], [...numbers(5), "late"]);
    },
    async "callbacks arrive in order"({ env }) {
      const seen = [];
      const f = async (i) => {
        seen.push(i);
        await scheduler.wait(10 - (i % 10));
        return i;
      };
      const returned = await fresh(env).burst(f, 30);
      equal([[...returned], seen], [numbers(30), numbers(30)]);
    },
    async "two hundred calls at once on a stub"({ env }) {
      using log = await fresh(env).log();
      const all = await Promise.all(numbers(200).map((i) => log.add(i)));
      equal(all.at(-1), 200);
    },
    async "a critical section holds calls on stubs back"({ env }) {
      const cell = fresh(env);
      using log = await cell.log();
      const order = [];
      const block = cell.block(150).then(() => order.push("section"));
      await scheduler.wait(50);
      await Promise.all([
        block,
        log.add(1).then(() => order.push("stub")),
        cell.ping().then(() => order.push("call")),
      ]);
      equal(order[0], "section");
    },
    async "a critical section lets its own callbacks in"({ env }) {
      equal(await fresh(env).callInSection(env.NAMED), 2);
    },
    async "a callback of before waits for a critical section"({ env }) {
      const cell = fresh(env);
      const order = [];
      const back = cell.callBack(env.NAMED, 60).then(() => order.push("back"));
      await scheduler.wait(20);
      const block = cell.block(200).then(() => order.push("section"));
      await Promise.all([back, block]);
      equal(order, ["section", "back"]);
    },
    async "what a call on a stub wrote is there"({ env }) {
      const cell = fresh(env);
      using count = await cell.counter();
      await Promise.all(numbers(20).map(() => count()));
      equal([await count(), await cell.stored()], [21, 21]);
    },
    async "a stub serves for longer than the call that gave it"({ env }) {
      for (const callee of [env.NAMED, fresh(env)]) {
        using log = await callee.log();
        await scheduler.wait(300);
        equal(await log.add("later"), 1);
      }
    },
    async "calls between two objects, in both directions at once"({ env }) {
      const [a, b] = [fresh(env), fresh(env)];
      using fromA = await a.counter();
      using fromB = await b.counter();
      const both = await Promise.all([b.burst(fromA, 25), a.burst(fromB, 25)]);
      equal(
        both.map((list) => list.at(-1)),
        [25, 25],
      );
    },
  },
});
