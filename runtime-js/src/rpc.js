// Remote calls: stubs on the calling side, method look-up on the called side.
// @ts-check

import { core } from "ext:core/mod.js";
import { cellTarget } from "./calls.js";
import { forbidAtGlobalScope } from "./context.js";
import { makeId, DurableObjectId } from "./ids.js";
import { op_id_check, op_id_from_name, op_id_unique } from "ext:core/ops";
import { Headers, Request, Response } from "./http.js";
import { domException, streams } from "./web.js";

const { DOMException } = domException;

/** @typedef {import("./calls.js").Target} Target */

/** Names that entrypoints use for events, so that they cannot be called. */
const RESERVED = new Set([
  "fetch",
  "connect",
  "alarm",
  "webSocketMessage",
  "webSocketClose",
  "webSocketError",
  "scheduled",
  "queue",
  "tail",
  "tailStream",
  "trace",
  "email",
  "test",
]);
/** Names that never travel. */
const UNFORWARDED = new Set(["dup", "constructor"]);

const PLAIN_PROTOTYPES = new Set([
  Object.prototype,
  Array.prototype,
  Date.prototype,
  RegExp.prototype,
  Map.prototype,
  Set.prototype,
  ArrayBuffer.prototype,
  DataView.prototype,
  Boolean.prototype,
  Number.prototype,
  String.prototype,
  BigInt.prototype,
  null,
]);

/** @param {string} what */
function cloneError(what) {
  return new DOMException(what, "DataCloneError");
}

/**
 * Refuses what structured clone would silently flatten or what needs a live connection.
 * @param {unknown} value
 * @param {Set<unknown>} seen
 */
function checkCloneable(value, seen) {
  if (typeof value === "function")
    throw cloneError("Functions cannot be sent over RPC by this version of celld.");
  if (typeof value === "symbol") throw cloneError("Symbols cannot be sent over RPC.");
  if (typeof value !== "object" || value === null || seen.has(value)) return;
  seen.add(value);
  const prototype = Object.getPrototypeOf(value);
  if (ArrayBuffer.isView(value) || core.isNativeError(value)) return;
  if (!PLAIN_PROTOTYPES.has(prototype)) {
    const name = prototype?.constructor?.name ?? "Object";
    const kind =
      value instanceof RpcTarget || isStub(value) || SPECIAL.some((type) => value instanceof type)
        ? "cannot be sent over RPC by this version of celld"
        : "does not support serialization";
    throw cloneError(`Could not serialize object of type "${name}". This type ${kind}.`);
  }
  if (value instanceof Map) {
    for (const [key, item] of value) {
      checkCloneable(key, seen);
      checkCloneable(item, seen);
    }
  } else if (value instanceof Set) {
    for (const item of value) checkCloneable(item, seen);
  } else if (Array.isArray(value) || prototype === Object.prototype || prototype === null) {
    for (const key of Object.keys(value)) checkCloneable(/** @type {any} */ (value)[key], seen);
  }
}

/** Platform types that RPC will carry when calls between isolates are sessions. */
const SPECIAL = [streams.ReadableStream, streams.WritableStream, Request, Response, Headers];

/** Largest message, in bytes. */
const MESSAGE_MAX_BYTES = 32 * 1024 * 1024;

/** @param {unknown} value @returns {Uint8Array} */
export function serializeForRpc(value) {
  checkCloneable(value, new Set());
  const bytes = core.serialize(value, { forStorage: true }, (/** @type {string} */ message) => {
    throw cloneError(message);
  });
  if (bytes.byteLength > MESSAGE_MAX_BYTES) {
    throw cloneError(
      `Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: ${bytes.byteLength} bytes.`,
    );
  }
  return bytes;
}

/** @param {Uint8Array} bytes */
export function deserializeFromRpc(bytes) {
  return core.deserialize(bytes, { forStorage: true });
}

/** Base class of objects that are passed by reference. */
export class RpcTarget {}

const stubs = new WeakSet();

/** @param {unknown} value */
function isStub(value) {
  return stubs.has(/** @type {object} */ (value));
}

/**
 * A promise whose properties and methods can be used before it settles.
 * @param {Promise<any>} promise
 * @returns {any}
 */
function pipelined(promise) {
  return new Proxy(function () {}, {
    get(_target, key) {
      if (key === "then" || key === "catch" || key === "finally") {
        return (/** @type {any[]} */ ...args) => /** @type {any} */ (promise)[key](...args);
      }
      if (typeof key === "symbol") return key === Symbol.toStringTag ? "RpcPromise" : undefined;
      const member = promise.then((value) => member_(value, key));
      member.catch(() => {});
      return pipelined(member);
    },
    apply(_target, _this, args) {
      return pipelined(
        promise.then((value) => {
          if (typeof value !== "function") throw new TypeError("RPC stub points at a non-function value.");
          return value(...args);
        }),
      );
    },
  });
}

/** @param {any} value @param {string} key */
function member_(value, key) {
  if (typeof value !== "object" || value === null)
    throw new TypeError("Can't pipeline on RPC that did not return an object.");
  const member = value[key];
  return typeof member === "function" ? member.bind(value) : member;
}

/**
 * A property of a stub: call it, await it, or go deeper.
 * @param {Target} target
 * @param {string[]} path
 * @returns {any}
 */
function property(target, path) {
  return new Proxy(function () {}, {
    get(_target, key) {
      if (key === "then") {
        return (/** @type {any} */ resolve, /** @type {any} */ reject) =>
          target.call(path, null).then(deserializeFromRpc).then(resolve, reject);
      }
      if (key === "catch" || key === "finally" || typeof key === "symbol") return undefined;
      if (key === "call" || key === "apply" || key === "bind") return Reflect.get(Function.prototype, key);
      return property(target, [...path, key]);
    },
    apply(_target, _this, args) {
      let answer;
      try {
        answer = target.call(path, serializeForRpc(args)).then(deserializeFromRpc);
      } catch (error) {
        answer = Promise.reject(error);
      }
      return pipelined(answer);
    },
  });
}

/**
 * Wraps an object so that unknown names become remote members.
 * @param {any} base
 * @param {Target} target
 */
function remote(base, target) {
  const proxy = new Proxy(base, {
    get(object, key) {
      if (typeof key === "symbol" || key in object) {
        const value = Reflect.get(object, key, object);
        return typeof value === "function" && key !== "constructor" ? value.bind(object) : value;
      }
      if (key === "then") return undefined;
      return property(target, [key]);
    },
  });
  stubs.add(proxy);
  return proxy;
}

/** Stub of an entrypoint. */
export class Fetcher {
  #target;

  /** @param {Target} target */
  constructor(target) {
    this.#target = target;
  }

  /** @param {any} input @param {any} [init] */
  fetch(input, init) {
    return this.#target.fetch(input, init);
  }

  connect() {
    throw new Error("connect() is not supported by this version of celld.");
  }
}

/** @param {Target} target */
export function makeFetcher(target) {
  return remote(new Fetcher(target), target);
}

/** Stub of a Durable Object. */
export class DurableObject extends Fetcher {
  /** @param {Target} target @param {DurableObjectId} id */
  constructor(target, id) {
    super(target);
    if (!(id instanceof DurableObjectId)) throw new TypeError("Illegal constructor");
    Object.defineProperty(this, "name", { value: id.name, enumerable: true });
    Object.defineProperty(this, "id", { value: id, enumerable: true });
  }
}

/** @param {number} namespace @param {DurableObjectId} id */
function cellStub(namespace, id) {
  // A long name stays with the id that was made from it: the object does not learn it.
  const { name } = id;
  const known = name !== undefined && core.byteLength(name) <= NAME_MAX_BYTES ? name : undefined;
  const target = cellTarget(namespace, id.toString(), known);
  return remote(new DurableObject(target, id), target);
}

/** Longest name that an object learns, in bytes. */
const NAME_MAX_BYTES = 1024;

export class DurableObjectNamespace {
  #index;

  /** @param {number} index the host's number of the namespace */
  constructor(index) {
    if (typeof index !== "number") throw new TypeError("Illegal constructor");
    this.#index = index;
  }

  get [Symbol.toStringTag]() {
    return "DurableObjectNamespace";
  }

  /** @param {{ jurisdiction?: string }} [options] */
  newUniqueId(options) {
    forbidAtGlobalScope();
    checkJurisdiction(options?.jurisdiction);
    return makeId(op_id_unique(this.#index), undefined);
  }

  /** @param {string} name */
  idFromName(name) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'idFromName' on 'DurableObjectNamespace': parameter 1 is not of type 'string'.",
      );
    name = String(name);
    return makeId(op_id_from_name(this.#index, name), name);
  }

  /** @param {string} id */
  idFromString(id) {
    return makeId(op_id_check(this.#index, String(id)), undefined);
  }

  /** @param {DurableObjectId} id @param {any} [options] */
  get(id, options) {
    forbidAtGlobalScope();
    if (!(id instanceof DurableObjectId)) {
      throw new TypeError(
        "Failed to execute 'get' on 'DurableObjectNamespace': parameter 1 is not of type 'DurableObjectId'.",
      );
    }
    op_id_check(this.#index, id.toString());
    // Hints about the place are taken, and have no effect on a fleet in one place.
    const mode = options?.routingMode;
    if (mode !== undefined && mode !== null && mode !== "primary-only")
      throw new RangeError(`unknown routingMode: ${mode}`);
    return cellStub(this.#index, id);
  }

  /** @param {string} name @param {any} [options] */
  getByName(name, options) {
    if (arguments.length === 0)
      throw new TypeError(
        "Failed to execute 'getByName' on 'DurableObjectNamespace': parameter 1 is not of type 'string'.",
      );
    return this.get(this.idFromName(name), options);
  }

  /** @param {string} name */
  jurisdiction(name) {
    checkJurisdiction(name);
    return this;
  }
}

/** @param {string | undefined} jurisdiction */
function checkJurisdiction(jurisdiction) {
  if (jurisdiction !== undefined && !["eu", "fedramp", "fedramp-high", "us"].includes(jurisdiction)) {
    throw new TypeError(`Invalid jurisdiction: ${jurisdiction}`);
  }
}

/** @param {string} name */
function missing(name) {
  return new TypeError(`The RPC receiver does not implement the method "${name}".`);
}

/**
 * Finds the member that a call names, by the rules for classes: only what the prototype chain
 * offers, never an instance's own properties.
 * @param {any} target
 * @param {string} name
 * @param {boolean} top
 */
function classMember(target, name, top) {
  if (UNFORWARDED.has(name) || (top && RESERVED.has(name))) {
    throw new TypeError(`'${name}' is a reserved method and cannot be called over RPC.`);
  }
  if (Object.hasOwn(target, name)) throw missing(name);
  for (
    let prototype = Object.getPrototypeOf(target);
    prototype !== null && prototype !== Object.prototype;
    prototype = Object.getPrototypeOf(prototype)
  ) {
    if (Object.hasOwn(prototype, name)) return target[name];
  }
  throw missing(name);
}

/** @param {any} target @param {string} name @param {boolean} top */
function plainMember(target, name, top) {
  if (UNFORWARDED.has(name) || (top && RESERVED.has(name))) {
    throw new TypeError(`'${name}' is a reserved method and cannot be called over RPC.`);
  }
  if (!Object.hasOwn(target, name)) throw missing(name);
  return target[name];
}

/**
 * Runs a call on the receiving side.
 * @param {any} receiver instance of an entrypoint or a Durable Object
 * @param {string[]} path
 * @param {Uint8Array | null} args null reads a property
 * @param {((value: any) => any[]) | null} extra appends arguments (plain objects get env and ctx)
 * @returns {Promise<Uint8Array>}
 */
export async function receive(receiver, path, args, extra = null) {
  let self = receiver;
  let value = receiver;
  for (let i = 0; i < path.length; i++) {
    self = value;
    if ((typeof value !== "object" && typeof value !== "function") || value === null) throw missing(path[i]);
    const prototype = Object.getPrototypeOf(value);
    const isPlain = prototype === Object.prototype || prototype === null;
    value = isPlain ? plainMember(value, path[i], i === 0) : classMember(value, path[i], i === 0);
    if (i + 1 < path.length || args === null) value = await value;
  }
  if (args === null) {
    if (typeof value === "function")
      throw cloneError(
        `"${path.join(".")}" is a method; reading methods over RPC without calling them is not supported by this version of celld.`,
      );
    return serializeForRpc(value);
  }
  if (typeof value !== "function") throw new TypeError(`"${path[path.length - 1]}" is not a function.`);
  const list = deserializeFromRpc(args);
  return serializeForRpc(await Reflect.apply(value, self, extra === null ? list : extra(list)));
}
