// The module `node:async_hooks`: values that follow a computation, on V8's continuation-preserved
// data, where the current event travels too.
// @ts-check

import { core } from "ext:core/mod.js";
import { withValues } from "../context.js";

/** @param {string} where @param {number} position @param {any} value */
function requireFunction(where, position, value) {
  if (typeof value === "function") return;
  const [method, owner] = where.split(" of ");
  throw new TypeError(
    `Failed to execute '${method}' on '${owner}': parameter ${position} is not of type 'function'.`,
  );
}

/** A value for the code that `run` calls, and for everything that this code starts. */
export class AsyncLocalStorage {
  #key;
  #name;
  #default;

  /** @param {{ defaultValue?: any, name?: string }} [options] */
  constructor(options) {
    this.#default = options?.defaultValue;
    this.#name = String(options?.name ?? "");
    this.#key = Symbol(this.#name);
  }

  get name() {
    return this.#name;
  }

  getStore() {
    const values = core.getAsyncContext();
    return values != null && this.#key in values ? values[this.#key] : this.#default;
  }

  /** @param {any} store @param {Function} callback @param {any[]} args */
  run(store, callback, ...args) {
    requireFunction("run of AsyncLocalStorage", 2, callback);
    const before = core.getAsyncContext();
    core.setAsyncContext({ __proto__: null, ...before, [this.#key]: store });
    try {
      return callback(...args);
    } finally {
      core.setAsyncContext(before);
    }
  }

  /** @param {Function} callback @param {any[]} args */
  exit(callback, ...args) {
    requireFunction("exit of AsyncLocalStorage", 1, callback);
    return this.run(undefined, callback, ...args);
  }

  enterWith() {
    throw new Error("asyncLocalStorage.enterWith() is not implemented");
  }

  disable() {
    throw new Error("asyncLocalStorage.disable() is not implemented");
  }

  /** A function that calls `callback` with the values of this moment. @param {Function} callback */
  static bind(callback) {
    requireFunction("bind of AsyncLocalStorage", 1, callback);
    const values = core.getAsyncContext();
    return function (/** @type {any[]} */ ...args) {
      return withValues(values, () => Reflect.apply(callback, globalThis, args));
    };
  }

  /** A function that calls whatever it is given with the values of this moment. */
  static snapshot() {
    const values = core.getAsyncContext();
    return function (/** @type {any[]} */ ...args) {
      const [callback, ...rest] = args;
      if (typeof callback !== "function") throw new TypeError("The first argument must be a function");
      return withValues(values, () => callback(...rest));
    };
  }
}

/** Keeps the values of the moment of its construction for work that comes later. */
export class AsyncResource {
  #values = core.getAsyncContext();

  /** Async ids are not kept here: every id is 0. */
  asyncId() {
    return 0;
  }

  triggerAsyncId() {
    return 0;
  }

  emitDestroy() {}

  /** @param {Function} callback @param {any} [receiver] @param {any[]} args */
  runInAsyncScope(callback, receiver, ...args) {
    requireFunction("runInAsyncScope of AsyncResource", 1, callback);
    return withValues(this.#values, () => Reflect.apply(callback, receiver, args));
  }

  /** @param {Function} callback @param {any} [receiver] */
  bind(callback, receiver) {
    requireFunction("bind of AsyncResource", 1, callback);
    const bound = (/** @type {any[]} */ ...args) =>
      this.runInAsyncScope(callback, receiver ?? globalThis, ...args);
    return Object.assign(bound, { asyncResource: this });
  }

  /** @param {Function} callback @param {string} [_type] @param {any} [receiver] */
  static bind(callback, _type, receiver) {
    return new AsyncResource().bind(callback, receiver);
  }
}

/** What `createHook` returns: nothing is ever reported to it. */
class AsyncHook {
  enable() {
    return this;
  }

  disable() {
    return this;
  }
}

export function createHook() {
  return new AsyncHook();
}

export function executionAsyncId() {
  return 0;
}

export function triggerAsyncId() {
  return 0;
}

export function executionAsyncResource() {
  return {};
}
