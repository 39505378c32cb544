// config: {"objects": {"CELL": "Cell", "PLAIN": "Plain"}}
import { DurableObject, RpcTarget } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Session extends RpcTarget {
  #log = [];
  add(x) {
    this.#log.push(x);
    return this.#log.length;
  }
  all() {
    return this.#log;
  }
}

class Odd extends Error {
  name = "Odd";
  extra = { deep: [1] };
}

export class Cell extends DurableObject {
  own = 1;
  list = [];
  add(a, b) {
    return a + b;
  }
  echo(value) {
    return value;
  }
  nothing() {}
  push(x) {
    this.list.push(x);
    return [...this.list];
  }
  async slowPush(x) {
    await scheduler.wait(20);
    return this.push(x);
  }
  throws() {
    throw new TypeError("typed");
  }
  throwsOdd() {
    throw new Odd("strange");
  }
  throwsText() {
    throw "just text";
  }
  session() {
    return new Session();
  }
  async callBack(callback) {
    return [await callback(1), await callback(2)];
  }
  response() {
    return new Response("r", { status: 202, headers: { a: "b" } });
  }
  stream() {
    return new Response("streamed").body;
  }
  symbol() {
    return Symbol("x");
  }
  nested() {
    return { deep: { fn: (x) => x + 1 } };
  }
  who(stub) {
    return stub.add(20, 22);
  }
  fetch() {
    return new Response("fetch");
  }
  alarm() {}
}

export class Plain {
  constructor(ctx) {
    this.ctx = ctx;
  }
  fetch() {
    return new Response(`plain ${typeof this.ctx.storage.get}`);
  }
  method() {
    return 1;
  }
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());

export default suite({
  worker: {
    async "arguments and results"({ env }) {
      equal(
        [await fresh(env).add(1, 2), await fresh(env).nothing()],
        [3, undefined],
      );
    },
    async "values keep their types"({ env }) {
      const value = {
        d: new Date(7),
        m: new Map([["k", new Set([1])]]),
        b: new Uint8Array([9]),
        u: undefined,
        n: null,
        i: 10n,
        e: new RangeError("x"),
        r: /a/g,
      };
      equal(await fresh(env).echo(value), value);
    },
    async "errors keep name and message and are remote"({ env }) {
      await rejects(fresh(env).throws(), {
        name: "TypeError",
        message: "typed",
        remote: true,
      });
    },
    async "own properties of errors pass"({ env }) {
      await rejects(fresh(env).throwsOdd(), {
        name: "Odd",
        message: "strange",
        remote: true,
        extra: { deep: [1] },
      });
    },
    async "a thrown text becomes an Error"({ env }) {
      const caught = await fresh(env)
        .throwsText()
        .catch((error) => error);
      equal(
        [caught.name, caught.message, caught.remote],
        ["Error", "just text", true],
      );
    },
    async "a missing method is named"({ env }) {
      await rejects(fresh(env).none(), {
        name: "TypeError",
        message: 'The RPC receiver does not implement the method "none".',
      });
    },
    async "instance properties are not reachable"({ env }) {
      await rejects(async () => await fresh(env).own, {
        name: "TypeError",
        message: 'The RPC receiver does not implement the method "own".',
      });
    },
    async "reserved names are refused"({ env }) {
      await rejects(async () => await fresh(env).alarm(), {
        name: "TypeError",
        message: /is a reserved method/,
      });
      await rejects(async () => await fresh(env).constructor(), {});
    },
    async "calls of one stub arrive in order"({ env }) {
      const stub = fresh(env);
      const all = await Promise.all([1, 2, 3].map((x) => stub.push(x)));
      equal(all, [[1], [1, 2], [1, 2, 3]]);
    },
    async "a slow call does not hold the next back"({ env }) {
      const stub = fresh(env);
      const slow = stub.slowPush("slow");
      equal(await stub.push("fast"), ["fast"]);
      equal(await slow, ["fast", "slow"]);
    },
    async "an RpcTarget lives on the other side"({ env }) {
      using session = await fresh(env).session();
      await session.add("a");
      equal([await session.add("b"), await session.all()], [2, ["a", "b"]]);
    },
    async "calls are pipelined"({ env }) {
      equal(await fresh(env).session().add("x"), 1);
      equal(await fresh(env).nested().deep.fn(1), 2);
    },
    async "functions can be passed"({ env }) {
      equal(await fresh(env).callBack((x) => x * 10), [10, 20]);
    },
    async "stubs can be passed"({ env }) {
      equal(await fresh(env).who(fresh(env)), 42);
    },
    async "Response and ReadableStream pass"({ env }) {
      const response = await fresh(env).response();
      equal(
        [response.status, response.headers.get("a"), await response.text()],
        [202, "b", "r"],
      );
      equal(await new Response(await fresh(env).stream()).text(), "streamed");
    },
    async "what cannot be cloned is a DataCloneError"({ env }) {
      await rejects(fresh(env).symbol(), { name: "DataCloneError" });
      await rejects(async () => await fresh(env).echo(Symbol("x")), {
        name: "DataCloneError",
      });
    },
    async "a class that does not extend DurableObject has fetch only"({ env }) {
      const stub = env.PLAIN.getByName("p");
      equal(await (await stub.fetch("http://x/")).text(), "plain function");
      await rejects(async () => await stub.method(), {
        name: "TypeError",
        message:
          /^The receiving Durable Object does not support RPC, because its class was not declared with `extends DurableObject`/,
      });
    },
    async "a disposed stub is refused"({ env }) {
      const session = await fresh(env).session();
      session[Symbol.dispose]();
      await rejects(async () => await session.add(1), {
        name: "Error",
        message: "RPC stub used after being disposed.",
      });
    },
  },
});
