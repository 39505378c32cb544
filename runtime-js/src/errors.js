// Errors as they cross an isolate's boundary.
// @ts-check

import { core } from "ext:core/mod.js";

/**
 * @typedef {object} WireError
 * @property {string} name
 * @property {string} message
 * @property {string} [stack]
 * @property {Uint8Array} [value]
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
  return { name: "Error", message: safeString(() => String(thrown)) ?? "unprintable value" };
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

const STANDARD_KEYS = new Set([
  "name",
  "message",
  "stack",
  "remote",
  "retryable",
  "overloaded",
  "durableObjectReset",
]);

/**
 * Own enumerable properties of an error, serialized; undefined when there are none.
 * @param {any} error
 */
function serializeOwn(error) {
  const own = /** @type {Record<string, unknown>} */ ({});
  let found = false;
  for (const key of Object.keys(error)) {
    if (STANDARD_KEYS.has(key)) continue;
    own[key] = error[key];
    found = true;
  }
  if ("cause" in error && error.cause !== undefined) {
    own.cause = error.cause;
    found = true;
  }
  if (!found) return undefined;
  try {
    return core.serialize({ own }, { forStorage: true });
  } catch {
    return undefined;
  }
}

/**
 * Rebuilds an error that arrived from elsewhere.
 * @param {WireError} wire
 * @returns {unknown}
 */
export function rebuildError(wire) {
  const value = wire.value === undefined ? undefined : core.deserialize(wire.value, { forStorage: true });
  const Constructor = BUILT_IN[wire.name] ?? Error;
  const error = /** @type {any} */ (new Constructor(wire.message));
  if (wire.name !== error.name && wire.name !== "") error.name = wire.name;
  if (value !== null && typeof value === "object" && "own" in value) Object.assign(error, value.own);
  if (wire.remote && !wire.reset) error.remote = true;
  if (wire.retryable) error.retryable = true;
  if (wire.overloaded) error.overloaded = true;
  if (wire.reset) error.durableObjectReset = true;
  return error;
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
