// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

const run = (sql, text, ...bindings) =>
  tried(() => sql.exec(text, ...bindings).toArray());

const object = {
  "what is no statement"({ sql }) {
    const seen = {};
    for (const text of [
      "",
      " ",
      ";",
      ";;",
      "--x",
      "/* x */",
      "/* open",
      "\n;\n",
      "\ufeff",
      "-- x\n",
      "\0",
      "SELECT 1\0",
      "SELECT '\0'",
    ]) {
      seen[JSON.stringify(text)] = run(sql, text);
    }
    return seen;
  },
  "what may follow a statement"({ sql }) {
    const seen = {};
    for (const tail of [
      "",
      ";",
      ";;",
      "; ;",
      ";\n--x",
      "; /* x */",
      "; -- x\n ;",
      "--x",
      ";\ufeff",
      "; /* open",
      ";\0",
    ]) {
      seen[JSON.stringify(tail)] = run(sql, `SELECT 1 AS n${tail}`);
    }
    return seen;
  },
  "what may stand before and between"({ sql }) {
    return {
      semicolons: run(sql, ";;SELECT 1 AS n"),
      comment: run(sql, "-- x\nSELECT 1 AS n"),
      between: run(sql, "SELECT 1; -- x\n /* y */; SELECT 2 AS n"),
      empty: run(sql, "SELECT 1;;;SELECT 2 AS n"),
      bom: run(sql, "\ufeffSELECT 1 AS n"),
      spaces: run(sql, "\t\r\n\fSELECT 1 AS n"),
      nbsp: run(sql, "\u00a0SELECT 1 AS n"),
    };
  },
  "the last one gives rows, the others run to their end"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    return {
      rows: run(
        sql,
        "INSERT INTO t VALUES (1), (2); SELECT x FROM t; SELECT count(*) AS n FROM t",
      ),
      returning: run(sql, "SELECT 1; INSERT INTO t VALUES (3) RETURNING x"),
      write: run(sql, "SELECT 1; INSERT INTO t VALUES (4)"),
      counts: (() => {
        const cursor = sql.exec(
          "INSERT INTO t VALUES (5), (6); SELECT x FROM t WHERE x > 4",
        );
        cursor.toArray();
        return [cursor.rowsRead, cursor.rowsWritten, cursor.columnNames];
      })(),
      written: sql.exec(
        "INSERT INTO t VALUES (7); INSERT INTO t VALUES (8), (9)",
      ).rowsWritten,
    };
  },
  "bindings belong to the last"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    return {
      last: run(sql, "INSERT INTO t VALUES (1); SELECT ? AS v", 5),
      first: run(sql, "INSERT INTO t VALUES (?); SELECT 1 AS v", 5),
      both: run(sql, "INSERT INTO t VALUES (?); SELECT ? AS v", 5, 6),
      missing: run(sql, "INSERT INTO t VALUES (2); SELECT ? AS v"),
      tooMany: run(sql, "INSERT INTO t VALUES (3); SELECT 1 AS v", 5),
      trailing: run(sql, "SELECT ? AS v; -- done", 5),
      stored: run(sql, "SELECT x FROM t"),
    };
  },
  "an error in the middle"({ sql }) {
    sql.exec("CREATE TABLE t (x UNIQUE)");
    return {
      syntax: run(
        sql,
        "INSERT INTO t VALUES (1); SELEC; INSERT INTO t VALUES (2)",
      ),
      missing: run(
        sql,
        "INSERT INTO t VALUES (3); SELECT * FROM none; INSERT INTO t VALUES (4)",
      ),
      constraint: run(
        sql,
        "INSERT INTO t VALUES (5); INSERT INTO t VALUES (5); INSERT INTO t VALUES (6)",
      ),
      refused: run(
        sql,
        "INSERT INTO t VALUES (7); BEGIN; INSERT INTO t VALUES (8)",
      ),
      late: run(
        sql,
        "CREATE TABLE u (y); INSERT INTO u VALUES (1); SELECT y FROM u",
      ),
      incomplete: run(sql, "INSERT INTO t VALUES (9); SELECT (1"),
      stored: run(sql, "SELECT x FROM t ORDER BY x"),
    };
  },
  "offsets of errors in later statements"({ sql }) {
    return {
      first: run(sql, "SELECT nope"),
      second: run(sql, "SELECT 1; SELECT nope"),
      comment: run(sql, "/* a comment */ SELECT nope"),
      syntax: run(sql, "SELECT 1; SELECT 1 FRM x"),
      spaces: run(sql, "  \n SELECT nope"),
      spacesBetween: run(sql, "SELECT 1;  \n SELECT nope"),
      semicolons: run(sql, ";; SELECT nope"),
      characters: run(sql, "SELECT 'ü€', nope"),
    };
  },
  "many statements"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const text = Array.from(
      { length: 2_000 },
      (_, i) => `INSERT INTO t VALUES (${i});`,
    ).join("\n");
    return [
      run(sql, text),
      sql.exec("SELECT count(*) AS n, sum(x) AS s FROM t").one(),
    ];
  },
  "a script longer than one statement may be"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const part = `INSERT INTO t VALUES ('${"x".repeat(60_000)}');`;
    return {
      two: run(sql, part + part),
      one: run(sql, `INSERT INTO t VALUES ('${"x".repeat(100_000)}')`),
      comments: run(sql, `/*${"x".repeat(120_000)}*/ SELECT 1 AS n`),
      behind: run(sql, `SELECT 1 AS n; /*${"x".repeat(120_000)}*/`),
      stored: sql.exec("SELECT count(*) AS n FROM t").one(),
    };
  },
  "triggers hold semicolons"({ sql }) {
    sql.exec(
      "CREATE TABLE t (x); CREATE TABLE log (x); CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO log VALUES (new.x); INSERT INTO log VALUES (-new.x); END; INSERT INTO t VALUES (1);",
    );
    return sql.exec("SELECT x FROM log").raw().toArray();
  },
  "quotes hold semicolons"({ sql }) {
    return run(sql, `SELECT ';' AS "a;b", [x] FROM (SELECT 1 AS x); `);
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
