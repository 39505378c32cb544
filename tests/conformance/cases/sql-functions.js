// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

/** Whether the function may be called with one of the argument lists. */
function allowed(sql, name, lists) {
  let last;
  for (const list of lists) {
    const outcome = tried(() =>
      sql.exec(`SELECT ${name}(${list}) AS v`).toArray(),
    );
    last = outcome?.text;
    if (last === undefined) return "allowed";
    if (!/wrong number of arguments/.test(last)) break;
  }
  return last;
}

const each = (sql, names, lists = ["", "1", "1, 1", "1, 1, 1", "'x'"]) =>
  Object.fromEntries(
    names.split(" ").map((name) => [name, allowed(sql, name, lists)]),
  );

const object = {
  "scalar functions": ({ sql }) =>
    each(
      sql,
      "abs changes char coalesce concat concat_ws format glob hex if ifnull iif instr last_insert_rowid length like likelihood likely load_extension lower ltrim nullif octet_length printf quote random randomblob replace round rtrim sign soundex sqlite_compileoption_get sqlite_compileoption_used sqlite_offset sqlite_source_id sqlite_version substr substring total_changes trim typeof unhex unicode unistr unistr_quote unlikely upper zeroblob subtype",
    ),
  "likelihood wants a constant": ({ sql }) =>
    tried(() => sql.exec("SELECT likelihood(1, 0.5) AS v").one()),
  aggregates: ({ sql }) =>
    each(
      sql,
      "avg count group_concat max min string_agg sum total median percentile percentile_cont percentile_disc",
      ["1", "1, 1", "1, 'x'"],
    ),
  "window functions"({ sql }) {
    const seen = {};
    for (const call of [
      "row_number()",
      "rank()",
      "dense_rank()",
      "percent_rank()",
      "cume_dist()",
      "ntile(2)",
      "lag(1)",
      "lead(1)",
      "first_value(1)",
      "last_value(1)",
      "nth_value(1, 1)",
      "sum(1)",
      "group_concat('x')",
    ]) {
      seen[call] = tried(() => sql.exec(`SELECT ${call} OVER () AS v`).one().v);
    }
    return seen;
  },
  mathematics: ({ sql }) =>
    each(
      sql,
      "acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power radians sin sinh sqrt tan tanh trunc",
      ["1", "1, 1", ""],
    ),
  "values of mathematics"({ sql }) {
    const seen = {};
    for (const it of [
      "acos(1)",
      "acos(2)",
      "atanh(1)",
      "ceil(1.2)",
      "ceil(-1.2)",
      "ceil(5)",
      "floor('1.5')",
      "floor('x')",
      "ln(0)",
      "ln(-1)",
      "log(100)",
      "log(2, 8)",
      "log(1, 5)",
      "mod(7, 3)",
      "mod(-7, 3)",
      "mod(7, 0)",
      "mod(7.5, 2)",
      "pow(2, 0.5)",
      "pow(0, -1)",
      "pi()",
      "degrees(pi())",
      "radians(180)",
      "sign(-5)",
      "sign('x')",
      "sqrt(2)",
      "trunc(-1.5)",
      "exp(1)",
      "exp(1000)",
      "sin(NULL)",
      "sin('abc')",
      "typeof(ceil(5))",
      "typeof(ceil(5.0))",
    ]) {
      seen[it] = tried(() => sql.exec(`SELECT ${it} AS v`).one().v);
    }
    return seen;
  },
  "date functions": ({ sql }) =>
    each(
      sql,
      "date datetime julianday strftime time timediff unixepoch current_date current_time current_timestamp",
      ["'2024-01-01'", "'%Y', '2024-01-01'", "'2024-01-01', '2024-01-01'", ""],
    ),
  "JSON functions": ({ sql }) =>
    each(
      sql,
      "json json_array json_array_insert json_array_length json_error_position json_extract json_group_array json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type json_valid jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_group_array jsonb_group_object jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace jsonb_set",
      ["'[]'", "'{}', '$'", "'[]', '{}'", "'{}', '$.a', 1"],
    ),
  "functions of FTS and R-tree": ({ sql }) =>
    each(
      sql,
      "bm25 highlight snippet fts5 fts5_source_id fts5_locale fts5_get_locale fts5_insttoken fts3_tokenizer matchinfo offsets optimize match rtreecheck rtreedepth rtreenode rtreedump geopoly_area regexp",
      ["'x'", "'x', 'y'", ""],
    ),
  "functions of extensions and of the engine": ({ sql }) =>
    each(
      sql,
      "sqlite_log sqlite_rename_table sqlite_rename_column sqlite_rename_quotefix sqlite_rename_test sqlite_drop_column sqlite_fail sqlite_drop_constraint sqlite_find_constraint stat_init stat_push stat_get affinity edit readfile writefile sha3 uuid base64 decimal ieee754 generate_series nosuchfunction _cf_x",
      ["1", "1, 1", "1, 1, 1", ""],
    ),
  "the case of a name does not matter": ({ sql }) =>
    each(sql, "ABS Sqlite_Version JSON_Array", ["1", "", "1, 1"]),
  "a refused function in every place"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const seen = {};
    for (const text of [
      "SELECT sqlite_version()",
      "SELECT 1 WHERE sqlite_version() = 1",
      "INSERT INTO t VALUES (sqlite_version())",
      "CREATE VIEW v AS SELECT sqlite_version() AS x",
      "SELECT * FROM v",
      "CREATE TABLE d (x DEFAULT (sqlite_version()))",
      "INSERT INTO d DEFAULT VALUES",
      "CREATE INDEX i ON t (sqlite_version())",
      "CREATE TABLE c (x CHECK (x <> sqlite_version()))",
      "CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT sqlite_version(); END",
      "INSERT INTO t VALUES (1)",
      "CREATE TABLE s AS SELECT sqlite_version() AS x",
      "SELECT 1 ORDER BY sqlite_version()",
      "PRAGMA table_info(sqlite_version())",
    ]) {
      seen[text] = tried(() => sql.exec(text).toArray());
    }
    return seen;
  },
  "changes and rowids"({ sql }) {
    sql.exec("CREATE TABLE t (x)");
    const state = () =>
      sql.exec("SELECT changes() AS c, last_insert_rowid() AS r").one();
    const seen = [state()];
    sql.exec("INSERT INTO t VALUES (1), (2), (3)");
    seen.push(state());
    sql.exec("UPDATE t SET x = 5 WHERE x > 1");
    seen.push(state());
    sql.exec("DELETE FROM t");
    seen.push(state());
    sql.exec("SELECT 1").toArray();
    seen.push(state());
    return seen;
  },
};

export class Probe extends probe(object) {}
export default suite({ object });
