// `console`: lines go to the host, with the event they belong to.
// @ts-check

import { op_console } from "ext:core/ops";
import { currentEvent } from "./context.js";
import { inspection } from "./web.js";

/** Levels in the order of the host's table. */
const LEVELS = { debug: 0, log: 1, info: 2, warn: 3, error: 4, exception: 5 };

/**
 * @param {number} level
 * @param {string} text
 */
function emit(level, text) {
  const event = currentEvent();
  op_console(level, text, event === null ? 0 : event.slot, event === null ? "" : event.label);
}

/** @param {unknown[]} args */
function format(args) {
  return inspection.inspectArgs(args, { __proto__: null, colors: false });
}

let indent = "";
const counts = new Map();
const started = new Map();

/** @param {number} level */
const printer =
  (level) =>
  /** @param {unknown[]} args */
  (...args) => {
    const text = format(args);
    emit(level, indent === "" ? text : text.replace(/^/gm, indent));
  };

/** Methods of the global `console`. */
export const consoleMethods = {
  debug: printer(LEVELS.debug),
  log: printer(LEVELS.log),
  info: printer(LEVELS.info),
  warn: printer(LEVELS.warn),
  error: printer(LEVELS.error),
  dir: (/** @type {unknown} */ value) => printer(LEVELS.log)(value),
  dirxml: printer(LEVELS.log),
  trace: (/** @type {unknown[]} */ ...args) => {
    const trace = /** @type {any} */ (new Error(args.length === 0 ? "" : format(args)));
    trace.name = "Trace";
    printer(LEVELS.log)(trace.stack);
  },
  assert: (/** @type {unknown} */ condition, /** @type {unknown[]} */ ...args) => {
    if (!condition) printer(LEVELS.error)("Assertion failed" + (args.length > 0 ? ":" : ""), ...args);
  },
  group: (/** @type {unknown[]} */ ...args) => {
    if (args.length > 0) printer(LEVELS.log)(...args);
    indent += "  ";
  },
  groupCollapsed: (/** @type {unknown[]} */ ...args) => consoleMethods.group(...args),
  groupEnd: () => {
    indent = indent.slice(2);
  },
  count: (label = "default") => {
    const count = (counts.get(label) ?? 0) + 1;
    counts.set(label, count);
    printer(LEVELS.log)(`${label}: ${count}`);
  },
  countReset: (label = "default") => {
    counts.delete(label);
  },
  time: (label = "default") => {
    started.set(label, Date.now());
  },
  timeLog: (label = "default", /** @type {unknown[]} */ ...args) => {
    if (started.has(label)) printer(LEVELS.log)(`${label}: ${Date.now() - started.get(label)}ms`, ...args);
  },
  timeEnd: (label = "default") => {
    if (started.has(label)) printer(LEVELS.log)(`${label}: ${Date.now() - started.get(label)}ms`);
    started.delete(label);
  },
  timeStamp: () => {},
  table: (/** @type {unknown} */ value) => printer(LEVELS.log)(value),
  clear: () => {},
};

/**
 * Logs what nobody caught.
 * @param {unknown} error
 * @param {string} prefix
 */
export function logException(error, prefix = "") {
  let text;
  try {
    const stack = /** @type {any} */ (error)?.stack;
    text = typeof stack === "string" && stack !== "" ? stack : format([error]);
  } catch {
    text = "unprintable exception";
  }
  emit(LEVELS.exception, prefix + text);
}
