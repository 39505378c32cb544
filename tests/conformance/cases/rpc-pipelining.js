// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import { DurableObject, RpcTarget, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Node extends RpcTarget {
  constructor(trail = []) {
    super();
    this.trail = trail;
  }
  step(name) {
    return new Node([...this.trail, name]);
  }
  get path() {
    return this.trail.join("/");
  }
  get now() {
    return { deep: { f: (x) => x + 1, node: this } };
  }
}

const methods = {
  root: () => new Node(),
  late: () => scheduler.wait(30).then(() => new Node(["late"])),
  data: () => ({ a: 1, b: { c: [1, 2] }, map: new Map([["k", 1]]) }),
  mixed: () => ({ n: 2, f: (x) => x * 2, node: new Node() }),
  list: () => [1, 2],
  number: () => 5,
  text: () => "text",
  nothing: () => {},
  fn: () => (x) => x * 2,
  maker: () => () => new Node(["made"]),
  fails() {
    throw Object.assign(new TypeError("bad"), { extra: 1 });
  },
};

export class Named extends WorkerEntrypoint {}
export class Cell extends DurableObject {
  get promised() {
    return Promise.resolve(new Node());
  }
  get number() {
    return Promise.resolve(8);
  }
}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) {
    if (!Object.hasOwn(type.prototype, name)) type.prototype[name] = method;
  }
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];
const missing = (name) => ({
  name: "TypeError",
  message: `The RPC receiver does not implement the method "${name}".`,
  remote: true,
});
const eachRejects = async (env, run, expected) => {
  for (const callee of both(env)) {
    await rejects(async () => await run(callee), expected);
  }
};

export default suite({
  worker: {
    async "methods, getters and functions in one go"({ env }) {
      for (const callee of both(env)) {
        equal(await callee.root().step("a").step("b").path, "a/b");
        equal(await callee.root().now.deep.f(1), 2);
        equal(await callee.root().now.deep.node.step("x").path, "x");
        equal(await callee.fn()(21), 42);
        equal(
          await callee
            .maker()()()
            .catch(() => "no"),
          "no",
        );
        equal(await callee.maker()().path, "made");
      }
    },
    async "a call does not wait for the one before"({ env }) {
      for (const callee of both(env)) {
        const late = callee.late();
        const paths = [late.path, late.step("x").path, late.step("y").path];
        equal(await Promise.all(paths), ["late", "late/x", "late/y"]);
      }
    },
    async "plain data is gone into"({ env }) {
      for (const callee of both(env)) {
        equal(await callee.data().b.c, [1, 2]);
        equal([await callee.data().a, await callee.mixed().n], [1, 2]);
        equal(await callee.mixed().f(4), 8);
        equal(await callee.mixed().node.step("q").path, "q");
      }
    },
    async "a promise serves calls after it was awaited"({ env }) {
      for (const callee of both(env)) {
        const promise = callee.mixed();
        using first = await promise;
        equal([(await promise) === first, await promise.n], [true, 2]);
        equal([await promise.f(3), await first.f(3)], [6, 6]);
      }
    },
    async "then, catch and finally"({ env }) {
      const seen = [];
      await env.NAMED.number()
        .then((x) => seen.push(x))
        .finally(() => seen.push("end"));
      await env.NAMED.fails().catch((error) => seen.push(error.message));
      equal(seen, [5, "end", "bad"]);
    },
    async "names that are not there"({ env }) {
      await eachRejects(env, (c) => c.data().none, missing("none"));
      await eachRejects(env, (c) => c.data().none(), missing("none"));
      await eachRejects(env, (c) => c.none.deep(), missing("none"));
      await eachRejects(env, (c) => c.root().trail, missing("trail"));
    },
    async "what is no object has no members"({ env }) {
      await eachRejects(env, (c) => c.text().length, missing("length"));
      await eachRejects(env, (c) => c.nothing().x, missing("x"));
      await eachRejects(env, (c) => c.list().length, missing("length"));
      await eachRejects(env, (c) => c.fn().x.y, missing("x"));
      await rejects(async () => await env.NAMED.number().x, missing("x"));
    },
    async "a path goes through objects and targets only"({ env }) {
      await eachRejects(env, (c) => c.data().map.size, missing("map"));
      await eachRejects(env, (c) => c.data().b.c.length, missing("c"));
      equal(await fresh(env).number, 8);
      await rejects(
        async () => await fresh(env).promised.path,
        missing("promised"),
      );
    },
    async "calls of what is no function"({ env }) {
      await eachRejects(env, (c) => c.data().a(), {
        name: "TypeError",
        message: '"a" is not a function.',
        remote: true,
      });
      await eachRejects(env, (c) => c.text()(), {
        name: "TypeError",
        message: '"(this)" is not a function.',
        remote: true,
      });
    },
    async "a failure is everyone's who built upon it"({ env }) {
      for (const callee of both(env)) {
        const failed = callee.fails();
        const next = failed.some().thing();
        for (const promise of [next, failed]) {
          await rejects(async () => await promise, {
            name: "TypeError",
            message: "bad",
            extra: 1,
            remote: true,
          });
        }
      }
    },
    async "an index is no name"({ env }) {
      equal(env.NAMED.list()[0], undefined);
    },
  },
});
