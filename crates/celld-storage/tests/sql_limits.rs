//! Limits of SQL, interruptions, and what survives parking and resets.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::time::{Duration, Instant};

use celld_storage::{CellDb, Image, OpenOptions, SqlValue, StorageError};
use support::Cell;

fn integers(rows: &[Vec<SqlValue>]) -> Vec<i64> {
    rows.iter()
        .map(|row| match row[0] {
            SqlValue::Integer(value) => value,
            ref other => panic!("{other:?} is not an integer"),
        })
        .collect()
}

#[test]
fn a_bomb_can_be_interrupted_from_another_thread() {
    let mut cell = Cell::new();
    let handle = cell.db.interrupt_handle();
    handle.interrupt();
    cell.run("select 1").unwrap();
    let watchdog = std::thread::spawn(move || {
        // Again and again, because the first call may come before the statement runs.
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(10));
            handle.interrupt();
        }
    });
    let start = Instant::now();
    let bomb =
        "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r";
    let error = cell.run(bomb).unwrap_err();
    assert!(error.is_interrupt(), "{error}");
    assert_eq!(error.to_string(), "interrupted: SQLITE_INTERRUPT");
    assert!(start.elapsed() < Duration::from_secs(5));
    drop(cell);
    watchdog.join().unwrap();
}

#[test]
fn an_interrupted_write_undoes_itself() {
    let mut cell = Cell::new();
    cell.run("create table u(x); insert into u values (1)")
        .unwrap();
    cell.db.set_progress_hook(1000, Some(Box::new(|| true)));
    let bomb = "insert into u with recursive r(n) as (select 1 union all select n + 1 from r) select n from r";
    assert!(cell.run(bomb).unwrap_err().is_interrupt());
    cell.db.set_progress_hook(0, None);
    match cell.db.commit() {
        // SQLite undid the statement only …
        Ok(committed) => assert!(committed.is_some()),
        // … or the transaction, which must then not be committed.
        Err(error) => assert!(matches!(error, StorageError::Poisoned { .. }), "{error}"),
    }
    cell.db.rollback().unwrap();
    let rows = cell
        .run("select count(*) from u")
        .map(|rows| integers(&rows));
    assert!(matches!(rows.as_deref(), Ok([1]) | Err(_)), "{rows:?}");
}

#[test]
fn the_progress_hook_survives_parking_and_its_panic_is_contained() {
    let mut cell = Cell::new();
    let bomb =
        "with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r";
    cell.db.set_progress_hook(1000, Some(Box::new(|| true)));
    assert!(cell.run(bomb).unwrap_err().is_interrupt());
    cell.db.park().unwrap();
    assert!(cell.run(bomb).unwrap_err().is_interrupt());
    cell.db
        .set_progress_hook(1000, Some(Box::new(|| panic!("planted"))));
    assert!(cell.run(bomb).unwrap_err().is_interrupt());
}

#[test]
fn a_full_database_says_so_and_goes_on_after_rollback() {
    let options = OpenOptions {
        max_database_bytes: 40 * 4096,
        ..OpenOptions::default()
    };
    let mut cell = Cell::with(options);
    cell.run("create table u(x)").unwrap();
    cell.commit();
    let error = cell
        .run("insert into u values (zeroblob(200000))")
        .unwrap_err();
    assert_eq!(error.to_string(), "database or disk is full: SQLITE_FULL");
    assert!(error.is_critical());
    cell.db.rollback().unwrap();
    cell.run("insert into u values (1)").unwrap();
    assert!(cell.commit());
}

#[test]
fn kv_backed_classes_have_narrow_limits_and_no_sql() {
    let dir = tempfile::tempdir().unwrap();
    let options = OpenOptions {
        sqlite_api: false,
        ..OpenOptions::default()
    };
    let mut db = CellDb::create(&dir.path().join("c"), options, Image::default()).unwrap();
    assert!(matches!(
        db.sql_exec("select 1", &[]),
        Err(StorageError::SqlNotEnabled)
    ));
    db.kv_put(&"k".repeat(2048), &[0; 131_072]).unwrap();
    assert!(matches!(
        db.kv_put(&"k".repeat(2049), b""),
        Err(StorageError::KeyTooLong { .. })
    ));
    assert!(matches!(
        db.kv_put("k", &[0; 131_073]),
        Err(StorageError::ValueTooLong { .. })
    ));
}

#[test]
fn sqlite_backed_classes_take_long_keys_and_two_megabytes() {
    let mut cell = Cell::new();
    cell.db.kv_put(&"k".repeat(2049), &[0; 2_097_152]).unwrap();
    let error = cell.db.kv_put("k", &[0; 2_200_001]).unwrap_err();
    assert_eq!(error.to_string(), "string or blob too big: SQLITE_TOOBIG");
}

#[test]
fn many_texts_do_not_pile_up() {
    let mut cell = Cell::new();
    for value in 0..2000 {
        cell.run(&format!("select {value}")).unwrap();
    }
    let bytes = cell.db.memory_bytes();
    assert!(bytes < 1 << 20, "{bytes} bytes are held");
}

#[test]
fn settings_of_the_script_survive_parking() {
    let mut cell = Cell::new();
    cell.run(
        "pragma foreign_keys = off; pragma case_sensitive_like = 1; pragma recursive_triggers(on)",
    )
    .unwrap();
    cell.run("create table u (x)").unwrap();
    cell.run("pragma foreign_keys = on").unwrap();
    cell.commit();
    let seen = |cell: &mut Cell| {
        let like = integers(&cell.run("select 'A' like 'a'").unwrap());
        (
            like,
            integers(&cell.run("pragma foreign_keys").unwrap()),
            integers(&cell.run("pragma recursive_triggers").unwrap()),
        )
    };
    let before = seen(&mut cell);
    assert_eq!(before, (vec![0], vec![0], vec![1]));
    cell.db.park().unwrap();
    assert_eq!(seen(&mut cell), before);
}

#[test]
fn a_schema_change_that_is_undone_ends_cursors_with_an_error() {
    let mut cell = Cell::new();
    cell.run("create table z (a); insert into z values (1), (2), (3)")
        .unwrap();
    cell.commit();
    let cursor = cell
        .db
        .sql_exec("select * from z", &[])
        .unwrap()
        .cursor
        .unwrap();
    cell.next(cursor).unwrap();
    let depth = cell.db.begin_nested().unwrap();
    cell.run("alter table z add column b").unwrap();
    cell.db.rollback_nested(depth).unwrap();
    let error = cell
        .next(cursor)
        .and_then(|_| cell.next(cursor))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "abort due to ROLLBACK: SQLITE_ABORT (extended: SQLITE_ABORT_ROLLBACK)"
    );
}

#[test]
fn a_cached_star_select_follows_the_schema() {
    let mut cell = Cell::new();
    cell.run("create table z (a); insert into z values (1)")
        .unwrap();
    assert_eq!(cell.run("select * from z").unwrap()[0].len(), 1);
    cell.run("alter table z add column b").unwrap();
    let outcome = cell.db.sql_exec("select * from z", &[]).unwrap();
    assert_eq!(&*outcome.columns, ["a", "b"]);
    assert_eq!(cell.rest(&outcome).unwrap()[0].len(), 2);
    cell.run("alter table z rename column a to c").unwrap();
    assert_eq!(
        &*cell.db.sql_exec("select * from z", &[]).unwrap().columns,
        ["c", "b"]
    );
}

#[test]
fn mathematical_functions_answer_as_sqlites_own() {
    let mut cell = Cell::new();
    let cases = [
        ("pi()", SqlValue::Real(std::f64::consts::PI)),
        ("sqrt(2.25)", SqlValue::Real(1.5)),
        ("sqrt(-1)", SqlValue::Null),
        ("pow(2, '10')", SqlValue::Real(1024.0)),
        ("pow('x', 1)", SqlValue::Null),
        ("ceil(2)", SqlValue::Integer(2)),
        ("ceil(1.2)", SqlValue::Real(2.0)),
        ("floor(-1.2)", SqlValue::Real(-2.0)),
        ("trunc(-1.7)", SqlValue::Real(-1.0)),
        ("ln(0)", SqlValue::Null),
        ("log(100)", SqlValue::Real(2.0)),
        ("log(2, 8)", SqlValue::Real(3.0)),
        ("log2(8)", SqlValue::Real(3.0)),
        ("mod(7, 4)", SqlValue::Real(3.0)),
        ("atan2(0, 1)", SqlValue::Real(0.0)),
        ("degrees(radians(90))", SqlValue::Real(90.0)),
        ("sin(NULL)", SqlValue::Null),
    ];
    for (expression, value) in cases {
        assert_eq!(
            cell.run(&format!("select {expression}")).unwrap(),
            [[value]],
            "{expression}"
        );
    }
    cell.run("create table m (x, y as (floor(x)) stored, check (abs(sin(x)) <= 1)); create index mi on m (floor(x))").unwrap();
    cell.run("insert into m (x) values (2.5)").unwrap();
    cell.commit();
    cell.db.park().unwrap();
    cell.run("insert into m (x) values (3.5)").unwrap();
    assert_eq!(
        cell.run("select y from m where floor(x) = 3.0").unwrap(),
        [[SqlValue::Real(3.0)]]
    );
    assert_eq!(
        cell.error("select sin()"),
        "wrong number of arguments to function sin() at offset 7: SQLITE_ERROR"
    );
}

#[test]
fn a_script_cannot_borrow_the_engines_statements() {
    let mut cell = Cell::new();
    cell.db.kv_put("secret", b"1").unwrap();
    cell.db
        .kv_list(&celld_storage::ListOptions::default())
        .unwrap();
    let text = "SELECT key, value FROM _cf_KV WHERE key >= ?1 ORDER BY key LIMIT ?2";
    let bindings = [SqlValue::Text(String::new()), SqlValue::Integer(9)];
    let error = cell.run_with(text, &bindings).unwrap_err().to_string();
    assert_eq!(error, "access to _cf_KV.key is prohibited: SQLITE_AUTH");
}

#[test]
fn a_forgotten_cursor_does_not_let_the_wal_grow_for_ever() {
    let mut cell = Cell::with(OpenOptions {
        wal_checkpoint_bytes: 64 << 10,
        wal_max_bytes: 512 << 10,
        ..OpenOptions::default()
    });
    cell.run("create table u (x); insert into u values (1), (2), (3)")
        .unwrap();
    cell.commit();
    let cursor = cell
        .db
        .sql_exec("select x from u", &[])
        .unwrap()
        .cursor
        .unwrap();
    for value in 0..100u8 {
        cell.db.kv_put("k", &[value; 20_000]).unwrap();
        cell.commit();
    }
    assert!(matches!(cell.next(cursor), Err(StorageError::CursorTooOld)));
    let wal = std::fs::metadata(cell.dir.path().join("cell-wal"))
        .unwrap()
        .len();
    assert!(wal < 1 << 20, "the WAL has {wal} bytes");
}

#[test]
fn a_commit_beyond_the_limit_fails_and_resetting_the_cell_heals_it() {
    let options = OpenOptions {
        commit_max_bytes: 100_000,
        ..OpenOptions::default()
    };
    let mut cell = Cell::with(options);
    cell.db.kv_put("k", b"1").unwrap();
    cell.commit();
    cell.db.kv_put("k", &[0; 200_000]).unwrap();
    let error = cell.db.commit().unwrap_err();
    assert!(
        matches!(error, StorageError::CommitTooLarge { .. }) && error.is_critical(),
        "{error}"
    );
    let error = cell.db.rollback().unwrap_err();
    assert!(
        matches!(error, StorageError::Poisoned { .. }),
        "the host must learn that only a new database helps"
    );
    assert!(matches!(
        cell.db.kv_put("k", b"2"),
        Err(StorageError::Poisoned { .. })
    ));
    assert!(
        cell.db.commit().is_err(),
        "what was not captured must never count as committed"
    );
    let mut again = cell.restored(None);
    assert_eq!(again.db.kv_get("k").unwrap(), Some(b"1".to_vec()));
}
