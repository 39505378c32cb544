// config: {"objects": {"CELL": "Cell", "PLAIN": "Plain"}}
import { DurableObject } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

export class Plain {
  fetch() {
    return new Response("plain");
  }
  method() {
    return 1;
  }
}

export class Cell extends DurableObject {
  throwString() {
    throw "a string";
  }
  throwNull() {
    throw null;
  }
  throwObject() {
    throw { a: 1, message: "of an object" };
  }
  throwDom() {
    throw new DOMException("dom", "AbortError");
  }
  throwNamed() {
    class Mine extends Error {
      name = "Mine";
      extra = 5;
    }
    throw new Mine("named");
  }
  throwCause() {
    throw new Error("outer", { cause: new TypeError("inner") });
  }
  throwAggregate() {
    throw new AggregateError([new RangeError("one")], "all");
  }
  throwFlags() {
    throw Object.assign(new Error("flags"), {
      retryable: true,
      overloaded: true,
      remote: 5,
    });
  }
  async passOn() {
    return this.env.CELL.getByName("target").throwNamed();
  }
  async passReset() {
    return this.env.CELL.getByName("reset target").abort("deep");
  }
  abort(reason) {
    this.ctx.abort(reason);
  }
  async waitUntilRejects() {
    this.ctx.waitUntil(Promise.reject(new Error("nobody hears")));
    return "answered";
  }
  fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/throw") throw new RangeError("in fetch");
    if (pathname === "/abort") this.ctx.abort("in fetch");
    return new Response("ok");
  }
  async putAndThrow() {
    this.ctx.storage.put("k", "kept");
    throw new Error("after the write");
  }
  get() {
    return this.ctx.storage.get("k");
  }
}

const caught = (promise) =>
  promise.then(
    () => "no error",
    (error) => error,
  );

export default suite({
  worker: {
    async "a thrown string is the message of an Error"({ env }) {
      const error = await caught(env.CELL.getByName("s").throwString());
      equal(
        [error.constructor === Error, error.name, error.message, error.remote],
        [true, "Error", "a string", true],
      );
    },
    async "a thrown null is an Error too"({ env }) {
      await rejects(env.CELL.getByName("n").throwNull(), {
        name: "Error",
        message: "null",
        remote: true,
      });
    },
    async "a thrown object arrives as that object"({ env }) {
      const stub = env.CELL.getByName("o");
      const error = await caught(stub.throwObject());
      equal(
        [error instanceof Error, error.a, error.message, error.remote],
        [false, 1, "of an object", true],
      );
      equal(error.durableObjectId, String(stub.id));
    },
    async "a DOMException stays one"({ env }) {
      const error = await caught(env.CELL.getByName("d").throwDom());
      equal(
        [error instanceof DOMException, error.name, error.message, error.code],
        [true, "AbortError", "dom", 20],
      );
    },
    async "a name and own properties are kept, the class is not"({ env }) {
      const stub = env.CELL.getByName("c");
      const error = await caught(stub.throwNamed());
      equal(
        [error.constructor === Error, error.name, error.extra, error.remote],
        [true, "Mine", 5, true],
      );
      equal(error.durableObjectId, String(stub.id));
    },
    async "a cause is kept"({ env }) {
      const { cause } = await caught(env.CELL.getByName("e").throwCause());
      equal(
        [cause instanceof TypeError, cause.name, cause.message],
        [true, "TypeError", "inner"],
      );
    },
    async "an AggregateError keeps its errors"({ env }) {
      const error = await caught(env.CELL.getByName("a").throwAggregate());
      equal(
        [error.constructor.name, error.message, error.errors.length],
        ["AggregateError", "all", 1],
      );
      equal(
        [error.errors[0].name, error.errors[0].message],
        ["RangeError", "one"],
      );
    },
    async "flags that a script sets travel; remote is true"({ env }) {
      await rejects(env.CELL.getByName("f").throwFlags(), {
        message: "flags",
        retryable: true,
        overloaded: true,
        remote: true,
      });
    },
    async "an error that is passed on names its first object"({ env }) {
      const first = env.CELL.getByName("target");
      const error = await caught(env.CELL.getByName("p").passOn());
      equal([error.name, error.remote], ["Mine", true]);
      equal(typeof error.durableObjectId, "string");
      equal(String(first.id).length, 64);
    },
    async "a reset that is passed on keeps its flag"({ env }) {
      await rejects(env.CELL.getByName("p2").passReset(), {
        message: "deep",
        durableObjectReset: true,
      });
    },
    async "an exception in fetch is remote and names no object"({ env }) {
      await rejects(env.CELL.getByName("g").fetch("http://x/throw"), {
        name: "RangeError",
        message: "in fetch",
        remote: true,
        durableObjectId: undefined,
        durableObjectReset: undefined,
      });
    },
    async "an abort in fetch is remote and a reset"({ env }) {
      await rejects(env.CELL.getByName("h").fetch("http://x/abort"), {
        message: "in fetch",
        remote: true,
        durableObjectReset: true,
      });
    },
    async "reasons of abort become texts"({ env }) {
      const texts = [];
      for (const [at, reason] of [null, "text", 5, { a: 1 }].entries()) {
        const stub = env.CELL.getByName(`reason ${at}`);
        const error = await caught(stub.abort(reason));
        texts.push(error.message);
        equal(
          [error.name, error.durableObjectReset, error.durableObjectId],
          ["Error", true, undefined],
        );
      }
      equal(texts, ["null", "text", "5", "[object Object]"]);
    },
    async "a plain exception resets nothing and keeps the writes"({ env }) {
      const stub = env.CELL.getByName("w");
      await rejects(stub.putAndThrow(), { message: "after the write" });
      equal(await stub.get(), "kept");
    },
    async "a rejection in waitUntil reaches nobody"({ env }) {
      const stub = env.CELL.getByName("u");
      equal(await stub.waitUntilRejects(), "answered");
      equal(await stub.get(), undefined);
    },
    async "a relative URL is a TypeError"({ env }) {
      await rejects(env.CELL.getByName("r").fetch("/path"), {
        name: "TypeError",
        message: "Invalid URL: /path",
      });
      await rejects(env.CELL.getByName("r").fetch("path"), {
        name: "TypeError",
        message: "Invalid URL: path",
      });
    },
    async "a class that does not extend DurableObject has fetch alone"({
      env,
    }) {
      const stub = env.PLAIN.getByName("p");
      const response = await stub.fetch("http://x/");
      equal(await response.text(), "plain");
      await rejects(stub.method(), {
        name: "TypeError",
        message:
          /^The receiving Durable Object does not support RPC, because its class was not declared with `extends DurableObject`/,
      });
    },
    async "a method that does not exist"({ env }) {
      await rejects(env.CELL.getByName("m").nothing(), {
        name: "TypeError",
        message: 'The RPC receiver does not implement the method "nothing".',
        remote: true,
      });
    },
  },
});
