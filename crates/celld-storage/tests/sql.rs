//! SQL as scripts see it. Texts and counts marked "workerd" were read from workerd.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use celld_storage::{CursorId, SqlValue, StorageError};
use support::Cell;

fn integers(rows: &[Vec<SqlValue>]) -> Vec<i64> {
    rows.iter()
        .map(|row| match row[0] {
            SqlValue::Integer(value) => value,
            ref other => panic!("{other:?} is not an integer"),
        })
        .collect()
}

const TRANSACTION: &str = "To execute a transaction, please use the state.storage.transaction() or state.storage.transactionSync() APIs instead of the SQL BEGIN TRANSACTION or SAVEPOINT statements. The JavaScript API is safer because it will automatically roll back on exceptions, and because it interacts correctly with Durable Objects' automatic atomic write coalescing.";

/// workerd's texts, word for word.
#[test]
fn errors_have_the_texts_that_scripts_test_for() {
    let mut cell = Cell::new();
    cell.run("CREATE TABLE c (a UNIQUE, b NOT NULL, CHECK (a > 0)); INSERT INTO c VALUES (1, 1)")
        .unwrap();
    cell.run("CREATE TABLE p (a PRIMARY KEY); CREATE TABLE ch (a REFERENCES p(a))")
        .unwrap();
    cell.run("CREATE VIEW v AS SELECT * FROM _cf_KV").unwrap();
    let over = |n: usize, part: &str| part.repeat(n);
    let cases = [
        ("select * from x", "no such table: x: SQLITE_ERROR"),
        (
            "selec 1",
            "near \"selec\": syntax error at offset 0: SQLITE_ERROR",
        ),
        (
            "select 1; selec 2",
            "near \"selec\": syntax error at offset 0: SQLITE_ERROR",
        ),
        ("", "SQL code did not contain a statement."),
        ("  -- c\n", "SQL code did not contain a statement."),
        ("select 1 where", "incomplete input: SQLITE_ERROR"),
        (
            "select ?",
            "Wrong number of parameter bindings for SQL query.",
        ),
        (
            "select ?100",
            "Wrong number of parameter bindings for SQL query.",
        ),
        (
            "select 1 where ?; select 2",
            "When executing multiple SQL statements in a single call, only the last statement can have parameters.",
        ),
        (
            "select sqlite_version()",
            "not authorized to use function: sqlite_version at offset 7: SQLITE_ERROR",
        ),
        ("pragma journal_mode", "not authorized: SQLITE_AUTH"),
        ("pragma cache_size=1", "not authorized: SQLITE_AUTH"),
        ("pragma user_version", "not authorized: SQLITE_AUTH"),
        ("pragma function_list", "not authorized: SQLITE_AUTH"),
        (
            "select * from pragma_function_list",
            "not authorized: SQLITE_AUTH",
        ),
        ("pragma table_info(_cf_KV)", "not authorized: SQLITE_AUTH"),
        (
            "select * from pragma_table_info('_cf_KV')",
            "not authorized: SQLITE_AUTH",
        ),
        ("attach 'x' as y", "not authorized: SQLITE_AUTH"),
        ("detach main", "not authorized: SQLITE_AUTH"),
        (
            "vacuum",
            "cannot VACUUM from within a transaction: SQLITE_ERROR",
        ),
        ("create table _cf_x(a)", "not authorized: SQLITE_AUTH"),
        ("create temp table tt(a)", "not authorized: SQLITE_AUTH"),
        (
            "create virtual table g using dbstat",
            "not authorized: SQLITE_AUTH",
        ),
        (
            "create virtual table f2 using fts4(a)",
            "not authorized: SQLITE_AUTH",
        ),
        (
            "select * from _cf_KV",
            "access to _cf_KV.key is prohibited: SQLITE_AUTH",
        ),
        (
            "select key from _cf_KV",
            "access to _cf_KV.key is prohibited: SQLITE_AUTH",
        ),
        ("select count(*) from _cf_KV", "not authorized: SQLITE_AUTH"),
        (
            "select * from v",
            "access to _cf_KV.key is prohibited: SQLITE_AUTH",
        ),
        (
            "insert into _cf_KV values('a',1)",
            "not authorized: SQLITE_AUTH",
        ),
        ("drop table _cf_KV", "not authorized: SQLITE_AUTH"),
        (
            "create index i on _cf_KV(value)",
            "not authorized: SQLITE_AUTH",
        ),
        (
            "create trigger tr after insert on _cf_KV begin select 1; end",
            "not authorized: SQLITE_AUTH",
        ),
        (
            "insert into c values(1,1)",
            "UNIQUE constraint failed: c.a: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_UNIQUE)",
        ),
        (
            "insert into c values(2,null)",
            "NOT NULL constraint failed: c.b: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_NOTNULL)",
        ),
        (
            "insert into c values(-1,1)",
            "CHECK constraint failed: a > 0: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_CHECK)",
        ),
        (
            "insert into ch values(4)",
            "FOREIGN KEY constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)",
        ),
        (
            "select 1 union select 2 union select 3 union select 4 union select 5 union select 6",
            "too many terms in compound SELECT: SQLITE_ERROR",
        ),
        (
            "select 'a' like '12345678901234567890123456789012345678901234567890123'",
            "LIKE or GLOB pattern too complex: SQLITE_ERROR",
        ),
        (
            "select randomblob(2500000)",
            "string or blob too big: SQLITE_TOOBIG",
        ),
        (
            "select unknown(1)",
            "no such function: unknown at offset 7: SQLITE_ERROR",
        ),
        ("select json('{')", "malformed JSON: SQLITE_ERROR"),
        (
            &format!("select 1{}", over(101, "+1")),
            "Expression tree is too large (maximum depth 100): SQLITE_ERROR",
        ),
        (
            &format!("select {}1", over(100, "1,")),
            "too many columns in result set: SQLITE_ERROR",
        ),
        (
            &format!("select '{}'", over(100_001, "x")),
            "statement too long: SQLITE_TOOBIG",
        ),
        (
            &format!("select {}?", over(100, "?,")),
            "too many SQL variables at offset 207: SQLITE_ERROR",
        ),
        ("begin", TRANSACTION),
        ("commit", TRANSACTION),
        ("rollback", TRANSACTION),
        ("savepoint a", TRANSACTION),
        ("release a", TRANSACTION),
        ("select 1; begin", TRANSACTION),
    ];
    for (sql, text) in cases {
        assert_eq!(cell.error(sql), text, "{}", &sql[..sql.len().min(60)]);
    }
    // Nothing of it has harmed the transaction.
    assert!(cell.commit());
}

#[test]
fn loadable_extensions_and_other_modules_are_out_of_reach() {
    let mut cell = Cell::new();
    for sql in [
        "select load_extension('x')",
        "select fts3_tokenizer('simple')",
        "select * from dbstat",
        "select * from sqlite_dbpage",
        "select * from fts3tokenize",
        "select * from generate_series(1, 2)",
        "create virtual table g using geopoly(a)",
        "update sqlite_schema set sql = 'x'",
        "delete from sqlite_schema",
        "pragma writable_schema = on",
        "select readfile('/etc/passwd')",
        "select writefile('x', 'y')",
        "alter table _cf_KV rename to x",
        "alter table _cf_KV add column x",
        "create virtual table f using fts5(key, content='_cf_KV'); select * from f",
    ] {
        cell.error(sql);
    }
}

#[test]
fn a_rename_to_a_reserved_name_is_undone() {
    let mut cell = Cell::new();
    cell.run("create table t (a); insert into t values (1)")
        .unwrap();
    assert_eq!(
        cell.error("alter table t rename to _cf_t"),
        "not authorized: SQLITE_AUTH"
    );
    assert_eq!(
        cell.error("alter table t rename to _CF_t; select 1"),
        "not authorized: SQLITE_AUTH"
    );
    cell.run("alter table t rename to s; alter table s rename column a to b")
        .unwrap();
    assert_eq!(integers(&cell.run("select b from s").unwrap()), [1]);
}

/// (statement, rows read, rows written) as workerd counts them.
#[test]
fn rows_are_counted_as_workerd_counts_them_in_simple_cases() {
    let mut cell = Cell::new();
    let mut check = |sql: &str, read: Option<u64>, written: u64| {
        let outcome = cell.db.sql_exec(sql, &[]).unwrap();
        let (mut got_read, mut got_written) = (outcome.rows_read, outcome.rows_written);
        if let Some(cursor) = outcome.cursor {
            let step = cell
                .db
                .cursor_next(cursor, usize::MAX, &mut support::Rows::default())
                .unwrap();
            (got_read, got_written) = (step.rows_read, step.rows_written);
        }
        assert_eq!(read.unwrap_or(got_read), got_read, "rows read by {sql}");
        assert_eq!(written, got_written, "rows written by {sql}");
    };
    check("create table t(a integer primary key, b text)", None, 2);
    check("insert into t(b) values('x')", Some(0), 1);
    check(
        "insert into t(b) values('p'),('q'),('r') returning *",
        None,
        3,
    );
    check("select * from t", Some(4), 0);
    check("select * from t where a=2", Some(1), 0);
    check("select count(*) from t where b <> 'zz'", Some(4), 0);
    check("create index ti on t(b)", None, 2);
    check("insert into t(b) values('z')", Some(0), 2);
    check("update t set b='w' where a<3", None, 4);
    check("delete from t where a=1", None, 1);
    check(
        "create table k(id text primary key, v) without rowid",
        None,
        2,
    );
    check("insert into k values('a',1),('b',2)", Some(0), 2);
    check(
        "insert into k values('a',9) on conflict(id) do update set v=excluded.v",
        None,
        1,
    );
    check("update k set v=1 where id='b'", None, 1);
    check(
        "create table w(a,b); create index wa on w(a); insert into w values(1,2),(3,4)",
        None,
        4,
    );
    check("update w set b=b+1", None, 2);
    check("delete from w", None, 2);
}

#[test]
fn a_cursor_stays_on_the_row_that_was_read_last_and_counts_so() {
    let mut cell = Cell::new();
    cell.run("create table u(x integer primary key)").unwrap();
    for value in 0..10 {
        cell.run_with("insert into u values (?)", &[SqlValue::Integer(value)])
            .unwrap();
    }
    let outcome = cell.db.sql_exec("select * from u", &[]).unwrap();
    assert_eq!(&*outcome.columns, ["x"]);
    let cursor = outcome.cursor.unwrap();
    let mut reads = vec![outcome.rows_read];
    for _ in 0..2 {
        let step = cell
            .db
            .cursor_next(cursor, 1, &mut support::Rows::default())
            .unwrap();
        reads.push(step.rows_read);
    }
    assert_eq!(reads, [1, 1, 2]);
}

#[test]
fn cursors_see_later_writes_and_block_drop() {
    let mut cell = Cell::new();
    cell.run("create table u(x integer primary key); insert into u values (0),(1),(2),(3),(4)")
        .unwrap();
    cell.commit();
    let outcome = cell.db.sql_exec("select x from u", &[]).unwrap();
    let cursor = outcome.cursor.unwrap();
    cell.next(cursor).unwrap();
    assert_eq!(
        cell.error("drop table u"),
        "database table is locked: SQLITE_LOCKED"
    );
    cell.run("delete from u where x = 3").unwrap();
    assert!(cell.commit(), "an open cursor does not hold a commit back");
    assert_eq!(integers(&cell.rest(&outcome).unwrap()), [1, 2, 4]);
}

#[test]
fn the_same_text_twice_gives_two_independent_cursors() {
    let mut cell = Cell::new();
    let sql = "select 1 as a union all select 2 union all select 3";
    let first = cell.db.sql_exec(sql, &[]).unwrap();
    cell.next(first.cursor.unwrap()).unwrap();
    let second = cell.db.sql_exec(sql, &[]).unwrap();
    assert_eq!(integers(&cell.rest(&second).unwrap()), [1, 2, 3]);
    assert_eq!(integers(&cell.rest(&first).unwrap()), [2, 3]);
    let third = cell.db.sql_exec(sql, &[]).unwrap();
    assert_eq!(integers(&cell.rest(&third).unwrap()), [1, 2, 3]);
}

#[test]
fn a_finished_or_closed_cursor_is_refused_and_its_number_not_reused() {
    let mut cell = Cell::new();
    let invalid = |result: Result<(Vec<SqlValue>, bool), StorageError>| {
        assert!(
            matches!(result, Err(StorageError::CursorInvalid)),
            "{result:?}"
        );
    };
    let first = cell.db.sql_exec("select 1", &[]).unwrap().cursor.unwrap();
    assert!(!cell.next(first).unwrap().1);
    assert!(cell.next(first).unwrap().1);
    invalid(cell.next(first));
    let second = cell.db.sql_exec("select 2", &[]).unwrap().cursor.unwrap();
    invalid(cell.next(first));
    cell.db.park().unwrap();
    invalid(cell.next(second));
    invalid(cell.next(CursorId::from_raw(u64::MAX)));
    let third = cell.db.sql_exec("select 3", &[]).unwrap().cursor.unwrap();
    invalid(cell.next(second));
    cell.db.delete_all(false).unwrap();
    let text = cell.next(third).unwrap_err().to_string();
    assert_eq!(
        text,
        "SQLite query was canceled because the database was deleted."
    );
    assert!(third.to_raw() < 1 << 53);
}

#[test]
fn returning_rows_survive_commit_and_savepoints() {
    let mut cell = Cell::new();
    cell.run("create table u(x)").unwrap();
    let outcome = cell
        .db
        .sql_exec("insert into u values (5), (6), (7) returning x", &[])
        .unwrap();
    let depth = cell.db.begin_nested().unwrap();
    cell.db.release_nested(depth).unwrap();
    cell.next(outcome.cursor.unwrap()).unwrap();
    assert!(cell.commit());
    assert_eq!(integers(&cell.rest(&outcome).unwrap()), [6, 7]);
}

#[test]
fn earlier_statements_of_a_failing_script_have_run() {
    let mut cell = Cell::new();
    cell.error("create table m(a); selec 1");
    cell.run("insert into m values (1)").unwrap();
}

#[test]
fn values_keep_their_types() {
    let mut cell = Cell::new();
    let values = vec![
        SqlValue::Null,
        SqlValue::Integer(i64::MIN),
        SqlValue::Real(1.5),
        SqlValue::Text("a\0ü".into()),
        SqlValue::Text(String::new()),
        SqlValue::Blob(vec![0, 255]),
        SqlValue::Blob(Vec::new()),
    ];
    let rows = cell
        .run_with("select ?, ?, ?, ?, ?, ?, ?", &values)
        .unwrap();
    assert_eq!(rows, [values]);
    let odd = cell
        .run("select cast(x'ff41' as text), 1 as a, 2 as a")
        .unwrap();
    assert_eq!(odd[0][0], SqlValue::Text("\u{fffd}A".into()));
    let broken = cell.run("select '\0'").unwrap_err().to_string();
    assert!(broken.starts_with("unrecognized token"), "{broken}");
    assert!(matches!(
        cell.run("select 1\0"),
        Err(StorageError::NoStatement)
    ));
}

#[test]
fn full_text_search_trees_and_json_work() {
    let mut cell = Cell::new();
    cell.run("create virtual table f using fts5(a, tokenize='porter'); create virtual table r using rtree(i, x0, x1); create virtual table ri using rtree_i32(i, x0, x1); create virtual table fv using fts5vocab('f', 'row')").unwrap();
    cell.run("insert into f values ('running cells'), ('a stopped one'); insert into r values (1, 0.0, 2.0); insert into ri values (1, 0, 2)").unwrap();
    cell.commit();
    let rows = cell.run("select highlight(f, 0, '<', '>'), bm25(f), snippet(f, 0, '', '', '', 3) from f where f match 'run'").unwrap();
    assert_eq!(rows[0][0], SqlValue::Text("<running> cells".into()));
    assert_eq!(
        integers(&cell.run("select i from r where x0 < 1 and x1 > 1").unwrap()),
        [1]
    );
    assert_eq!(cell.run("select term from fv").unwrap().len(), 5);
    assert_eq!(
        integers(&cell.run("select value from json_each('[7,8]')").unwrap()),
        [7, 8]
    );
    assert_eq!(
        integers(&cell.run("select '{\"a\":3}' ->> 'a'").unwrap()),
        [3]
    );
    cell.run("update f set a = 'other' where rowid = 1; delete from f where rowid = 2; insert into f(f) values ('optimize')").unwrap();
    cell.run("drop table f; drop table r").unwrap();
    cell.commit();
    let mut again = cell.restored(None);
    assert!(
        again
            .db
            .sql_exec("select * from ri", &[])
            .unwrap()
            .cursor
            .is_some()
    );
}

#[test]
fn allowed_pragmas_answer() {
    let mut cell = Cell::new();
    cell.run("create table c (a unique, b); create index ci on c (b)")
        .unwrap();
    for sql in [
        "pragma table_info(c)",
        "pragma table_xinfo('c')",
        "pragma index_list(c)",
        "pragma index_info(ci)",
        "pragma index_xinfo(ci)",
        "pragma table_list",
        "pragma foreign_keys",
        "pragma quick_check",
        "pragma data_version",
        "pragma page_size",
        "select * from pragma_table_info('c')",
        "explain select 1",
        "explain query plan select * from c",
    ] {
        assert!(!cell.run(sql).unwrap().is_empty(), "{sql}");
    }
    for sql in [
        "pragma foreign_key_list(c)",
        "pragma foreign_key_check",
        "pragma optimize",
        "analyze",
        "reindex",
    ] {
        cell.run(sql).unwrap();
    }
    assert_eq!(integers(&cell.run("pragma foreign_keys").unwrap()), [1]);
}

#[test]
fn deferred_foreign_keys_fail_the_commit() {
    let mut cell = Cell::new();
    cell.run("create table p (a primary key); create table c (a references p(a))")
        .unwrap();
    cell.commit();
    cell.run("pragma defer_foreign_keys = on").unwrap();
    cell.run("insert into c values (9)").unwrap();
    let error = cell.db.commit().unwrap_err();
    assert_eq!(
        error.to_string(),
        "Durable Object was reset and rolled back to its last known good state because the \
         application left the database in a state where constraints were violated: FOREIGN KEY \
         constraint failed: SQLITE_CONSTRAINT (extended: SQLITE_CONSTRAINT_FOREIGNKEY)"
    );
    cell.db.rollback().unwrap();
    assert!(!cell.db.is_dirty());
    assert!(cell.run("select * from c").unwrap().is_empty());
    assert!(!cell.commit());
}

#[test]
fn nested_transactions_end_in_order() {
    let mut cell = Cell::new();
    cell.run("create table u(x)").unwrap();
    let outer = cell.db.begin_nested().unwrap();
    cell.run("insert into u values (1)").unwrap();
    let inner = cell.db.begin_nested().unwrap();
    cell.run("insert into u values (2)").unwrap();
    assert!(matches!(
        cell.db.release_nested(outer),
        Err(StorageError::NestingOrder { depth: 1, open: 2 })
    ));
    cell.db.set_alarm(Some(9)).unwrap();
    cell.db.rollback_nested(inner).unwrap();
    assert_eq!(cell.db.get_alarm().unwrap(), None);
    assert!(
        !cell.commit(),
        "an open nested transaction holds the commit back"
    );
    assert!(cell.db.is_dirty());
    cell.db.release_nested(outer).unwrap();
    assert!(cell.commit());
    assert_eq!(integers(&cell.run("select x from u").unwrap()), [1]);
}
