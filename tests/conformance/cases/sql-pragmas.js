// config: {"objects": {"PROBE": "Probe"}}
import { probe, suite, tried } from "../support/check.js";

const run = (sql, text) => tried(() => sql.exec(text).toArray());
const each = (sql, list, make) =>
  Object.fromEntries(list.map((it) => [it, run(sql, make ? make(it) : it)]));

const object = {
  "pragmas without an argument": ({ sql }) =>
    each(
      sql,
      "analysis_limit application_id auto_vacuum automatic_index busy_timeout cache_size cache_spill cell_size_check checkpoint_fullfsync collation_list compile_options count_changes data_store_directory database_list default_cache_size defer_foreign_keys empty_result_callbacks encoding foreign_keys freelist_count full_column_names fullfsync function_list hard_heap_limit ignore_check_constraints incremental_vacuum integrity_check journal_mode journal_size_limit legacy_alter_table legacy_file_format locking_mode max_page_count mmap_size module_list optimize page_count page_size parser_trace pragma_list query_only quick_check read_uncommitted recursive_triggers reverse_unordered_selects schema_version secure_delete short_column_names shrink_memory soft_heap_limit synchronous table_list temp_store temp_store_directory threads trusted_schema user_version wal_autocheckpoint wal_checkpoint writable_schema nosuchpragma".split(
        " ",
      ),
      (name) => `PRAGMA ${name}`,
    ),
  "pragmas with an argument": ({ sql }) =>
    each(
      sql,
      "data_version case_sensitive_like foreign_keys defer_foreign_keys ignore_check_constraints legacy_alter_table recursive_triggers reverse_unordered_selects page_size cache_size user_version writable_schema query_only temp_store journal_mode synchronous max_page_count secure_delete trusted_schema optimize".split(
        " ",
      ),
      (name) => `PRAGMA ${name} = 1`,
    ),
  "pragmas of tables and indexes"({ sql }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (a TEXT NOT NULL DEFAULT 'x', b REFERENCES p (id) ON DELETE CASCADE, g AS (b + 1)); CREATE INDEX i ON c (a DESC, b) WHERE b > 0",
    );
    return each(sql, [
      "PRAGMA table_info(c)",
      "PRAGMA table_xinfo(c)",
      "PRAGMA table_info = c",
      "PRAGMA table_info('none')",
      "PRAGMA table_info",
      "PRAGMA index_list(c)",
      "PRAGMA index_info(i)",
      "PRAGMA index_xinfo(i)",
      "PRAGMA foreign_key_list(c)",
      "PRAGMA foreign_key_check",
      "PRAGMA foreign_key_check(c)",
      "PRAGMA quick_check(c)",
      "PRAGMA quick_check(1)",
      "PRAGMA table_list(c)",
      "PRAGMA main.table_info(c)",
      "PRAGMA temp.table_info(c)",
    ]);
  },
  "pragmas as tables"({ sql }) {
    sql.exec("CREATE TABLE t (a, b)");
    return each(sql, [
      "SELECT name FROM pragma_table_info('t')",
      "SELECT name FROM pragma_table_info WHERE arg = 't'",
      "SELECT name FROM pragma_table_xinfo('t')",
      "SELECT count(*) AS n FROM pragma_index_list('t')",
      "SELECT name FROM pragma_table_list WHERE name = 't'",
      "SELECT * FROM pragma_page_size",
      "SELECT * FROM pragma_function_list LIMIT 1",
      "SELECT * FROM pragma_pragma_list LIMIT 1",
      "SELECT * FROM pragma_module_list LIMIT 1",
      "SELECT * FROM pragma_compile_options LIMIT 1",
      "SELECT * FROM pragma_user_version",
      "SELECT * FROM pragma_database_list",
      "SELECT * FROM pragma_foreign_keys",
      "SELECT * FROM pragma_quick_check",
      "SELECT m.name, x.name FROM sqlite_schema m, pragma_table_info(m.name) x WHERE m.name = 't'",
      "SELECT name FROM pragma_table_info('_cf_KV')",
    ]);
  },
  "settings have their effect"({ sql }) {
    sql.exec(
      "CREATE TABLE p (id INTEGER PRIMARY KEY); CREATE TABLE c (p REFERENCES p (id), k CHECK (k > 0))",
    );
    const seen = {};
    seen.foreignKeys = run(sql, "PRAGMA foreign_keys");
    seen.off = run(sql, "PRAGMA foreign_keys = OFF");
    seen.afterOff = run(sql, "PRAGMA foreign_keys");
    seen.orphan = run(sql, "INSERT INTO c VALUES (1, 1)");
    run(sql, "PRAGMA ignore_check_constraints = ON");
    seen.check = run(sql, "INSERT INTO c VALUES (NULL, 0)");
    run(sql, "PRAGMA ignore_check_constraints = OFF");
    seen.checkAgain = run(sql, "INSERT INTO c VALUES (NULL, 0)");
    run(sql, "PRAGMA case_sensitive_like = ON");
    seen.like = run(sql, "SELECT 'a' LIKE 'A' AS l");
    run(sql, "PRAGMA case_sensitive_like = OFF");
    run(sql, "PRAGMA reverse_unordered_selects = ON");
    seen.reversed = run(sql, "SELECT k FROM c");
    return seen;
  },
  async "settings last over awaits"({ sql, storage }) {
    run(sql, "PRAGMA case_sensitive_like = ON");
    run(sql, "PRAGMA recursive_triggers = ON");
    await storage.put("k", 1);
    await storage.sync();
    await scheduler.wait(1);
    return [
      run(sql, "SELECT 'a' LIKE 'A' AS l"),
      run(sql, "PRAGMA recursive_triggers"),
    ];
  },
  async "foreign_keys may change only outside a transaction"({ sql, storage }) {
    const state = () => sql.exec("PRAGMA foreign_keys").one();
    const seen = [state()];
    storage.kv.put("opens", "a transaction");
    sql.exec("PRAGMA foreign_keys = OFF");
    seen.push(state());
    await scheduler.wait(1);
    sql.exec("PRAGMA foreign_keys = OFF");
    seen.push(state());
    storage.transactionSync(() => sql.exec("PRAGMA foreign_keys = ON"));
    seen.push(state());
    return seen;
  },
  "_cf_ names in pragmas": ({ sql }) =>
    each(sql, [
      "PRAGMA table_info(_cf_KV)",
      "PRAGMA table_info('_CF_kv')",
      "PRAGMA table_list(_cf_KV)",
      "PRAGMA index_list(_cf_KV)",
      "PRAGMA quick_check(_cf_KV)",
      "PRAGMA foreign_key_list(_cf_KV)",
    ]),
};

export class Probe extends probe(object) {}
export default suite({ object });
