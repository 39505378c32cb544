//! A process that writes to the log is killed again and again; what it acknowledged is there.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic: that is the report"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use celld_core::{CellId, Epoch, NamespaceKey, ObjectId, SessionId, Txid};
use celld_log::{Commit, NodeLog, Options};

const CELLS: u8 = 4;
const ROUNDS: u64 = 10;
const DIR: &str = "CELLD_LOG_KILL_TEST_DIR";
const SESSION: &str = "CELLD_LOG_KILL_TEST_SESSION";

fn cell(n: u8) -> CellId {
    CellId {
        namespace: NamespaceKey::new("ns").unwrap(),
        object: ObjectId::from_bytes([n; 32]),
    }
}

fn segment(n: u8, txid: u64) -> Bytes {
    let length = (u64::from(n) * 7_919 + txid * 104_729) % 6_000;
    (0..length)
        .map(|at| (at ^ txid ^ u64::from(n)) as u8)
        .collect::<Vec<_>>()
        .into()
}

fn open(dir: &Path, session: u64) -> NodeLog {
    let options = Options {
        file_bytes: 256 << 10,
        zero_ahead_bytes: 16 << 10,
        ..Options::default()
    };
    let session = SessionId::from_random(session.into());
    NodeLog::open(dir, session, options, Box::new(|why| panic!("{why}"))).unwrap()
}

/// Not a test by itself: the process that is killed. Each thread writes one cell's history on and
/// says "ack" when a commit is durable.
#[test]
fn writes_until_it_is_killed() {
    let (Ok(dir), Ok(session)) = (std::env::var(DIR), std::env::var(SESSION)) else {
        return;
    };
    let log = Arc::new(open(Path::new(&dir), session.parse().unwrap()));
    let threads = (0..CELLS).map(|n| {
        let log = log.clone();
        std::thread::spawn(move || {
            for txid in log.tail(&cell(n)).map_or(1, |tail| tail.txid.get() + 1).. {
                let commit = Commit {
                    cell: cell(n),
                    epoch: Epoch::new(session_epoch()),
                    txid: Txid::new(txid),
                    name: None,
                    alarm_ms: None,
                    segment: segment(n, txid),
                };
                let (sent, got) = mpsc::channel();
                let say = move |result: Result<(), _>| {
                    result.unwrap();
                    writeln!(std::io::stdout().lock(), "ack {n} {txid}").unwrap();
                    // No one waits for some of them.
                    let _ = sent.send(());
                };
                log.when_durable(log.append(commit), Box::new(say));
                // Some commits go without a wait, so that batches have several.
                if txid % 3 != 0 {
                    got.recv().unwrap();
                }
            }
        })
    });
    for thread in threads.collect::<Vec<_>>() {
        thread.join().unwrap();
    }
}

fn session_epoch() -> u64 {
    std::env::var(SESSION).unwrap().parse().unwrap()
}

/// Runs the writer, kills it some time after its `least`th acknowledgement, and returns them all.
fn killed_writer(dir: &Path, session: u64, least: usize, more: Duration) -> Vec<(u8, u64)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(DIR, dir)
        .env(SESSION, session.to_string())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (started, start) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acks = Vec::new();
        for line in lines.map_while(Result::ok) {
            let words: Vec<_> = line.split(' ').collect();
            if let ["ack", n, txid] = words[..] {
                // The last line may be cut: then it is no acknowledgement.
                let (Ok(n), Ok(txid)) = (n.parse(), txid.parse()) else {
                    continue;
                };
                acks.push((n, txid));
                let _ = started.send(());
            }
        }
        acks
    });
    for _ in 0..least {
        start
            .recv_timeout(Duration::from_secs(60))
            .expect("the writer writes");
    }
    std::thread::sleep(more);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn every_acknowledged_commit_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged: HashMap<u8, u64> = HashMap::new();
    let mut total = 0;
    for round in 1..=ROUNDS {
        let acks = killed_writer(
            dir.path(),
            round,
            10 + round as usize * 7,
            Duration::from_micros(round * 7_919 % 10_000),
        );
        total += acks.len();
        for (n, txid) in acks {
            let last = acknowledged.entry(n).or_default();
            *last = txid.max(*last);
        }
        let log = open(dir.path(), 1_000 + round);
        assert_eq!(
            log.recovery().crashed as u64,
            round,
            "sessions of this test leave nothing"
        );
        for (n, last) in &acknowledged {
            let tail = log.tail(&cell(*n)).unwrap();
            assert!(
                tail.txid.get() >= *last,
                "cell {n}: {} of {last}",
                tail.txid
            );
            let all = tail.after(Txid::new(0)).unwrap();
            for record in all {
                assert_eq!(
                    log.read_segment(record).unwrap(),
                    segment(*n, record.txid().get())
                );
            }
        }
        assert_eq!(log.cells().len(), usize::from(CELLS));
        log.close().unwrap();
        std::fs::remove_dir_all(
            dir.path()
                .join(SessionId::from_random((1_000 + round).into()).to_string()),
        )
        .unwrap();
    }
    assert!(total >= 400);
}

#[test]
fn a_living_process_holds_the_directory() {
    let dir = tempfile::tempdir().unwrap();
    let held = open(dir.path(), 1);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "writes_until_it_is_killed", "--nocapture"])
        .env(DIR, dir.path())
        .env(SESSION, "2")
        .output()
        .unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains("Busy") && said.contains(&format!("process {}", std::process::id())),
        "{said}"
    );
    drop(held);
}
