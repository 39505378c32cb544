//! The log as its users see it.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic: that is the report"
)]

use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use celld_core::{CellId, Epoch, Lsn, NamespaceKey, ObjectId, SessionId, Txid};
use celld_log::{Commit, NodeLog, OpenError, Options, ReadError};

fn cell(n: u8) -> CellId {
    CellId {
        namespace: NamespaceKey::new("rooms").unwrap(),
        object: ObjectId::from_bytes([n; 32]),
    }
}

fn segment(n: u8, txid: u64, bytes: usize) -> Bytes {
    (0..bytes)
        .map(|at| {
            n.wrapping_mul(31)
                .wrapping_add(txid as u8)
                .wrapping_add(at as u8)
        })
        .collect::<Vec<_>>()
        .into()
}

fn commit(n: u8, txid: u64, bytes: usize) -> Commit {
    Commit {
        cell: cell(n),
        epoch: Epoch::new(1),
        txid: Txid::new(txid),
        name: Some(format!("room-{n}")),
        alarm_ms: txid.is_multiple_of(2).then_some(txid as i64),
        segment: segment(n, txid, bytes),
    }
}

fn small_files() -> Options {
    Options {
        file_bytes: 64 << 10,
        zero_ahead_bytes: 8 << 10,
        ..Options::default()
    }
}

fn open(dir: &Path, session: u128, options: Options) -> NodeLog {
    try_open(dir, session, options).unwrap()
}

fn try_open(dir: &Path, session: u128, options: Options) -> Result<NodeLog, OpenError> {
    NodeLog::open(
        dir,
        SessionId::from_random(session),
        options,
        Box::new(|why| panic!("{why}")),
    )
}

/// Waits until `lsn` is published as durable: that happens a moment after its gates have run.
fn wait_published(log: &NodeLog, lsn: Lsn) {
    wait(log, lsn);
    let late = Instant::now() + Duration::from_secs(20);
    while log.durable() < lsn && Instant::now() < late {
        std::thread::yield_now();
    }
}

fn wait(log: &NodeLog, lsn: Lsn) {
    let (done, waiting) = mpsc::channel();
    log.when_durable(lsn, Box::new(move |result| done.send(result).unwrap()));
    waiting
        .recv_timeout(Duration::from_secs(20))
        .unwrap()
        .unwrap();
}

fn check_tail(log: &NodeLog, n: u8, txids: std::ops::RangeInclusive<u64>, bytes: usize) {
    let tail = log.tail(&cell(n)).unwrap();
    assert_eq!(
        tail.records
            .iter()
            .map(|r| r.txid().get())
            .collect::<Vec<_>>(),
        txids.clone().collect::<Vec<_>>()
    );
    for record in &tail.records {
        assert_eq!(
            log.read_segment(record).unwrap(),
            segment(n, record.txid().get(), bytes)
        );
    }
    assert_eq!(tail.name.as_deref(), Some(&*format!("room-{n}")));
    assert_eq!(
        tail.alarm_ms,
        txids.end().is_multiple_of(2).then_some(*txids.end() as i64)
    );
    assert_eq!(tail.txid.get(), *txids.end());
}

fn log_files(dir: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for session in std::fs::read_dir(dir)
        .unwrap()
        .map(|item| item.unwrap().path())
        .filter(|path| path.is_dir())
    {
        files.extend(
            std::fs::read_dir(session)
                .unwrap()
                .map(|item| item.unwrap().path()),
        );
    }
    files.sort();
    files
}

#[test]
fn what_was_proven_is_read_back_by_this_session_and_by_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, Options::default());
    assert_eq!((log.durable(), log.recovery().sessions), (Lsn::new(0), 0));
    for txid in 1..=5 {
        assert_eq!(log.append(commit(1, txid, 5_000)), Lsn::new(txid));
    }
    wait_published(&log, Lsn::new(5));
    assert_eq!((log.durable(), log.backlog_bytes()), (Lsn::new(5), 0));
    check_tail(&log, 1, 1..=5, 5_000);
    drop(log);
    let log = open(dir.path(), 2, Options::default());
    assert_eq!(
        (
            log.recovery().sessions,
            log.recovery().records,
            log.recovery().crashed
        ),
        (1, 5, 1)
    );
    assert_eq!(
        (log.cells(), log.alarms()),
        (vec![cell(1)], vec![(cell(1), None)])
    );
    check_tail(&log, 1, 1..=5, 5_000);
}

#[test]
fn later_sessions_follow_earlier_ones() {
    let dir = tempfile::tempdir().unwrap();
    // Ids that sort against the order of the sessions' lives.
    for (session, txid) in [(9, 1), (5, 2), (7, 3)] {
        let log = open(dir.path(), session, Options::default());
        assert_eq!(log.recovery().sessions as u64, txid - 1);
        wait(&log, log.append(commit(1, txid, 100)));
    }
    let log = open(dir.path(), 1, Options::default());
    check_tail(&log, 1, 1..=3, 100);
    wait(&log, log.append(commit(1, 4, 100)));
    check_tail(&log, 1, 1..=4, 100);
    log.checkpointed(&cell(1), Txid::new(4));
    assert_eq!(log.tail(&cell(1)), None);
    wait(&log, log.append(commit(2, 1, 100)));
    wait(&log, log.append(commit(2, 2, 100)));
    assert_eq!(
        log_files(dir.path()).len(),
        1,
        "files of dead sessions are gone"
    );
}

#[test]
fn a_log_rolls_over_and_drops_files_that_no_cell_needs() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    for txid in 1..=40 {
        wait(&log, log.append(commit(1, txid, 10_000)));
        if txid == 2 {
            log.append(commit(2, 1, 10));
        }
    }
    let full = log_files(dir.path()).len();
    assert!((7..=9).contains(&full), "{full}");
    assert_eq!(log.stats().files, full);
    check_tail(&log, 1, 1..=40, 10_000);
    log.checkpointed(&cell(1), Txid::new(40));
    wait(&log, log.append(commit(3, 1, 10)));
    assert_eq!(
        (log_files(dir.path()).len(), log.oldest_cells(5)),
        (full, vec![cell(2)])
    );
    log.checkpointed(&cell(2), Txid::new(1));
    wait(&log, log.append(commit(3, 2, 10)));
    wait(&log, log.append(commit(3, 3, 10)));
    assert!(log_files(dir.path()).len() <= 2);
    drop(log);
    let log = open(dir.path(), 2, small_files());
    assert_eq!(log.cells(), [cell(3)]);
    check_tail(&log, 3, 1..=3, 10);
}

#[test]
fn a_record_larger_than_a_file_gets_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    log.append(commit(1, 1, 10));
    log.append(commit(2, 1, 1_000_000));
    wait(&log, log.append(commit(1, 2, 10)));
    check_tail(&log, 2, 1..=1, 1_000_000);
    drop(log);
    let log = open(dir.path(), 2, small_files());
    check_tail(&log, 1, 1..=2, 10);
    check_tail(&log, 2, 1..=1, 1_000_000);
}

#[test]
fn a_closed_log_without_tails_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, Options::default());
    log.append(commit(1, 1, 10));
    log.checkpointed(&cell(1), Txid::new(1));
    log.close().unwrap();
    assert_eq!(log_files(dir.path()), Vec::<PathBuf>::new());
    let (sent, got) = mpsc::channel();
    log.when_durable(
        log.append(commit(1, 2, 10)),
        Box::new(move |result| sent.send(result).unwrap()),
    );
    assert!(got.recv().unwrap().is_err(), "a closed log proves nothing");
    drop(log);
    let log = open(dir.path(), 2, Options::default());
    log.append(commit(1, 1, 10));
    log.close().unwrap();
    drop(log);
    let log = open(dir.path(), 3, Options::default());
    assert_eq!((log.recovery().sessions, log.recovery().crashed), (1, 0));
    check_tail(&log, 1, 1..=1, 10);
}

#[test]
fn deletions_survive_a_crash() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, Options::default());
    log.append(commit(1, 1, 10));
    wait(&log, log.delete(cell(1)));
    drop(log);
    let log = open(dir.path(), 2, Options::default());
    let tail = log.tail(&cell(1)).unwrap();
    assert!(tail.deleted && tail.records.is_empty());
    log.checkpointed(&cell(1), Txid::new(1));
    log.close().unwrap();
    assert_eq!(log_files(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_directory_serves_one_node() {
    let dir = tempfile::tempdir().unwrap();
    let _first = open(dir.path(), 1, Options::default());
    let refused = try_open(dir.path(), 2, Options::default())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains(&format!(
            "process {}, session {:032x}",
            std::process::id(),
            1
        )),
        "{refused}"
    );
}

#[test]
fn gates_of_many_threads_open_in_order_and_few_batches_serve_them() {
    let dir = tempfile::tempdir().unwrap();
    let log = std::sync::Arc::new(open(dir.path(), 1, Options::default()));
    let (sent, got) = mpsc::channel();
    std::thread::scope(|scope| {
        for n in 0..8 {
            let (log, sent) = (log.clone(), sent.clone());
            scope.spawn(move || {
                for txid in 1..=500 {
                    let lsn = log.append(commit(n, txid, 200));
                    let sent = sent.clone();
                    log.when_durable(
                        lsn,
                        Box::new(move |result| sent.send((n, lsn, result.is_ok())).unwrap()),
                    );
                }
            });
        }
    });
    drop(sent);
    wait(&log, Lsn::new(4_000));
    let opened: Vec<_> = got.try_iter().collect();
    assert!(opened.iter().all(|(_, _, ok)| *ok));
    for n in 0..8 {
        let mine: Vec<_> = opened
            .iter()
            .filter(|(of, _, _)| *of == n)
            .map(|(_, lsn, _)| *lsn)
            .collect();
        assert!(
            mine.len() == 500 && mine.is_sorted(),
            "a caller's gates open in order"
        );
    }
    let stats = log.stats();
    assert_eq!(stats.records, 4_000);
    assert!(
        stats.batches < 2_000,
        "group commit: {} batches",
        stats.batches
    );
}

/// The youngest file of the youngest session.
fn last_file(dir: &Path) -> PathBuf {
    log_files(dir).pop().unwrap()
}

#[test]
fn a_torn_end_is_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    for txid in 1..=4 {
        wait(&log, log.append(commit(1, txid, 1_000)));
    }
    drop(log);
    let file = last_file(dir.path());
    let mut raw = std::fs::read(&file).unwrap();
    let end = raw.iter().rposition(|byte| *byte != 0).unwrap();
    raw[end - 1] ^= 1;
    std::fs::write(&file, &raw).unwrap();
    let log = open(dir.path(), 2, small_files());
    assert_eq!(log.recovery().torn, [file]);
    check_tail(&log, 1, 1..=3, 1_000);
}

#[test]
fn a_hole_before_later_records_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    for txid in 1..=4 {
        wait(&log, log.append(commit(1, txid, 1_000)));
    }
    drop(log);
    let file = last_file(dir.path());
    let sound = std::fs::read(&file).unwrap();
    // In the second record: its frame, its segment; then all of it zeroed.
    for (range, value) in [
        (5_200..5_201, 0xff),
        (6_000..6_001, 0xff),
        (5_170..6_250, 0),
    ] {
        let mut raw = sound.clone();
        raw[range.clone()].fill(value);
        assert_ne!(raw, sound);
        std::fs::write(&file, &raw).unwrap();
        match try_open(dir.path(), 2, small_files()).unwrap_err() {
            OpenError::Read(ReadError::Damaged { path, offset, .. }) => {
                assert_eq!(path, file);
                assert!(
                    range.start - 1_200 < offset as usize && offset as usize <= range.start,
                    "{range:?}: {offset}"
                );
            }
            other => panic!("{other}"),
        }
    }
    std::fs::write(&file, &sound).unwrap();
    check_tail(&open(dir.path(), 2, small_files()), 1, 1..=4, 1_000);
}

#[test]
fn a_missing_or_cut_file_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    for txid in 1..=20 {
        wait(&log, log.append(commit(1, txid, 10_000)));
    }
    drop(log);
    let files = log_files(dir.path());
    assert!(files.len() >= 4);
    let sound = std::fs::read(&files[1]).unwrap();
    let damaged = || match try_open(dir.path(), 2, small_files()).unwrap_err() {
        OpenError::Read(ReadError::Damaged { path, .. }) => path,
        other => panic!("{other}"),
    };
    std::fs::remove_file(&files[1]).unwrap();
    assert_eq!(damaged(), files[2]);
    std::fs::write(&files[1], &sound[..30_000]).unwrap();
    assert_eq!(damaged(), files[2]);
    std::fs::write(&files[1], [0; 30_000]).unwrap();
    assert_eq!(damaged(), files[1]);
    std::fs::write(&files[1], &sound).unwrap();
    check_tail(&open(dir.path(), 2, small_files()), 1, 1..=20, 10_000);
}

#[test]
fn an_unknown_format_is_refused_by_name_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    wait(&log, log.append(commit(1, 1, 10)));
    drop(log);
    let file = last_file(dir.path());
    let mut raw = std::fs::read(&file).unwrap();
    raw[8] = 7;
    std::fs::write(&file, &raw).unwrap();
    let refused = try_open(dir.path(), 2, small_files())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("format version") && refused.contains(file.to_str().unwrap()),
        "{refused}"
    );
    assert_eq!(
        (std::fs::read(&file).unwrap(), log_files(dir.path()).len()),
        (raw, 1)
    );
}

#[test]
fn a_file_that_died_while_being_made_is_in_order() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, small_files());
    wait(&log, log.append(commit(1, 1, 10)));
    drop(log);
    let file = last_file(dir.path());
    std::fs::write(file.with_file_name("000000000002"), [0; 8_192]).unwrap();
    let empty = dir.path().join(format!("{:032x}", 77));
    std::fs::create_dir(&empty).unwrap();
    let log = open(dir.path(), 2, small_files());
    check_tail(&log, 1, 1..=1, 10);
    assert!(!empty.exists() && log_files(dir.path()).len() == 2);
}

#[test]
fn a_gate_that_panics_does_not_hurt_the_others() {
    let dir = tempfile::tempdir().unwrap();
    let log = open(dir.path(), 1, Options::default());
    let lsn = log.append(commit(1, 1, 10));
    log.when_durable(
        Lsn::new(2),
        Box::new(|_| panic!("a gate panics, as this test wants")),
    );
    wait(&log, lsn);
    wait(&log, log.append(commit(1, 2, 10)));
    wait(&log, log.append(commit(1, 3, 10)));
}
