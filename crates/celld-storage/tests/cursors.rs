//! Many cursors at once, in any interleaving with writes, transactions and closing.
#![allow(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use celld_storage::{CursorId, SqlValue, StorageError};
use proptest::prelude::*;
use support::{Cell, Rows};

const ROWS: i64 = 9;

#[derive(Clone, Debug)]
enum Op {
    Open(u8),
    Next(u8, u8),
    Close(u8),
    Write(u8),
    Alter,
    Commit,
    Rollback,
    Begin,
    Release,
    RollbackNested,
    DeleteAll,
    Park,
    Snapshot,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..4u8).prop_map(Op::Open),
        12 => (any::<u8>(), 1..4u8).prop_map(|(cursor, rows)| Op::Next(cursor, rows)),
        2 => any::<u8>().prop_map(Op::Close),
        4 => (0..4u8).prop_map(Op::Write),
        1 => Just(Op::Alter),
        4 => Just(Op::Commit),
        1 => Just(Op::Rollback),
        2 => Just(Op::Begin),
        2 => Just(Op::Release),
        1 => Just(Op::RollbackNested),
        1 => Just(Op::DeleteAll),
        1 => Just(Op::Park),
        1 => Just(Op::Snapshot),
    ]
}

/// A cursor and what it must still answer, if that is known.
struct Watched {
    id: CursorId,
    /// Next value of a cursor over the table that nobody changes.
    expected: Option<i64>,
    gone: bool,
}

struct World {
    cell: Cell,
    cursors: Vec<Watched>,
    /// The schema changed since the last commit: undoing it may end cursors.
    altered: bool,
    levels: u32,
}

fn fill(cell: &mut Cell) {
    cell.run(
        "create table fixed (n integer primary key); create table busy (n integer primary key, v)",
    )
    .unwrap();
    for n in 1..=ROWS {
        cell.run(&format!("insert into fixed values ({n})"))
            .unwrap();
        cell.run(&format!("insert into busy values ({n}, 'v')"))
            .unwrap();
    }
    cell.commit();
}

impl World {
    fn open(&mut self, kind: u8) {
        let sql = [
            "select n from fixed",
            "select n from busy order by v desc, n",
            "select n, v from busy",
            "insert into busy (v) values ('a'), ('b'), ('c') returning n",
        ][usize::from(kind)];
        if let Some(id) = self.cell.db.sql_exec(sql, &[]).unwrap().cursor {
            let expected = (kind == 0).then_some(1);
            self.cursors.push(Watched {
                id,
                expected,
                gone: false,
            });
        }
    }

    fn next(&mut self, which: u8, rows: u8) {
        let count = self.cursors.len().max(1);
        let Some(watched) = self.cursors.get_mut(usize::from(which) % count) else {
            return;
        };
        let mut got = Rows::default();
        let result = self
            .cell
            .db
            .cursor_next(watched.id, usize::from(rows), &mut got);
        if watched.gone {
            assert!(
                matches!(
                    result,
                    Err(StorageError::CursorInvalid | StorageError::CursorDeleted)
                ),
                "{result:?}"
            );
            return;
        }
        match result {
            Ok(step) => {
                assert!(step.done || !got.0.is_empty());
                if let Some(expected) = &mut watched.expected {
                    for row in &got.0 {
                        assert_eq!(row, &[SqlValue::Integer(*expected)]);
                        *expected += 1;
                    }
                    assert!(!step.done || *expected > ROWS);
                }
                watched.gone = step.done;
            }
            Err(error) => {
                assert!(
                    self.altered && error.to_string().contains("ROLLBACK"),
                    "{error}"
                );
                watched.gone = true;
            }
        }
    }

    fn all_gone(&mut self) {
        self.cursors
            .iter_mut()
            .for_each(|watched| watched.gone = true);
    }

    fn apply(&mut self, op: &Op) {
        match *op {
            Op::Open(kind) => self.open(kind),
            Op::Next(which, rows) => self.next(which, rows),
            Op::Close(which) => {
                let count = self.cursors.len().max(1);
                if let Some(watched) = self.cursors.get_mut(usize::from(which) % count) {
                    self.cell.db.cursor_close(watched.id);
                    watched.gone = true;
                }
            }
            Op::Write(kind) => {
                let sql = [
                    "insert into busy (v) values (randomblob(3000))",
                    "delete from busy where n % 3 = 0",
                    "update busy set v = 'w'",
                    "insert or replace into busy values (1, 'x')",
                ];
                self.cell.run(sql[usize::from(kind)]).unwrap();
            }
            Op::Alter => {
                self.altered = true;
                let name = self.cell.db.txid().get();
                let sql = format!("create table if not exists extra{name} (a)");
                self.cell.run(&sql).unwrap();
            }
            Op::Commit => {
                self.cell.commit();
            }
            Op::Rollback => {
                self.cell.db.rollback().unwrap();
                self.levels = 0;
            }
            Op::Begin => self.levels = self.cell.db.begin_nested().unwrap(),
            Op::Release | Op::RollbackNested if self.levels == 0 => {}
            Op::Release => {
                self.cell.db.release_nested(self.levels).unwrap();
                self.levels -= 1;
            }
            Op::RollbackNested => {
                self.cell.db.rollback_nested(self.levels).unwrap();
                self.levels -= 1;
            }
            Op::DeleteAll if self.levels > 0 => {}
            Op::DeleteAll => {
                self.cell.db.delete_all(true).unwrap();
                self.all_gone();
                fill(&mut self.cell);
            }
            Op::Park => {
                if self.cell.db.park().is_ok() {
                    self.all_gone();
                }
            }
            Op::Snapshot => {
                self.cell.db.snapshot().unwrap();
            }
        }
    }
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(80)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_interleaving_confuses_cursors(ops in proptest::collection::vec(op(), 1..150)) {
        let mut cell = Cell::new();
        fill(&mut cell);
        let mut world = World { cell, cursors: Vec::new(), altered: false, levels: 0 };
        for op in &ops {
            world.apply(op);
        }
        // Dropped with whatever is open.
    }
}
