// `ctx.storage.sql`.
// @ts-check

import { op_sql_close, op_sql_counts, op_sql_exec, op_sql_next, op_sql_size } from "ext:core/ops";

import { Cell } from "./cell.js";
import { illegalInvocation } from "./errors.js";
import { text, wrongArgument } from "./receive.js";

/** Rows fetched per visit when all of them are wanted at once. */
const BATCH_ROWS = 1024;

const IteratorPrototype = Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]()));

/** @param {unknown} value */
function checkBinding(value) {
  if (value === null || typeof value === "number" || typeof value === "string") return value;
  if (value === undefined) return null;
  if (value instanceof ArrayBuffer) return value.detached ? new Uint8Array() : new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (typeof value === "bigint") throw new TypeError("Cannot convert a BigInt value to a number");
  return text(value);
}

const abandoned = new FinalizationRegistry((/** @type {{ slot: number, id: number }} */ held) =>
  op_sql_close(held.slot, held.id),
);

/**
 * A live cursor. The statement stands on the row that comes next, whose values are here already:
 * whatever happens to the table meanwhile, the script gets them. As on Cloudflare, giving out a row
 * moves the statement on to the one behind it.
 */
class Cursor {
  #cell;
  /** The host's number; 0 when no rows are left there. */
  #id;
  #columns;
  /** What the script gets: it may change them. */
  #names = /** @type {string[] | null} */ (null);
  /** Values of the rows that are here, row after row. */
  #rows;
  #position = 0;
  #counts;

  /**
   * @param {Cell} cell
   * @param {number} id
   * @param {string[]} columns
   * @param {unknown[]} rows
   * @param {[number, number]} counts rows read and written
   */
  constructor(cell, id, columns, rows, counts) {
    if (!Cell.isCell(cell)) throw new TypeError("Illegal constructor");
    this.#cell = cell;
    this.#id = id;
    this.#columns = columns;
    this.#rows = rows;
    this.#counts = counts;
    if (id !== 0) abandoned.register(this, { slot: cell.slot, id }, this);
  }

  /** @param {unknown} receiver @returns {Cursor} */
  static #of(receiver) {
    if (typeof receiver !== "object" || receiver === null || !(#rows in receiver)) throw illegalInvocation();
    return /** @type {Cursor} */ (receiver);
  }

  /** Fetches the next rows in place of those that were given out. @param {number} count */
  #fetch(count) {
    this.#rows = [];
    this.#position = 0;
    if (this.#id === 0) return;
    this.#cell.check();
    const [rows, done, read, written] = op_sql_next(this.#cell.slot, this.#id, count);
    this.#rows = rows;
    this.#counts = [read, written];
    if (done) this.#finish();
  }

  #finish() {
    this.#id = 0;
    abandoned.unregister(this);
  }

  /** The row at hand, as a list. */
  #list() {
    const from = this.#position;
    this.#position += this.#columns.length;
    return this.#rows.slice(from, this.#position);
  }

  /** The row at hand, as an object. */
  #object() {
    const row = /** @type {Record<string, any>} */ ({});
    const columns = this.#columns;
    for (let i = 0; i < columns.length; i++) row[columns[i]] = this.#rows[this.#position + i];
    this.#position += columns.length;
    return row;
  }

  #hasRow() {
    return this.#position < this.#rows.length;
  }

  /** @param {boolean} raw */
  #next(raw) {
    if (!this.#hasRow() && this.#id !== 0) this.#fetch(1);
    if (!this.#hasRow()) return { done: true, value: undefined };
    const value = raw ? this.#list() : this.#object();
    if (!this.#hasRow()) this.#fetch(1);
    return { done: false, value };
  }

  /** All rows that are left. @param {boolean} raw */
  #rest(raw) {
    const rows = [];
    for (;;) {
      while (this.#hasRow()) rows.push(raw ? this.#list() : this.#object());
      if (this.#id === 0) return rows;
      this.#fetch(BATCH_ROWS);
    }
  }

  next() {
    return Cursor.#of(this).#next(false);
  }

  toArray() {
    return Cursor.#of(this).#rest(false);
  }

  one() {
    const self = Cursor.#of(this);
    const { done, value } = self.#next(false);
    if (done) throw new Error("Expected exactly one result from SQL query, but got no results.");
    if (!self.#hasRow()) return value;
    if (self.#id !== 0) {
      op_sql_close(self.#cell.slot, self.#id);
      self.#finish();
    }
    self.#rows = [];
    throw new Error("Expected exactly one result from SQL query, but got multiple results.");
  }

  raw() {
    const self = Cursor.#of(this);
    return new RawIterator(
      () => self.#next(true),
      () => self.#rest(true),
    );
  }

  get columnNames() {
    const self = Cursor.#of(this);
    return (self.#names ??= [...self.#columns]);
  }

  get rowsRead() {
    return Cursor.#of(this).#count(0);
  }

  get rowsWritten() {
    return Cursor.#of(this).#count(1);
  }

  /** @param {0 | 1} which */
  #count(which) {
    if (this.#id !== 0) this.#counts = op_sql_counts(this.#cell.slot, this.#id);
    return this.#counts[which];
  }

  [Symbol.iterator]() {
    const self = Cursor.#of(this);
    return new RowIterator(() => self.#next(false));
  }

  get [Symbol.toStringTag]() {
    return "Cursor";
  }
}

/** Iterates over a cursor. Leaving a loop early does not end it, so it has no `return`. */
class RowIterator {
  #next;

  /** @param {() => IteratorResult<any>} next */
  constructor(next) {
    this.#next = next;
  }

  next() {
    return this.#next();
  }

  [Symbol.iterator]() {
    return this;
  }

  get [Symbol.toStringTag]() {
    return "RowIterator";
  }
}
Object.setPrototypeOf(RowIterator.prototype, IteratorPrototype);

class RawIterator extends RowIterator {
  #rest;

  /** @param {() => IteratorResult<any>} next @param {() => any[]} rest */
  constructor(next, rest) {
    super(next);
    this.#rest = rest;
  }

  toArray() {
    return this.#rest();
  }

  get [Symbol.toStringTag]() {
    return "RawIterator";
  }
}

/** Kept for scripts that test for it; statements are made by `exec`. */
class Statement {
  constructor() {
    throw new TypeError("Illegal constructor");
  }
}

export class SqlStorage {
  #cell;
  #enabled;

  /** @param {Cell} cell @param {boolean} enabled the class is SQLite-backed */
  constructor(cell, enabled) {
    if (!Cell.isCell(cell)) throw new TypeError("Illegal constructor");
    this.#cell = cell;
    this.#enabled = enabled;
  }

  /** @param {unknown} receiver @returns {Cell} */
  static #cellOf(receiver) {
    if (typeof receiver !== "object" || receiver === null || !(#cell in receiver)) throw illegalInvocation();
    receiver.#cell.check();
    if (!receiver.#enabled) {
      throw new Error(
        "SQL is not enabled for this Durable Object class. To enable it, change `new_classes` to `new_sqlite_classes` within the 'migrations' field in your wrangler.jsonc or wrangler.toml file. If using workerd directly,set `enableSql = true` in your workerd config for the class. Note that this change cannot be made after the class is already deployed to production.",
      );
    }
    return receiver.#cell;
  }

  get Cursor() {
    return Cursor;
  }

  get Statement() {
    return Statement;
  }

  /**
   * @param {string} query
   * @param {unknown[]} bindings
   */
  exec(query, ...bindings) {
    const cell = SqlStorage.#cellOf(this);
    if (arguments.length === 0) throw wrongArgument("exec", "SqlStorage", 1, "String");
    const [id, columns, rows, read, written] = op_sql_exec(
      cell.slot,
      text(query),
      bindings.map(checkBinding),
    );
    return new Cursor(cell, id, columns, rows, [read, written]);
  }

  get databaseSize() {
    return op_sql_size(SqlStorage.#cellOf(this).slot);
  }

  get [Symbol.toStringTag]() {
    return "SqlStorage";
  }
}
