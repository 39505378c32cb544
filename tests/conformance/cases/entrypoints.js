// config: {"services": [{"binding": "SELF"}, {"binding": "NAMED", "entrypoint": "Named", "props": {"who": "me"}}, {"binding": "PLAIN", "entrypoint": "plain"}]}
import { WorkerEntrypoint, RpcTarget } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Counter extends RpcTarget {
  #value = 0;
  up(by = 1) {
    return (this.#value += by);
  }
  get value() {
    return this.#value;
  }
}

export class Named extends WorkerEntrypoint {
  own = "an instance property";
  async fetch(request) {
    return new Response(
      `named ${new URL(request.url).pathname} ${this.ctx.props.who}`,
    );
  }
  add(a, b) {
    return a + b;
  }
  who() {
    return this.ctx.props.who;
  }
  echo(...args) {
    return args;
  }
  counter() {
    return new Counter();
  }
  fn() {
    return (x) => x * 2;
  }
  async call(callback) {
    return callback("from the server");
  }
  fail() {
    throw Object.assign(new RangeError("too far"), { extra: 1 });
  }
  get getter() {
    return "got";
  }
}

export const plain = {
  fetch() {
    return new Response("plain");
  },
};

const checks = suite({
  worker: {
    async "a service binding calls fetch"({ env }) {
      equal(
        await (await env.NAMED.fetch("http://x/path")).text(),
        "named /path me",
      );
      equal(await (await env.PLAIN.fetch("http://x/")).text(), "plain");
      equal(
        await (await env.SELF.fetch("http://x/self")).text(),
        "fallback /self",
      );
    },
    async "methods and props"({ env }) {
      equal([await env.NAMED.add(1, 2), await env.NAMED.who()], [3, "me"]);
    },
    async "arguments are cloned"({ env }) {
      const args = [
        new Date(1),
        new Map([[1, 2]]),
        [undefined, null],
        new Uint8Array([1]),
        5n,
      ];
      equal([...(await env.NAMED.echo(...args))], args);
    },
    async "an RpcTarget is a stub with state"({ env }) {
      using counter = await env.NAMED.counter();
      equal(
        [await counter.up(), await counter.up(5), await counter.value],
        [1, 6, 6],
      );
    },
    async "calls are pipelined"({ env }) {
      equal(await env.NAMED.counter().up(7), 7);
    },
    async "functions are returned and passed"({ env }) {
      using double = await env.NAMED.fn();
      equal(await double(21), 42);
      equal(await env.NAMED.call((text) => `${text}!`), "from the server!");
    },
    async "getters are read as promises"({ env }) {
      equal(await env.NAMED.getter, "got");
    },
    async "errors keep name and message"({ env }) {
      await rejects(env.NAMED.fail(), {
        name: "RangeError",
        message: "too far",
        remote: true,
      });
    },
    async "a missing method and an instance property are refused"({ env }) {
      await rejects(env.NAMED.none(), {
        name: "TypeError",
        message: 'The RPC receiver does not implement the method "none".',
      });
      await rejects(async () => await env.NAMED.own, {
        name: "TypeError",
        message: /does not implement/,
      });
    },
    async "ctx.exports has the entrypoints"({ ctx }) {
      equal(Object.keys(ctx.exports).sort(), ["Named", "default", "plain"]);
      equal(await ctx.exports.Named.add(2, 3), 5);
      equal(await ctx.exports.Named({ props: { who: "you" } }).who(), "you");
    },
  },
  fallback: (request) =>
    new Response(`fallback ${new URL(request.url).pathname}`),
});

export default checks;
