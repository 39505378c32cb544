// config: {"objects": {"CELL": "Cell"}, "services": [{"binding": "NAMED", "entrypoint": "Named"}]}
import { DurableObject, WorkerEntrypoint } from "cloudflare:workers";
import { equal, rejects, suite } from "../support/check.js";

class Foreign {
  x = 1;
}

const makers = {
  foreign: () => new Foreign(),
  deep: () => ({ list: [new Foreign()] }),
  bare: () => Object.create(null),
  url: () => new URL("http://a/"),
  form: () => new FormData(),
  event: () => new Event("x"),
  weak: () => new WeakMap(),
  promise: () => ({ p: Promise.resolve(1) }),
  symbol: () => ({ s: Symbol("q") }),
};
const refusals = {
  foreign:
    'Could not serialize object of type "Foreign". This type does not support serialization.',
  deep: 'Could not serialize object of type "Foreign". This type does not support serialization.',
  bare: 'Could not serialize object of type "Object". This type does not support serialization.',
  url: 'Could not serialize object of type "URL". This type does not support serialization.',
  form: 'Could not serialize object of type "FormData". This type does not support serialization.',
  event:
    'Could not serialize object of type "Event". This type does not support serialization.',
  weak: "#<WeakMap> could not be cloned.",
  promise: "#<Promise> could not be cloned.",
  symbol: "Symbol(q) could not be cloned.",
};

const methods = {
  ...makers,
  echo: (value) => value,
  count: (...args) => [args.length, args[1] === undefined],
  error() {
    const cause = new Error("inner");
    return Object.assign(new RangeError("out", { cause }), {
      code: 7,
      f: () => 9,
    });
  },
  custom() {
    return Object.assign(new TypeError("mine"), { name: "Mine", data: [1] });
  },
  aggregate: () => new AggregateError([new Error("one")], "all"),
  dom: () => new DOMException("text", "AbortError"),
  large: () => new Uint8Array(33 << 20),
  instanceOf: (error) => [
    error instanceof TypeError,
    error.name,
    error.message,
  ],
};

export class Named extends WorkerEntrypoint {}
export class Cell extends DurableObject {}
for (const [name, method] of Object.entries(methods)) {
  for (const type of [Named, Cell]) type.prototype[name] = method;
}

const fresh = (env) => env.CELL.getByName(crypto.randomUUID());
const both = (env) => [env.NAMED, fresh(env)];

export default suite({
  worker: {
    async "types of structured clone"({ env }) {
      const sparse = [1, , 3];
      const values = [
        undefined,
        null,
        true,
        -0,
        NaN,
        10n,
        "\u{1F600}\ud800",
        new Date(7),
        /a/gi,
        new Map([["k", new Set([1])]]),
        new Uint8Array([1, 2]).subarray(1),
        new Float64Array([0.5]),
        new ArrayBuffer(2),
        new DataView(new ArrayBuffer(1)),
        Object("boxed"),
        sparse,
        { a: { b: [] } },
      ];
      for (const callee of both(env)) {
        const back = await callee.echo(values);
        equal([...back], values);
        equal(1 in back[15], false);
      }
    },
    async "data beside functions keeps its types"({ env }) {
      const value = {
        f: () => 1,
        d: new Date(7),
        m: new Map([[{}, /x/]]),
        e: [, 1],
      };
      for (const callee of both(env)) {
        using back = await callee.echo(value);
        equal(
          [back.d, back.m, 0 in back.e],
          [new Date(7), new Map([[{}, /x/]]), false],
        );
        equal(await back.f(), 1);
      }
    },
    async "cycles and shared parts"({ env }) {
      const part = {};
      const value = { one: part, two: part };
      value.self = value;
      const back = await env.NAMED.echo(value);
      equal([back.self === back, back.one === back.two], [true, true]);
    },
    async "arguments are counted as they are given"({ env }) {
      for (const callee of both(env)) {
        equal([...(await callee.count(1, undefined, 3))], [3, true]);
        equal([...(await callee.count())], [0, true]);
        equal(await callee.echo(), undefined);
      }
    },
    async "getters are read when they are passed"({ env }) {
      const value = {
        get a() {
          return 5;
        },
      };
      equal((await env.NAMED.echo(value)).a, 5);
    },
    async "a name of the prototype chain is data"({ env }) {
      const value = JSON.parse('{"__proto__": {"x": 1}, "a": 1}');
      value.f = () => 1;
      using back = await env.NAMED.echo(value);
      equal([Object.hasOwn(back, "__proto__"), back.x], [true, undefined]);
    },
    async "what cannot be returned"({ env }) {
      for (const callee of both(env)) {
        for (const [name, message] of Object.entries(refusals)) {
          const expected = { name: "DataCloneError", message, remote: true };
          await rejects(async () => callee[name](), expected);
        }
      }
    },
    async "what cannot be passed"({ env }) {
      for (const [name, message] of Object.entries(refusals)) {
        const expected = { name: "DataCloneError", message, remote: undefined };
        await rejects(async () => env.NAMED.echo(makers[name]()), expected);
      }
    },
    async "errors are values with their own properties"({ env }) {
      for (const callee of both(env)) {
        using error = await callee.error();
        equal(
          [error instanceof RangeError, error.message, error.cause.message],
          [true, "out", "inner"],
        );
        equal([error.code, await error.f(), error.remote], [7, 9, undefined]);
        equal(error.stack, "RangeError: out");
      }
    },
    async "an error with a name of its own"({ env }) {
      for (const callee of both(env)) {
        const error = await callee.custom();
        equal(
          [error.name, error.message, [...error.data], error instanceof Error],
          ["Mine", "mine", [1], true],
        );
        equal(
          [...(await callee.instanceOf(new TypeError("t")))],
          [true, "TypeError", "t"],
        );
      }
    },
    async "aggregate errors and DOM exceptions"({ env }) {
      for (const callee of both(env)) {
        const error = await callee.aggregate();
        equal(
          [error instanceof AggregateError, error.errors[0].message],
          [true, "one"],
        );
        const dom = await callee.dom();
        equal(
          [dom instanceof DOMException, dom.name, dom.message, dom.code],
          [true, "AbortError", "text", 20],
        );
      }
    },
    async "more than 32 MiB are refused in both directions"({ env }) {
      const text =
        /^Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: \d+ bytes\.$/;
      for (const callee of both(env)) {
        await rejects(async () => callee.echo(new Uint8Array(33 << 20)), {
          name: "Error",
          message: text,
          remote: undefined,
        });
        await rejects(async () => callee.large(), {
          name: "Error",
          message: text,
          remote: true,
        });
        using f = new Uint8Array(33 << 20) && (await callee.echo(() => 1));
        equal(await f(), 1);
      }
    },
  },
});
