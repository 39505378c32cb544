// Errors as Node.js words them.
// @ts-check

import { inspection } from "../web.js";

/** How a message shows a value. @param {unknown} value @returns {string} */
export function shown(value) {
  return inspection.inspect(value);
}

/**
 * @template {Error} E
 * @param {E} error @param {string} code
 */
export function coded(error, code) {
  return Object.assign(error, { code });
}

/** What "Received ..." says of a value. @param {any} value */
function received(value) {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "function") return `function ${value.name}`;
  if (typeof value !== "object") return `type ${typeof value} (${shown(value)})`;
  const name = value.constructor?.name;
  return name ? `an instance of ${name}` : shown(value);
}

/** @param {string} name @param {string} wanted such as "of type string" @param {unknown} value */
export function wrongType(name, wanted, value) {
  const text = `The "${name}" argument must be ${wanted}. Received ${received(value)}`;
  return coded(new TypeError(text), "ERR_INVALID_ARG_TYPE");
}

/** @param {string} name @param {string} range @param {unknown} value */
export function outOfRange(name, range, value) {
  const text = `The value of "${name}" is out of range. It must be ${range}. Received ${shown(value)}`;
  return coded(new RangeError(text), "ERR_OUT_OF_RANGE");
}

/** @param {unknown} [cause] */
export function aborted(cause) {
  const error = new Error("The operation was aborted", cause === undefined ? undefined : { cause });
  error.name = "AbortError";
  return coded(error, "ABORT_ERR");
}
