//! SQL of any shape: it may fail, but it reaches nothing of the engine, and the cell goes on.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use celld_storage::{SqlValue, StorageError};
use proptest::prelude::*;
use support::Cell;

/// Pieces of which texts are made; some of them are what a script must not reach.
const PIECES: [&str; 96] = [
    "SELECT",
    "INSERT INTO",
    "UPDATE",
    "DELETE FROM",
    "CREATE TABLE",
    "CREATE TEMP TABLE",
    "CREATE VIEW",
    "CREATE TRIGGER",
    "CREATE INDEX",
    "CREATE VIRTUAL TABLE",
    "DROP TABLE",
    "DROP VIEW",
    "ALTER TABLE",
    "RENAME TO",
    "RENAME COLUMN",
    "ADD COLUMN",
    "PRAGMA",
    "ATTACH",
    "DETACH",
    "VACUUM",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "EXPLAIN",
    "REINDEX",
    "ANALYZE",
    "WITH RECURSIVE",
    "FROM",
    "WHERE",
    "VALUES",
    "SET",
    "AS",
    "ON",
    "USING",
    "UNION ALL",
    "ORDER BY",
    "GROUP BY",
    "LIMIT",
    "RETURNING",
    "AFTER INSERT",
    "END",
    "*",
    "(",
    ")",
    ",",
    ";",
    "=",
    "<",
    "||",
    "->>",
    "?",
    "?1",
    "?101",
    ":name",
    "1",
    "-1",
    "1e999",
    "'x'",
    "\"_cf_KV\"",
    "_cf_KV",
    "_cf_METADATA",
    "_CF_kv",
    "main._cf_KV",
    "temp.t",
    "t",
    "u",
    "x",
    "key",
    "value",
    "sqlite_master",
    "sqlite_temp_master",
    "sqlite_sequence",
    "pragma_table_info('_cf_KV')",
    "json_each('[1]')",
    "fts5(x)",
    "fts5vocab('_cf_KV', 'row')",
    "rtree(id, a, b)",
    "dbstat",
    "writable_schema = 1",
    "user_version",
    "journal_mode = delete",
    "load_extension('x')",
    "sqlite_version()",
    "randomblob(100)",
    "zeroblob(9999999999)",
    "printf('%1000000d', 1)",
    "abs(-9223372036854775808)",
    "x'ff'",
    "/*",
    "--",
    "\u{0}",
    "\u{1F600}",
    "COLLATE",
    "OR ROLLBACK",
];

fn text() -> impl Strategy<Value = String> {
    let piece = (0..PIECES.len()).prop_map(|index| PIECES[index]);
    proptest::collection::vec(piece, 1..14).prop_map(|pieces| pieces.join(" "))
}

fn binding() -> impl Strategy<Value = SqlValue> {
    prop_oneof![
        Just(SqlValue::Null),
        any::<i64>().prop_map(SqlValue::Integer),
        any::<f64>().prop_map(SqlValue::Real),
        ".{0,20}".prop_map(SqlValue::Text),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(SqlValue::Blob),
    ]
}

/// Names that the script must not be able to make, in any schema.
fn strange_names(cell: &mut Cell) -> Vec<Vec<SqlValue>> {
    cell.run(
        "select name from sqlite_master where name like '\\_cf\\_%' escape '\\' \
         and name not in ('_cf_KV', '_cf_METADATA') \
         union all select name from sqlite_temp_master",
    )
    .unwrap()
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_sql_reaches_the_engine(
        texts in proptest::collection::vec((text(), proptest::collection::vec(binding(), 0..3)), 1..30)
    ) {
        let mut cell = Cell::new();
        cell.run("create table t (x, key, value); create table u (x); insert into t values (1, 2, 3)").unwrap();
        cell.db.kv_put("k", b"kept").unwrap();
        cell.db.set_alarm(Some(7)).unwrap();
        cell.commit();
        for (text, bindings) in &texts {
            let outcome = cell.db.sql_exec(text, bindings);
            if let Err(error) = &outcome {
                prop_assert!(!matches!(error, StorageError::Io { .. }), "{text}: {error}");
            }
            if let Some(cursor) = outcome.ok().and_then(|outcome| outcome.cursor) {
                let mut rows = support::Rows::default();
                let _ = cell.db.cursor_next(cursor, 50, &mut rows);
                cell.db.cursor_close(cursor);
            }
            // A statement that undid the transaction means a reset.
            if cell.db.commit().is_err() {
                cell.db.rollback().unwrap();
            }
            prop_assert_eq!(strange_names(&mut cell), Vec::<Vec<SqlValue>>::new(), "{}", text);
            let kept = cell.db.kv_get("k").unwrap();
            prop_assert_eq!(kept.as_deref(), Some(&b"kept"[..]), "{}", text);
            prop_assert_eq!(cell.db.get_alarm().unwrap(), Some(7), "{}", text);
        }
    }

    #[test]
    fn any_key_and_value_comes_back(
        entries in proptest::collection::vec((".{0,12}", proptest::collection::vec(any::<u8>(), 0..40)), 0..12)
    ) {
        let mut cell = Cell::new();
        let mut model = std::collections::BTreeMap::new();
        for (key, value) in &entries {
            cell.db.kv_put(key, value).unwrap();
            model.insert(key.clone().into_bytes(), value.clone());
        }
        let listed = cell.db.kv_list(&celld_storage::ListOptions::default()).unwrap();
        let listed: Vec<_> = listed.into_iter().map(|(key, value)| (key.into_bytes(), value)).collect();
        prop_assert_eq!(listed, model.into_iter().collect::<Vec<_>>());
    }
}
