// The module `node:events`.
// @ts-check

import { logException } from "../console.js";
import { abort, event as eventApi } from "../web.js";
import { AsyncResource } from "./async_hooks.js";
import { aborted, coded, outOfRange, shown, wrongType } from "./errors.js";

/** @typedef {string | symbol} Name */
/** @typedef {Function & { listener?: Function }} Listener */

export const errorMonitor = Symbol("events.errorMonitor");
export const captureRejectionSymbol = Symbol.for("nodejs.rejection");
export const captureRejections = false;
export const usingDomains = false;

/** More listeners of one event than this are a leak, most likely. */
export const defaultMaxListeners = 10;

/** State of emitters, by emitter: the classes of old are called as plain functions on theirs. */
class State {
  listeners = /** @type {Map<Name, Listener[]>} */ (new Map());
  max = /** @type {number | undefined} */ (undefined);
  captures = false;
  warned = /** @type {Set<Name>} */ (new Set());
}

const states = /** @type {WeakMap<object, State>} */ (new WeakMap());

/** @param {object} emitter */
function stateOf(emitter) {
  let state = states.get(emitter);
  if (state === undefined) {
    state = new State();
    states.set(emitter, state);
  }
  return state;
}

/** @param {unknown} listener */
function requireListener(listener) {
  if (typeof listener !== "function") throw wrongType("listener", "of type function", listener);
}

/** @param {unknown} value @param {string} name */
function requireLimit(value, name) {
  if (typeof value === "number" && value >= 0) return;
  throw outOfRange(name, "a non-negative number", value);
}

/** @param {Listener} listener */
const plain = (listener) => listener.listener ?? listener;

/** @param {any} emitter @param {State} state @param {Name} name */
function warnOfLeak(emitter, state, name) {
  const max = state.max ?? EventEmitter.defaultMaxListeners;
  const count = state.listeners.get(name)?.length ?? 0;
  if (max === 0 || count <= max || state.warned.has(name)) return;
  state.warned.add(name);
  const kind = emitter.constructor?.name ?? "EventEmitter";
  console.warn(
    `MaxListenersExceededWarning: Possible EventEmitter memory leak detected. ${count} ${String(name)} listeners added to ${kind}. MaxListeners is ${max}. Use emitter.setMaxListeners() to increase limit`,
  );
}

/** @param {any} emitter @param {Name} name @param {Listener} listener @param {boolean} first */
function add(emitter, name, listener, first) {
  requireListener(listener);
  const state = stateOf(emitter);
  if (state.listeners.has("newListener")) emitter.emit("newListener", name, plain(listener));
  // A list of its own for each emission that runs.
  const before = state.listeners.get(name) ?? [];
  state.listeners.set(name, first ? [listener, ...before] : [...before, listener]);
  warnOfLeak(emitter, state, name);
  return emitter;
}

/** @param {any} emitter @param {Name} name @param {Function} listener */
function onlyOnce(emitter, name, listener) {
  requireListener(listener);
  const wrapped = /** @type {Listener} */ (
    function (/** @type {any[]} */ ...args) {
      emitter.removeListener(name, wrapped);
      return Reflect.apply(listener, emitter, args);
    }
  );
  wrapped.listener = listener;
  return wrapped;
}

/** The error of an "error" event that nobody hears. @param {unknown} value */
function unheard(value) {
  if (value instanceof Error) return value;
  const error = new Error(`Unhandled error. (${shown(value)})`);
  return Object.assign(coded(error, "ERR_UNHANDLED_ERROR"), { context: value });
}

/** @param {any} emitter @param {Name} name @param {any[]} args @param {unknown} error */
function captured(emitter, name, args, error) {
  const own = emitter[captureRejectionSymbol];
  try {
    if (typeof own === "function") own.call(emitter, error, name, ...args);
    else emitter.emit("error", error);
  } catch (thrown) {
    logException(thrown, "Uncaught ");
  }
}

/**
 * Calls listeners by name. A function and not a class: old code calls it on its own objects.
 * @this {any}
 * @param {{ captureRejections?: boolean }} [options]
 */
export function EventEmitter(options) {
  EventEmitter.init.call(this, options);
}

/** @this {any} @param {{ captureRejections?: boolean }} [options] */
EventEmitter.init = function init(options) {
  stateOf(this).captures = Boolean(options?.captureRejections ?? EventEmitter.captureRejections);
};

EventEmitter.captureRejections = captureRejections;
EventEmitter.defaultMaxListeners = defaultMaxListeners;

/** @type {Record<string, Function>} */
const methods = {
  /** @this {any} @param {number} count */
  setMaxListeners(count) {
    requireLimit(count, "n");
    stateOf(this).max = count;
    return this;
  },

  getMaxListeners() {
    return stateOf(this).max ?? EventEmitter.defaultMaxListeners;
  },

  /** @this {any} @param {Name} name @param {any[]} args */
  emit(name, ...args) {
    const { listeners, captures } = stateOf(this);
    if (name === "error") {
      if (listeners.has(errorMonitor)) this.emit(errorMonitor, ...args);
      if (!listeners.has("error")) throw unheard(args[0]);
    }
    const list = listeners.get(name);
    if (list === undefined) return false;
    for (const listener of list) {
      const result = Reflect.apply(listener, this, args);
      if (captures && typeof result?.then === "function" && name !== "error") {
        result.then(undefined, (/** @type {unknown} */ error) => captured(this, name, args, error));
      }
    }
    return true;
  },

  /** @this {any} @param {Name} name @param {Listener} listener */
  addListener(name, listener) {
    return add(this, name, listener, false);
  },

  /** @this {any} @param {Name} name @param {Listener} listener */
  on(name, listener) {
    return add(this, name, listener, false);
  },

  /** @this {any} @param {Name} name @param {Listener} listener */
  prependListener(name, listener) {
    return add(this, name, listener, true);
  },

  /** @this {any} @param {Name} name @param {Function} listener */
  once(name, listener) {
    return this.on(name, onlyOnce(this, name, listener));
  },

  /** @this {any} @param {Name} name @param {Function} listener */
  prependOnceListener(name, listener) {
    return this.prependListener(name, onlyOnce(this, name, listener));
  },

  /** @this {any} @param {Name} name @param {Function} listener */
  removeListener(name, listener) {
    requireListener(listener);
    const { listeners } = stateOf(this);
    const list = listeners.get(name) ?? [];
    const at = list.findLastIndex((known) => known === listener || known.listener === listener);
    if (at < 0) return this;
    if (list.length === 1) listeners.delete(name);
    else listeners.set(name, list.toSpliced(at, 1));
    if (listeners.has("removeListener")) this.emit("removeListener", name, plain(list[at]));
    return this;
  },

  /** @this {any} @param {Name} name @param {Function} listener */
  off(name, listener) {
    return this.removeListener(name, listener);
  },

  /** @this {any} @param {Name} [name] */
  removeAllListeners(name) {
    const { listeners } = stateOf(this);
    if (!listeners.has("removeListener")) {
      if (name === undefined) listeners.clear();
      else listeners.delete(name);
    } else if (name === undefined) {
      for (const other of [...listeners.keys()]) {
        if (other !== "removeListener") this.removeAllListeners(other);
      }
      listeners.delete("removeListener");
    } else {
      for (const listener of (listeners.get(name) ?? []).toReversed()) this.removeListener(name, listener);
    }
    return this;
  },

  /** @this {any} @param {Name} name */
  listeners(name) {
    return (stateOf(this).listeners.get(name) ?? []).map(plain);
  },

  /** @this {any} @param {Name} name */
  rawListeners(name) {
    return [...(stateOf(this).listeners.get(name) ?? [])];
  },

  /** @this {any} @param {Name} name @param {Function} [listener] */
  listenerCount(name, listener) {
    const list = stateOf(this).listeners.get(name) ?? [];
    if (typeof listener !== "function") return list.length;
    return list.filter((known) => known === listener || known.listener === listener).length;
  },

  eventNames() {
    return [...stateOf(this).listeners.keys()];
  },
};

for (const [name, value] of Object.entries(methods)) {
  Object.defineProperty(EventEmitter.prototype, name, {
    value,
    writable: true,
    enumerable: true,
    configurable: true,
  });
}

/** @param {any} emitter @param {Name} name */
export function getEventListeners(emitter, name) {
  if (typeof emitter?.listeners === "function") return emitter.listeners(name);
  if (emitter instanceof eventApi.EventTarget) {
    throw new Error("getEventListeners() of an EventTarget is not supported by this version of celld.");
  }
  throw wrongType("emitter", "an instance of EventEmitter or EventTarget", emitter);
}

/** @param {any} emitter */
export function getMaxListeners(emitter) {
  if (typeof emitter?.getMaxListeners === "function") return emitter.getMaxListeners();
  throw wrongType("emitter", "an instance of EventEmitter", emitter);
}

/** @param {number} count @param {any[]} emitters */
export function setMaxListeners(count, ...emitters) {
  requireLimit(count, "n");
  if (emitters.length === 0) EventEmitter.defaultMaxListeners = count;
  for (const emitter of emitters) {
    if (typeof emitter?.setMaxListeners === "function") emitter.setMaxListeners(count);
    // An EventTarget has no limit.
    else if (!(emitter instanceof eventApi.EventTarget)) {
      throw wrongType("eventTargets", "an instance of EventEmitter or EventTarget", emitter);
    }
  }
}

/** @param {any} emitter @param {Name} name */
export function listenerCount(emitter, name) {
  if (typeof emitter?.listenerCount === "function") return emitter.listenerCount(name);
  return getEventListeners(emitter, name).length;
}

/** Listens on an emitter or a target, and returns what ends that. */
function listen(/** @type {any} */ emitter, /** @type {any} */ name, /** @type {any} */ listener) {
  if (typeof emitter?.on === "function") {
    emitter.on(name, listener);
    return () => emitter.removeListener(name, listener);
  }
  if (typeof emitter?.addEventListener === "function") {
    emitter.addEventListener(name, listener);
    return () => emitter.removeEventListener(name, listener);
  }
  throw wrongType("emitter", "an instance of EventEmitter", emitter);
}

/** @param {any} signal @param {() => void} then */
function whenAborted(signal, then) {
  if (signal === undefined) return () => {};
  if (!(signal instanceof abort.AbortSignal))
    throw wrongType("options.signal", "an instance of AbortSignal", signal);
  if (signal.aborted) throw aborted(signal.reason);
  signal.addEventListener("abort", then, { once: true });
  return () => signal.removeEventListener("abort", then);
}

/**
 * The arguments of the next event, as an array.
 * @param {any} emitter @param {Name} name @param {{ signal?: AbortSignal }} [options]
 */
export async function once(emitter, name, options) {
  return new Promise((resolve, reject) => {
    const ends = /** @type {(() => void)[]} */ ([]);
    const settle = (/** @type {(value: any) => void} */ how) => (/** @type {any} */ value) => {
      for (const end of ends) end();
      how(value);
    };
    const stop = settle(() => reject(aborted(options?.signal?.reason)));
    ends.push(whenAborted(options?.signal, /** @type {() => void} */ (stop)));
    ends.push(listen(emitter, name, (/** @type {any[]} */ ...args) => settle(resolve)(args)));
    if (name !== "error" && typeof emitter.on === "function") {
      ends.push(listen(emitter, "error", settle(reject)));
    }
  });
}

/** Iterates over the events of a name. */
class Events {
  #queue = /** @type {any[][]} */ ([]);
  #waiting = /** @type {{ resolve: Function, reject: Function }[]} */ ([]);
  #failure = /** @type {{ error: unknown } | null} */ (null);
  #ended = false;
  #ends = /** @type {(() => void)[]} */ ([]);

  /** @param {any} emitter @param {Name} name @param {any} options */
  constructor(emitter, name, options) {
    const stop = () => this.#fail(aborted(options?.signal?.reason));
    this.#ends.push(whenAborted(options?.signal, stop));
    this.#ends.push(listen(emitter, name, (/** @type {any[]} */ ...args) => this.#take(args)));
    if (name !== "error" && typeof emitter.on === "function") {
      this.#ends.push(listen(emitter, "error", (/** @type {unknown} */ error) => this.#fail(error)));
    }
    for (const close of options?.close ?? []) this.#ends.push(listen(emitter, close, () => this.#end()));
  }

  /** @param {any[]} args */
  #take(args) {
    const next = this.#waiting.shift();
    if (next !== undefined) next.resolve({ value: args, done: false });
    else this.#queue.push(args);
  }

  #leave() {
    for (const end of this.#ends.splice(0)) end();
  }

  #end() {
    this.#leave();
    this.#ended = true;
    for (const { resolve } of this.#waiting.splice(0)) resolve({ value: undefined, done: true });
  }

  /** @param {unknown} error */
  #fail(error) {
    const next = this.#waiting.shift();
    if (next !== undefined) next.reject(error);
    else this.#failure = { error };
    this.#end();
  }

  next() {
    const args = this.#queue.shift();
    if (args !== undefined) return Promise.resolve({ value: args, done: false });
    if (this.#failure !== null) {
      const { error } = this.#failure;
      this.#failure = null;
      return Promise.reject(error);
    }
    if (this.#ended) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
  }

  return() {
    this.#queue.length = 0;
    this.#end();
    return Promise.resolve({ value: undefined, done: true });
  }

  /** @param {unknown} error */
  throw(error) {
    if (!(error instanceof Error))
      throw wrongType("EventEmitter.AsyncIterator", "an instance of Error", error);
    this.#fail(error);
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

/** @param {any} emitter @param {Name} name @param {{ signal?: AbortSignal, close?: Name[] }} [options] */
export function on(emitter, name, options) {
  return new Events(emitter, name, options);
}

/** @param {AbortSignal} signal @param {(event: Event) => void} listener */
export function addAbortListener(signal, listener) {
  if (!(signal instanceof abort.AbortSignal)) throw wrongType("signal", "an instance of AbortSignal", signal);
  requireListener(listener);
  if (signal.aborted) queueMicrotask(() => listener(new eventApi.Event("abort")));
  else signal.addEventListener("abort", listener, { once: true });
  return { [Symbol.dispose]: () => signal.removeEventListener("abort", listener) };
}

/** An emitter whose listeners see the values of the moment of its construction. */
export class EventEmitterAsyncResource extends /** @type {any} */ (EventEmitter) {
  #resource = new AsyncResource();

  /** @param {Name} name @param {any[]} args */
  emit(name, ...args) {
    return this.#resource.runInAsyncScope(super.emit, this, name, ...args);
  }

  get asyncResource() {
    return this.#resource;
  }

  emitDestroy() {
    this.#resource.emitDestroy();
  }
}

/** Class members as Node.js has them. */
Object.assign(EventEmitter, {
  EventEmitter,
  EventEmitterAsyncResource,
  addAbortListener,
  captureRejectionSymbol,
  errorMonitor,
  getEventListeners,
  getMaxListeners,
  listenerCount,
  on,
  once,
  setMaxListeners,
  usingDomains,
});

export default EventEmitter;
