// `ctx.storage.kv`: key-value storage without promises.
// @ts-check

import { op_kv_list_next, op_kv_list_open, op_sql_close } from "ext:core/ops";
import { illegalInvocation } from "./errors.js";
import { text, wrongArgument } from "./receive.js";
import { Store, listOptions } from "./store.js";

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));

const abandoned = new FinalizationRegistry((/** @type {{ slot: number, id: number }} */ held) =>
  op_sql_close(held.slot, held.id),
);

/** Reads entries as they are asked for, and sees what is written ahead of it meanwhile. */
class ListIterator {
  #store;
  /** The host's number; 0 for a list without entries. */
  #id;
  #done = false;
  /** Which list of the store this one is. */
  #number;

  /** @param {Store} store @param {ReturnType<typeof listOptions>} options */
  constructor(store, options) {
    if (!(store instanceof Store)) throw new TypeError("Illegal constructor");
    store.cell.check();
    this.#store = store;
    this.#number = ++store.lists;
    this.#id = op_kv_list_open(store.cell.slot, ...options);
    if (this.#id !== 0) abandoned.register(this, { slot: store.cell.slot, id: this.#id }, this);
  }

  next() {
    if (this.#done) return { done: true, value: undefined };
    const { cell, lists } = this.#store;
    cell.check();
    if (lists !== this.#number) {
      if (this.#id !== 0) op_sql_close(cell.slot, this.#id);
      throw new Error(
        "kv.list() iterator was invalidated because a new call to kv.list() was started. Only one kv.list() iterator can exist at a time.",
      );
    }
    const entry = this.#id === 0 ? [] : op_kv_list_next(cell.slot, this.#id);
    if (entry.length > 0) return { done: false, value: entry };
    this.#done = true;
    abandoned.unregister(this);
    return { done: true, value: undefined };
  }

  [Symbol.iterator]() {
    return this;
  }

  get [Symbol.toStringTag]() {
    return "ListIterator";
  }
}
Object.setPrototypeOf(ListIterator.prototype, IteratorPrototype);

export class SyncKvStorage {
  #store;

  /** @param {Store} store */
  constructor(store) {
    if (!(store instanceof Store)) throw new TypeError("Illegal constructor");
    this.#store = store;
  }

  /** @param {unknown} receiver @param {string} method @param {number} given @param {string[]} wanted */
  static #storeOf(receiver, method, given, wanted) {
    if (typeof receiver !== "object" || receiver === null || !(#store in receiver)) throw illegalInvocation();
    const store = receiver.#store;
    if (!store.sqlite) {
      throw new Error(
        "The storage.kv (synchronous KV) API is only available for SQLite-backed Durable Objects, but this object's namespace is not declared to use SQLite. You can use the older, asyncronous interface via methods of `storage` itself (e.g. `storage.get()`). Alternatively, to enable SQLite, change `new_classes` to `new_sqlite_classes` within the 'migrations' field in your wrangler.jsonc or wrangler.toml file. If using workerd directly, set `enableSql = true` in your workerd config for the class. Note that this change cannot be made after the class is already deployed to production.",
      );
    }
    if (given < wanted.length) throw wrongArgument(method, "SyncKvStorage", given + 1, wanted[given]);
    return store;
  }

  /** @param {string} key */
  get(key) {
    return SyncKvStorage.#storeOf(this, "get", arguments.length, ["string"]).get(text(key));
  }

  /** @param {string} key @param {unknown} value */
  put(key, value) {
    SyncKvStorage.#storeOf(this, "put", arguments.length, ["string", "Value"]).put(text(key), value);
  }

  /** @param {string} key */
  delete(key) {
    return SyncKvStorage.#storeOf(this, "delete", arguments.length, ["string"]).delete(text(key));
  }

  /** @param {unknown} [options] */
  list(options) {
    const store = SyncKvStorage.#storeOf(this, "list", 0, []);
    return new ListIterator(store, listOptions(options, "SyncKvStorage"));
  }

  get [Symbol.toStringTag]() {
    return "SyncKvStorage";
  }
}
