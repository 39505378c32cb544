// Errors as they cross an isolate's boundary.
// @ts-check

import { core } from "ext:core/mod.js";
import { domException } from "./web.js";

const { DOMException } = domException;

/**
 * @typedef {object} WireError
 * @property {string} name
 * @property {string} message
 * @property {string} [stack]
 * @property {Uint8Array} [value] `{ own }`: own properties of an error; `{ thrown }`: an object that
 *   is no error
 * @property {boolean} [retryable]
 * @property {boolean} [overloaded]
 * @property {boolean} [reset]
 * @property {boolean} [remote]
 */

const BUILT_IN = /** @type {Record<string, ErrorConstructor>} */ (
  /** @type {unknown} */ ({
    __proto__: null,
    Error,
    EvalError,
    RangeError,
    ReferenceError,
    SyntaxError,
    TypeError,
    URIError,
  })
);

/**
 * Describes a thrown value for the host. Its serialized form goes along when it has one, so that
 * own properties survive.
 * @param {unknown} thrown
 * @param {boolean} withValue
 * @returns {WireError}
 */
export function describeError(thrown, withValue) {
  if (core.isNativeError(thrown) || thrown instanceof Error) {
    const error = /** @type {any} */ (thrown);
    /** @type {WireError} */
    const wire = {
      name: safeString(() => error.name) ?? "Error",
      message: safeString(() => error.message) ?? "",
      stack: safeString(() => error.stack),
      retryable: error.retryable === true,
      overloaded: error.overloaded === true,
      reset: error.durableObjectReset === true,
    };
    if (withValue) wire.value = serializeOwn(error);
    return wire;
  }
  /** @type {WireError} */
  const wire = { name: "Error", message: safeString(() => String(thrown)) ?? "unprintable value" };
  if (withValue && typeof thrown === "object" && thrown !== null) wire.value = serializeQuietly({ thrown });
  return wire;
}

/** @param {unknown} value */
function serializeQuietly(value) {
  try {
    return core.serialize(value, { forStorage: true });
  } catch {
    return undefined;
  }
}

/** @param {() => unknown} read */
function safeString(read) {
  try {
    const value = read();
    return value === undefined ? undefined : String(value);
  } catch {
    return undefined;
  }
}

/** Names of errors that are DOMExceptions. */
const DOM_NAMES = new Set([
  "AbortError",
  "DataCloneError",
  "DataError",
  "InvalidAccessError",
  "InvalidCharacterError",
  "InvalidStateError",
  "NetworkError",
  "NotAllowedError",
  "NotFoundError",
  "NotSupportedError",
  "OperationError",
  "QuotaExceededError",
  "TimeoutError",
  "TypeMismatchError",
]);

const STANDARD_KEYS = new Set([
  "name",
  "message",
  "stack",
  "remote",
  "retryable",
  "overloaded",
  "durableObjectReset",
]);

/** Own properties of errors that are not enumerable. */
const HIDDEN_KEYS = ["cause", "errors"];

/** Older Workers lose the own properties of errors. */
let keepsProperties = true;

/** @param {boolean} value */
export function setErrorSerialization(value) {
  keepsProperties = value;
}

/** True when errors that are passed keep their own properties. */
export function keepsErrorProperties() {
  return keepsProperties;
}

/**
 * Own enumerable properties of an error, serialized; undefined when there are none.
 * @param {any} error
 */
function serializeOwn(error) {
  const own = /** @type {Record<string, unknown>} */ ({});
  let found = false;
  const keys = Object.keys(error).filter((key) => !STANDARD_KEYS.has(key));
  for (const key of keepsProperties ? [...HIDDEN_KEYS, ...keys] : []) {
    if (!Object.hasOwn(error, key) || serializeQuietly(error[key]) === undefined) continue;
    own[key] = error[key];
    found = true;
  }
  return found ? serializeQuietly({ own }) : undefined;
}

/** @param {string} name @param {string} message */
function bare(name, message) {
  const Constructor = BUILT_IN[name];
  if (name === "AggregateError") return new AggregateError([], message);
  return Constructor === undefined && DOM_NAMES.has(name)
    ? new DOMException(message, name)
    : new (Constructor ?? Error)(message);
}

/**
 * An error that was passed as a value.
 * @param {string} name @param {string} message
 * @param {[string, unknown, boolean][]} properties name, value, enumerable
 */
export function buildError(name, message, properties) {
  const error = bare(name, message);
  for (const [key, value, enumerable] of properties)
    Object.defineProperty(error, key, { value, enumerable, writable: true, configurable: true });
  // Where it was made is not told.
  Object.defineProperty(error, "stack", {
    value: message === "" ? name : `${name}: ${message}`,
    enumerable: false,
    writable: true,
    configurable: true,
  });
  return error;
}

/**
 * Rebuilds an error that arrived from elsewhere.
 * @param {WireError} wire
 * @returns {unknown}
 */
export function rebuildError(wire) {
  const value = wire.value === undefined ? undefined : core.deserialize(wire.value, { forStorage: true });
  const error = made(wire, value);
  if (wire.remote && !wire.reset) error.remote = true;
  if (wire.retryable) error.retryable = true;
  if (wire.overloaded) error.overloaded = true;
  if (wire.reset) error.durableObjectReset = true;
  return error;
}

/**
 * @param {WireError} wire
 * @param {any} value
 * @returns {any}
 */
function made(wire, value) {
  if (value?.thrown !== undefined) return value.thrown;
  const error = /** @type {any} */ (bare(wire.name, wire.message));
  if (wire.name !== error.name && wire.name !== "") error.name = wire.name;
  for (const [key, own] of Object.entries(value?.own ?? {})) {
    const enumerable = !HIDDEN_KEYS.includes(key);
    Object.defineProperty(error, key, { value: own, enumerable, writable: true, configurable: true });
  }
  return error;
}

/**
 * Another error of the same kind: each caller of a broken stub gets one of its own.
 * @param {any} error
 */
export function sameAgain(error) {
  const again = made({ name: String(error.name), message: String(error.message) }, null);
  for (const key of ["remote", "retryable", "overloaded", "durableObjectReset"]) {
    if (error[key] !== undefined) again[key] = error[key];
  }
  return again;
}

/** What a method says that was taken off its object. */
export function illegalInvocation() {
  return new TypeError(
    "Illegal invocation: function called with incorrect `this` reference. See https://developers.cloudflare.com/workers/observability/errors/#illegal-invocation-errors for details.",
  );
}

/**
 * Answers of host calls are either values or `{ error }`.
 * @template T
 * @param {T | { error: WireError }} answer
 * @returns {T}
 */
export function unwrap(answer) {
  if (answer !== null && typeof answer === "object" && "error" in /** @type {object} */ (answer)) {
    throw rebuildError(/** @type {any} */ (answer).error);
  }
  return /** @type {T} */ (answer);
}
