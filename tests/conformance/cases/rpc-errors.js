// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import { DurableObject, RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Target extends RpcTarget {
  fails() {
    throw new RangeError("of a target");
  }
  works() {
    return "works";
  }
}

const thrown = {
  own: () =>
    Object.assign(new TypeError("bad", { cause: "c" }), { extra: { a: 1 } }),
  flags: () =>
    Object.assign(new Error("flags"), {
      retryable: true,
      overloaded: true,
      remote: false,
    }),
  named() {
    return Object.assign(new TypeError("custom"), { name: "My", data: [1] });
  },
  nested: () => new Error("outer", { cause: new RangeError("inner") }),
  dom: () => new DOMException("dm", "AbortError"),
  aggregate: () => new AggregateError([new Error("a1")], "ag"),
  silent: () => new Error(),
  partly: () => Object.assign(new Error("partly"), { f: () => 1, kept: 2 }),
  text: () => "text",
  nothing: () => null,
  absent: () => undefined,
  object: () => ({ a: 1 }),
};

const methods = {
  raise(name) {
    throw thrown[name]();
  },
  target: () => new Target(),
  call: (f) => f(),
  async callAndTell(f) {
    try {
      await f();
    } catch (error) {
      return [error.name, error.message, error.remote, error.code];
    }
  },
};

export class Named extends WorkerEntrypoint {
  get getter() {
    throw new RangeError("of a getter");
  }
  never() {
    return new Promise(() => {});
  }
}
export class Cell extends DurableObject {
  abort() {
    this.ctx.abort(new Error("aborted"));
  }
  forever() {
    return new Promise(() => {});
  }
}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) type.prototype[name] = method;
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];
const raises = async (env, name, expected) => {
  for (const callee of both(env)) {
    await rejects(async () => callee.raise(name), {
      remote: true,
      ...expected,
    });
  }
};

export default suite({
  worker: {
    async "own properties and causes pass"({ env }) {
      const error = { name: "TypeError", message: "bad", cause: "c" };
      await raises(env, "own", { ...error, extra: { a: 1 } });
    },
    async "flags pass, but `remote` is the runtime's"({ env }) {
      await raises(env, "flags", {
        message: "flags",
        retryable: true,
        overloaded: true,
      });
    },
    async "names of one's own make plain errors"({ env }) {
      await raises(env, "named", { name: "My", message: "custom", data: [1] });
      const error = await env.NAMED.raise("named").catch((e) => e);
      equal(
        [error instanceof TypeError, error instanceof Error],
        [false, true],
      );
    },
    async "causes are errors, and errors of errors"({ env }) {
      for (const callee of both(env)) {
        const outer = await callee.raise("nested").catch((e) => e);
        equal(
          [outer.cause instanceof RangeError, outer.cause.message],
          [true, "inner"],
        );
        const all = await callee.raise("aggregate").catch((e) => e);
        equal(
          [all instanceof AggregateError, all.errors[0].message],
          [true, "a1"],
        );
      }
    },
    async "DOM exceptions stay what they are"({ env }) {
      await raises(env, "dom", { name: "AbortError", message: "dm", code: 20 });
      const error = await env.NAMED.raise("dom").catch((e) => e);
      equal(error instanceof DOMException, true);
    },
    async "what cannot pass is left out"({ env }) {
      await raises(env, "partly", { message: "partly", f: undefined });
      await raises(env, "silent", { name: "Error", message: "" });
    },
    async "what is no error becomes one, unless it is an object"({ env }) {
      await raises(env, "text", { name: "Error", message: "text" });
      await raises(env, "nothing", { name: "Error", message: "null" });
      await raises(env, "absent", { name: "Error", message: "undefined" });
      await raises(env, "object", { a: 1 });
    },
    async "the stack of the other side is hidden"({ env }) {
      for (const callee of both(env)) {
        const { stack } = await callee.raise("own").catch((e) => e);
        equal(
          [stack.split("\n")[0], stack.includes("raise")],
          ["TypeError: bad", false],
        );
      }
    },
    async "getters and targets throw as methods do"({ env }) {
      await rejects(async () => await env.NAMED.getter, {
        name: "RangeError",
        message: "of a getter",
        remote: true,
      });
      for (const callee of both(env)) {
        using target = await callee.target();
        const expected = {
          name: "RangeError",
          message: "of a target",
          remote: true,
        };
        await rejects(async () => target.fails(), expected);
        await rejects(async () => callee.target().fails(), expected);
        equal(await target.works(), "works");
      }
    },
    async "a callback's error reaches the callee and comes back"({ env }) {
      const fails = () => {
        throw Object.assign(new RangeError("of the callback"), { code: 3 });
      };
      for (const callee of both(env)) {
        await rejects(async () => callee.call(fails), {
          name: "RangeError",
          message: "of the callback",
          code: 3,
          remote: true,
        });
        equal(
          [...(await callee.callAndTell(fails))],
          ["RangeError", "of the callback", true, 3],
        );
      }
    },
    async "errors of an object name it"({ env }) {
      const cell = fresh(env);
      await rejects(async () => cell.raise("own"), {
        durableObjectId: cell.id.toString(),
      });
      await rejects(async () => env.NAMED.raise("own"), {
        durableObjectId: undefined,
      });
    },
    async "stubs end with the object that they lead to"({ env }) {
      const cell = fresh(env);
      using target = await cell.target();
      await rejects(async () => cell.abort(), { durableObjectReset: true });
      await scheduler.wait(50);
      await rejects(async () => target.works(), {
        name: "Error",
        message:
          "The execution context which hosts this callback is no longer running.",
        durableObjectReset: undefined,
      });
    },
    async "calls under way end with the object"({ env }) {
      const cell = fresh(env);
      const forever = cell.forever();
      await rejects(async () => cell.abort(), { durableObjectReset: true });
      await rejects(async () => forever, { durableObjectReset: true });
    },
    async "a call of an entrypoint that can never be answered is ended"({
      env,
    }) {
      await rejects(async () => env.NAMED.never(), {
        name: "Error",
        message: /^The Workers runtime canceled this request because it/,
      });
    },
    async "a fresh stub reaches the next instance"({ env }) {
      const name = crypto.randomUUID();
      await rejects(async () => env.CELL.getByName(name).abort(), {});
      using target = await env.CELL.getByName(name).target();
      equal(await target.works(), "works");
    },
  },
});
