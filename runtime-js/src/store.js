// What all of a Durable Object's storage interfaces stand on: one cell's store, and the options of
// a list.
// @ts-check

import { op_kv_delete, op_kv_get, op_kv_list, op_kv_put, op_kv_put_many } from "ext:core/ops";
import { Cell } from "./cell.js";
import { DurableObjectId } from "./ids.js";
import { dictionary, int32, text } from "./receive.js";
import { domException } from "./web.js";

const { DOMException } = domException;

/** Mark of objects that belong to the process, and so cannot be stored; the host looks for it. */
const NOT_STORABLE = Symbol.for("celld.notStorable");

/** @param {Function[]} classes */
export function markNotStorable(classes) {
  for (const { prototype } of classes) Object.defineProperty(prototype, NOT_STORABLE, { value: true });
}

markNotStorable([DurableObjectId]);

/** Why objects of some classes cannot be stored; the others are named by their class. */
const REASONS = new Map([
  ["AbortSignal", "AbortSignal serialization is not enabled."],
  ["ReadableStream", "ReadableStream can only be serialized for RPC."],
  ["RpcTarget", "Remote RPC references can only be serialized for RPC."],
  ["WritableStream", "WritableStream can only be serialized for RPC."],
]);

/** Throws what a script sees of a value that cannot be stored. @param {string | object} what */
function refuse(what) {
  if (typeof what === "string") throw new DOMException(what, "DataCloneError");
  for (let at = what; at !== null; at = Object.getPrototypeOf(at)) {
    const reason = REASONS.get(at.constructor?.name);
    if (reason !== undefined) throw new DOMException(reason, "DataCloneError");
  }
  throw new DOMException(
    `Could not serialize object of type "${what.constructor?.name}". This type does not support serialization.`,
    "DataCloneError",
  );
}

/**
 * The options of a list in the host's order.
 * @param {unknown} value @param {string} type name of the class whose method it is
 */
export function listOptions(value, type) {
  const options = dictionary(value, "list", type, 1, "ListOptions");
  /** @param {string} name */
  const bound = (name) => (options[name] === undefined ? null : text(options[name]));
  const [end, prefix] = [bound("end"), bound("prefix")];
  const limit = options.limit === undefined ? 0 : int32(options.limit);
  const [start, startAfter] = [bound("start"), bound("startAfter")];
  if (start !== null && startAfter !== null)
    throw new TypeError("list() cannot be called with both start and startAfter values.");
  if (options.limit !== undefined && limit <= 0) throw new TypeError("List limit must be positive.");
  return /** @type {const} */ ([start, startAfter, end, prefix, Boolean(options.reverse), limit]);
}

/** Synchronous operations on one cell's store; all interfaces stand on them. */
export class Store {
  /** Counts the lists: a new one ends the iterator of `kv.list()`. */
  lists = 0;

  /** @param {Cell} cell @param {boolean} sqlite the class is SQLite-backed */
  constructor(cell, sqlite) {
    this.cell = cell;
    this.sqlite = sqlite;
  }

  /** @param {string} key */
  get(key) {
    this.cell.check();
    return op_kv_get(this.cell.slot, key);
  }

  /** @param {string} key @param {unknown} value */
  put(key, value) {
    this.cell.check();
    op_kv_put(this.cell.slot, key, value, refuse);
  }

  /** @param {unknown[]} entries keys and values in turn; all are stored, or none that can't be cloned */
  putMany(entries) {
    this.cell.check();
    op_kv_put_many(this.cell.slot, entries, refuse);
  }

  /** @param {string} key @returns {boolean} */
  delete(key) {
    this.cell.check();
    return op_kv_delete(this.cell.slot, key);
  }

  /** @param {ReturnType<typeof listOptions>} options @returns {Map<string, unknown>} */
  list(options) {
    this.cell.check();
    this.lists++;
    const flat = op_kv_list(this.cell.slot, ...options);
    const entries = new Map();
    for (let i = 0; i < flat.length; i += 2) entries.set(flat[i], flat[i + 1]);
    return entries;
  }
}
