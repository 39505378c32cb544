// config: {"objects": {"PROBE": "Probe"}}
import { inspect, probe, suite, tried } from "../support/check.js";

const bound = (sql, value) =>
  tried(() => sql.exec("SELECT typeof(?1) AS t, ?1 AS v", value).one());

const object = {
  "values of every type"({ sql }) {
    const seen = {};
    const values = [
      undefined,
      null,
      true,
      false,
      0,
      -0,
      1,
      -1.5,
      NaN,
      Infinity,
      -Infinity,
      2 ** 53,
      2 ** 63,
      1e308,
      5e-324,
      "",
      "text",
      "ü€𐍈",
      "a\0b",
      5n,
      [],
      [1, 2],
      {},
      { a: 1 },
      new Date(0),
      /x/,
      new Error("e"),
      new Map(),
      () => 1,
      Symbol("s"),
      new String("boxed"),
      new Number(5),
      new Boolean(true),
      Object.create(null),
    ];
    for (const value of values) {
      const name = tried(() => inspect(value));
      seen[`${typeof value} ${name.text ?? name}`] = bound(sql, value);
    }
    return seen;
  },
  "objects with a text or a number of their own"({ sql }) {
    return {
      toString: bound(sql, { toString: () => "own text" }),
      valueOf: bound(sql, { valueOf: () => 7 }),
      toPrimitive: bound(sql, { [Symbol.toPrimitive]: (hint) => hint }),
      throwing: bound(sql, {
        toString() {
          throw new RangeError("from toString");
        },
      }),
      symbol: bound(sql, { toString: () => Symbol("s") }),
    };
  },
  "bytes of every kind"({ sql }) {
    const buffer = new Uint8Array([1, 2, 3, 4, 5, 6, 7, 8]).buffer;
    const detached = new ArrayBuffer(4);
    detached.transfer();
    return {
      ArrayBuffer: bound(sql, buffer),
      Uint8Array: bound(sql, new Uint8Array(buffer, 2, 3)),
      Int8Array: bound(sql, new Int8Array(buffer, 0, 2)),
      Uint8ClampedArray: bound(sql, new Uint8ClampedArray([300, -1])),
      Int16Array: bound(sql, new Int16Array(buffer, 2, 2)),
      Uint32Array: bound(sql, new Uint32Array(buffer)),
      Float32Array: bound(sql, new Float32Array([1])),
      Float64Array: bound(sql, new Float64Array([1])),
      BigInt64Array: bound(sql, new BigInt64Array([1n])),
      DataView: bound(sql, new DataView(buffer, 4, 2)),
      empty: bound(sql, new Uint8Array()),
      emptyBuffer: bound(sql, new ArrayBuffer(0)),
      detached: bound(sql, detached),
      resizable: bound(sql, new ArrayBuffer(2, { maxByteLength: 8 })),
      isNull: sql
        .exec(
          "SELECT ? IS NULL AS n, length(?) AS l",
          new Uint8Array(),
          new ArrayBuffer(0),
        )
        .one(),
    };
  },
  "bytes are taken at the call"({ sql }) {
    sql.exec("CREATE TABLE t (b)");
    const bytes = new Uint8Array([1, 2, 3]);
    const cursor = sql.exec("SELECT ? AS b", bytes);
    sql.exec("INSERT INTO t VALUES (?)", bytes);
    bytes.fill(9);
    return [cursor.one(), sql.exec("SELECT b FROM t").one()];
  },
  "the number of bindings"({ sql }) {
    const wrong = (text, ...values) =>
      tried(() => sql.exec(text, ...values).toArray());
    return {
      "none for one": wrong("SELECT ?"),
      "one for none": wrong("SELECT 1", 1),
      "two for one": wrong("SELECT ?", 1, 2),
      "one for two": wrong("SELECT ?, ?", 1),
      "undefined counts": wrong("SELECT ?", undefined),
      "an array is one": wrong("SELECT ?, ?", [1, 2]),
    };
  },
  "numbered and named parameters"({ sql }) {
    const run = (text, ...values) =>
      tried(() =>
        sql
          .exec(text, ...values)
          .raw()
          .toArray(),
      );
    return {
      numbered: run("SELECT ?2, ?1, ?2", "a", "b"),
      gap: run("SELECT ?3", 1, 2, 3),
      gapTooFew: run("SELECT ?3", 1),
      mixed: run("SELECT ?, ?2, ?", 1, 2, 3),
      colon: run("SELECT :a, :b, :a", 1, 2),
      at: run("SELECT @a, @b", 1, 2),
      dollar: run("SELECT $a, $b", 1, 2),
      object: run("SELECT :a", { a: 1 }),
      zero: run("SELECT ?0", 1),
      hundred: run("SELECT ?100", ...Array(100).fill(7)).length,
      tooHigh: run("SELECT ?101", ...Array(101).fill(7)),
    };
  },
  "affinity of columns"({ sql }) {
    sql.exec(
      "CREATE TABLE t (i INTEGER, r REAL, t TEXT, b BLOB, n NUMERIC, a ANY)",
    );
    const seen = {};
    for (const value of [
      1,
      1.5,
      2 ** 53,
      "7",
      "7.5",
      "x",
      "",
      true,
      null,
      1e20,
    ]) {
      sql.exec("DELETE FROM t");
      sql.exec("INSERT INTO t VALUES (?1, ?1, ?1, ?1, ?1, ?1)", value);
      seen[inspect(value)] = sql
        .exec(
          "SELECT typeof(i), i, typeof(r), r, typeof(t), t, typeof(b), typeof(n), n, typeof(a) FROM t",
        )
        .raw()
        .next().value;
    }
    return seen;
  },
  "STRICT tables"({ sql }) {
    sql.exec(
      "CREATE TABLE t (i INTEGER, r REAL, t TEXT, b BLOB, a ANY) STRICT",
    );
    const put = (...values) =>
      tried(() =>
        sql
          .exec("INSERT INTO t VALUES (?, ?, ?, ?, ?) RETURNING *", ...values)
          .one(),
      );
    return [
      put(1, 1, "x", new Uint8Array([1]), "any"),
      put(1.5, 1, "x", null, 1),
      put("1", "1", 1, null, null),
      put("x", 1, "x", null, null),
      put(1, "x", "x", null, null),
      put(1, 1, "x", "x", null),
      tried(() => sql.exec("CREATE TABLE u (x WRONG) STRICT")),
    ];
  },
  "the query itself of any type"({ sql }) {
    return {
      number: tried(() => sql.exec(5)),
      null: tried(() => sql.exec(null)),
      undefined: tried(() => sql.exec(undefined)),
      nothing: tried(() => sql.exec()),
      object: tried(() => sql.exec({ toString: () => "SELECT 1 AS n" }).one()),
      array: tried(() => sql.exec(["SELECT 2 AS n"]).one()),
      template: tried(
        () => ((strings) => sql.exec(strings).one())`SELECT 3 AS n`,
      ),
      symbol: tried(() => sql.exec(Symbol("s"))),
      boxed: tried(() => sql.exec(new String("SELECT 4 AS n")).one()),
    };
  },
  "large texts and BLOBs"({ sql }) {
    sql.exec("CREATE TABLE t (v)");
    const put = (value) =>
      tried(() => sql.exec("INSERT INTO t VALUES (?)", value).rowsWritten);
    return {
      "2,000,000 bytes": put(new Uint8Array(2_000_000)),
      "2,097,152 bytes": put(new Uint8Array(2_097_152)),
      "2,199,990 bytes": put(new Uint8Array(2_199_990)),
      "2,200,001 bytes": put(new Uint8Array(2_200_001)),
      "4,194,305 bytes": put(new Uint8Array(4_194_305)),
      "2,000,000 characters": put("x".repeat(2_000_000)),
      "2,200,001 characters": put("x".repeat(2_200_001)),
      "1,100,001 two-byte characters": put("é".repeat(1_100_001)),
      zeroblob: tried(() =>
        sql.exec("INSERT INTO t VALUES (zeroblob(2200001))"),
      ),
      concatenated: tried(() =>
        sql.exec("INSERT INTO t VALUES (?1 || ?1)", "x".repeat(1_200_000)),
      ),
      sum: tried(() =>
        sql.exec(
          "CREATE TABLE w (a, b); INSERT INTO w VALUES (zeroblob(1200000), zeroblob(1200000))",
        ),
      ),
      read: tried(() =>
        sql.exec("SELECT length(hex(zeroblob(1100001))) AS n").one(),
      ),
    };
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
