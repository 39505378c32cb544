// Values as they travel in RPC messages: V8's format, with references to what stays at home.
// @ts-check

import { core } from "ext:core/mod.js";
import { op_blob_bytes, op_value_read } from "ext:core/ops";
import { buildError, keepsErrorProperties } from "./errors.js";
import {
  Headers,
  Request,
  Response,
  requestFromValue,
  requestToValue,
  responseFromValue,
  responseToValue,
} from "./http.js";
import { sinkOf, sourceOf, streamFromSink, streamFromSource } from "./rpc_streams.js";
import { Entry, LocalHook, StubHandler, handlerOf } from "./rpc_stubs.js";
import { isTarget } from "./rpc_target.js";
import { abort, domException, file, headers as headersApi, streams } from "./web.js";

const { DOMException } = domException;
const { Blob, File } = file;
const { ReadableStream, WritableStream } = streams;

/** Largest message, in bytes. */
const MESSAGE_MAX_BYTES = 32 * 1024 * 1024;
/** Marks an object whose form in a message is made by a function. */
const BRAND = core.hostObjectBrand;

/** @typedef {import("./rpc_stubs.js").Hook} Hook */

/**
 * How one end of a connection names things.
 * @typedef {object} Codec
 * @property {(count: number) => void} admit throws when that many are too many
 * @property {(hook: Hook) => any[]} give makes a capability of a reference, which it takes over
 * @property {(cap: any[]) => Hook | { fetcher: any }} take
 */

/**
 * A value on its way.
 * @typedef {object} Packed
 * @property {Uint8Array} bytes
 * @property {any[][] | null} caps
 * @property {StubHandler[]} stubs stubs of the sender that the value holds
 */

/** @param {string} what */
export function cloneError(what) {
  return new DOMException(what, "DataCloneError");
}

/** @param {string} name */
function unsupported(name) {
  return cloneError(
    `Could not serialize object of type "${name}". This type does not support serialization.`,
  );
}

function noSignals() {
  return cloneError("AbortSignal serialization is not enabled.");
}

/** Types that V8 writes, or refuses in its own words. @param {object} value */
function isForV8(value) {
  return (
    ArrayBuffer.isView(value) ||
    core.isAnyArrayBuffer(value) ||
    core.isDate(value) ||
    core.isRegExp(value) ||
    core.isBoxedPrimitive(value) ||
    core.isPromise(value) ||
    core.isWeakMap(value) ||
    core.isWeakSet(value) ||
    core.isGeneratorObject(value) ||
    core.isMapIterator(value) ||
    core.isSetIterator(value) ||
    core.isModuleNamespaceObject(value)
  );
}

/**
 * True when V8 alone cannot write the value as it is meant.
 * @param {unknown} value
 * @param {Set<unknown>} seen
 * @returns {boolean}
 */
function isSpecial(value, seen) {
  if (typeof value === "function") return true;
  if (typeof value !== "object" || value === null || seen.has(value)) return false;
  seen.add(value);
  if (core.isProxy(value)) return true;
  if (Array.isArray(value)) {
    for (const key of Object.keys(value)) if (isSpecial(value[/** @type {any} */ (key)], seen)) return true;
    return false;
  }
  const prototype = Object.getPrototypeOf(value);
  if (prototype === Object.prototype) {
    // A script's own object of that form is none: its copy has names alone.
    if (Object.hasOwn(value, BRAND)) return true;
    for (const key of Object.keys(value)) if (isSpecial(/** @type {any} */ (value)[key], seen)) return true;
    return false;
  }
  if (isForV8(value)) return false;
  if (core.isMap(value)) {
    for (const [key, item] of /** @type {Map<any, any>} */ (value))
      if (isSpecial(key, seen) || isSpecial(item, seen)) return true;
    return false;
  }
  if (core.isSet(value)) {
    for (const item of /** @type {Set<any>} */ (value)) if (isSpecial(item, seen)) return true;
    return false;
  }
  return true;
}

/** @param {any} object @param {string} key @param {unknown} value */
function define(object, key, value) {
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true });
}

class Packer {
  /** References, and capabilities that need none, in the order of their numbers. */
  references = /** @type {(Hook | any[])[]} */ ([]);
  stubs = /** @type {StubHandler[]} */ ([]);
  copies = new Map();

  /**
   * Copies a value, with marks in the place of what is special.
   * @param {any} value
   * @returns {any}
   */
  copy(value) {
    if (typeof value !== "function" && (typeof value !== "object" || value === null)) return value;
    const known = this.copies.get(value);
    if (known !== undefined) return known;
    if (typeof value === "function" || core.isProxy(value) || isTarget(value))
      return this.#mark(value, { type: "stub", i: this.#reference(value) });
    if (Array.isArray(value)) {
      const list = new Array(value.length);
      this.copies.set(value, list);
      for (const key of Object.keys(value)) define(list, key, this.copy(value[/** @type {any} */ (key)]));
      return list;
    }
    if (Object.getPrototypeOf(value) === Object.prototype) {
      const object = {};
      this.copies.set(value, object);
      for (const key of Object.keys(value)) define(object, key, this.copy(value[key]));
      return object;
    }
    if (isForV8(value)) return value;
    if (core.isMap(value)) {
      const map = new Map();
      this.copies.set(value, map);
      for (const [key, item] of value) map.set(this.copy(key), this.copy(item));
      return map;
    }
    if (core.isSet(value)) {
      const set = new Set();
      this.copies.set(value, set);
      for (const item of value) set.add(this.copy(item));
      return set;
    }
    return this.#platform(value);
  }

  /** @param {any} value @param {any} form */
  #mark(value, form) {
    const mark = { [BRAND]: () => form };
    this.copies.set(value, mark);
    return mark;
  }

  /** @param {any} value @returns {number} */
  #reference(value) {
    const handler = handlerOf(value);
    if (handler === undefined) return this.give(new LocalHook(new Entry(value)));
    const cap = handler.wire();
    if (cap !== null) return this.references.push(cap) - 1;
    if (!(handler instanceof StubHandler)) throw unsupported(handler.typeName);
    const hook = handler.use().dup();
    this.stubs.push(handler);
    return this.give(hook);
  }

  /** @param {Hook} hook */
  give(hook) {
    return this.references.push(hook) - 1;
  }

  /** @param {any} value */
  #platform(value) {
    if (value instanceof DOMException)
      return this.#mark(value, { type: "dom", name: value.name, message: value.message });
    if (core.isNativeError(value)) return keepsErrorProperties() ? this.#error(value) : value;
    if (value instanceof Headers)
      return this.#mark(value, { type: "headers", list: headersApi.headerListFromHeaders(value) });
    if (value instanceof Request) return this.#mark(value, this.#message("request", requestToValue(value)));
    if (value instanceof Response)
      return this.#mark(value, this.#message("response", responseToValue(value)));
    if (value instanceof ReadableStream) return this.#mark(value, this.#readable(value));
    if (value instanceof WritableStream)
      return this.#mark(value, { type: "writable", i: this.give(new LocalHook(new Entry(sinkOf(value)))) });
    if (value instanceof File) throw unsupported("File");
    if (value instanceof Blob) {
      const bytes = op_blob_bytes(file.getParts(value));
      return this.#mark(value, { type: "blob", bytes, mime: value.type });
    }
    if (value instanceof abort.AbortSignal) throw noSignals();
    throw unsupported(Object.getPrototypeOf(value)?.constructor?.name ?? "Object");
  }

  /** @param {any} stream */
  #readable(stream) {
    return { type: "readable", i: this.give(new LocalHook(new Entry(sourceOf(stream)))) };
  }

  /** @param {string} type @param {{ body: any, [key: string]: any }} parts */
  #message(type, { body, webSocket, hasSignal, ...parts }) {
    if (webSocket) throw unsupported("WebSocket");
    if (hasSignal) throw noSignals();
    return {
      type,
      ...parts,
      whole: body?.whole ?? null,
      length: body?.length ?? -1,
      stream: body?.stream ? this.copy(body.stream) : null,
    };
  }

  /** @param {any} error */
  #error(error) {
    const form = { type: "error", name: "Error", message: "", props: /** @type {any[]} */ ([]) };
    const mark = this.#mark(error, form);
    form.name = String(error.name);
    form.message = String(error.message);
    for (const key of Object.getOwnPropertyNames(error)) {
      if (key === "stack" || key === "message") continue;
      const isEnumerable = Object.prototype.propertyIsEnumerable.call(error, key);
      form.props.push([key, this.copy(error[key]), isEnumerable]);
    }
    return mark;
  }
}

const NO_STUBS = /** @type {StubHandler[]} */ ([]);

/** @param {unknown} value */
function mayBeSpecial(value) {
  if (typeof value !== "object" || value === null) return typeof value === "function";
  // Most arguments and results are data without depth.
  if (Array.isArray(value) && !core.isProxy(value) && value.every(isPrimitive)) return false;
  return isSpecial(value, new Set());
}

/** @param {unknown} value */
function isPrimitive(value) {
  return typeof value !== "function" && (typeof value !== "object" || value === null);
}

/** @param {unknown} form */
function write(form) {
  const bytes = core.serialize(form, { forStorage: true }, (/** @type {string} */ message) => {
    throw cloneError(message);
  });
  if (bytes.byteLength > MESSAGE_MAX_BYTES) {
    throw new Error(
      `Serialized RPC arguments or return values are limited to 32MiB, but the size of this value was: ${bytes.byteLength} bytes.`,
    );
  }
  return bytes;
}

/**
 * Writes a value.
 * @param {unknown} value
 * @param {Codec} codec
 * @param {Hook | null} owner goes along, to be let go when the receiver is done with the value
 * @returns {Packed}
 */
export function pack(value, codec, owner = null) {
  if (owner === null && !mayBeSpecial(value)) return { bytes: write(value), caps: null, stubs: NO_STUBS };
  const packer = new Packer();
  try {
    const form = packer.copy(value);
    if (owner !== null) packer.give(owner);
    const bytes = write(form);
    const { references, stubs } = packer;
    if (references.length === 0) return { bytes, caps: null, stubs };
    codec.admit(references.length);
    return { bytes, caps: references.map((one) => (Array.isArray(one) ? one : codec.give(one))), stubs };
  } catch (error) {
    for (const one of packer.references) if (!Array.isArray(one)) one.dispose();
    throw error;
  }
}

/** What a value that arrived holds of the other side. */
export class Holdings {
  #held = /** @type {{ dispose(): void }[]} */ ([]);

  /** @param {{ dispose(): void }} held */
  add(held) {
    this.#held.push(held);
  }

  get isEmpty() {
    return this.#held.length === 0;
  }

  dispose() {
    for (const held of this.#held.splice(0)) held.dispose();
  }
}

/** A form that no sender of this kind makes. */
function malformed() {
  return new TypeError("malformed RPC value");
}

/** A reference that is let go once. */
class Held {
  #hook;

  /** @param {Hook} hook */
  constructor(hook) {
    this.#hook = /** @type {Hook | null} */ (hook);
  }

  dispose() {
    this.#hook?.dispose();
    this.#hook = null;
  }
}

/** Results whose disposers nobody can call any more. */
const forgotten = new FinalizationRegistry((/** @type {Held} */ held) => held.dispose());

/** What each form is made into. @type {Record<string, (form: any, from: Unpacker) => any>} */
const FORMS = /** @type {any} */ ({
  __proto__: null,
  stub: (/** @type {any} */ { i }, /** @type {Unpacker} */ from) => from.stub(i),
  error: ({ name, message, props }) => buildError(String(name), String(message), props),
  dom: ({ name, message }) => new DOMException(String(message), String(name)),
  headers: ({ list }) => new Headers(list),
  request: (form) => requestFromValue(form),
  response: (form) => responseFromValue(form),
  readable: ({ i }, from) => streamFromSource(from.stream(i)),
  writable: ({ i }, from) => streamFromSink(from.stream(i)),
  blob: ({ bytes, mime }) => new Blob([bytes], { type: String(mime) }),
});

class Unpacker {
  /** @param {any[][] | null} caps @param {Codec} codec */
  constructor(caps, codec) {
    /** @type {(any)[]} */
    this.taken = caps === null ? [] : caps.map((cap) => codec.take(cap));
    /** Stubs made of them. */
    this.stubs = /** @type {any[]} */ ([]);
    /** References that a stream has taken over. */
    this.used = new Set();
  }

  /** @param {any} i */
  #at(i) {
    const taken = this.taken[i];
    if (taken === undefined) throw malformed();
    return taken;
  }

  /** @param {any} i */
  stream(i) {
    const hook = this.#at(i);
    if (hook.fetcher !== undefined || this.used.has(hook)) throw malformed();
    this.used.add(hook);
    return hook;
  }

  /** @param {any} i */
  stub(i) {
    const taken = this.#at(i);
    if (taken.fetcher !== undefined) return taken.fetcher;
    return (this.stubs[i] ??= StubHandler.make(taken));
  }

  /** @param {Uint8Array} bytes */
  read(bytes) {
    return op_value_read(bytes, (/** @type {any} */ form) => {
      const make = FORMS[form?.type];
      if (make === undefined) throw malformed();
      return make(form, this);
    });
  }

  /** What is to be given back when the receiver is done. @param {any} [value] */
  holdings(value) {
    const holdings = new Holdings();
    for (let i = 0; i < this.taken.length; i++) {
      const taken = this.taken[i];
      if (taken.fetcher !== undefined || this.used.has(taken)) continue;
      if (this.stubs[i] !== undefined) {
        holdings.add(/** @type {any} */ (handlerOf(this.stubs[i])));
        continue;
      }
      const held = new Held(taken);
      holdings.add(held);
      if (typeof value === "object" && value !== null) forgotten.register(value, held);
    }
    return holdings;
  }
}

/**
 * Reads a value.
 * @param {Uint8Array} bytes
 * @param {any[][] | null} caps
 * @param {Codec} codec
 * @returns {{ value: any, holdings: Holdings }}
 */
export function unpack(bytes, caps, codec) {
  if (caps === null) {
    // Nothing but data, and platform objects that are data.
    const unpacker = new Unpacker(null, codec);
    return { value: unpacker.read(bytes), holdings: NONE };
  }
  const unpacker = new Unpacker(caps, codec);
  try {
    const value = unpacker.read(bytes);
    return { value, holdings: unpacker.holdings(value) };
  } catch (error) {
    unpacker.holdings().dispose();
    throw error;
  }
}

const NONE = new Holdings();

/** The disposer of results that hold nothing of the other side. */
export function nothingToDispose() {}

/**
 * Writes the result of a call. One that has a disposer of its own learns when the caller is done.
 * @param {any} value
 * @param {Codec} codec
 */
export function packResult(value, codec) {
  const hasDisposer =
    typeof value === "object" &&
    value !== null &&
    !core.isProxy(value) &&
    !isTarget(value) &&
    typeof value[Symbol.dispose] === "function" &&
    value[Symbol.dispose] !== nothingToDispose;
  return pack(value, codec, hasDisposer ? new LocalHook(new Entry(value)) : null);
}

/** Passes references on within this isolate. @type {Codec} */
export const LOCAL = {
  admit: () => {},
  give: (hook) => [4, hook],
  take: ([, hook]) => hook,
};
