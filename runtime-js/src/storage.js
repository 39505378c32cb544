// `ctx.storage`: key-value API, transactions, alarms.
// @ts-check

import {
  op_alarm_get,
  op_alarm_set,
  op_kv_delete_all,
  op_storage_nest,
  op_storage_release,
  op_storage_rollback,
  op_storage_sync,
} from "ext:core/ops";
import { answerOf } from "./calls.js";
import { Cell } from "./cell.js";
import { SyncKvStorage } from "./kv.js";
import { illegalInvocation } from "./errors.js";
import { readOptions, text, wrongArgument } from "./receive.js";
import { SqlStorage } from "./sql.js";
import { Store, listOptions, markNotStorable } from "./store.js";

/** Most keys in one bulk call. */
const KEYS_MAX = 128;

/** Keys are limited in number only where Cloudflare's key-value backend would be behind them. */
/** @param {Store} store @param {number} count @param {string} what */
function checkCount(store, count, what) {
  if (!store.sqlite && count > KEYS_MAX) throw new RangeError(`Maximum number of ${what} is ${KEYS_MAX}.`);
}

/** @param {Store} store @param {unknown[]} keys */
function checkKeys(store, keys) {
  const list = Array.from(keys, text);
  checkCount(store, list.length, "keys");
  return list;
}

const PUT_OPTIONS = ["allowConcurrency", "allowUnconfirmed", "noCache"];

/** The last moment that the API has, in ms: 2^63 ns after the beginning of 1970. */
const ALARM_MAX_MS = 9_223_372_036_854;

/** An alarm's time in ms, or null when the value is none. @param {unknown} value */
function alarmTime(value) {
  if (typeof value !== "number" && !(value instanceof Date)) return null;
  const at = Math.trunc(Number(value));
  if (!Number.isFinite(at))
    throw new TypeError("The value cannot be converted because it is not a valid Date.");
  if (at > ALARM_MAX_MS) throw new TypeError("This API doesn't support dates after 2189.");
  return at;
}

const PUT_FORMS =
  "put() may only be called with a single key-value pair and optional options as put(key, value, options) or with multiple key-value pairs and optional options as put(entries, options)";

/** @param {unknown} value */
const isObject = (value) => typeof value === "object" && value !== null;

/**
 * Operations that `storage` and a transaction share. All but `delete` answer what is wrong with
 * their arguments by a rejection, but a wrong receiver by an exception, as on Cloudflare.
 */
class Operations {
  #store;
  #ready;
  #type;

  /**
   * @param {Store} store
   * @param {string} type name of the class, for errors
   * @param {(operation: string) => void} ready throws when the object may not be used
   */
  constructor(store, type, ready) {
    if (!(store instanceof Store)) throw new TypeError("Illegal constructor");
    this.#store = store;
    this.#type = type;
    this.#ready = ready;
  }

  /** @param {unknown} receiver @returns {Operations} */
  static #of(receiver) {
    if (typeof receiver !== "object" || receiver === null || !(#store in receiver)) throw illegalInvocation();
    return /** @type {Operations} */ (receiver);
  }

  /** @param {string} operation @param {number} given @param {string} expected */
  #begin(operation, given, expected) {
    if (given === 0) throw wrongArgument(operation, this.#type, 1, expected);
    this.#ready(operation);
  }

  /** @param {any} keyOrKeys @param {any} [options] @returns {Promise<any>} */
  get(keyOrKeys, options) {
    return Operations.#of(this).#get(arguments.length, keyOrKeys, options);
  }

  /** @param {number} given @param {unknown} keyOrKeys @param {unknown} options */
  async #get(given, keyOrKeys, options) {
    this.#begin("get", given, "string or Array");
    readOptions(options, "get", this.#type, 2, "GetOptions", ["allowConcurrency", "noCache"]);
    if (!Array.isArray(keyOrKeys)) return this.#store.get(text(keyOrKeys));
    const found = new Map();
    for (const key of checkKeys(this.#store, keyOrKeys).sort(byUtf8)) {
      const value = this.#store.get(key);
      if (value !== undefined) found.set(key, value);
    }
    return found;
  }

  /** @param {any} keyOrEntries @param {any} [value] @param {any} [options] @returns {Promise<void>} */
  put(keyOrEntries, value, options) {
    return Operations.#of(this).#put(arguments.length, keyOrEntries, value, options);
  }

  /** @param {number} given @param {any} keyOrEntries @param {unknown} value @param {unknown} options */
  async #put(given, keyOrEntries, value, options) {
    this.#begin("put", given, "string or object");
    if (typeof keyOrEntries === "function") throw new TypeError(PUT_FORMS);
    if (!isObject(keyOrEntries) || Array.isArray(keyOrEntries)) {
      const key = text(keyOrEntries);
      if (value === undefined) throw new TypeError("put() called with undefined value.");
      readOptions(options, "put", this.#type, 3, "PutOptions", PUT_OPTIONS);
      this.#store.put(key, value);
      return;
    }
    if (value !== undefined && value !== null && !isObject(value)) throw new TypeError(PUT_FORMS);
    readOptions(value, "put", this.#type, 2, "PutOptions", PUT_OPTIONS);
    const entries = Object.entries(keyOrEntries).filter((entry) => entry[1] !== undefined);
    checkCount(this.#store, entries.length, "pairs");
    this.#store.putMany(entries.flat());
  }

  /** @param {any} keyOrKeys @param {any} [options] @returns {Promise<any>} */
  delete(keyOrKeys, options) {
    const self = Operations.#of(this);
    const store = self.#store;
    self.#begin("delete", arguments.length, "string or Array");
    readOptions(options, "delete", self.#type, 2, "PutOptions", PUT_OPTIONS);
    if (!Array.isArray(keyOrKeys)) return Promise.resolve(store.delete(text(keyOrKeys)));
    let count = 0;
    for (const key of checkKeys(store, keyOrKeys)) if (store.delete(key)) count++;
    return Promise.resolve(count);
  }

  /** @param {any} [options] @returns {Promise<Map<string, any>>} */
  list(options) {
    return Operations.#of(this).#list(options);
  }

  /** @param {unknown} options */
  async #list(options) {
    this.#ready("list");
    return this.#store.list(listOptions(options, this.#type));
  }

  /** @param {any} [options] @returns {Promise<number | null>} */
  getAlarm(options) {
    return Operations.#of(this).#getAlarm(options);
  }

  /** @param {unknown} options */
  async #getAlarm(options) {
    readOptions(options, "getAlarm", this.#type, 1, "GetAlarmOptions", ["allowConcurrency"]);
    this.#ready("getAlarm");
    this.#store.cell.check();
    const at = op_alarm_get(this.#store.cell.slot);
    return at < 0 ? null : at;
  }

  /** @param {any} time @param {any} [options] @returns {Promise<void>} */
  setAlarm(time, options) {
    return Operations.#of(this).#setAlarm(arguments.length, time, options);
  }

  /** @param {number} given @param {unknown} time @param {unknown} options */
  async #setAlarm(given, time, options) {
    this.#begin("setAlarm", given, "date");
    this.#store.cell.check();
    readOptions(options, "setAlarm", this.#type, 2, "SetAlarmOptions", PUT_OPTIONS.slice(0, 2));
    const at = alarmTime(time);
    if (at === null) throw wrongArgument("setAlarm", this.#type, 1, "date");
    if (at <= 0) throw new TypeError("setAlarm() cannot be called with an alarm time <= 0");
    const { instance } = this.#store.cell;
    if (instance !== null && typeof instance.alarm !== "function") {
      throw new TypeError(
        "Your Durable Object class must have an alarm() handler in order to call setAlarm()",
      );
    }
    op_alarm_set(this.#store.cell.slot, Math.max(at, Date.now()));
  }

  /** @param {any} [options] @returns {Promise<void>} */
  deleteAlarm(options) {
    return Operations.#of(this).#deleteAlarm(options);
  }

  /** @param {unknown} options */
  async #deleteAlarm(options) {
    readOptions(options, "deleteAlarm", this.#type, 1, "SetAlarmOptions", PUT_OPTIONS.slice(0, 2));
    this.#ready("deleteAlarm");
    this.#store.cell.check();
    op_alarm_set(this.#store.cell.slot, -1);
  }

  get [Symbol.toStringTag]() {
    return Operations.#of(this).#type;
  }
}

/** What the closure of `transaction()` gets. */
export class DurableObjectTransaction extends Operations {
  #state;

  /** @param {Store} store @param {{ open: boolean, rolledBack: boolean, undo: () => void }} state */
  constructor(store, state) {
    super(store, "DurableObjectTransaction", (operation) => {
      if (state.rolledBack) throw new Error(`Cannot ${operation}() on rolled back transaction`);
      if (!state.open)
        throw new Error(
          `Cannot call ${operation}() on transaction that has already committed: did you move \`txn\` outside of the closure?`,
        );
    });
    this.#state = state;
  }

  async deleteAll() {
    throw new Error("Cannot call deleteAll() within a transaction");
  }

  rollback() {
    if (typeof this !== "object" || !(#state in this)) throw illegalInvocation();
    if (this.#state.rolledBack) return;
    if (!this.#state.open)
      throw new Error(
        "Cannot call rollback() on transaction that has already committed: did you move `txn` outside of the closure?",
      );
    this.#state.rolledBack = true;
    this.#state.undo();
  }
}

export class DurableObjectStorage extends Operations {
  #store;
  #sql;
  #kv;
  #sqlite;

  /** @param {Cell} cell @param {boolean} sqlite */
  constructor(cell, sqlite) {
    if (!Cell.isCell(cell)) throw new TypeError("Illegal constructor");
    const store = new Store(cell, sqlite);
    super(store, "DurableObjectStorage", () => {});
    this.#store = store;
    this.#sqlite = sqlite;
    this.#sql = /** @type {SqlStorage | null} */ (null);
    this.#kv = /** @type {SyncKvStorage | null} */ (null);
  }

  get sql() {
    return (this.#sql ??= new SqlStorage(this.#store.cell, this.#sqlite));
  }

  get kv() {
    return (this.#kv ??= new SyncKvStorage(this.#store));
  }

  /** @param {unknown} receiver @returns {DurableObjectStorage} */
  static #of(receiver) {
    if (typeof receiver !== "object" || receiver === null || !(#kv in receiver)) throw illegalInvocation();
    return /** @type {DurableObjectStorage} */ (receiver);
  }

  /** @param {any} [options] @returns {Promise<void>} */
  deleteAll(options) {
    return DurableObjectStorage.#of(this).#deleteAll(options);
  }

  /** @param {unknown} options */
  async #deleteAll(options) {
    readOptions(options, "deleteAll", "DurableObjectStorage", 1, "PutOptions", PUT_OPTIONS);
    this.#store.cell.check();
    op_kv_delete_all(this.#store.cell.slot);
  }

  /**
   * @template T
   * @param {(txn: DurableObjectTransaction) => Promise<T>} closure
   * @returns {Promise<T>}
   */
  transaction(closure) {
    return DurableObjectStorage.#of(this).#transaction(closure);
  }

  /** @param {(txn: DurableObjectTransaction) => Promise<any>} closure */
  async #transaction(closure) {
    if (typeof closure !== "function")
      throw wrongArgument("transaction", "DurableObjectStorage", 1, "function");
    const { cell } = this.#store;
    cell.check();
    return cell.critical(async () => {
      const depth = op_storage_nest(cell.slot, true);
      const state = { open: true, rolledBack: false, undo: () => op_storage_rollback(cell.slot, depth) };
      try {
        const value = await closure(new DurableObjectTransaction(this.#store, state));
        if (!state.rolledBack) op_storage_release(cell.slot, depth);
        return value;
      } catch (error) {
        if (!state.rolledBack) op_storage_rollback(cell.slot, depth);
        state.rolledBack = true;
        throw error;
      } finally {
        state.open = false;
      }
    }, false);
  }

  /**
   * @template T
   * @param {() => T} closure
   * @returns {T}
   */
  transactionSync(closure) {
    const { cell } = DurableObjectStorage.#of(this).#store;
    if (typeof closure !== "function")
      throw wrongArgument("transactionSync", "DurableObjectStorage", 1, "function");
    cell.check();
    const depth = op_storage_nest(cell.slot, false);
    let value;
    try {
      value = closure();
    } catch (error) {
      op_storage_rollback(cell.slot, depth);
      throw error;
    }
    op_storage_release(cell.slot, depth);
    return value;
  }

  /** Resolves when everything written before is durable. */
  sync() {
    return DurableObjectStorage.#of(this).#sync();
  }

  async #sync() {
    this.#store.cell.check();
    await answerOf(op_storage_sync(this.#store.cell.slot), () => undefined);
  }

  /** Point-in-time recovery is not offered. */
  async getCurrentBookmark() {
    throw new Error("getCurrentBookmark() is not supported by this version of celld.");
  }
  async getBookmarkForTime() {
    throw new Error("getBookmarkForTime() is not supported by this version of celld.");
  }
  async onNextSessionRestoreBookmark() {
    throw new Error("onNextSessionRestoreBookmark() is not supported by this version of celld.");
  }
}

markNotStorable([DurableObjectStorage, SqlStorage, SyncKvStorage]);

/** Order of keys: by their UTF-8 bytes, which is the order of code points. @param {string} a @param {string} b */
function byUtf8(a, b) {
  const left = Array.from(a);
  const right = Array.from(b);
  for (let i = 0; i < left.length && i < right.length; i++) {
    const difference =
      /** @type {number} */ (left[i].codePointAt(0)) - /** @type {number} */ (right[i].codePointAt(0));
    if (difference !== 0) return difference;
  }
  return left.length - right.length;
}
