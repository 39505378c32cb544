// What scripts hold of remote things: stubs, promises and properties; and the references behind
// them.
// @ts-check

import { logException } from "./console.js";
import { currentEvent, runAs } from "./context.js";
import { describeError, rebuildError } from "./errors.js";
import { hasMembers, isPlain, memberOf, missing } from "./rpc_target.js";
import { LOCAL, nothingToDispose, pack, packResult, unpack } from "./rpc_values.js";

/** @typedef {import("./rpc_values.js").Holdings} Holdings */

/**
 * A reference to something that can be called.
 * @typedef {object} Hook
 * @property {(path: string[], args: any[] | null) => Question} call null reads a property
 * @property {() => Hook} dup
 * @property {() => void} dispose
 */

/** What is behind a proxy that scripts hold. @type {WeakMap<object, any>} */
const handlers = new WeakMap();

/** @param {any} proxy @param {any} handler */
export function setHandler(proxy, handler) {
  handlers.set(proxy, handler);
  return proxy;
}

/** @param {any} value */
export function handlerOf(value) {
  return handlers.get(value);
}

/**
 * Makes a call on a value of this side.
 * @param {any} value
 * @param {string[]} path
 * @param {any[] | null} args null reads a property
 * @param {((args: any[]) => any[]) | null} extra set for entrypoints; appends what plain ones get
 * @returns {any}
 */
export function invoke(value, path, args, extra = null) {
  const receiver = value;
  /** @type {any} */
  let self;
  for (let i = 0; ; i++) {
    if (i > 0 || extra === null) {
      const handler = handlerOf(value);
      if (handler !== undefined && (i < path.length || args !== null))
        return handler.call(path.slice(i), args).promise;
    }
    if (i === path.length) break;
    self = value;
    value = memberOf(value, path[i], extra !== null && i === 0, extra !== null);
    if (i + 1 < path.length && handlerOf(value) === undefined && !hasMembers(value)) throw missing(path[i]);
  }
  if (args === null) return value;
  if (typeof value !== "function")
    throw new TypeError(`"${path.length === 0 ? "(this)" : path[path.length - 1]}" is not a function.`);
  if (extra === null || !isPlain(receiver)) return Reflect.apply(value, self, args);
  if (args.length !== 1) {
    throw new TypeError(
      `Attempted to call RPC function "${path.join(".")}" with the wrong number of arguments. When calling a top-level handler function that is not declared as part of a class, you must always send exactly one argument. In order to support variable numbers of arguments, the server must use class-based syntax (extending WorkerEntrypoint) instead.`,
    );
  }
  return Reflect.apply(value, self, extra(args));
}

/** Something of this side that others refer to. When nobody does any more it is told. */
export class Entry {
  #count = 1;
  #value;
  #event = currentEvent();
  /** The critical section in which it was given away: calls on it belong there. */
  section = currentEvent()?.section ?? null;

  /** @param {any} value an object, a function, or a hook to pass calls on to */
  constructor(value) {
    this.#value = value;
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    return invoke(this.#value, path, args);
  }

  retain() {
    this.#count++;
    return this;
  }

  release() {
    if (--this.#count > 0) return;
    const event = this.#event;
    // The code of an instance that has ended runs no more.
    if (event?.cell?.isBroken) return;
    const end = () => {
      try {
        this.#value[Symbol.dispose]?.();
      } catch (error) {
        logException(error, "Uncaught (in disposer) ");
      }
    };
    if (event === null) end();
    else runAs(event, end);
  }
}

/** Passes on what is called on it: a reference to another side, offered as one's own. */
export class Forward {
  #hook;

  /** @param {Hook} hook */
  constructor(hook) {
    this.#hook = hook;
    handlers.set(this, this);
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    return this.#hook.call(path, args);
  }

  /** It is never a value itself. */
  wire() {
    return null;
  }

  get typeName() {
    return "RpcStub";
  }

  [Symbol.dispose]() {
    this.#hook.dispose();
  }
}

/** A reference within this isolate. @implements {Hook} */
export class LocalHook {
  /** @param {Entry} entry whose reference this takes over */
  constructor(entry) {
    this.entry = entry;
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    const { entry } = this;
    return later(args, entry.retain(), (list) => entry.call(path, list));
  }

  dup() {
    return new LocalHook(this.entry.retain());
  }

  dispose() {
    this.entry.release();
  }
}

/**
 * Makes a call within this isolate as if it came from elsewhere: in a turn of its own, values are
 * copied both ways.
 * @param {any[] | null} args
 * @param {Entry | null} entry released when the call has ended
 * @param {(args: any[] | null) => any} run
 */
function later(args, entry, run) {
  const question = new Question();
  /** @type {import("./rpc_values.js").Packed | null} */
  let sent = null;
  try {
    if (args !== null) sent = pack(args, LOCAL);
  } catch (error) {
    question.fail(error);
    entry?.release();
    return question;
  }
  const answer = async () => {
    /** @type {Holdings | null} */
    let params = null;
    try {
      await null;
      let list = null;
      if (sent !== null) ({ value: list, holdings: params } = unpack(sent.bytes, sent.caps, LOCAL));
      const back = packResult(await run(list), LOCAL);
      for (const stub of back.stubs) stub.dispose();
      const { value, holdings } = unpack(back.bytes, back.caps, LOCAL);
      question.settle(value, holdings);
    } catch (error) {
      question.fail(rebuildError({ ...describeError(error, true), remote: true }));
    } finally {
      params?.dispose();
      entry?.release();
    }
  };
  answer();
  return question;
}

/** An answer that is awaited, and on which calls can be made before it is there. */
export class Question {
  #resolve = /** @type {(value: any) => void} */ (() => {});
  #reject = /** @type {(error: unknown) => void} */ (() => {});
  #holdings = /** @type {Holdings | null} */ (null);
  #isDisposed = false;
  isSettled = false;
  /** A script has asked for the value itself, and looks after it. */
  isAwaited = false;

  constructor() {
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
    });
    this.promise.catch(() => {});
  }

  /** @param {unknown} error */
  static failed(error) {
    const question = new Question();
    question.fail(error);
    return question;
  }

  /** @param {any} value @param {Holdings} holdings */
  settle(value, holdings) {
    this.isSettled = true;
    this.#holdings = holdings;
    if (typeof value === "object" && value !== null) {
      Object.defineProperty(value, Symbol.dispose, {
        value: holdings.isEmpty ? nothingToDispose : () => holdings.dispose(),
        writable: true,
        enumerable: false,
        configurable: true,
      });
    }
    if (this.#isDisposed && !this.isAwaited) holdings.dispose();
    this.#resolve(value);
  }

  /** @param {unknown} error */
  fail(error) {
    this.isSettled = true;
    this.#reject(error);
  }

  /** Makes a call on the result. @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    if (this.#isDisposed) return Question.failed(new Error("RPC promise used after being disposed."));
    return this.isSettled ? this.callHere(path, args) : this.pipeline(path, args);
  }

  /** Before the result is there. @param {string[]} path @param {any[] | null} args @returns {Question} */
  pipeline(path, args) {
    return this.callHere(path, args);
  }

  /** On what this side has of the result. @param {string[]} path @param {any[] | null} args */
  callHere(path, args) {
    return later(args, null, async (list) => invoke(await this.promise, path, list));
  }

  dispose() {
    this.#isDisposed = true;
    this.#holdings?.dispose();
  }
}

/** All proxies have one target: what is special of one is in its handler. */
const TARGET = () => {};

/** Behaviour of stubs, promises and properties: whatever a script names is on the other side. */
class Handler {
  #own = /** @type {Record<PropertyKey, any> | null} */ (null);

  /** What to make calls on. @returns {{ call(path: string[], args: any[] | null): Question }} */
  get callee() {
    throw new Error("without a callee");
  }

  /** @type {string[]} */
  get path() {
    return NO_PATH;
  }

  /** @type {any} */
  get prototype() {
    return Object.prototype;
  }

  /** @param {string[]} path @param {any[] | null} args */
  call(path, args) {
    return this.callee.call(path, args);
  }

  /** The capability that stands for it in messages, if any does without a session. @returns {any[] | null} */
  wire() {
    return null;
  }

  /** @param {any} _target @param {PropertyKey} key @param {any} receiver */
  get(_target, key, receiver) {
    if (this.#own !== null && key in this.#own) return this.#own[key];
    const { prototype } = this;
    if (typeof key === "symbol" || key in prototype) return Reflect.get(prototype, key, receiver);
    if (isAbsent(/** @type {string} */ (key))) return undefined;
    return PropertyHandler.make(this.callee, [...this.path, /** @type {string} */ (key)]);
  }

  /** @param {any} _target @param {PropertyKey} key */
  has(_target, key) {
    if (typeof key === "symbol") return key in this.prototype;
    return key in this.prototype || !isAbsent(/** @type {string} */ (key));
  }

  /** @param {any} _target @param {PropertyKey} key @param {any} value */
  set(_target, key, value) {
    this.#own ??= { __proto__: null };
    /** @type {any} */ (this.#own)[key] = value;
    return true;
  }

  /** @param {any} _target @param {PropertyKey} key @param {PropertyDescriptor} descriptor */
  defineProperty(_target, key, descriptor) {
    this.#own ??= { __proto__: null };
    return Reflect.defineProperty(/** @type {any} */ (this.#own), key, { ...descriptor, configurable: true });
  }

  /** @param {any} _target @param {PropertyKey} key */
  deleteProperty(_target, key) {
    return this.#own === null || Reflect.deleteProperty(this.#own, key);
  }

  ownKeys() {
    return this.#own === null ? [] : Reflect.ownKeys(this.#own);
  }

  /** @param {any} _target @param {PropertyKey} key */
  getOwnPropertyDescriptor(_target, key) {
    return this.#own === null ? undefined : Reflect.getOwnPropertyDescriptor(this.#own, key);
  }

  getPrototypeOf() {
    return this.prototype;
  }

  setPrototypeOf() {
    return false;
  }

  preventExtensions() {
    return false;
  }

  /** @param {any} _target @param {any} _this @param {any[]} args */
  apply(_target, _this, args) {
    return PromiseHandler.make(this.callee.call(this.path, args));
  }
}

const NO_PATH = /** @type {string[]} */ ([]);

/**
 * Names that the language looks up by itself, and indices, which are nobody's methods.
 * @param {string} key
 */
export function isAbsent(key) {
  if (key === "then" || key === "toJSON") return true;
  const code = key.charCodeAt(0);
  return code >= 48 && code <= 57 && /^(?:0|[1-9]\d*)$/.test(key);
}

/** @param {Handler} handler */
function proxied(handler) {
  return setHandler(new Proxy(TARGET, /** @type {any} */ (handler)), handler);
}

/** Stubs that scripts lost without disposing them. */
const lost = new FinalizationRegistry((/** @type {Hook} */ hook) => hook.dispose());

export class StubHandler extends Handler {
  #hook;

  /** @param {Hook} hook */
  constructor(hook) {
    super();
    this.#hook = /** @type {Hook | null} */ (hook);
  }

  /** @param {Hook} hook whose reference the stub takes over */
  static make(hook) {
    const handler = new StubHandler(hook);
    const proxy = proxied(handler);
    lost.register(proxy, hook, handler);
    return proxy;
  }

  get typeName() {
    return "RpcStub";
  }

  get prototype() {
    return RpcStub.prototype;
  }

  get callee() {
    return this.#hook ?? DISPOSED;
  }

  /** The reference. Throws when it was given back. */
  use() {
    if (this.#hook === null) throw disposed();
    return this.#hook;
  }

  dispose() {
    const hook = this.#hook;
    if (hook === null) return;
    this.#hook = null;
    lost.unregister(this);
    hook.dispose();
  }
}

function disposed() {
  return new Error("RPC stub used after being disposed.");
}

const DISPOSED = { call: () => Question.failed(disposed()) };

export class PromiseHandler extends Handler {
  /** @param {Question} question */
  constructor(question) {
    super();
    this.question = question;
  }

  /** @param {Question} question */
  static make(question) {
    return proxied(new PromiseHandler(question));
  }

  get typeName() {
    return "RpcPromise";
  }

  get prototype() {
    return RpcPromise.prototype;
  }

  get callee() {
    return this.question;
  }

  ask() {
    this.question.isAwaited = true;
    return this.question.promise;
  }
}

export class PropertyHandler extends Handler {
  #callee;
  #path;

  /** @param {{ call(path: string[], args: any[] | null): Question }} callee @param {string[]} path */
  constructor(callee, path) {
    super();
    this.#callee = callee;
    this.#path = path;
  }

  /** @param {{ call(path: string[], args: any[] | null): Question }} callee @param {string[]} path */
  static make(callee, path) {
    return proxied(new PropertyHandler(callee, path));
  }

  get typeName() {
    return "RpcProperty";
  }

  get prototype() {
    return RpcProperty.prototype;
  }

  get callee() {
    return this.#callee;
  }

  get path() {
    return this.#path;
  }

  ask() {
    const question = this.#callee.call(this.#path, null);
    question.isAwaited = true;
    return question.promise;
  }
}

/**
 * What is behind the receiver of a method.
 * @template {Handler} T
 * @param {any} value
 * @param {new (...args: any[]) => T} type
 * @returns {T}
 */
function behind(value, type) {
  const handler = handlerOf(value);
  if (!(handler instanceof type))
    throw new TypeError("Illegal invocation: function called with incorrect `this` reference.");
  return handler;
}

/** A reference to a remote object or function. */
export class RpcStub {
  /** @param {any} target */
  constructor(target) {
    if ((typeof target !== "object" && typeof target !== "function") || target === null) {
      throw new TypeError(
        "Failed to construct 'JsRpcStub': constructor parameter 1 is not of type 'Object'.",
      );
    }
    const handler = handlerOf(target);
    if (handler instanceof StubHandler) return StubHandler.make(handler.use().dup());
    return StubHandler.make(new LocalHook(new Entry(target)));
  }

  dup() {
    return StubHandler.make(behind(this, StubHandler).use().dup());
  }

  [Symbol.dispose]() {
    behind(this, StubHandler).dispose();
  }
}

/** Shared by promises and properties. */
const thenable = {
  /** @this {any} @param {any} [resolved] @param {any} [rejected] */
  then(resolved, rejected) {
    return /** @type {any} */ (behind(this, Handler)).ask().then(resolved, rejected);
  },
  /** @this {any} @param {any} [rejected] */
  catch(rejected) {
    return /** @type {any} */ (behind(this, Handler)).ask().catch(rejected);
  },
  /** @this {any} @param {any} [done] */
  finally(done) {
    return /** @type {any} */ (behind(this, Handler)).ask().finally(done);
  },
};

/** The result of a remote call. */
export class RpcPromise {
  constructor() {
    throw new TypeError("Illegal constructor");
  }

  [Symbol.dispose]() {
    behind(this, PromiseHandler).question.dispose();
  }
}

/** A member of something remote: to be called, awaited, or gone into. */
export class RpcProperty {
  constructor() {
    throw new TypeError("Illegal constructor");
  }
}

for (const [type, tag] of /** @type {[any, string][]} */ ([
  [RpcStub, "JsRpcStub"],
  [RpcPromise, "JsRpcPromise"],
  [RpcProperty, "JsRpcProperty"],
])) {
  Object.defineProperty(type.prototype, Symbol.toStringTag, { value: tag, configurable: true });
  if (type === RpcStub) continue;
  for (const [name, value] of Object.entries(thenable))
    Object.defineProperty(type.prototype, name, { value, writable: true, configurable: true });
}
