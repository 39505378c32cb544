// `ctx.storage`: key-value API, transactions, alarms.
// @ts-check

import {
  op_alarm_get,
  op_alarm_set,
  op_kv_delete,
  op_kv_delete_all,
  op_kv_get,
  op_kv_list,
  op_kv_put,
  op_storage_nest,
  op_storage_release,
  op_storage_rollback,
  op_storage_sync,
} from "ext:core/ops";
import { answerOf } from "./calls.js";
import { Cell, deserialize, serialize } from "./cell.js";
import { SqlStorage } from "./sql.js";

/** Most keys in one bulk call. */
const KEYS_MAX = 128;

/** @param {unknown} key @returns {string} */
function checkKey(key) {
  return String(key);
}

/** @param {Store} store @param {unknown} keys */
function checkKeys(store, keys) {
  const list = Array.from(/** @type {Iterable<unknown>} */ (keys), checkKey);
  checkCount(store, list.length, "keys");
  return list;
}

/**
 * The listing options in the host's order; all missing ones undefined.
 * @param {any} options
 */
function listOptions(options) {
  const { start, startAfter, end, prefix, reverse, limit } = options ?? {};
  if (start !== undefined && startAfter !== undefined) {
    throw new TypeError("list() cannot be called with both start and startAfter values.");
  }
  if (limit !== undefined && !(Number(limit) > 0)) throw new TypeError("List limit must be positive.");
  /** @param {unknown} value */
  const text = (value) => (value === undefined || value === null ? null : String(value));
  return /** @type {const} */ ([
    text(start),
    text(startAfter),
    text(end),
    text(prefix),
    reverse === true,
    limit === undefined ? 0 : Math.min(Number(limit), 0xffffffff),
  ]);
}

/** Synchronous operations on one cell's store; both APIs stand on them. */
class Store {
  /** @param {Cell} cell @param {boolean} sqlite */
  constructor(cell, sqlite) {
    this.cell = cell;
    this.sqlite = sqlite;
  }

  /** @param {string} key */
  get(key) {
    this.cell.check();
    const bytes = op_kv_get(this.cell.slot, key);
    return bytes === null ? undefined : deserialize(bytes);
  }

  /** @param {string} key @param {unknown} value */
  put(key, value) {
    this.cell.check();
    op_kv_put(this.cell.slot, key, serialize(value));
  }

  /** @param {string} key @returns {boolean} */
  delete(key) {
    this.cell.check();
    return op_kv_delete(this.cell.slot, key);
  }

  /** @param {any} options @returns {[string, unknown][]} */
  list(options) {
    this.cell.check();
    const flat = op_kv_list(this.cell.slot, ...listOptions(options));
    const entries = /** @type {[string, unknown][]} */ ([]);
    for (let i = 0; i < flat.length; i += 2) entries.push([flat[i], deserialize(flat[i + 1])]);
    return entries;
  }
}

/** Keys are limited in number only where Cloudflare's key-value backend would be behind them. */
/** @param {Store} store @param {number} count @param {string} what */
function checkCount(store, count, what) {
  if (!store.sqlite && count > KEYS_MAX) throw new RangeError(`Maximum number of ${what} is ${KEYS_MAX}.`);
}

/** Operations that `storage` and a transaction share. */
class Operations {
  #store;
  #ready;

  /**
   * @param {Store} store
   * @param {(operation: string) => void} ready throws when the object may not be used
   */
  constructor(store, ready) {
    this.#store = store;
    this.#ready = ready;
  }

  /** @param {any} keyOrKeys @param {any} [_options] */
  async get(keyOrKeys, _options) {
    this.#ready("get");
    if (typeof keyOrKeys !== "object" || keyOrKeys === null) {
      if (keyOrKeys === undefined) throw new TypeError("get() called with undefined key.");
      return this.#store.get(checkKey(keyOrKeys));
    }
    const found = new Map();
    for (const key of checkKeys(this.#store, keyOrKeys).sort(byUtf8)) {
      const value = this.#store.get(key);
      if (value !== undefined) found.set(key, value);
    }
    return found;
  }

  /** @param {any} keyOrEntries @param {any} [value] @param {any} [_options] */
  async put(keyOrEntries, value, _options) {
    this.#ready("put");
    if (typeof keyOrEntries === "object" && keyOrEntries !== null) {
      const entries = Object.entries(keyOrEntries).filter((entry) => entry[1] !== undefined);
      checkCount(this.#store, entries.length, "pairs");
      // Serialize everything first: a value that cannot be stored must not leave half of the call done.
      const prepared = entries.map(([key, item]) => /** @type {const} */ ([key, serialize(item)]));
      for (const [key, bytes] of prepared) op_kv_put(this.#store.cell.slot, key, bytes);
      return;
    }
    if (value === undefined) throw new TypeError("put() called with undefined value.");
    this.#store.put(checkKey(keyOrEntries), value);
  }

  /** @param {any} keyOrKeys @param {any} [_options] */
  async delete(keyOrKeys, _options) {
    this.#ready("delete");
    if (typeof keyOrKeys !== "object" || keyOrKeys === null) {
      if (keyOrKeys === undefined) throw new TypeError("delete() called with undefined key.");
      return this.#store.delete(checkKey(keyOrKeys));
    }
    let count = 0;
    for (const key of checkKeys(this.#store, keyOrKeys)) if (this.#store.delete(key)) count++;
    return count;
  }

  /** @param {any} [options] */
  async list(options) {
    this.#ready("list");
    return new Map(this.#store.list(options));
  }

  /** @param {any} [_options] @returns {Promise<number | null>} */
  async getAlarm(_options) {
    this.#ready("getAlarm");
    this.#store.cell.check();
    const at = op_alarm_get(this.#store.cell.slot);
    return at < 0 ? null : at;
  }

  /** @param {any} time @param {any} [_options] */
  async setAlarm(time, _options) {
    this.#ready("setAlarm");
    this.#store.cell.check();
    const at = alarmTime(time);
    if (!(at > 0)) throw new TypeError("setAlarm() cannot be called with an alarm time <= 0");
    const { instance } = this.#store.cell;
    if (instance !== null && typeof instance.alarm !== "function") {
      throw new TypeError(
        "Your Durable Object class must have an alarm() handler in order to call setAlarm()",
      );
    }
    op_alarm_set(this.#store.cell.slot, Math.max(Math.trunc(at), Date.now()));
  }

  /** @param {any} [_options] */
  async deleteAlarm(_options) {
    this.#ready("deleteAlarm");
    this.#store.cell.check();
    op_alarm_set(this.#store.cell.slot, -1);
  }
}

/** The end of the year 2189: the latest time that has a meaning in nanoseconds. */
const LATEST_MS = Date.UTC(2190, 0, 1);

/** An alarm's time, in ms. @param {any} time */
function alarmTime(time) {
  if (typeof time !== "number" && !(time instanceof Date))
    throw new TypeError(
      "Failed to execute 'setAlarm' on 'DurableObjectStorage': parameter 1 is not of type 'date'.",
    );
  const at = typeof time === "number" ? time : time.getTime();
  if (!Number.isFinite(at))
    throw new TypeError("The value cannot be converted because it is not a valid Date.");
  if (at >= LATEST_MS) throw new TypeError("This API doesn't support dates after 2189.");
  return at;
}

/** What the closure of `transaction()` gets. */
export class DurableObjectTransaction extends Operations {
  #state;

  /** @param {Store} store @param {{ open: boolean, rolledBack: boolean, undo: () => void }} state */
  constructor(store, state) {
    super(store, (operation) => {
      if (!state.open)
        throw new Error(
          `Cannot call ${operation}() on transaction that has already committed: did you move \`txn\` outside of the closure?`,
        );
      if (state.rolledBack) throw new Error(`Cannot ${operation}() on rolled back transaction`);
    });
    this.#state = state;
  }

  rollback() {
    if (!this.#state.open)
      throw new Error(
        "Cannot call rollback() on transaction that has already committed: did you move `txn` outside of the closure?",
      );
    if (this.#state.rolledBack) return;
    this.#state.rolledBack = true;
    this.#state.undo();
  }
}

/** @param {Store} store */
function checkSyncKv(store) {
  if (!store.sqlite) {
    throw new Error(
      "The storage.kv (synchronous KV) API is only available for SQLite-backed Durable Objects, but this object's namespace is not declared to use SQLite. You can use the older, asynchronous interface via methods of `storage` itself (e.g. `storage.get()`).",
    );
  }
}

/** `ctx.storage.kv`. */
class SyncKvStorage {
  #store;
  /** The running listing: a second one ends the first. */
  #listing = 0;

  /** @param {Store} store */
  constructor(store) {
    this.#store = store;
  }

  /** @param {string} key */
  get(key) {
    checkSyncKv(this.#store);
    return this.#store.get(checkKey(key));
  }

  /** @param {string} key @param {unknown} value */
  put(key, value) {
    checkSyncKv(this.#store);
    if (value === undefined) throw new TypeError("put() called with undefined value.");
    this.#store.put(checkKey(key), value);
  }

  /** @param {string} key */
  delete(key) {
    checkSyncKv(this.#store);
    return this.#store.delete(checkKey(key));
  }

  /** @param {any} [options] */
  list(options) {
    checkSyncKv(this.#store);
    const mine = ++this.#listing;
    const entries = this.#store.list(options);
    const isCurrent = () => mine === this.#listing;
    return (function* () {
      for (const entry of entries) {
        if (!isCurrent())
          throw new Error(
            "kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.",
          );
        yield entry;
      }
    })();
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
    super(store, () => {});
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

  /** @param {any} [_options] */
  async deleteAll(_options) {
    this.#store.cell.check();
    op_kv_delete_all(this.#store.cell.slot);
  }

  /**
   * @template T
   * @param {(txn: DurableObjectTransaction) => Promise<T>} closure
   * @returns {Promise<T>}
   */
  async transaction(closure) {
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
    const { cell } = this.#store;
    cell.check();
    if (!this.#sqlite)
      throw new Error("transactionSync() is only available in SQLite-backed Durable Objects.");
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
  async sync() {
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
