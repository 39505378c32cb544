// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import {
  DurableObject,
  RpcPromise,
  RpcProperty,
  RpcStub,
  RpcTarget,
  ServiceStub,
  WorkerEntrypoint,
} from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Account extends RpcTarget {
  own = "hidden";
  #sum = 0;
  add(x) {
    return (this.#sum += x);
  }
  get sum() {
    return this.#sum;
  }
  get parts() {
    return { half: (x) => x / 2, inner: new Account() };
  }
  itself() {
    return this;
  }
}

const methods = {
  account: () => new Account(),
  double: () => Object.assign((x) => x * 2, { unit: "pieces" }),
  echo: (value) => value,
  call: (callback, ...args) => callback(...args),
  deposit: (account, x) => account.add(x),
  async kind(value) {
    return [typeof value, value instanceof RpcStub, value.constructor.name];
  },
  async twice(callback) {
    using result = await callback(2);
    return [await result.times(10), await result.times(20)];
  },
};

export class Named extends WorkerEntrypoint {}
export class Cell extends DurableObject {
  hold(stub) {
    this.held = stub.dup();
  }
  use(x) {
    return this.held.add(x);
  }
  wrap(stub) {
    return { inner: stub.dup() };
  }
  relay(other, stub, x) {
    return other.deposit(stub, x);
  }
}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) type.prototype[name] = method;
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];

export default suite({
  worker: {
    async "a target keeps its state on its side"({ env }) {
      for (const callee of both(env)) {
        using account = await callee.account();
        equal([await account.add(1), await account.add(5)], [1, 6]);
        equal(await account.sum, 6);
      }
    },
    async "getters of a target offer objects, functions and targets"({ env }) {
      for (const callee of both(env)) {
        using account = await callee.account();
        equal(await account.parts.half(8), 4);
        equal(await account.parts.inner.add(3), 3);
      }
    },
    async "own properties of a target are out of reach"({ env }) {
      using account = await env.NAMED.account();
      await rejects(async () => await account.own, {
        name: "TypeError",
        message: 'The RPC receiver does not implement the method "own".',
        remote: true,
      });
    },
    async "a function is called, and its own properties are read"({ env }) {
      for (const callee of both(env)) {
        using double = await callee.double();
        equal([await double(21), await double.unit], [42, "pieces"]);
        await rejects(async () => await double.call(null, 1), {
          message: 'The RPC receiver does not implement the method "call".',
        });
      }
    },
    async "a target that is called, and a method that is none"({ env }) {
      using account = await env.NAMED.account();
      await rejects(async () => await account(1), {
        name: "TypeError",
        message: '"(this)" is not a function.',
      });
      await rejects(async () => await account.sum(), {
        name: "TypeError",
        message: '"sum" is not a function.',
      });
    },
    async "functions and targets are passed"({ env }) {
      for (const callee of both(env)) {
        equal(await callee.call((a, b) => a + b, 1, 2), 3);
        equal(await callee.call(async (a) => a * 2, 4), 8);
        equal(await callee.deposit(new Account(), 7), 7);
      }
    },
    async "a callback's result holds functions in its turn"({ env }) {
      for (const callee of both(env)) {
        const times = (n) => ({ times: (x) => n * x });
        equal(await callee.twice(times), [20, 40]);
      }
    },
    async "what is passed arrives as a stub"({ env }) {
      for (const callee of both(env)) {
        for (const value of [() => 1, new Account()]) {
          equal(await callee.kind(value), ["function", true, "RpcStub"]);
        }
      }
    },
    async "a target that comes home is a stub of it"({ env }) {
      for (const callee of both(env)) {
        const account = new Account();
        using back = await callee.echo(account);
        equal([back === account, back instanceof Account], [false, false]);
        equal([await back.add(2), account.sum], [2, 2]);
      }
    },
    async "a stub is passed back to where it came from"({ env }) {
      for (const callee of both(env)) {
        using account = await callee.account();
        using back = await callee.echo(account);
        equal([back === account, await back.add(4)], [false, 4]);
        equal(await callee.deposit(account, 6), 10);
      }
    },
    async "a stub of one object is held by another"({ env }) {
      using account = await fresh(env).account();
      const holder = fresh(env);
      await holder.hold(account);
      equal([await holder.use(5), await account.add(1)], [5, 6]);
    },
    async "a stub is passed on through an object to a third one"({ env }) {
      using account = await fresh(env).account();
      equal(await fresh(env).relay(fresh(env), account, 3), 3);
      equal(await fresh(env).relay(env.NAMED, account, 4), 7);
      equal(await fresh(env).relay(env.NAMED, new Account(), 9), 9);
    },
    async "a stub of elsewhere is returned inside an object"({ env }) {
      using account = await fresh(env).account();
      using wrapped = await fresh(env).wrap(account);
      equal([await wrapped.inner.add(8), await account.sum], [8, 8]);
    },
    async "values hold stubs at any depth, the same one once"({ env }) {
      const f = () => 1;
      const value = { list: [f, { f }], map: new Map([["k", () => 2]]) };
      value.self = value;
      using back = await env.NAMED.echo(value);
      equal(
        [back.self === back, back.list[0] === back.list[1].f],
        [true, true],
      );
      equal([await back.list[0](), await back.map.get("k")()], [1, 2]);
    },
    async "five hundred functions pass in one value"({ env }) {
      using list = await fresh(env).echo(
        Array.from({ length: 500 }, (_, i) => () => i),
      );
      const all = await Promise.all(list.map((f) => f()));
      equal(
        all.reduce((a, b) => a + b),
        124_750,
      );
    },
    async "a method is read as a stub of it"({ env }) {
      for (const callee of both(env)) {
        using echo = await callee.echo;
        equal([echo instanceof RpcStub, await echo(3)], [true, 3]);
      }
    },
    async "the classes of what a call gives"({ env }) {
      using account = await env.NAMED.account();
      const promise = env.NAMED.account();
      const property = env.NAMED.anything;
      equal(
        [account, promise, property, promise.add].map((value) => [
          typeof value,
          value instanceof RpcStub,
          value instanceof RpcPromise,
          value instanceof RpcProperty,
          Object.prototype.toString.call(value),
        ]),
        [
          ["function", true, false, false, "[object JsRpcStub]"],
          ["function", false, true, false, "[object JsRpcPromise]"],
          ["function", false, false, true, "[object JsRpcProperty]"],
          ["function", false, false, true, "[object JsRpcProperty]"],
        ],
      );
      equal(
        [env.NAMED, fresh(env)].map((x) => x instanceof ServiceStub),
        [true, true],
      );
      (await promise)[Symbol.dispose]();
    },
    async "a stub looks like an object with every name but `then`"({ env }) {
      using account = await env.NAMED.account();
      equal(
        [account.then, "dup" in account, "any" in account, account[0]],
        [undefined, true, true, undefined],
      );
      equal(
        [String(account), Object.keys(account)],
        ["[object JsRpcStub]", []],
      );
      equal(JSON.stringify([account]), "[null]");
      account.note = 5;
      equal([account.note, delete account.note], [5, true]);
    },
    async "promises and properties cannot be passed"({ env }) {
      const promise = env.NAMED.account();
      await rejects(async () => env.NAMED.echo(promise), {
        name: "DataCloneError",
        message:
          'Could not serialize object of type "RpcPromise". This type does not support serialization.',
      });
      await rejects(async () => env.NAMED.echo(promise.add), {
        name: "DataCloneError",
        message:
          'Could not serialize object of type "RpcProperty". This type does not support serialization.',
      });
      (await promise)[Symbol.dispose]();
    },
    async "RpcStub wraps a target of this side"() {
      using stub = new RpcStub(new Account());
      equal([await stub.add(2), await stub.itself().itself().sum], [2, 2]);
      using f = new RpcStub((x) => x + 1);
      equal(await f(1), 2);
      using object = new RpcStub({ a: () => 1, b: 2 });
      equal([await object.a(), await object.b], [1, 2]);
    },
    async "a wrapped target sees copies of its arguments"() {
      const given = { f: () => 3, a: {} };
      using stub = new RpcStub({
        take: async (x) => [x === given, x.a === given.a, await x.f()],
      });
      equal(await stub.take(given), [false, false, 3]);
    },
    async "constructors of RPC classes"() {
      for (const type of [RpcPromise, RpcProperty, ServiceStub]) {
        await rejects(async () => new type(), {
          name: "TypeError",
          message: "Illegal constructor",
        });
      }
      await rejects(async () => new RpcStub(5), { name: "TypeError" });
    },
    async "a proxy passes as a stub of its target"({ env }) {
      const proxy = new Proxy(new Account(), {});
      equal(await env.NAMED.kind(proxy), ["function", true, "RpcStub"]);
      // Private members are not reached through a proxy.
      await rejects(async () => await env.NAMED.deposit(proxy, 1), {
        name: "TypeError",
      });
    },
  },
});
