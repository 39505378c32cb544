// The global scope of a Worker.
// @ts-check

import { core } from "ext:core/mod.js";
import { op_crypto_timing_safe_equal, op_run_for } from "ext:core/ops";
import { consoleMethods, logException } from "./console.js";
import { currentEvent, forbidAtGlobalScope, throughGate, withContext } from "./context.js";
import { fetch } from "./calls.js";
import { Headers, Request, Response } from "./http.js";
import { WebSocketRequestResponsePair } from "./state.js";
import { markNotStorable } from "./store.js";
import { FixedLengthStream, IdentityTransformStream } from "./streams.js";
import { WebSocket, WebSocketPair } from "./websocket.js";
import * as web from "./web.js";

// The standard functions check their receiver, so they are called bare.
const { setTimeout: startTimeout, setInterval: startInterval, clearTimeout: endTimer } = web.timers;

/** Most timers that may be active at once. */
const TIMERS_MAX = 10_000;
let activeTimers = 0;

/** @param {any} callback @param {any} delay @param {any[]} args @param {boolean} repeat */
function startTimer(callback, delay, args, repeat) {
  forbidAtGlobalScope();
  if (typeof callback !== "function")
    throw new TypeError(
      `Failed to execute '${repeat ? "setInterval" : "setTimeout"}': parameter 1 is not of type 'Function'.`,
    );
  if (activeTimers >= TIMERS_MAX) {
    throw new web.domException.DOMException(
      "You have exceeded the number of active timeouts you may set. max active timeouts: 10000",
      "QuotaExceededError",
    );
  }
  const event = currentEvent();
  const cell = event?.cell ?? null;
  const section = event?.section ?? null;
  let id = 0;
  const fire = () => {
    if (event?.cancelled) clearTimer(id);
    if (!running.has(id)) return;
    if (!repeat) forgetTimer(id);
    try {
      callback(...args);
    } catch (error) {
      reportError(error);
    }
  };
  const context = core.getAsyncContext();
  const run = () => {
    if (event !== null) op_run_for(event.slot, event.id);
    if (cell === null) fire();
    // It may run later, when the gate opens: on behalf of the same event then as now.
    else cell.resume(section, () => withContext(context, fire));
  };
  const milliseconds = Math.min(Math.max(Number(delay) || 0, 0), 0x7fffffff);
  id = repeat ? startInterval(run, milliseconds) : startTimeout(run, milliseconds);
  activeTimers++;
  running.set(id, cell);
  cell?.timers.set(id, () => clearTimer(id));
  return id;
}

const running = new Map();

/** @param {number} id */
function forgetTimer(id) {
  if (!running.has(id)) return;
  running.get(id)?.timers.delete(id);
  running.delete(id);
  activeTimers--;
}

/** @param {any} [id] */
function clearTimer(id) {
  if (id === undefined || id === null) return;
  id = Number(id);
  forgetTimer(id);
  endTimer(id);
}

function setTimeout(/** @type {any} */ callback, /** @type {any} */ delay, /** @type {any[]} */ ...args) {
  return startTimer(callback, delay, args, false);
}
function setInterval(/** @type {any} */ callback, /** @type {any} */ delay, /** @type {any[]} */ ...args) {
  return startTimer(callback, delay, args, true);
}
function clearTimeout(/** @type {any} */ id) {
  clearTimer(id);
}
function clearInterval(/** @type {any} */ id) {
  clearTimer(id);
}

const scheduler = {
  /** @param {number} delay @param {{ signal?: AbortSignal }} [options] */
  wait(delay, options) {
    return new Promise((resolve, reject) => {
      const signal = options?.signal;
      if (signal?.aborted) {
        reject(signal.reason);
        return;
      }
      const id = startTimer(() => resolve(undefined), delay, [], false);
      signal?.addEventListener("abort", () => {
        clearTimer(id);
        reject(signal.reason);
      });
    });
  },
};

const navigator = Object.freeze({
  userAgent: "Cloudflare-Workers",
  language: "en",
  languages: Object.freeze(["en"]),
  hardwareConcurrency: 1,
  platform: "Linux x86_64",
  /** @param {string} url @param {any} body */
  sendBeacon(url, body) {
    fetch(url, { method: "POST", body }).catch(() => {});
    return true;
  },
});

/** The `caches` of this version: present, and loud about what it lacks. */
class CacheStorage {
  get default() {
    throw new Error("The Cache API (caches.default) is not supported by this version of celld.");
  }
  async open() {
    throw new Error("The Cache API (caches.open) is not supported by this version of celld.");
  }
}

/** @type {any} */
let cryptoObject = null;

function getCrypto() {
  if (cryptoObject === null) {
    cryptoObject = web.cryptoApi.crypto;
    for (const name of ["getRandomValues", "randomUUID"]) {
      const method = cryptoObject[name];
      Object.defineProperty(cryptoObject, name, {
        value: (/** @type {any[]} */ ...args) => {
          forbidAtGlobalScope();
          return method.apply(cryptoObject, args);
        },
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
    const subtle = Object.getPrototypeOf(cryptoObject.subtle);
    for (const name of Object.getOwnPropertyNames(subtle)) {
      const method = Object.getOwnPropertyDescriptor(subtle, name)?.value;
      if (typeof method !== "function" || name === "constructor") continue;
      Object.defineProperty(subtle, name, {
        value: {
          [name](/** @type {any[]} */ ...args) {
            return throughGate(method.apply(this, args));
          },
        }[name],
        writable: true,
        enumerable: true,
        configurable: true,
      });
    }
    Object.defineProperty(subtle, "timingSafeEqual", {
      value: function timingSafeEqual(/** @type {any} */ left, /** @type {any} */ right) {
        const a = asBytes(left);
        const b = asBytes(right);
        if (a.byteLength !== b.byteLength)
          throw new TypeError("Input buffers must have the same byte length.");
        return op_crypto_timing_safe_equal(a, b);
      },
      writable: true,
      enumerable: true,
      configurable: true,
    });
  }
  return cryptoObject;
}

/** @param {any} value */
function asBytes(value) {
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  throw new TypeError(
    "Failed to execute 'timingSafeEqual': parameter is not of type 'ArrayBuffer or ArrayBufferView'.",
  );
}

/** @param {any} error */
export function reportError(error) {
  const report = new web.event.ErrorEvent("error", {
    cancelable: true,
    message: String(error?.message ?? error),
    error,
  });
  if (/** @type {any} */ (globalThis).dispatchEvent(report)) logException(error, "Uncaught ");
}

/** @param {any} value */
const hidden = (value) => ({ value, writable: true, enumerable: false, configurable: true });
/** @param {() => any} get */
const lazy = (get) => ({ get, enumerable: true, configurable: true });

const {
  event,
  file,
  streams,
  encoding,
  compression,
  url,
  urlPattern,
  abort,
  domException,
  formData,
  messagePort,
  cryptoApi,
  performanceApi,
  base64,
} = web;

/**
 * `URL` with the text that Workers scripts know; it shares its prototype with the standard class.
 * @param {any} address @param {any} [base]
 */
function WorkersURL(address, base) {
  if (new.target === undefined)
    throw new TypeError(
      "Failed to construct 'URL': Please use the 'new' operator, this object constructor cannot be called as a function.",
    );
  try {
    return Reflect.construct(
      url.URL,
      base === undefined ? [address] : [address, base],
      new.target === WorkersURL ? url.URL : new.target,
    );
  } catch (error) {
    if (error instanceof TypeError && error.message.startsWith("Invalid URL"))
      error.message = "Invalid URL string.";
    throw error;
  }
}
WorkersURL.prototype = url.URL.prototype;
Object.defineProperty(WorkersURL, "name", { value: "URL" });
Object.defineProperty(WorkersURL, "length", { value: 1 });
for (const name of ["canParse", "parse", "createObjectURL", "revokeObjectURL"]) {
  if (name in url.URL)
    Object.defineProperty(WorkersURL, name, {
      value: url.URL[name],
      writable: true,
      enumerable: true,
      configurable: true,
    });
}
Object.defineProperty(url.URL.prototype, "constructor", {
  value: WorkersURL,
  writable: true,
  configurable: true,
  enumerable: false,
});

/** Everything that a script finds on the global object beside the language itself. */
const members = {
  AbortController: hidden(abort.AbortController),
  AbortSignal: hidden(abort.AbortSignal),
  Blob: hidden(file.Blob),
  ByteLengthQueuingStrategy: hidden(streams.ByteLengthQueuingStrategy),
  CloseEvent: hidden(event.CloseEvent),
  CompressionStream: hidden(compression.CompressionStream),
  CountQueuingStrategy: hidden(streams.CountQueuingStrategy),
  Crypto: hidden(cryptoApi.Crypto),
  CryptoKey: hidden(cryptoApi.CryptoKey),
  CustomEvent: hidden(event.CustomEvent),
  DOMException: hidden(domException.DOMException),
  DecompressionStream: hidden(compression.DecompressionStream),
  ErrorEvent: hidden(event.ErrorEvent),
  Event: hidden(event.Event),
  EventTarget: hidden(event.EventTarget),
  File: hidden(file.File),
  FixedLengthStream: hidden(FixedLengthStream),
  FormData: hidden(formData.FormData),
  Headers: hidden(Headers),
  IdentityTransformStream: hidden(IdentityTransformStream),
  MessageChannel: hidden(messagePort.MessageChannel),
  MessageEvent: hidden(event.MessageEvent),
  MessagePort: hidden(messagePort.MessagePort),
  Performance: hidden(performanceApi.Performance),
  PromiseRejectionEvent: hidden(event.PromiseRejectionEvent),
  ReadableByteStreamController: hidden(streams.ReadableByteStreamController),
  ReadableStream: hidden(streams.ReadableStream),
  ReadableStreamBYOBReader: hidden(streams.ReadableStreamBYOBReader),
  ReadableStreamBYOBRequest: hidden(streams.ReadableStreamBYOBRequest),
  ReadableStreamDefaultController: hidden(streams.ReadableStreamDefaultController),
  ReadableStreamDefaultReader: hidden(streams.ReadableStreamDefaultReader),
  Request: hidden(Request),
  Response: hidden(Response),
  SubtleCrypto: hidden(cryptoApi.SubtleCrypto),
  TextDecoder: hidden(encoding.TextDecoder),
  TextDecoderStream: hidden(encoding.TextDecoderStream),
  TextEncoder: hidden(encoding.TextEncoder),
  TextEncoderStream: hidden(encoding.TextEncoderStream),
  TransformStream: hidden(streams.TransformStream),
  TransformStreamDefaultController: hidden(streams.TransformStreamDefaultController),
  URL: hidden(WorkersURL),
  URLPattern: hidden(urlPattern.URLPattern),
  URLSearchParams: hidden(url.URLSearchParams),
  WebSocket: hidden(WebSocket),
  WebSocketPair: hidden(WebSocketPair),
  WebSocketRequestResponsePair: hidden(WebSocketRequestResponsePair),
  WritableStream: hidden(streams.WritableStream),
  WritableStreamDefaultController: hidden(streams.WritableStreamDefaultController),
  WritableStreamDefaultWriter: hidden(streams.WritableStreamDefaultWriter),
  atob: hidden(base64.atob),
  btoa: hidden(base64.btoa),
  caches: hidden(new CacheStorage()),
  clearImmediate: hidden(clearTimeout),
  clearInterval: hidden(clearInterval),
  clearTimeout: hidden(clearTimeout),
  crypto: lazy(getCrypto),
  fetch: hidden(fetch),
  navigator: hidden(navigator),
  performance: lazy(() => performanceApi.performance),
  reportError: hidden(reportError),
  scheduler: hidden(scheduler),
  self: lazy(() => globalThis),
  setImmediate: hidden((/** @type {any} */ callback, /** @type {any[]} */ ...args) =>
    startTimer(callback, 0, args, false),
  ),
  setInterval: hidden(setInterval),
  setTimeout: hidden(setTimeout),
  structuredClone: hidden(messagePort.structuredClone),
};

/** Classes whose objects belong to the process: storage refuses them. */
const NOT_STORABLE = [
  "AbortController",
  "Blob",
  "CryptoKey",
  "Event",
  "EventTarget",
  "FormData",
  "Headers",
  "ReadableStream",
  "Request",
  "Response",
  "TextDecoder",
  "TextEncoder",
  "TransformStream",
  "URL",
  "URLSearchParams",
  "WritableStream",
];

/** Fills the global object; runs once, when the snapshot is made. */
export function installGlobals() {
  markNotStorable(NOT_STORABLE.map((name) => /** @type {any} */ (members)[name].value));
  Object.defineProperties(globalThis, members);
  Object.setPrototypeOf(globalThis, Object.create(event.EventTarget.prototype));
  // EventTarget's methods recognize their receivers by this mark.
  /** @type {any} */ (globalThis)[web.webidl.brand] = web.webidl.brand;
  event.setEventTargetData(globalThis);
  event.saveGlobalThisReference(globalThis);
  /** @type {any} */ (globalThis).console = /** @type {any} */ (
    Object.assign(Object.create({}), consoleMethods)
  );
  Object.defineProperty(globalThis, "console", { enumerable: false });
}

/** @param {string[]} enabled names of compatibility flags in force */
export function installCompatibility(enabled) {
  const flags = /** @type {Record<string, boolean>} */ ({});
  for (const flag of enabled) flags[flag] = true;
  Object.defineProperty(
    globalThis,
    "Cloudflare",
    hidden(Object.freeze({ compatibilityFlags: Object.freeze(flags) })),
  );
}

core.setReportExceptionCallback?.((/** @type {unknown} */ error) => reportError(error));

// Failures of the platform's operations that the standards want to be DOMExceptions.
for (const name of [
  "Data",
  "IndexSize",
  "InvalidAccess",
  "InvalidCharacter",
  "InvalidState",
  "NotSupported",
  "Operation",
  "QuotaExceeded",
  "Syntax",
  "TypeMismatch",
]) {
  core.registerErrorBuilder(
    `DOMException${name}Error`,
    (/** @type {string} */ message) => new domException.DOMException(message, `${name}Error`),
  );
}
