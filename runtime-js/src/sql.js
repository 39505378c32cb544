// `ctx.storage.sql`.
// @ts-check

import { op_sql_close, op_sql_counts, op_sql_exec, op_sql_next, op_sql_size } from "ext:core/ops";

import { Cell } from "./cell.js";

/** Rows fetched per visit when all of them are wanted at once. */
const BATCH_ROWS = 1024;

/** @param {unknown} value */
function checkBinding(value) {
  if (value === null || typeof value === "number" || typeof value === "string") return value;
  if (value === undefined) return null;
  if (value instanceof ArrayBuffer) return new Uint8Array(value);
  if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (typeof value === "boolean") return String(value);
  if (typeof value === "bigint") throw new TypeError("Cannot convert a BigInt value to a number");
  return String(value);
}

const open = new FinalizationRegistry((/** @type {{ slot: number, id: number }} */ held) =>
  op_sql_close(held.slot, held.id),
);

/** A live cursor: rows are fetched as they are asked for. */
export class SqlStorageCursor {
  #cell;
  #id;
  #columns;
  /** Values of fetched rows, row after row. */
  #rows;
  #position = 0;
  #counts = /** @type {[number, number] | null} */ (null);

  /**
   * @param {Cell} cell
   * @param {number} id 0 when all rows are here
   * @param {string[]} columns
   * @param {unknown[]} rows
   * @param {[number, number]} counts
   */
  constructor(cell, id, columns, rows, counts) {
    if (!Cell.isCell(cell)) throw new TypeError("Illegal constructor");
    this.#cell = cell;
    this.#id = id;
    this.#columns = columns;
    this.#rows = rows;
    if (id === 0) this.#counts = counts;
    else open.register(this, { slot: cell.slot, id }, this);
  }

  /**
   * Makes sure that a row is at hand; false at the end.
   * @param {number} [count] rows to fetch; more than one only when nothing can run in between
   */
  #fetch(count = 1) {
    if (this.#position < this.#rows.length) return true;
    if (this.#id === 0) return false;
    this.#cell.check();
    const [rows, done, read, written] = op_sql_next(this.#cell.slot, this.#id, count);
    this.#rows = rows;
    this.#position = 0;
    if (done) {
      this.#id = 0;
      this.#counts = [read, written];
      open.unregister(this);
    }
    return rows.length > 0;
  }

  /** @returns {any[] | null} */
  #nextRaw(count = 1) {
    if (!this.#fetch(count)) return null;
    const width = this.#columns.length;
    const row = this.#rows.slice(this.#position, this.#position + width);
    this.#position += width;
    return row;
  }

  /** @returns {Record<string, any> | null} */
  #nextObject(count = 1) {
    if (!this.#fetch(count)) return null;
    const row = /** @type {Record<string, any>} */ ({});
    const columns = this.#columns;
    for (let i = 0; i < columns.length; i++) row[columns[i]] = this.#rows[this.#position + i];
    this.#position += columns.length;
    return row;
  }

  next() {
    const value = this.#nextObject();
    return value === null ? { done: true, value: undefined } : { done: false, value };
  }

  toArray() {
    const rows = [];
    for (let row = this.#nextObject(BATCH_ROWS); row !== null; row = this.#nextObject(BATCH_ROWS))
      rows.push(row);
    return rows;
  }

  one() {
    const row = this.#nextObject();
    if (row === null) throw new Error("Expected exactly one result from SQL query, but got no results.");
    if (this.#fetch())
      throw new Error("Expected exactly one result from SQL query, but got multiple results.");
    return row;
  }

  raw() {
    /** @param {number} [count] */
    const nextRaw = (count) => this.#nextRaw(count);
    const iterator = /** @type {any} */ (
      (function* () {
        for (let row = nextRaw(); row !== null; row = nextRaw()) yield row;
      })()
    );
    iterator.toArray = () => {
      const rows = [];
      for (let row = nextRaw(BATCH_ROWS); row !== null; row = nextRaw(BATCH_ROWS)) rows.push(row);
      return rows;
    };
    return iterator;
  }

  get columnNames() {
    return [...this.#columns];
  }

  get rowsRead() {
    return this.#count(0);
  }

  get rowsWritten() {
    return this.#count(1);
  }

  /** @param {0 | 1} which */
  #count(which) {
    return (this.#counts ?? op_sql_counts(this.#cell.slot, this.#id))[which];
  }

  *[Symbol.iterator]() {
    for (let row = this.#nextObject(); row !== null; row = this.#nextObject()) yield row;
  }
}

/** Kept for scripts that test for it; statements are made by `exec`. */
export class SqlStorageStatement {
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

  #check() {
    this.#cell.check();
    if (!this.#enabled) {
      throw new Error(
        'SQL is not enabled for this Durable Object class. To enable it, change `new_classes` to `new_sqlite_classes` within the "migrations" field in your Wrangler configuration.',
      );
    }
  }

  get Cursor() {
    return SqlStorageCursor;
  }

  get Statement() {
    return SqlStorageStatement;
  }

  /**
   * @param {string} query
   * @param {unknown[]} bindings
   */
  exec(query, ...bindings) {
    this.#check();
    const [id, columns, rows, read, written] = op_sql_exec(
      this.#cell.slot,
      String(query),
      bindings.map(checkBinding),
    );
    return new SqlStorageCursor(this.#cell, id, columns, rows, [read, written]);
  }

  get databaseSize() {
    this.#check();
    return op_sql_size(this.#cell.slot);
  }
}
