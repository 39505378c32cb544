// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import {
  DurableObject,
  RpcStub,
  RpcTarget,
  WorkerEntrypoint,
} from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

/** Names of targets that learned that nobody needs them any more. */
const gone = new Set();

class Resource extends RpcTarget {
  constructor(name) {
    super();
    this.name = name;
  }
  use(x = "used") {
    return x;
  }
  [Symbol.dispose]() {
    gone.add(this.name);
  }
}

const methods = {
  open: (name) => new Resource(name),
  bundle: (name) => ({
    one: new Resource(`${name} one`),
    two: new Resource(`${name} two`),
    [Symbol.dispose]: () => gone.add(`${name} itself`),
  }),
  use: (resource) => resource.use(),
  useBoth: (a, b) => Promise.all([a.use(1), b.use(2)]),
  call: (f) => f(),
  callMember: (object) => object.f(),
  isGone: (name) => gone.has(name),
  fails() {
    throw new Error("after all");
  },
};

export class Named extends WorkerEntrypoint {}
export class Cell extends DurableObject {
  keep(stub) {
    this.kept = stub;
  }
  keepDup(stub) {
    this.kept = stub.dup();
  }
  useKept() {
    return this.kept.use();
  }
  dropKept() {
    this.kept[Symbol.dispose]();
  }
}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) type.prototype[name] = method;
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];
const disposed = {
  name: "Error",
  message: "RPC stub used after being disposed.",
  remote: undefined,
};
const name = () => crypto.randomUUID();

/** Waits until a condition holds. */
async function until(condition) {
  for (let i = 0; i < 400; i++) {
    if (await condition()) return;
    await scheduler.wait(10);
  }
  throw new Error("it never came about");
}

export default suite({
  worker: {
    async "a disposed stub is refused, and disposing twice is nothing"({
      env,
    }) {
      for (const callee of both(env)) {
        const resource = await callee.open(name());
        resource[Symbol.dispose]();
        resource[Symbol.dispose]();
        await rejects(async () => await resource.use(), disposed);
        await rejects(async () => await resource.name, disposed);
      }
    },
    async "duplicates live on"({ env }) {
      for (const callee of both(env)) {
        const resource = await callee.open(name());
        using copy = resource.dup();
        resource[Symbol.dispose]();
        equal([await copy.use(), copy === resource], ["used", false]);
      }
    },
    async "a local target goes with its last stub"() {
      const stub = new RpcStub(new Resource("local"));
      const [a, b] = [stub.dup(), stub.dup()];
      for (const each of [stub, a, a]) each[Symbol.dispose]();
      await scheduler.wait(5);
      equal([gone.has("local"), await b.use()], [false, "used"]);
      b[Symbol.dispose]();
      await until(() => gone.has("local"));
      await rejects(async () => await b.use(), disposed);
    },
    async "a result owns its stubs"({ env }) {
      for (const callee of both(env)) {
        const id = name();
        const bundle = await callee.bundle(id);
        const { one } = bundle;
        equal([await one.use(), Object.keys(bundle)], ["used", ["one", "two"]]);
        equal(await callee.isGone(`${id} one`), false);
        bundle[Symbol.dispose]();
        for (const part of ["one", "two", "itself"]) {
          await until(() => callee.isGone(`${id} ${part}`));
        }
        await rejects(async () => await one.use(), disposed);
      }
    },
    async "a duplicate of a part outlives the result"({ env }) {
      for (const callee of both(env)) {
        let copy;
        {
          using bundle = await callee.bundle(name());
          copy = bundle.one.dup();
        }
        equal(await copy.use(), "used");
        copy[Symbol.dispose]();
      }
    },
    async "every result that is an object has a disposer"({ env }) {
      using echo = await env.NAMED.bundle(name());
      equal(typeof echo[Symbol.dispose], "function");
      const own = Object.getOwnPropertyDescriptor(echo, Symbol.dispose);
      equal(own.enumerable, false);
      using list = await env.NAMED.useBoth(
        new Resource(name()),
        new Resource(name()),
      );
      equal([[...list], typeof list[Symbol.dispose]], [[1, 2], "function"]);
    },
    async "a disposed promise is refused, and so is its result"({ env }) {
      const promise = env.NAMED.open(name());
      const resource = await promise;
      promise[Symbol.dispose]();
      await rejects(async () => await resource.use(), disposed);
      await rejects(async () => await promise.use(), {
        ...disposed,
        message: "RPC promise used after being disposed.",
      });
    },
    async "what was passed is let go when the call ends"({ env }) {
      for (const callee of both(env)) {
        const id = name();
        equal(await callee.use(new Resource(id)), "used");
        await until(() => gone.has(id));
      }
    },
    async "a function with a disposer learns of it, an object with one not"({
      env,
    }) {
      const f = Object.assign(() => 1, {
        [Symbol.dispose]: () => gone.add("function"),
      });
      equal(await env.NAMED.call(f), 1);
      await until(() => gone.has("function"));
      const object = { f, [Symbol.dispose]: () => gone.add("object") };
      equal(await env.NAMED.callMember(object), 1);
      equal(gone.has("object"), false);
    },
    async "a stub that is passed stays the caller's"({ env }) {
      for (const callee of both(env)) {
        using resource = await callee.open(name());
        equal(await env.NAMED.use(resource), "used");
        equal(await callee.use(resource), "used");
        equal(await resource.use("still"), "still");
      }
    },
    async "a callee keeps what it duplicates"({ env }) {
      const cell = fresh(env);
      const id = name();
      await cell.keepDup(new Resource(id));
      equal(await cell.useKept(), "used");
      equal(gone.has(id), false);
      await cell.dropKept();
      await until(() => gone.has(id));
    },
    async "a callee that keeps a stub without duplicating it has nothing"({
      env,
    }) {
      const cell = fresh(env);
      await cell.keep(new Resource(name()));
      await rejects(async () => await cell.useKept(), {
        name: "Error",
        message: "RPC stub used after being disposed.",
        remote: true,
      });
    },
    async "a kept stub ends with the request that passed it"({ env }) {
      const cell = fresh(env);
      const passed = await env.NAMED.fetch(`http://x/keep?id=${cell.id}`);
      await passed.text();
      let error;
      await until(() =>
        cell.useKept().then(
          () => false,
          (thrown) => ((error = thrown), true),
        ),
      );
      equal(
        [error.name, error.message, error.remote],
        [
          "Error",
          "The execution context which hosts this callback is no longer running.",
          true,
        ],
      );
    },
    async "stubs that were never disposed end with the caller"({ env }) {
      const id = name();
      await (await env.NAMED.fetch(`http://x/leak?id=${id}`)).text();
      await until(() => env.CELL.getByName(id).isGone(id));
    },
    async "a failed call lets go of what was passed"({ env }) {
      const id = name();
      await rejects(async () => await env.NAMED.fails(new Resource(id)), {
        message: "after all",
      });
      await until(() => gone.has(id));
    },
  },
});

Named.prototype.fetch = async function (request) {
  const { pathname, searchParams } = new URL(request.url);
  const id = searchParams.get("id");
  if (pathname === "/keep") {
    const { CELL } = this.env;
    await CELL.get(CELL.idFromString(id)).keepDup(new Resource("kept"));
  } else {
    globalThis.leaked = await this.env.CELL.getByName(id).open(id);
  }
  return new Response("done");
};
