//! A database built from a snapshot and the segments after it is the database that made them.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::collections::BTreeMap;

use bytes::Bytes;
use celld_storage::{CellDb, CursorId, Image, ListOptions, OpenOptions, SqlValue};
use proptest::prelude::*;
use support::{Cell, dump, txid};

#[derive(Clone, Debug)]
enum Op {
    Put(u8, u16),
    Delete(u8),
    Alarm(Option<i64>),
    Insert(u8, u16),
    Update(u8),
    Remove(u8),
    Schema(u8),
    Search(u8),
    DeleteAll(bool),
    Commit,
    Rollback,
    Begin,
    Release,
    RollbackNested,
    Snapshot,
    Park,
    OpenCursor,
    StepCursor(u8),
    CloseCursor,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0..40u8, 0..9000u16).prop_map(|(k, n)| Op::Put(k, n)),
        3 => (0..40u8).prop_map(Op::Delete),
        1 => proptest::option::of(1..9i64).prop_map(Op::Alarm),
        8 => (any::<u8>(), 0..6000u16).prop_map(|(k, n)| Op::Insert(k, n)),
        3 => any::<u8>().prop_map(Op::Update),
        3 => any::<u8>().prop_map(Op::Remove),
        2 => (0..8u8).prop_map(Op::Schema),
        1 => any::<u8>().prop_map(Op::Search),
        1 => any::<bool>().prop_map(Op::DeleteAll),
        8 => Just(Op::Commit),
        1 => Just(Op::Rollback),
        2 => Just(Op::Begin),
        2 => Just(Op::Release),
        1 => Just(Op::RollbackNested),
        1 => Just(Op::Snapshot),
        1 => Just(Op::Park),
        2 => Just(Op::OpenCursor),
        4 => any::<u8>().prop_map(Op::StepCursor),
        1 => Just(Op::CloseCursor),
    ]
}

#[derive(Clone, Default)]
struct Model {
    kv: BTreeMap<String, Vec<u8>>,
    alarm: Option<i64>,
}

/// The cell beside a model of its keys and its alarm.
struct World {
    cell: Cell,
    now: Model,
    committed: Model,
    levels: Vec<Model>,
    snapshots: Vec<Bytes>,
    cursor: Option<CursorId>,
}

fn bytes(seed: u8, len: u16) -> Vec<u8> {
    (0..len)
        .map(|i| seed.wrapping_mul(31).wrapping_add((i / 7) as u8))
        .collect()
}

impl World {
    fn new(options: OpenOptions) -> Self {
        let mut cell = Cell::with(options);
        cell.run(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v BLOB); CREATE INDEX tk ON t(k); \
             CREATE VIRTUAL TABLE f USING fts5(body)",
        )
        .unwrap();
        cell.commit();
        Self {
            cell,
            now: Model::default(),
            committed: Model::default(),
            levels: Vec::new(),
            snapshots: Vec::new(),
            cursor: None,
        }
    }

    /// Statements that fail because a table is missing are part of the workload.
    fn sql(&mut self, sql: &str, bindings: &[SqlValue]) {
        if let Err(error) = self.cell.run_with(sql, bindings) {
            let text = error.to_string();
            let expected = ["no such", "already exists", "locked", "duplicate column"];
            assert!(
                expected.iter().any(|part| text.contains(part)),
                "{sql}: {text}"
            );
        }
    }

    fn apply(&mut self, op: &Op) {
        let key = |k: u8| format!("key-{k}-{}", "ü".repeat(usize::from(k % 3)));
        match *op {
            Op::Put(k, len) => {
                self.cell.db.kv_put(&key(k), &bytes(k, len)).unwrap();
                self.now.kv.insert(key(k), bytes(k, len));
            }
            Op::Delete(k) => {
                let was = self.now.kv.remove(&key(k)).is_some();
                assert_eq!(self.cell.db.kv_delete(&key(k)).unwrap(), was);
            }
            Op::Alarm(alarm) => {
                self.cell.db.set_alarm(alarm).unwrap();
                self.now.alarm = alarm;
            }
            Op::Insert(k, len) => self.sql(
                "INSERT INTO t (k, v) VALUES (?, ?) RETURNING id",
                &[SqlValue::Text(key(k)), SqlValue::Blob(bytes(k, len))],
            ),
            Op::Update(k) => self.sql(
                "UPDATE t SET k = k || 'x', v = substr(v, 2) WHERE id % 16 = ?",
                &[SqlValue::Integer(i64::from(k % 16))],
            ),
            Op::Remove(k) => {
                self.sql("DELETE FROM t WHERE id % 16 = ?", &[SqlValue::Integer(i64::from(k % 16))]);
            }
            Op::Search(k) => {
                self.sql("INSERT INTO f VALUES (?)", &[SqlValue::Text(format!("word{k} common"))]);
                self.sql("SELECT count(*) FROM f WHERE f MATCH 'common'", &[]);
            }
            Op::Schema(kind) => self.sql(
                [
                    "CREATE TABLE u (a, b)",
                    "DROP TABLE u",
                    "ALTER TABLE u ADD COLUMN c DEFAULT 'd'",
                    "CREATE VIEW v AS SELECT * FROM t",
                    "DROP VIEW v",
                    "CREATE TABLE t (id INTEGER PRIMARY KEY, k TEXT, v BLOB)",
                    "CREATE TRIGGER g AFTER INSERT ON t BEGIN UPDATE t SET k = 'g' WHERE id = 1; END",
                    "CREATE VIRTUAL TABLE f USING fts5(body)",
                ][usize::from(kind)],
                &[],
            ),
            Op::DeleteAll(and_alarm) => {
                let inside = !self.levels.is_empty();
                assert_eq!(self.cell.db.delete_all(and_alarm).is_err(), inside);
                if !inside {
                    self.now.kv.clear();
                    self.now.alarm = self.now.alarm.filter(|_| !and_alarm);
                    self.cursor = None;
                }
            }
            Op::Begin => {
                self.cell.db.begin_nested().unwrap();
                self.levels.push(self.now.clone());
            }
            Op::Release => {
                let depth = self.levels.len() as u32;
                assert_eq!(self.cell.db.release_nested(depth).is_ok(), depth > 0);
                self.levels.pop();
            }
            Op::RollbackNested => {
                let depth = self.levels.len() as u32;
                assert_eq!(self.cell.db.rollback_nested(depth).is_ok(), depth > 0);
                self.now = self.levels.pop().unwrap_or(self.now.clone());
            }
            Op::Commit => {
                self.cell.commit();
                if self.levels.is_empty() {
                    self.committed = self.now.clone();
                    assert!(!self.cell.db.is_dirty());
                }
            }
            Op::Rollback => {
                self.cell.db.rollback().unwrap();
                self.levels.clear();
                self.now = self.committed.clone();
            }
            Op::Snapshot => {
                let (at, data) = self.cell.db.snapshot().unwrap();
                assert_eq!(at, self.cell.db.txid());
                self.snapshots.push(data);
            }
            Op::Park => {
                let dirty = self.cell.db.is_dirty();
                assert_eq!(self.cell.db.park().is_err(), dirty);
                self.cursor = self.cursor.filter(|_| dirty);
            }
            Op::OpenCursor => {
                if let Some(old) = self.cursor.take() {
                    self.cell.db.cursor_close(old);
                }
                let opened = self.cell.db.sql_exec("SELECT id, k FROM t", &[]);
                self.cursor = opened.ok().and_then(|outcome| outcome.cursor);
            }
            Op::StepCursor(rows) => {
                if let Some(cursor) = self.cursor {
                    let step =
                        self.cell.db.cursor_next(cursor, usize::from(rows), &mut support::Rows::default());
                    match step {
                        Ok(step) if !step.done => {}
                        // Done, or ended by a schema change that was undone.
                        _ => self.cursor = None,
                    }
                }
            }
            Op::CloseCursor => {
                if let Some(cursor) = self.cursor.take() {
                    self.cell.db.cursor_close(cursor);
                }
            }
        }
    }

    fn check_model(&mut self) {
        let listed = self.cell.db.kv_list(&ListOptions::default()).unwrap();
        assert!(
            listed.iter().cloned().eq(self.now.kv.clone()),
            "keys differ from the model"
        );
        assert_eq!(self.cell.db.get_alarm().unwrap(), self.now.alarm);
    }

    /// Ends the run and compares every way to restore with the original.
    fn finish(mut self) {
        self.check_model();
        while !self.levels.is_empty() {
            self.apply(&Op::Release);
        }
        self.apply(&Op::Commit);
        self.check_model();
        let (_, last) = self.cell.db.snapshot().unwrap();
        self.cell.db.park().unwrap();
        let original = dump(&self.cell.path());
        assert_eq!(original[0], "integrity: ok");
        let file = std::fs::read(self.cell.path()).unwrap();
        let sources = self
            .snapshots
            .iter()
            .map(|data| Some(&**data))
            .chain([None, Some(&*last)]);
        for snapshot in sources {
            let again = self.cell.restored(snapshot);
            assert!(std::fs::read(&again.path).unwrap() == file, "bytes differ");
            assert_eq!(dump(&again.path), original);
        }
    }
}

fn run(ops: &[Op], options: OpenOptions) {
    let mut world = World::new(options);
    for op in ops {
        world.apply(op);
    }
    world.finish();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_history_restores_to_the_same_bytes(ops in proptest::collection::vec(op(), 1..120)) {
        run(&ops, OpenOptions::default());
    }

    /// The smallest cache makes SQLite write pages to the WAL before the commit, and the small
    /// checkpoint limit empties it often.
    #[test]
    fn spilled_pages_and_frequent_checkpoints_change_nothing(ops in proptest::collection::vec(op(), 1..120)) {
        let options = OpenOptions {
            page_cache_bytes: 16 * 1024,
            wal_checkpoint_bytes: 64 * 1024,
            ..OpenOptions::default()
        };
        run(&ops, options);
    }
}

/// Takes one page out of a segment and makes it look whole again.
fn without_a_page(segment: &[u8], drop: usize) -> Bytes {
    celld_storage::sabotage::drop_page(segment, drop).expect("the segment has that page")
}

#[test]
fn a_segment_that_lost_a_page_gives_other_bytes() {
    let mut cell = Cell::new();
    cell.db.kv_put("a", &[1; 20_000]).unwrap();
    cell.commit();
    cell.db.kv_put("a", &[2; 20_000]).unwrap();
    cell.commit();
    cell.db.park().unwrap();
    let file = std::fs::read(cell.path()).unwrap();
    assert!(std::fs::read(&cell.restored(None).path).unwrap() == file);
    let whole = cell.segments[1].clone();
    for drop in 0..celld_storage::sabotage::page_count(&whole) {
        cell.segments[1] = without_a_page(&whole, drop);
        let again = cell.restored(None);
        assert!(
            std::fs::read(&again.path).unwrap() != file,
            "dropping page {drop} went unseen"
        );
    }
}

#[test]
fn a_history_restores_without_its_template() {
    let mut cell = Cell::new();
    cell.db.set_alarm(Some(5)).unwrap();
    cell.commit();
    let mut again = cell.restored(None);
    assert_eq!(again.db.get_alarm().unwrap(), Some(5));
    assert_eq!(again.db.txid(), txid(1));
    again.db.kv_put("b", b"1").unwrap();
    let next = again.db.commit().unwrap().unwrap();
    assert_eq!((next.txid, next.alarm_ms), (txid(2), Some(5)));
}

fn refused(image: Image<'_>) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cell");
    CellDb::create(&path, OpenOptions::default(), image)
        .unwrap_err()
        .to_string()
}

fn three_commits() -> (Cell, Bytes) {
    let mut cell = Cell::new();
    for value in 0..3u8 {
        cell.db.kv_put("k", &[value; 9000]).unwrap();
        cell.commit();
    }
    let (_, snapshot) = cell.db.snapshot().unwrap();
    (cell, snapshot)
}

#[test]
fn gaps_repeats_and_foreign_segments_are_refused() {
    let (cell, _) = three_commits();
    let image = |tail, end| Image {
        snapshot: None,
        tail,
        txid: txid(end),
    };
    let all = &cell.segments;
    let gap = [all[0].clone(), all[2].clone()];
    assert!(
        refused(image(&gap, 3)).contains("it follows txid 1: segments between them are missing")
    );
    assert!(refused(image(&all[1..], 3)).contains("missing"));
    assert!(refused(image(&all[..2], 3)).contains("ends at txid 2, but its record says 3"));
    let partial = [without_a_page(&all[0], 0)];
    assert!(refused(image(&partial, 1)).contains("does not hold every page"));
    let mut other = Cell::new();
    other.db.kv_put("x", b"1").unwrap();
    other.commit();
    let mixed = [other.segments[0].clone(), all[1].clone()];
    assert!(refused(image(&mixed, 2)).contains("belongs to another history"));
}

#[test]
fn segments_that_the_snapshot_holds_are_skipped() {
    let (cell, snapshot) = three_commits();
    let image = Image {
        snapshot: Some(&snapshot),
        tail: &cell.segments,
        txid: txid(3),
    };
    let dir = tempfile::tempdir().unwrap();
    let mut db = CellDb::create(&dir.path().join("c"), OpenOptions::default(), image).unwrap();
    assert_eq!(db.kv_get("k").unwrap(), Some(vec![2; 9000]));
}

/// Every single flipped bit or cut must be noticed: nothing damaged is ever restored.
#[test]
fn damage_anywhere_is_refused() {
    let (cell, snapshot) = three_commits();
    let segment = &cell.segments[0];
    let as_tail = |data: Vec<u8>| {
        let tail = [Bytes::from(data)];
        refused(Image {
            snapshot: None,
            tail: &tail,
            txid: txid(1),
        })
    };
    let as_snapshot = |data: Vec<u8>| {
        refused(Image {
            snapshot: Some(&data),
            tail: &[],
            txid: txid(3),
        })
    };
    for at in 0..segment.len() {
        let mut damaged = segment.to_vec();
        damaged[at] ^= 1 << (at % 8);
        as_tail(damaged);
    }
    for at in 0..snapshot.len() {
        let mut damaged = snapshot.to_vec();
        damaged[at] ^= 1 << (at % 8);
        as_snapshot(damaged);
    }
    for len in 0..segment.len() {
        as_tail(segment[..len].to_vec());
    }
    for len in 0..snapshot.len() {
        as_snapshot(snapshot[..len].to_vec());
    }
    assert!(
        as_tail(b"nonsense".to_vec())
            .contains("segment number 0 of the tail is damaged: it does not begin with CLSG")
    );
    assert!(as_snapshot(vec![]).contains("it ends after 0 bytes"));
}

#[test]
fn unknown_versions_are_refused_by_name() {
    let (cell, snapshot) = three_commits();
    let mut newer = cell.segments[0].to_vec();
    newer[4] = 9;
    let tail = [Bytes::from(newer)];
    let text = refused(Image {
        snapshot: None,
        tail: &tail,
        txid: txid(1),
    });
    assert_eq!(
        text,
        "segment has format version 9, but this celld reads version 1: run a celld that knows it"
    );
    let mut newer = snapshot.to_vec();
    newer[4] = 7;
    let text = refused(Image {
        snapshot: Some(&newer),
        tail: &[],
        txid: txid(3),
    });
    assert!(text.starts_with("snapshot has format version 7"));
}
