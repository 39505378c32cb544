// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "SELF"}, {"binding": "NAMED", "entrypoint": "Named", "props": {"who": "me"}}, {"binding": "PLAIN", "entrypoint": "plain"}]}
import { DurableObject, RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Base extends WorkerEntrypoint {
  inherited() {
    return "inherited";
  }
}

export class Named extends Base {
  own = () => "own";
  alarm() {}
  scheduled() {
    return "a method like others";
  }
  tail() {
    return "another";
  }
  props() {
    return this.ctx.props;
  }
  get value() {
    return { deep: [1] };
  }
  async callSelf(x) {
    return this.ctx.exports.Named({ props: { x } }).props();
  }
  static onTheClass() {}
}

class Target extends RpcTarget {
  hello() {
    return "hello";
  }
  fetch() {
    return "a method of a target";
  }
  alarm() {
    return "likewise";
  }
}

export const plain = {
  number: 1,
  async method(x, env, ctx) {
    return [x, typeof env.CELL, typeof ctx.waitUntil, arguments.length];
  },
  nested: { method: (...args) => args.length },
  get getter() {
    return 3;
  },
  alarm() {},
  target: new Target(),
};

export class Cell extends DurableObject {
  own = 1;
  alarm() {}
  webSocketMessage() {}
  connect() {}
  target() {
    return new Target();
  }
  get size() {
    return this.ctx.id.toString().length;
  }
  useExports() {
    return this.ctx.exports.Named({ props: { from: "cell" } }).props();
  }
  #secret() {}
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const missing = (name) => ({
  name: "TypeError",
  message: `The RPC receiver does not implement the method "${name}".`,
  remote: true,
});
const reserved = (name) => ({
  name: "TypeError",
  message: `'${name}' is a reserved method and cannot be called over RPC.`,
  remote: true,
});

export default suite({
  worker: {
    async "methods are inherited"({ env }) {
      equal(await env.NAMED.inherited(), "inherited");
    },
    async "instance properties are out of reach"({ env }) {
      await rejects(async () => env.NAMED.own(), missing("own"));
      await rejects(async () => await fresh(env).own, missing("own"));
    },
    async "names of Object.prototype and of the class are none"({ env }) {
      await rejects(async () => env.NAMED.onTheClass(), missing("onTheClass"));
      for (const name of ["apply", "bind", "name", "prototype"]) {
        await rejects(async () => env.NAMED[name](), missing(name));
      }
      await rejects(async () => fresh(env)["#secret"](), missing("#secret"));
    },
    async "handlers of events are reserved"({ env }) {
      await rejects(async () => env.NAMED.alarm(), reserved("alarm"));
      await rejects(async () => env.NAMED.dup(), reserved("dup"));
      for (const name of ["alarm", "webSocketMessage", "webSocketClose"]) {
        await rejects(async () => fresh(env)[name](), reserved(name));
      }
      await rejects(async () => env.PLAIN.alarm(1), reserved("alarm"));
    },
    async "other handlers are methods like any"({ env }) {
      equal(
        [await env.NAMED.scheduled(), await env.NAMED.tail()],
        ["a method like others", "another"],
      );
      await rejects(async () => env.NAMED.queue(), missing("queue"));
    },
    async "a stub of a target has no reserved names"({ env }) {
      using target = await fresh(env).target();
      equal(
        [await target.fetch(), await target.alarm()],
        ["a method of a target", "likewise"],
      );
    },
    async "getters are read, through objects"({ env }) {
      equal((await env.NAMED.value).deep, [1]);
      equal([await fresh(env).size, await env.PLAIN.getter], [64, 3]);
    },
    async "a plain object gets its environment and context"({ env }) {
      equal([...(await env.PLAIN.method("x"))], ["x", "object", "function", 3]);
      equal(await env.PLAIN.nested.method(1), 3);
      equal(await env.PLAIN.number, 1);
    },
    async "a plain object's methods take one argument"({ env }) {
      for (const args of [[], [1, 2]]) {
        await rejects(async () => env.PLAIN.nested.method(...args), {
          name: "TypeError",
          message:
            /^Attempted to call RPC function "nested.method" with the wrong number of arguments\. /,
          remote: true,
        });
      }
    },
    async "a plain object's targets are called as targets"({ env }) {
      equal(await env.PLAIN.target.hello(1), "hello");
      await rejects(async () => env.PLAIN.target.fetch(1), reserved("fetch"));
      await rejects(async () => env.PLAIN.target.none(1), missing("none"));
      await rejects(async () => env.PLAIN.none(1), missing("none"));
      await rejects(async () => env.PLAIN.number(1), {
        message: '"number" is not a function.',
      });
    },
    async props({ env, ctx }) {
      equal(await env.NAMED.props(), { who: "me" });
      equal(await ctx.exports.Named({ props: { a: [1] } }).props(), { a: [1] });
      equal(await ctx.exports.Named.props(), {});
    },
    async "ctx.exports leads back from an entrypoint and an object"({ env }) {
      equal(await env.NAMED.callSelf(2), { x: 2 });
      equal(await fresh(env).useExports(), { from: "cell" });
    },
    async "the default export is called like others"({ env }) {
      await rejects(async () => env.SELF.none(1), missing("none"));
    },
    async "a stub of another request is refused"({ env }) {
      const first = await (await env.SELF.fetch("http://x/keep")).text();
      const second = await (await env.SELF.fetch("http://x/use")).text();
      equal(first, "kept");
      equal(
        second.startsWith(
          "Cannot perform I/O on behalf of a different request.",
        ),
        true,
      );
    },
  },
  async fallback(request, env) {
    if (new URL(request.url).pathname === "/keep") {
      globalThis.kept = await fresh(env).target();
      return new Response("kept");
    }
    try {
      return new Response(await globalThis.kept.alarm());
    } catch (error) {
      return new Response(error.message);
    }
  },
});
