//! The local bucket between processes, and under kill -9.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests may panic: that is the report"
)]

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use celld_bucket::{Condition, Key, LocalBucket, PutOutcome};

const ROLE: &str = "CELLD_BUCKET_TEST_ROLE";
const DIR: &str = "CELLD_BUCKET_TEST_DIR";
const KEYS: u64 = 6;
const ROUNDS: u64 = 10;
const PARTIES: u64 = 3;
const INCREMENTS: u64 = 40;

fn spawn(role: &str, dir: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "plays_its_role", "--nocapture"])
        .env(ROLE, role)
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Not a test by itself: what the other processes do.
#[test]
fn plays_its_role() {
    let (Ok(role), Ok(dir)) = (std::env::var(ROLE), std::env::var(DIR)) else {
        return;
    };
    let bucket = LocalBucket::open(dir).unwrap();
    match role.as_str() {
        "increment" => (0..INCREMENTS).for_each(|_| increment(&bucket)),
        "write" => write_forever(&bucket),
        other => panic!("no such role: {other}"),
    }
}

/// Adds one to a number in an object, by conditional writes.
fn increment(bucket: &LocalBucket) {
    let key = Key::new("counter").unwrap();
    loop {
        let (count, condition) = match bucket.get_sync(&key).unwrap() {
            Some(object) => {
                let text = String::from_utf8(object.bytes.to_vec()).unwrap();
                (
                    text.parse::<u64>().unwrap(),
                    Condition::IfMatch(object.etag),
                )
            }
            None => (0, Condition::IfAbsent),
        };
        let next = (count + 1).to_string();
        if let PutOutcome::Done(_) = bucket.put_sync(&key, next.as_bytes(), &condition).unwrap() {
            return;
        }
    }
}

#[test]
fn no_increment_of_threads_and_processes_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let children: Vec<_> = (0..PARTIES)
        .map(|_| spawn("increment", dir.path()))
        .collect();
    std::thread::scope(|scope| {
        for _ in 0..PARTIES {
            scope.spawn(|| {
                let bucket = LocalBucket::open(dir.path()).unwrap();
                (0..INCREMENTS).for_each(|_| increment(&bucket));
            });
        }
    });
    for child in children {
        assert!(child.wait_with_output().unwrap().status.success());
    }
    let bucket = LocalBucket::open(dir.path()).unwrap();
    let count = bucket
        .get_sync(&Key::new("counter").unwrap())
        .unwrap()
        .unwrap();
    assert_eq!(count.bytes, (2 * PARTIES * INCREMENTS).to_string());
}

fn key(n: u64) -> Key {
    Key::new(format!("deep/{}/k{n}", n % 2)).unwrap()
}

/// Says its number, then fills some pages with it.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    bytes.resize(8 + (number * 7_919 % 20_000) as usize, number as u8);
    bytes
}

fn number_in(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

/// Overwrites some objects with rising numbers, by each kind of condition in turn.
fn write_forever(bucket: &LocalBucket) {
    let begin = (0..KEYS).filter_map(|n| bucket.get_sync(&key(n)).unwrap());
    let begin = begin
        .map(|object| number_in(&object.bytes))
        .max()
        .unwrap_or_default()
        + 1;
    for number in begin.. {
        let key = key(number % KEYS);
        let condition = match bucket.get_sync(&key).unwrap() {
            None => Condition::IfAbsent,
            Some(object) if number % 3 == 0 => Condition::IfMatch(object.etag),
            Some(_) => Condition::None,
        };
        assert!(matches!(
            bucket.put_sync(&key, &content(number), &condition).unwrap(),
            PutOutcome::Done(_)
        ));
        writeln!(std::io::stdout().lock(), "ack {number}").unwrap();
    }
}

/// Runs the writer, kills it some time after its `least`th acknowledgement, and returns them all.
fn killed_writer(dir: &Path, least: u64, more: Duration) -> Vec<u64> {
    let mut child = spawn("write", dir);
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let (started, start) = mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut acks = Vec::new();
        for line in lines.map_while(Result::ok) {
            if let Some(number) = line.strip_prefix("ack ").and_then(|text| text.parse().ok()) {
                acks.push(number);
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
fn objects_are_whole_and_acknowledged_ones_present_after_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut total = 0;
    for round in 1..=ROUNDS {
        let acks = killed_writer(
            dir.path(),
            3 + round * 2,
            Duration::from_micros(round * 7_919 % 10_000),
        );
        total += acks.len();
        for number in acks {
            last.insert(number % KEYS, number);
        }
        let bucket = LocalBucket::open(dir.path()).unwrap();
        for n in 0..KEYS {
            let found = bucket.get_sync(&key(n)).expect("no object is damaged");
            let number = found.as_ref().map_or(0, |object| number_in(&object.bytes));
            assert!(
                number >= last.get(&n).copied().unwrap_or_default(),
                "an acknowledged write is lost"
            );
            assert!(found.is_none_or(|object| object.bytes == content(number)));
        }
        let listed = bucket.list_sync("", None, 100).unwrap();
        assert!(
            listed
                .objects
                .iter()
                .all(|object| object.key.class() == "deep"),
            "{listed:?}"
        );
    }
    assert!(total >= 100);
}
