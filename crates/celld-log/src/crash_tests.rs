//! Crash clones: whatever a crash leaves of the disk, what a gate let through is there.

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use celld_core::{CellId, Epoch, Lsn, NamespaceKey, ObjectId, SessionId, Txid};

use crate::read::read_logs;
use crate::test_disk::{CloneDisk, Op, Rng, TestDisk};
use crate::writer::Sabotage;
use crate::{Commit, NodeLog, Options, read};

const CELLS: u8 = 4;

/// What a run did: every operation, and the commit at each LSN.
struct Run {
    ops: Vec<Op>,
    commits: HashMap<Lsn, Commit>,
}

fn cell(n: u8) -> CellId {
    CellId {
        namespace: NamespaceKey::new("ns").unwrap(),
        object: ObjectId::from_bytes([n; 32]),
    }
}

/// Some hundred commits of some cells with gates and checkpoints, on a recording disk.
fn run(dir: &Path, seed: u64, sabotage: Sabotage) -> Run {
    let disk = TestDisk::default();
    let options = Options {
        file_bytes: 20_000,
        zero_ahead_bytes: 4_096,
        disk: Arc::new(disk.clone()),
        sabotage,
        ..Options::default()
    };
    let log = NodeLog::open(
        dir,
        SessionId::from_random(1),
        options,
        Box::new(|why| panic!("{why}")),
    )
    .unwrap();
    let mut rng = Rng::new(seed);
    let mut commits = HashMap::new();
    let mut txids = [0u64; CELLS as usize];
    for _ in 0..120 {
        let n = rng.below(CELLS.into()) as u8;
        let txid = &mut txids[n as usize];
        if rng.below(4) == 0 {
            disk.tell(Op::Checkpointed(cell(n), Txid::new(*txid)));
            log.checkpointed(&cell(n), Txid::new(*txid));
        }
        *txid += 1;
        let longest = if rng.below(20) == 0 { 30_000 } else { 900 };
        let length = rng.below(longest) as usize;
        let segment: Bytes = (0..length)
            .map(|at| (at as u64 * *txid) as u8 | 1)
            .collect::<Vec<_>>()
            .into();
        let commit = Commit {
            cell: cell(n),
            epoch: Epoch::new(1),
            txid: Txid::new(*txid),
            name: None,
            alarm_ms: None,
            segment,
        };
        let lsn = log.append(commit.clone());
        commits.insert(lsn, commit);
        let (opened, waiting) = (disk.clone(), mpsc::channel());
        let done = waiting.0;
        log.when_durable(
            lsn,
            Box::new(move |result| {
                result.unwrap();
                opened.tell(Op::Opened(lsn));
                let _ = done.send(());
            }),
        );
        if rng.below(3) == 0 {
            waiting.1.recv().unwrap();
        }
    }
    drop(log);
    Run {
        ops: disk.ops(),
        commits,
    }
}

/// Checks what a crash left in `clone` after `ops` of the run; an error says what was lost.
fn check(run: &Run, ops: &[Op], clone: &Path) -> Result<(), String> {
    let logs = read_logs(clone).map_err(|error| error.to_string())?;
    let mut checkpointed: HashMap<&CellId, Txid> = HashMap::new();
    for op in ops {
        if let Op::Checkpointed(cell, txid) = op {
            checkpointed.insert(cell, *txid);
        }
    }
    for n in 0..CELLS {
        let cell = cell(n);
        let Some(tail) = logs.index.tail(&cell) else {
            continue;
        };
        let have = checkpointed.get(&cell).copied().unwrap_or_default();
        tail.after(have).map_err(|gap| gap.to_string())?;
        for record in &tail.records {
            let (path, salt) = logs
                .index
                .file(record.file)
                .ok_or("a record without a file")?;
            let segment =
                read::read_segment(path, salt, record).map_err(|error| error.to_string())?;
            let written = &run.commits[&record.lsn];
            if (&written.cell, written.txid, &written.segment) != (&cell, record.txid(), &segment) {
                return Err(format!("record {} is not what was written", record.lsn));
            }
        }
    }
    for op in ops {
        let Op::Opened(lsn) = op else { continue };
        let commit = &run.commits[lsn];
        let in_record = checkpointed
            .get(&commit.cell)
            .is_some_and(|have| *have >= commit.txid);
        let tail = logs.index.tail(&commit.cell);
        let in_tail = tail.is_some_and(|tail| tail.records.iter().any(|record| record.lsn == *lsn));
        if !in_record && !in_tail {
            return Err(format!("record {lsn} is lost, though its gate was opened"));
        }
    }
    Ok(())
}

/// Checks clones at every moment of a run; the first loss, with what makes it again.
fn check_all(seed: u64, sabotage: Sabotage, clones: u64) -> Result<Run, String> {
    let dir = tempfile::tempdir().unwrap();
    let run = run(dir.path(), seed, sabotage);
    let mut disk = CloneDisk::default();
    for (count, op) in run.ops.iter().enumerate() {
        disk.apply(op);
        for clone in 0..clones {
            let mut rng = Rng::new(seed * 1_000_003 + count as u64 * 101 + clone);
            let left = tempfile::tempdir().unwrap();
            disk.clone().crash(dir.path(), left.path(), &mut rng);
            check(&run, &run.ops[..=count], left.path()).map_err(|lost| {
                format!("seed {seed}, at operation {count}, clone {clone}: {lost}")
            })?;
        }
    }
    Ok(run)
}

#[test]
fn every_write_behind_an_open_gate_survives_every_crash() {
    for seed in 1..=3 {
        let run = check_all(seed, Sabotage::None, 2).unwrap();
        let count = |wanted: fn(&Op) -> bool| run.ops.iter().filter(|op| wanted(op)).count();
        assert_eq!(count(|op| matches!(op, Op::Opened(_))), 120);
        assert!(
            count(|op| matches!(op, Op::Create(..))) >= 3,
            "the run rolls over"
        );
        assert!(
            count(|op| matches!(op, Op::Remove(_))) >= 1,
            "the run removes files"
        );
    }
}

#[test]
fn the_check_catches_a_gate_that_opens_before_the_flush() {
    let lost = check_all(1, Sabotage::ProveBeforeSync, 2)
        .map(|_| ())
        .unwrap_err();
    assert!(lost.contains("its gate was opened"), "{lost}");
}

#[test]
fn the_check_catches_a_file_whose_name_was_not_flushed() {
    let lost = check_all(1, Sabotage::SkipDirSync, 2)
        .map(|_| ())
        .unwrap_err();
    assert!(lost.contains("lost") || lost.contains("missing"), "{lost}");
}
