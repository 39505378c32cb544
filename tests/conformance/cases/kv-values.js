// config: {"objects": {"PROBE": "Probe", "OTHER": "Other"}}
import { DurableObject, RpcTarget } from "cloudflare:workers";
import { inspect, probe, suite, triedAsync } from "../support/check.js";

export class Other extends DurableObject {}

/** The value as it comes back, or why it cannot be stored. */
async function kept(storage, value) {
  const put = await triedAsync(() => storage.put("k", value));
  return put === undefined ? triedAsync(() => storage.get("k")) : put;
}
async function each(storage, values) {
  const seen = {};
  for (const [name, value] of Object.entries(values)) {
    seen[name] = await kept(storage, value);
  }
  return seen;
}

class Point {
  x = 1;
  #y = 2;
  get y() {
    return this.#y;
  }
}

const object = {
  primitives: ({ storage }) =>
    each(storage, {
      null: null,
      true: true,
      zero: 0,
      minusZero: -0,
      integer: 2 ** 31,
      float: 1.5,
      NaN,
      Infinity,
      bigint: 12345678901234567890n,
      negative: -1n,
      zeroBigint: 0n,
      empty: "",
      latin: "é",
      wide: "€𐍈",
      lone: "\ud800x",
      nul: "a\0b",
      symbol: Symbol("s"),
      registered: Symbol.for("s"),
    }),
  "boxed primitives, dates and regular expressions": async ({ storage }) => {
    const values = await each(storage, {
      number: new Number(5),
      string: new String("s"),
      boolean: new Boolean(false),
      bigint: Object(5n),
      symbol: Object(Symbol("s")),
      date: new Date(1e12),
      badDate: new Date(NaN),
      regexp: Object.assign(/a+/giu, { lastIndex: 3 }),
    });
    return Object.fromEntries(
      Object.entries(values).map(([name, value]) => [
        name,
        [
          value?.constructor?.name,
          value?.valueOf?.() ?? value,
          value?.lastIndex,
        ],
      ]),
    );
  },
  collections: ({ storage }) =>
    each(storage, {
      map: new Map([
        [{ a: 1 }, [1]],
        [NaN, undefined],
      ]),
      set: new Set([1, "1", null]),
      array: [1, "x", null, undefined],
      hole: [1, , 3],
      long: Object.assign([], { length: 5 }),
      extra: Object.assign([1], { more: "x" }),
      object: { b: 1, a: { c: [] } },
      integerKeys: { 2: "two", 1: "one" },
      undefinedValue: { u: undefined },
      nullPrototype: Object.assign(Object.create(null), { a: 1 }),
      symbolKey: { [Symbol("s")]: 1, a: 1 },
      frozen: Object.freeze({ a: 1 }),
      instance: new Point(),
      arguments: (function () {
        return arguments;
      })(1, 2),
    }),
  async "shape of collections"({ storage }) {
    const hole = await kept(storage, [1, , 3]);
    const point = await kept(storage, new Point());
    const nullProto = await kept(storage, Object.create(null));
    const order = await kept(storage, { z: 1, a: 2, 1: 3 });
    const hidden = Object.defineProperty({ a: 1 }, "b", { value: 2 });
    return [
      1 in hole,
      point.constructor.name,
      Object.getPrototypeOf(nullProto) === Object.prototype,
      Object.keys(order),
      await kept(storage, hidden),
    ];
  },
  async "cycles and shared references"({ storage }) {
    const shared = { s: 1 };
    const value = { one: shared, two: shared, map: new Map() };
    value.self = value;
    value.map.set("value", value);
    const back = await kept(storage, value);
    const buffer = new ArrayBuffer(4);
    const views = await kept(storage, [
      new Uint8Array(buffer),
      new Uint16Array(buffer, 2),
    ]);
    return [
      back.one === back.two,
      back.self === back,
      back.map.get("value") === back,
      views[0].buffer === views[1].buffer,
      views[1].byteOffset,
    ];
  },
  "getters are read": ({ storage }) =>
    each(storage, {
      getter: {
        get a() {
          return 1;
        },
      },
      throwing: {
        get a() {
          throw new RangeError("from the getter");
        },
      },
      proxy: new Proxy({ a: 1 }, {}),
      proxied: { p: new Proxy([], {}) },
    }),
  async bytes({ storage }) {
    const buffer = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]).buffer;
    const detached = new ArrayBuffer(4);
    detached.transfer();
    const lengthTracking = new Uint8Array(
      new ArrayBuffer(2, { maxByteLength: 8 }),
    );
    const seen = await each(storage, {
      buffer,
      empty: new ArrayBuffer(0),
      detached,
      lengthTracking,
      shared: new SharedArrayBuffer(2),
      sharedView: new Uint8Array(new SharedArrayBuffer(2)),
      detachedView: new Uint8Array(buffer.slice(0)),
    });
    for (const View of [
      Int8Array,
      Uint8Array,
      Uint8ClampedArray,
      Int16Array,
      Uint16Array,
      Int32Array,
      Uint32Array,
      Float32Array,
      Float64Array,
      BigInt64Array,
      BigUint64Array,
      DataView,
      globalThis.Float16Array ?? Uint8Array,
    ]) {
      const back = await kept(storage, new View(buffer));
      seen[View.name] = [
        back.constructor?.name,
        back.byteLength,
        back.buffer?.byteLength,
      ];
    }
    const part = await kept(storage, new Uint8Array(buffer, 2, 3));
    seen.part = [part, part.byteOffset, part.buffer.byteLength];
    const resizable = await kept(
      storage,
      new ArrayBuffer(2, { maxByteLength: 8 }),
    );
    seen.resizable = [
      resizable.byteLength,
      resizable.resizable,
      resizable.maxByteLength,
    ];
    return seen;
  },
  async errors({ storage }) {
    class Own extends Error {
      name = "Own";
      code = 5;
    }
    const errors = {
      Error: new Error("m"),
      TypeError: new TypeError("m"),
      RangeError: new RangeError("m"),
      SyntaxError: new SyntaxError("m"),
      Own: new Own("m"),
      cause: new Error("m", { cause: { a: 1 } }),
      causeError: new Error("m", { cause: new TypeError("inner") }),
      aggregate: new AggregateError([new Error("1"), 2], "m"),
      properties: Object.assign(new Error("m"), { code: 7, retryable: true }),
      noMessage: new Error(),
      renamed: Object.assign(new Error("m"), { name: "Renamed" }),
      domException: new DOMException("m", "AbortError"),
    };
    const seen = {};
    for (const [name, error] of Object.entries(errors)) {
      const back = await kept(storage, error);
      seen[name] = [
        back.constructor?.name ?? back,
        back.name,
        back.message,
        back instanceof Error,
        Object.keys(back),
        back.cause,
        back.errors,
        back.code,
        typeof back.stack,
      ];
    }
    return seen;
  },
  "what cannot be stored": async ({ storage, env }) => {
    const values = {
      function: () => 1,
      async: async () => 1,
      class: Point,
      method: { method() {} },
      weakMap: new WeakMap(),
      weakSet: new WeakSet(),
      weakRef: new WeakRef({}),
      promise: Promise.resolve(1),
      generator: (function* () {})(),
      symbolValue: { s: Symbol("s") },
      global: globalThis,
      math: Math,
      json: JSON,
      intl: new Intl.NumberFormat(),
      iterator: [1].values(),
      storage,
      stub: env.OTHER.getByName("x"),
      id: env.OTHER.idFromName("x"),
      namespace: env.OTHER,
      rpcTarget: new RpcTarget(),
    };
    const seen = {};
    for (const [name, value] of Object.entries(values)) {
      const outcome = await kept(storage, value);
      seen[name] = outcome?.text ?? inspect(outcome, 7);
    }
    return seen;
  },
  "objects of the platform": async ({ storage }) => {
    const values = {
      Headers: new Headers({ a: "b" }),
      Request: new Request("http://x/"),
      Response: new Response("body"),
      Blob: new Blob(["x"]),
      File: new File(["x"], "name"),
      FormData: new FormData(),
      URL: new URL("http://x/"),
      URLSearchParams: new URLSearchParams("a=b"),
      ReadableStream: new ReadableStream(),
      WritableStream: new WritableStream(),
      TransformStream: new TransformStream(),
      AbortSignal: AbortSignal.abort(),
      AbortController: new AbortController(),
      Event: new Event("x"),
      EventTarget: new EventTarget(),
      TextEncoder: new TextEncoder(),
      TextDecoder: new TextDecoder(),
      WebSocket: new WebSocketPair()[0],
      CryptoKey: await crypto.subtle.generateKey(
        { name: "AES-GCM", length: 128 },
        true,
        ["encrypt"],
      ),
    };
    const seen = {};
    for (const [name, value] of Object.entries(values)) {
      const outcome = await kept(storage, value);
      seen[name] = outcome?.text ?? inspect(outcome, 7);
    }
    return seen;
  },
  async "deep and wide values"({ storage }) {
    const nested = (depth) => {
      let value = {};
      for (let i = 0; i < depth; i++) value = { value };
      return value;
    };
    const depthOf = (value) => {
      let depth = 0;
      for (; value?.value; value = value.value) depth++;
      return depth;
    };
    return {
      deep: depthOf(await kept(storage, nested(1_000))),
      wide: (
        await kept(
          storage,
          Array.from({ length: 50_000 }, (_, i) => i),
        )
      ).length,
      keys: Object.keys(
        await kept(
          storage,
          Object.fromEntries(
            Array.from({ length: 5_000 }, (_, i) => [`k${i}`, i]),
          ),
        ),
      ).length,
    };
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
