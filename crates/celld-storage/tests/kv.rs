//! Keys and values, alarms, `deleteAll()`, parking, and the order of what happens at a commit.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use celld_storage::{CellDb, Image, ListOptions, OpenOptions, StorageError};
use support::{Cell, dump, txid};

fn keys(cell: &mut Cell, list: ListOptions<'_>) -> Vec<String> {
    cell.db
        .kv_list(&list)
        .unwrap()
        .into_iter()
        .map(|(key, _)| key)
        .collect()
}

fn filled() -> Cell {
    let mut cell = Cell::new();
    // U+FFFF sorts before U+10000 in UTF-8, but after it in UTF-16.
    for key in ["b", "a", "ab", "", "a\u{ffff}", "a\u{10000}", "c", "a\0"] {
        cell.db.kv_put(key, key.as_bytes()).unwrap();
    }
    cell
}

#[test]
fn keys_are_listed_in_the_order_of_their_utf8_bytes() {
    let mut cell = filled();
    let all = ["", "a", "a\0", "ab", "a\u{ffff}", "a\u{10000}", "b", "c"];
    assert_eq!(keys(&mut cell, ListOptions::default()), all);
    let reverse = ListOptions {
        reverse: true,
        ..ListOptions::default()
    };
    assert!(keys(&mut cell, reverse).iter().rev().eq(all.iter()));
}

#[test]
fn bounds_prefix_and_limit_combine() {
    let mut cell = filled();
    let base = ListOptions::default();
    let cases = [
        (
            ListOptions {
                start: Some("ab"),
                end: Some("c"),
                ..base
            },
            vec!["ab", "a\u{ffff}", "a\u{10000}", "b"],
        ),
        (
            ListOptions {
                start_after: Some("a"),
                limit: Some(2),
                ..base
            },
            vec!["a\0", "ab"],
        ),
        (
            ListOptions {
                prefix: Some("a"),
                ..base
            },
            vec!["a", "a\0", "ab", "a\u{ffff}", "a\u{10000}"],
        ),
        (
            ListOptions {
                prefix: Some("a"),
                start: Some("b"),
                ..base
            },
            vec![],
        ),
        (
            ListOptions {
                prefix: Some("a"),
                end: Some("ab"),
                reverse: true,
                ..base
            },
            vec!["a\0", "a"],
        ),
        (
            ListOptions {
                prefix: Some("a\u{10000}"),
                ..base
            },
            vec!["a\u{10000}"],
        ),
        (
            ListOptions {
                end: Some("a"),
                ..base
            },
            vec![""],
        ),
        (
            ListOptions {
                start: Some("c"),
                end: Some("a"),
                ..base
            },
            vec![],
        ),
        (
            ListOptions {
                reverse: true,
                limit: Some(1),
                ..base
            },
            vec!["c"],
        ),
        (
            ListOptions {
                limit: Some(u64::MAX),
                start: Some("c"),
                ..base
            },
            vec!["c"],
        ),
    ];
    for (list, expected) in cases {
        assert_eq!(keys(&mut cell, list), expected, "{list:?}");
    }
}

#[test]
fn values_are_replaced_deleted_and_read_in_place() {
    let mut cell = Cell::new();
    assert_eq!(cell.db.kv_get("k").unwrap(), None);
    cell.db.kv_put("k", b"1").unwrap();
    cell.db.kv_put("k", b"").unwrap();
    assert_eq!(cell.db.kv_get("k").unwrap(), Some(vec![]));
    cell.db.kv_put("k", b"three").unwrap();
    assert_eq!(cell.db.kv_get_with("k", <[u8]>::len).unwrap(), Some(5));
    assert!(cell.db.kv_delete("k").unwrap());
    assert!(!cell.db.kv_delete("k").unwrap());
}

#[test]
fn a_commit_without_changes_has_no_segment() {
    let mut cell = Cell::new();
    assert!(!cell.db.is_dirty());
    assert!(!cell.commit());
    cell.db.kv_get("k").unwrap();
    assert!(!cell.commit());
    cell.db.kv_delete("k").unwrap();
    assert!(!cell.commit(), "deleting nothing changes nothing");
    assert_eq!(cell.db.txid(), txid(0));
    cell.db.kv_put("k", b"1").unwrap();
    assert!(cell.db.is_dirty());
    assert!(cell.commit());
    assert_eq!(cell.db.txid(), txid(1));
}

#[test]
fn a_snapshot_holds_what_is_committed_and_no_more() {
    let mut cell = Cell::new();
    cell.db.kv_put("k", b"committed").unwrap();
    cell.commit();
    cell.db.kv_put("k", &[7; 300_000]).unwrap();
    let (at, snapshot) = cell.db.snapshot().unwrap();
    assert_eq!(at, txid(1));
    cell.db.rollback().unwrap();
    let mut again = cell.restored(Some(&snapshot));
    assert_eq!(again.db.kv_get("k").unwrap(), Some(b"committed".to_vec()));
}

#[test]
fn an_untouched_cell_has_a_snapshot_too() {
    let mut cell = Cell::new();
    let (at, snapshot) = cell.db.snapshot().unwrap();
    assert_eq!(at, txid(0));
    assert!(snapshot.len() < 1024, "{} bytes", snapshot.len());
    let mut again = cell.restored(Some(&snapshot));
    again.db.kv_put("k", b"1").unwrap();
    assert_eq!(again.db.commit().unwrap().unwrap().txid, txid(1));
}

#[test]
fn parking_keeps_everything_and_is_refused_while_dirty() {
    let mut cell = Cell::new();
    cell.db.kv_put("k", b"1").unwrap();
    cell.db.set_alarm(Some(77)).unwrap();
    assert!(matches!(cell.db.park(), Err(StorageError::ParkWhileDirty)));
    cell.commit();
    cell.db.park().unwrap();
    assert!(!cell.db.is_open());
    assert!(!cell.path().with_extension("-wal").exists());
    cell.db.park().unwrap();
    assert_eq!(cell.db.kv_get("k").unwrap(), Some(b"1".to_vec()));
    assert_eq!(cell.db.get_alarm().unwrap(), Some(77));
    cell.db.kv_put("k", b"2").unwrap();
    cell.commit();
    cell.db.park().unwrap();
    let mut again = cell.restored(None);
    assert_eq!(again.db.kv_get("k").unwrap(), Some(b"2".to_vec()));
}

#[test]
fn the_wal_stays_bounded() {
    let mut cell = Cell::new();
    for value in 0..200u8 {
        cell.db.kv_put("k", &[value; 50_000]).unwrap();
        cell.commit();
    }
    let wal = std::fs::metadata(cell.dir.path().join("cell-wal"))
        .unwrap()
        .len();
    assert!(wal < (1 << 20) + 200_000, "the WAL has {wal} bytes");
}

const EVERYTHING: &str = "\
    create table p (a integer primary key autoincrement, b unique);
    create table c (x references p(a) on delete restrict, y);
    create index ci on c (y);
    create view v as select * from p join c;
    create view v2 as select * from v;
    create trigger g after delete on p begin insert into c values (null, 'trigger'); end;
    create virtual table f using fts5(body);
    create virtual table r using rtree(i, x0, x1);
    create table \"odd \"\" name; drop\" (a);
    create table w (a primary key) without rowid;
    insert into p values (1, 'x');
    insert into c values (1, 2);
    insert into f values ('text');
    insert into w values (1);
    analyze;";

#[test]
fn delete_all_leaves_nothing_but_the_alarm() {
    let mut cell = Cell::new();
    let empty = cell.db.database_size().unwrap();
    cell.run(EVERYTHING).unwrap();
    cell.db.kv_put("k", &[1; 100_000]).unwrap();
    cell.db.set_alarm(Some(5)).unwrap();
    cell.commit();
    cell.db.delete_all(false).unwrap();
    assert!(keys(&mut cell, ListOptions::default()).is_empty());
    let left = "select name from sqlite_schema where name not like '\\_cf\\_%' escape '\\' and name <> 'sqlite_sequence'";
    assert!(cell.run(left).unwrap().is_empty());
    assert_eq!(cell.db.get_alarm().unwrap(), Some(5));
    cell.commit();
    assert!(cell.db.database_size().unwrap() <= empty + 4096);
    let (_, snapshot) = cell.db.snapshot().unwrap();
    assert!(
        snapshot.len() < 2048,
        "a cleared cell's snapshot has {} bytes",
        snapshot.len()
    );
    cell.db.delete_all(true).unwrap();
    assert_eq!(cell.db.get_alarm().unwrap(), None);
    cell.run("create table p (a)").unwrap();
    cell.commit();
    cell.db.park().unwrap();
    assert_eq!(dump(&cell.restored(None).path), dump(&cell.path()));
}

#[test]
fn delete_all_can_be_rolled_back_whole() {
    let mut cell = Cell::new();
    cell.run(EVERYTHING).unwrap();
    cell.db.kv_put("k", b"1").unwrap();
    cell.commit();
    cell.db.park().unwrap();
    let before = dump(&cell.path());
    cell.db.delete_all(true).unwrap();
    cell.db.rollback().unwrap();
    assert_eq!(cell.db.kv_get("k").unwrap(), Some(b"1".to_vec()));
    cell.db.park().unwrap();
    assert_eq!(dump(&cell.path()), before);
}

#[test]
fn delete_all_is_refused_inside_a_transaction() {
    let mut cell = Cell::new();
    let depth = cell.db.begin_nested().unwrap();
    let error = cell.db.delete_all(false).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Cannot call deleteAll() within a transaction"
    );
    cell.db.release_nested(depth).unwrap();
}

#[test]
fn a_cell_moves_between_threads() {
    let mut cell = Cell::new();
    let cursor = cell
        .db
        .sql_exec("select 1 union all select 2", &[])
        .unwrap()
        .cursor
        .unwrap();
    let cell = std::thread::spawn(move || {
        cell.next(cursor).unwrap();
        cell.db.kv_put("k", b"1").unwrap();
        cell
    })
    .join()
    .unwrap();
    drop(cell);
}

#[test]
fn destroying_removes_the_files() {
    let Cell { db, dir, .. } = filled();
    db.destroy().unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn creating_replaces_what_a_crash_left() {
    let mut cell = filled();
    cell.commit();
    let path = cell.path();
    // As after a crash: the old file and its WAL lie there.
    std::mem::forget(cell.db);
    let mut db = CellDb::create(&path, OpenOptions::default(), Image::default()).unwrap();
    assert!(db.kv_list(&ListOptions::default()).unwrap().is_empty());
}

#[test]
fn a_directory_that_is_missing_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no").join("cell");
    let error = CellDb::create(&path, OpenOptions::default(), Image::default()).unwrap_err();
    assert!(error.to_string().contains("no/cell"), "{error}");
}

#[test]
fn foreign_keys_are_checked_at_once_after_everything_was_deleted() {
    let mut cell = Cell::new();
    let tables = "create table p (id integer primary key); create table c (p references p (id))";
    cell.run(tables).unwrap();
    cell.run("insert into p values (1); insert into c values (1)")
        .unwrap();
    cell.db.delete_all(true).unwrap();
    cell.run(tables).unwrap();
    assert!(
        cell.error("insert into c values (2)")
            .starts_with("FOREIGN KEY")
    );
    cell.commit();
}
