// config: {"objects": {"PROBE": "Probe"}}
import { equal, probe, suite, throws } from "../support/check.js";

const object = {
  "toArray, one, next, raw and iteration"({ sql }) {
    sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT)");
    sql.exec("INSERT INTO t VALUES (?, ?), (?, ?)", 1, "a", 2, "b");
    const rows = [
      { id: 1, name: "a" },
      { id: 2, name: "b" },
    ];
    equal(sql.exec("SELECT * FROM t").toArray(), rows);
    equal([...sql.exec("SELECT * FROM t")], rows);
    equal(
      [...sql.exec("SELECT * FROM t").raw()],
      [
        [1, "a"],
        [2, "b"],
      ],
    );
    equal(sql.exec("SELECT * FROM t").raw().toArray().length, 2);
    equal(sql.exec("SELECT name FROM t WHERE id = ?", 2).one(), { name: "b" });
    const cursor = sql.exec("SELECT id FROM t");
    equal(
      [cursor.next(), cursor.next(), cursor.next()],
      [
        { done: false, value: { id: 1 } },
        { done: false, value: { id: 2 } },
        { done: true, value: undefined },
      ],
    );
  },
  "one wants exactly one row"({ sql }) {
    throws(() => sql.exec("SELECT 1 WHERE 0").one(), {
      name: "Error",
      message:
        "Expected exactly one result from SQL query, but got no results.",
    });
    throws(() => sql.exec("SELECT 1 UNION SELECT 2").one(), {
      name: "Error",
      message:
        "Expected exactly one result from SQL query, but got multiple results.",
    });
  },
  "raw and rows share their position"({ sql }) {
    const cursor = sql.exec("SELECT 1 AS n UNION SELECT 2 UNION SELECT 3");
    cursor.next();
    equal([cursor.raw().next().value, cursor.next().value], [[2], { n: 3 }]);
  },
  "types of values"({ sql }) {
    const row = sql
      .exec(
        "SELECT 1 AS i, 1.5 AS f, 'ü' AS t, NULL AS n, x'0102' AS b, 9007199254740993 AS big, 1 = 1 AS yes",
      )
      .one();
    equal(row, {
      i: 1,
      f: 1.5,
      t: "ü",
      n: null,
      b: new Uint8Array([1, 2]).buffer,
      big: 9007199254740992,
      yes: 1,
    });
  },
  "bindings of every type"({ sql }) {
    const kinds = (...values) =>
      sql
        .exec(
          `SELECT ${values.map((_, i) => `typeof(?${i + 1}) AS t${i}`).join(", ")}`,
          ...values,
        )
        .raw()
        .next().value;
    equal(
      kinds(
        "x",
        1,
        1.5,
        null,
        undefined,
        new Uint8Array([1]),
        new ArrayBuffer(1),
      ),
      ["text", "real", "real", "null", "null", "blob", "blob"],
    );
    throws(() => sql.exec("SELECT ?", 5n), {
      name: "TypeError",
      message: "Cannot convert a BigInt value to a number",
    });
    equal(kinds(true, {}), ["text", "text"]);
  },
  "a wrong number of bindings is an error"({ sql }) {
    throws(() => sql.exec("SELECT ?, ?", 1), {
      name: "Error",
      message: "Wrong number of parameter bindings for SQL query.",
    });
    throws(() => sql.exec("SELECT 1", 1), {
      name: "Error",
      message: "Wrong number of parameter bindings for SQL query.",
    });
  },
  "column names, also doubled ones"({ sql }) {
    const cursor = sql.exec("SELECT 1 AS a, 2 AS a, 3 AS b");
    equal(cursor.columnNames, ["a", "a", "b"]);
    equal(cursor.one(), { a: 2, b: 3 });
    equal(sql.exec("SELECT 1 AS a, 2 AS a").raw().toArray(), [[1, 2]]);
  },
  "several statements, bindings for the last"({ sql }) {
    const cursor = sql.exec(
      "CREATE TABLE t (x); INSERT INTO t VALUES (1), (2); SELECT x FROM t WHERE x > ?;",
      1,
    );
    equal(cursor.toArray(), [{ x: 2 }]);
    equal(sql.exec("SELECT 1 AS a;  \n ").toArray(), [{ a: 1 }]);
  },
  "rows read and written are counted"({ sql }) {
    const made = sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x)");
    made.toArray();
    const put = sql.exec("INSERT INTO t (x) VALUES (1), (2), (3)");
    equal([put.rowsRead, put.rowsWritten], [0, 3]);
    const get = sql.exec("SELECT * FROM t");
    get.toArray();
    equal([get.rowsRead, get.rowsWritten], [3, 0]);
    sql.exec("CREATE INDEX i ON t (x)");
    const indexed = sql.exec("INSERT INTO t (x) VALUES (4)");
    equal(indexed.rowsWritten, 2);
    const found = sql.exec("SELECT id FROM t WHERE id = 2");
    found.toArray();
    equal(found.rowsRead, 1);
  },
  "databaseSize grows"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const before = sql.databaseSize;
    sql.exec("INSERT INTO t VALUES (?)", new Uint8Array(50_000));
    equal(
      [
        before % 4096,
        sql.databaseSize % 4096,
        sql.databaseSize - before >= 49_152,
      ],
      [0, 0, true],
    );
  },
  "BLOBs and texts pass unchanged"({ sql }) {
    const blob = new Uint8Array(100_000).map((_, i) => i);
    const text = "ü€𐍈\0".repeat(1_000);
    sql.exec("CREATE TABLE t (b, t)");
    sql.exec("INSERT INTO t VALUES (?, ?)", blob, text);
    const row = sql.exec("SELECT * FROM t").one();
    equal(new Uint8Array(row.b), blob);
    equal(row.t === text, true);
  },
  "RETURNING gives rows"({ sql }) {
    sql.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, x)");
    equal(sql.exec("INSERT INTO t (x) VALUES ('a') RETURNING id, x").one(), {
      id: 1,
      x: "a",
    });
    equal(sql.exec("UPDATE t SET x = 'b' RETURNING x").toArray(), [{ x: "b" }]);
  },
  "errors carry SQLite's text and code"({ sql }) {
    throws(() => sql.exec("SELEC 1"), {
      name: "Error",
      message: 'near "SELEC": syntax error at offset 0: SQLITE_ERROR',
    });
    throws(() => sql.exec("SELECT * FROM none"), {
      name: "Error",
      message: "no such table: none: SQLITE_ERROR",
    });
    throws(() => sql.exec("SELECT nope"), {
      name: "Error",
      message: "no such column: nope at offset 7: SQLITE_ERROR",
    });
    sql.exec(
      "CREATE TABLE t (id INTEGER PRIMARY KEY, x NOT NULL UNIQUE CHECK (x > 0))",
    );
    sql.exec("INSERT INTO t VALUES (1, 1)");
    throws(() => sql.exec("INSERT INTO t VALUES (1, 2)"), {
      message:
        "UNIQUE constraint failed: t.id: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_PRIMARYKEY)",
    });
    throws(() => sql.exec("INSERT INTO t VALUES (2, NULL)"), {
      message:
        "NOT NULL constraint failed: t.x: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_NOTNULL)",
    });
    throws(() => sql.exec("INSERT INTO t VALUES (2, 0)"), {
      message:
        "CHECK constraint failed: x > 0: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)",
    });
    throws(() => sql.exec("SELECT (1"), {
      message: "incomplete input: SQLITE_ERROR",
    });
  },
  "the live cursor sees later rows of its table"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    sql.exec("INSERT INTO t VALUES (1), (2)");
    const cursor = sql.exec("SELECT x FROM t");
    equal(cursor.next().value, { x: 1 });
    sql.exec("INSERT INTO t VALUES (3)");
    equal(cursor.toArray(), [{ x: 2 }, { x: 3 }]);
  },
  "two cursors of one text are independent"({ sql }) {
    const text = "SELECT 1 AS n UNION SELECT 2";
    const [a, b] = [sql.exec(text), sql.exec(text)];
    equal(
      [a.next().value, b.next().value, a.next().value, b.next().value],
      [{ n: 1 }, { n: 1 }, { n: 2 }, { n: 2 }],
    );
  },
  "an empty query is an error"({ sql }) {
    const message = "SQL code did not contain a statement.";
    throws(() => sql.exec(""), { name: "Error", message });
    throws(() => sql.exec("-- nothing"), { name: "Error", message });
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
