// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

const run = (sql, text, ...bindings) =>
  tried(() => sql.exec(text, ...bindings).toArray());

const object = {
  modules({ sql }) {
    const seen = {};
    for (const using of [
      "fts5(body)",
      "FTS5(body)",
      "fts4(body)",
      "fts3(body)",
      "fts5vocab(f, row)",
      "rtree(id, x0, x1)",
      "rtree_i32(id, x0, x1)",
      "geopoly",
      "dbstat",
      "sqlite_stmt",
      "csv(filename = 'x')",
      "generate_series",
      "json_each",
      "pragma_table_info",
      "unionvtab",
      "sqlite_dbpage",
      "bytecode",
      "nosuchmodule",
    ]) {
      const name = `v${Object.keys(seen).length}`;
      seen[using] = run(sql, `CREATE VIRTUAL TABLE ${name} USING ${using}`);
    }
    return seen;
  },
  "tables that modules bring without CREATE"({ sql }) {
    const seen = {};
    for (const from of [
      "json_each('[1]')",
      "json_tree('[1]')",
      "jsonb_each('[1]')",
      "generate_series(1, 2)",
      "dbstat",
      "sqlite_dbpage",
      "sqlite_stmt",
      "bytecode('SELECT 1')",
      "tables_used('SELECT 1')",
      "carray(1, 2)",
      "fts5vocab",
      "sqlite_master",
      "sqlite_schema",
      "sqlite_temp_master",
      "sqlite_sequence",
      "sqlite_stat1",
    ]) {
      seen[from] = run(sql, `SELECT count(*) AS n FROM ${from}`);
    }
    return seen;
  },
  FTS5({ sql }) {
    sql.exec(
      "CREATE VIRTUAL TABLE f USING fts5(title, body, tokenize = 'porter unicode61')",
    );
    sql.exec(
      "INSERT INTO f (rowid, title, body) VALUES (1, 'running', 'the quick brown fox'), (2, 'Dogs', 'lazy dogs sleep'), (3, 'größe', 'Ärger im Büro')",
    );
    return {
      match: run(sql, "SELECT rowid FROM f WHERE f MATCH ?", "run"),
      equals: run(sql, "SELECT rowid FROM f WHERE f = 'dog'"),
      call: run(sql, "SELECT rowid FROM f('fox')"),
      column: run(sql, "SELECT rowid FROM f WHERE f MATCH 'title: dogs'"),
      prefix: run(sql, "SELECT rowid FROM f WHERE f MATCH 'qui*'"),
      near: run(sql, "SELECT rowid FROM f WHERE f MATCH 'NEAR(quick fox, 2)'"),
      diacritics: run(
        sql,
        "SELECT rowid FROM f WHERE f MATCH 'grosse OR buro'",
      ),
      rank: run(sql, "SELECT rowid FROM f WHERE f MATCH 'dogs' ORDER BY rank"),
      bm25: run(
        sql,
        "SELECT round(bm25(f), 3) AS b FROM f WHERE f MATCH 'fox'",
      ),
      highlight: run(
        sql,
        "SELECT highlight(f, 1, '<', '>') AS h FROM f WHERE f MATCH 'fox'",
      ),
      snippet: run(
        sql,
        "SELECT snippet(f, 1, '<', '>', '…', 2) AS s FROM f WHERE f MATCH 'fox'",
      ),
      syntax: run(sql, "SELECT * FROM f WHERE f MATCH '\"'"),
      noColumn: run(sql, "SELECT * FROM f WHERE f MATCH 'none: x'"),
      update: run(sql, "UPDATE f SET body = 'cats' WHERE rowid = 2"),
      after: run(sql, "SELECT rowid FROM f WHERE f MATCH 'cats'"),
      delete: run(sql, "DELETE FROM f WHERE rowid = 1"),
      optimize: run(sql, "INSERT INTO f (f) VALUES ('optimize')"),
      rebuild: run(sql, "INSERT INTO f (f) VALUES ('rebuild')"),
      integrity: run(sql, "INSERT INTO f (f) VALUES ('integrity-check')"),
      config: run(sql, "INSERT INTO f (f, rank) VALUES ('pgsz', 100)"),
      shadow: run(sql, "SELECT count(*) AS n FROM f_content"),
      shadowWrite: run(sql, "DELETE FROM f_data"),
      rename: run(sql, "ALTER TABLE f RENAME TO g"),
      drop: run(sql, "DROP TABLE g"),
      gone: run(sql, "SELECT count(*) AS n FROM sqlite_master"),
    };
  },
  "FTS5 with contents elsewhere"({ sql }) {
    sql.exec(
      "CREATE TABLE t (id INTEGER PRIMARY KEY, body); CREATE VIRTUAL TABLE f USING fts5(body, content = 't', content_rowid = 'id')",
    );
    sql.exec(
      "CREATE TRIGGER g AFTER INSERT ON t BEGIN INSERT INTO f (rowid, body) VALUES (new.id, new.body); END",
    );
    sql.exec("INSERT INTO t VALUES (7, 'hello world')");
    return {
      found: run(sql, "SELECT rowid, body FROM f WHERE f MATCH 'hello'"),
      contentless: run(
        sql,
        "CREATE VIRTUAL TABLE c USING fts5(x, content = '')",
      ),
      insert: run(sql, "INSERT INTO c (rowid, x) VALUES (1, 'abc')"),
      read: run(sql, "SELECT rowid, x FROM c WHERE c MATCH 'abc'"),
      delete: run(sql, "DELETE FROM c WHERE rowid = 1"),
      trigram: run(
        sql,
        "CREATE VIRTUAL TABLE tri USING fts5(x, tokenize = 'trigram')",
      ),
      trigramPut: run(sql, "INSERT INTO tri VALUES ('abcdef')"),
      trigramLike: run(sql, "SELECT * FROM tri WHERE x LIKE '%cde%'"),
      badTokenizer: run(
        sql,
        "CREATE VIRTUAL TABLE bad USING fts5(x, tokenize = 'none')",
      ),
      badOption: run(
        sql,
        "CREATE VIRTUAL TABLE bad USING fts5(x, nothing = 1)",
      ),
    };
  },
  fts5vocab({ sql }) {
    sql.exec("CREATE VIRTUAL TABLE f USING fts5(a, b)");
    sql.exec("INSERT INTO f VALUES ('one two', 'two three'), ('two', '')");
    const seen = {};
    for (const type of ["row", "col", "instance"]) {
      seen[`create ${type}`] = run(
        sql,
        `CREATE VIRTUAL TABLE v_${type} USING fts5vocab('f', '${type}')`,
      );
      seen[type] = run(sql, `SELECT * FROM v_${type}`);
    }
    seen.none = run(
      sql,
      "CREATE VIRTUAL TABLE n USING fts5vocab('none', 'row')",
    );
    seen.noneRead = run(sql, "SELECT * FROM n");
    seen.engine = run(
      sql,
      "CREATE VIRTUAL TABLE k USING fts5vocab('_cf_KV', 'row')",
    );
    return seen;
  },
  "R-tree"({ sql }) {
    sql.exec("CREATE VIRTUAL TABLE r USING rtree(id, x0, x1, y0, y1, +label)");
    sql.exec(
      "INSERT INTO r VALUES (1, 0, 10, 0, 10, 'a'), (2, 5, 6, 5, 6, 'b'), (3, 20, 30, 20, 30, 'c')",
    );
    return {
      inside: run(
        sql,
        "SELECT id, label FROM r WHERE x0 >= 4 AND x1 <= 12 AND y0 >= 4 AND y1 <= 12",
      ),
      overlap: run(
        sql,
        "SELECT id FROM r WHERE x1 >= 6 AND x0 <= 21 ORDER BY id",
      ),
      floats: run(sql, "SELECT x0, x1 FROM r WHERE id = 2"),
      badBox: run(sql, "INSERT INTO r VALUES (4, 5, 1, 0, 1, 'd')"),
      doubled: run(sql, "INSERT INTO r VALUES (1, 0, 1, 0, 1, 'd')"),
      update: run(sql, "UPDATE r SET label = 'z' WHERE id = 1 RETURNING label"),
      check: run(sql, "SELECT rtreecheck('r') AS c"),
      node: run(sql, "SELECT count(*) AS n FROM r_node"),
      delete: run(sql, "DELETE FROM r WHERE id = 3"),
      count: run(sql, "SELECT count(*) AS n FROM r"),
      integers: run(sql, "CREATE VIRTUAL TABLE i USING rtree_i32(id, a, b)"),
      integerPut: run(sql, "INSERT INTO i VALUES (1, 1.9, 2.9)"),
      integerGet: run(sql, "SELECT * FROM i"),
      tooFew: run(sql, "CREATE VIRTUAL TABLE bad USING rtree(id)"),
      tooMany: run(
        sql,
        "CREATE VIRTUAL TABLE bad USING rtree(id, a, b, c, d, e, f, g, h, i, j, k)",
      ),
      drop: run(sql, "DROP TABLE r"),
    };
  },
  "json_each and json_tree"({ sql }) {
    return {
      each: run(
        sql,
        `SELECT key, value, type, atom, fullkey FROM json_each('{"a":1,"b":[2]}')`,
      ),
      tree: run(sql, `SELECT fullkey, type FROM json_tree('{"a":1,"b":[2]}')`),
      path: run(sql, `SELECT value FROM json_each('{"a":[1,2]}', '$.a')`),
      null: run(sql, "SELECT * FROM json_each(NULL)"),
      bad: run(sql, "SELECT * FROM json_each('bad')"),
      join: run(
        sql,
        "WITH t(j) AS (VALUES ('[1,2]'), ('[3]')) SELECT value FROM t, json_each(t.j)",
      ),
    };
  },
  async "virtual tables in transactions"({ sql, storage }) {
    sql.exec("CREATE VIRTUAL TABLE f USING fts5(x)");
    sql.exec("CREATE VIRTUAL TABLE r USING rtree(id, a, b)");
    tried(() =>
      storage.transactionSync(() => {
        sql.exec("INSERT INTO f VALUES ('undone')");
        sql.exec("INSERT INTO r VALUES (1, 1, 2)");
        throw new Error("undone");
      }),
    );
    await scheduler.wait(1);
    return [
      run(sql, "SELECT count(*) AS n FROM f"),
      run(sql, "SELECT rowid FROM f WHERE f MATCH 'undone'"),
      run(sql, "SELECT count(*) AS n FROM r"),
    ];
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
