//! Disks that fail, are full or slow, and files that rot.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::Duration;

use celld_core::{CellId, Epoch, Lsn, NamespaceKey, ObjectId, SessionId, Txid};
use proptest::prelude::*;

use crate::read::read_logs;
use crate::test_disk::{Op, TestDisk};
use crate::{Commit, LogFailed, NodeLog, OpenError, Options};

fn commit(n: u8, txid: u64, bytes: usize) -> Commit {
    let cell = CellId {
        namespace: NamespaceKey::new("ns").unwrap(),
        object: ObjectId::from_bytes([n; 32]),
    };
    let (epoch, txid, segment) = (Epoch::new(1), Txid::new(txid), vec![n; bytes].into());
    Commit {
        cell,
        epoch,
        txid,
        name: None,
        alarm_ms: None,
        segment,
    }
}

struct Setup {
    disk: TestDisk,
    log: NodeLog,
    failures: mpsc::Receiver<LogFailed>,
    _dir: tempfile::TempDir,
}

fn setup() -> Setup {
    let dir = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let (failed, failures) = mpsc::channel();
    let options = Options {
        file_bytes: 40_000,
        disk: Arc::new(disk.clone()),
        ..Options::default()
    };
    let on_failed = Box::new(move |why| failed.send(why).unwrap());
    let log = NodeLog::open(dir.path(), SessionId::from_random(1), options, on_failed).unwrap();
    Setup {
        disk,
        log,
        failures,
        _dir: dir,
    }
}

fn result(log: &NodeLog, lsn: Lsn) -> Result<(), LogFailed> {
    let (sent, got) = mpsc::channel();
    log.when_durable(lsn, Box::new(move |result| sent.send(result).unwrap()));
    got.recv_timeout(Duration::from_secs(20)).unwrap()
}

fn is_flush(op: &Op) -> bool {
    matches!(op, Op::Sync(_))
}

#[test]
fn what_gathers_during_a_flush_goes_with_the_next_one() {
    let Setup { disk, log, .. } = setup();
    let begin = disk.ops().len();
    disk.hold(true);
    log.append(commit(1, 1, 10));
    while disk.count(|op| matches!(op, Op::Write(..))) < 2 {
        std::thread::yield_now();
    }
    for txid in 2..=100 {
        log.append(commit(1, txid, 10));
    }
    assert!(log.backlog_bytes() > 0);
    assert_eq!(log.durable(), Lsn::new(0));
    disk.hold(false);
    result(&log, Lsn::new(100)).unwrap();
    let ops: Vec<_> = disk.ops()[begin..]
        .iter()
        .map(|op| if is_flush(op) { "flush" } else { "write" })
        .collect();
    assert_eq!(
        ops,
        ["write", "flush", "write", "flush"],
        "one write and one flush for each batch"
    );
    assert_eq!((log.stats().batches, log.stats().records), (2, 100));
}

#[test]
fn marks_of_checkpoints_do_not_wake_the_disk() {
    let Setup { disk, log, .. } = setup();
    result(&log, log.append(commit(1, 1, 10))).unwrap();
    let before = disk.ops().len();
    for _ in 0..100 {
        log.checkpointed(&commit(1, 1, 0).cell, Txid::new(1));
    }
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(
        disk.ops().len(),
        before,
        "nothing is written for them alone"
    );
    for _ in 0..1_000 {
        log.checkpointed(&commit(1, 1, 0).cell, Txid::new(1));
    }
    result(&log, log.append(commit(1, 2, 10))).unwrap();
    assert_eq!(log.stats().records, 1_102);
}

#[test]
fn overload_is_told_by_the_backlog() {
    let Setup { disk, log, .. } = setup();
    disk.hold(true);
    for txid in 1..=80 {
        assert!(!log.overloaded());
        log.append(commit(1, txid, 1 << 20));
        if log.backlog_bytes() > 64 << 20 {
            break;
        }
    }
    assert!(log.overloaded());
    disk.hold(false);
    let last = log.append(commit(1, 99, 10));
    result(&log, last).unwrap();
    assert_eq!((log.overloaded(), log.backlog_bytes()), (false, 0));
}

#[test]
fn a_failed_flush_ends_the_session_and_is_not_tried_again() {
    let Setup {
        disk,
        log,
        failures,
        ..
    } = setup();
    result(&log, log.append(commit(1, 1, 10))).unwrap();
    disk.hold(true);
    disk.fail_syncs(ErrorKind::Other);
    let flushes = disk.count(is_flush);
    let (sent, got) = mpsc::channel();
    for txid in 2..=5 {
        let lsn = log.append(commit(1, txid, 10));
        let sent = sent.clone();
        log.when_durable(
            lsn,
            Box::new(move |result| sent.send(result.is_err()).unwrap()),
        );
    }
    disk.hold(false);
    for _ in 2..=5 {
        assert!(got.recv_timeout(Duration::from_secs(20)).unwrap());
    }
    let why = failures
        .recv_timeout(Duration::from_secs(20))
        .unwrap()
        .to_string();
    assert!(why.contains("cannot be flushed"), "{why}");
    assert!(result(&log, log.append(commit(1, 6, 10))).is_err());
    assert!(
        result(&log, Lsn::new(1)).is_ok(),
        "what was proven stays so"
    );
    assert_eq!(
        (log.durable(), disk.count(is_flush)),
        (Lsn::new(1), flushes + 1)
    );
    assert!(log.close().is_err());
    assert!(failures.try_recv().is_err(), "told once");
    assert_eq!(disk.count(|op| matches!(op, Op::Remove(_))), 0);
}

#[test]
fn a_full_disk_says_so() {
    for plant in [TestDisk::fail_writes, TestDisk::fail_creates] {
        let Setup {
            disk,
            log,
            failures,
            ..
        } = setup();
        plant(&disk, ErrorKind::StorageFull);
        // More than the first file takes, so that either fault is met.
        for txid in 1..=10 {
            log.append(commit(1, txid, 10_000));
        }
        let failed = result(&log, Lsn::new(10)).unwrap_err();
        assert!(matches!(failed, LogFailed::DiskFull { .. }));
        assert!(
            failures
                .recv()
                .unwrap()
                .to_string()
                .starts_with("the disk is full: the node log ")
        );
    }
    let disk = TestDisk::default();
    disk.fail_creates(ErrorKind::StorageFull);
    let options = Options {
        disk: Arc::new(disk),
        ..Options::default()
    };
    let dir = tempfile::tempdir().unwrap();
    let refused = NodeLog::open(
        dir.path(),
        SessionId::from_random(1),
        options,
        Box::new(|_| ()),
    )
    .unwrap_err();
    assert!(
        matches!(refused, OpenError::Write(LogFailed::DiskFull { .. })),
        "{refused}"
    );
}

#[test]
fn what_a_dead_session_left_is_settled_before_this_one_builds_on_it() {
    let dir = tempfile::tempdir().unwrap();
    let files = written(dir.path());
    let disk = TestDisk::default();
    let options = Options {
        disk: Arc::new(disk.clone()),
        ..Options::default()
    };
    let session = SessionId::from_random(2);
    let log = NodeLog::open(
        dir.path(),
        session,
        options,
        Box::new(|why| panic!("{why}")),
    )
    .unwrap();
    assert_eq!(log.recovery().records, 20);
    let last = files.last().unwrap();
    let parent = last.parent().unwrap().to_owned();
    let expected = [
        Op::Settle(last.clone()),
        Op::SyncDir(parent),
        Op::SyncDir(dir.path().to_owned()),
    ];
    assert_eq!(disk.ops()[..3], expected);
}

/// Names and contents of the files of one session with 20 commits of two cells.
fn template() -> &'static [(PathBuf, Vec<u8>)] {
    static TEMPLATE: OnceLock<Vec<(PathBuf, Vec<u8>)>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            file_bytes: 12_000,
            zero_ahead_bytes: 0,
            ..Options::default()
        };
        let session = SessionId::from_random(1);
        let log = NodeLog::open(
            dir.path(),
            session,
            options,
            Box::new(|why| panic!("{why}")),
        )
        .unwrap();
        for txid in 1u64..=20 {
            result(
                &log,
                log.append(commit((txid % 2) as u8, txid.div_ceil(2), 900)),
            )
            .unwrap();
        }
        drop(log);
        let items = std::fs::read_dir(dir.path().join(session.to_string())).unwrap();
        let mut paths: Vec<_> = items.map(|item| item.unwrap().path()).collect();
        paths.sort();
        let file = |path: &PathBuf| {
            (
                path.strip_prefix(dir.path()).unwrap().to_owned(),
                std::fs::read(path).unwrap(),
            )
        };
        paths.iter().map(file).collect()
    })
}

/// Writes the template to `dir`.
fn written(dir: &Path) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    for (name, content) in template() {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        paths.push(path);
    }
    paths
}

/// Where the newest record begins in its file.
fn start_of_last_write(dir: &Path) -> usize {
    let logs = read_logs(dir).unwrap();
    let tails = logs.index.cells().filter_map(|cell| logs.index.tail(cell));
    let newest = tails
        .flat_map(|tail| tail.records.clone())
        .max_by_key(|record| record.lsn)
        .unwrap();
    usize::try_from(newest.offset).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// A flipped byte is noticed or without effect: never a panic, never a wrong record.
    #[test]
    fn rot_is_noticed(at in 0.0f64..1.0, value in 1u8.., which in 0usize..3, length in 1usize..100) {
        let dir = tempfile::tempdir().unwrap();
        let files = written(dir.path());
        prop_assert_eq!(files.len(), 3);
        let last_write = start_of_last_write(dir.path());
        let mut raw = std::fs::read(&files[which]).unwrap();
        let at = (at * raw.len() as f64) as usize;
        let end = (at + length).min(raw.len());
        raw[at..end].iter_mut().for_each(|byte| *byte ^= value);
        std::fs::write(&files[which], &raw).unwrap();
        if let Ok(logs) = read_logs(dir.path()) {
            for cell in logs.index.cells() {
                let tail = logs.index.tail(cell).unwrap();
                prop_assert!(tail.after(Txid::new(0)).is_ok());
                for record in &tail.records {
                    let (path, salt) = logs.index.file(record.file).unwrap();
                    let segment = crate::read::read_segment(path, salt, record).unwrap();
                    prop_assert_eq!(&segment[..], &vec![cell.object.as_bytes()[0]; 900][..]);
                }
            }
            // At most the last write of all may be taken for one that was under way; damage that
            // lies across its beginning takes the write before along, and nothing sound behind
            // it is left to tell.
            let across = which == 2 && at < last_write && end > last_write;
            let least = if across { 18 } else { 19 };
            prop_assert!(logs.recovery.records >= least);
        }
    }

    /// Files that are not ours, cut ones, and ones with a sound header and noise behind it.
    #[test]
    fn arbitrary_files_never_panic(noise in proptest::collection::vec(any::<u8>(), 0..9_000), keep in 0usize..5_000, seq in 1u64..4) {
        let dir = tempfile::tempdir().unwrap();
        let files = written(dir.path());
        let path = files[0].with_file_name(format!("{seq:012}"));
        let mut raw = std::fs::read(&path).unwrap();
        raw.truncate(keep);
        raw.extend(&noise);
        std::fs::write(&path, raw).unwrap();
        if let Err(error) = read_logs(dir.path()) {
            prop_assert!(error.to_string().contains("node log"));
        }
    }
}
