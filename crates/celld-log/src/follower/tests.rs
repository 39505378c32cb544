//! The follower's disk: crash clones at every operation, damage, hostile batches, a full disk.

use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use celld_core::fleet::ids::Bundled;
use celld_core::{Lsn, SessionId};

use super::{FollowError, FollowOptions, FollowerStore, RawRecord, Sabotage};
use crate::test_disk::{CloneDisk, Op, Rng, TestDisk};

fn session(n: u128) -> SessionId {
    SessionId::from_random(n)
}

fn record(session: u128, lsn: u64) -> RawRecord {
    let length = (lsn * 37 % 900) as usize;
    RawRecord {
        lsn: Lsn::new(lsn),
        head: Bytes::from(vec![lsn as u8 | 1, session as u8]),
        segment: Bytes::from(vec![(lsn as u8).wrapping_mul(7); length]),
    }
}

fn batch(session: u128, first: u64, last: u64) -> Vec<RawRecord> {
    (first..=last).map(|lsn| record(session, lsn)).collect()
}

fn bundled(next_seq: u64, lsn: u64) -> Bundled {
    Bundled {
        next_seq,
        lsn: Lsn::new(lsn),
    }
}

fn small(disk: Option<&TestDisk>, sabotage: Sabotage) -> FollowOptions {
    let mut options = FollowOptions {
        file_bytes: 12_000,
        sabotage,
        ..FollowOptions::default()
    };
    if let Some(disk) = disk {
        options.disk = Arc::new(disk.clone());
    }
    options
}

/// What was promised after so many operations of the disk.
#[derive(Clone, Debug)]
enum Promise {
    /// Records of a session up to here are kept, except those up to what the bucket has.
    Kept(u128, u64, u64),
    /// The session is refused.
    Sealed(u128),
}

/// Some sessions' batches, moves and seals on a recording disk.
fn run(dir: &Path, seed: u64, sabotage: Sabotage) -> (Vec<Op>, Vec<(usize, Promise)>) {
    let disk = TestDisk::default();
    let mut store = FollowerStore::open(dir, small(Some(&disk), sabotage)).unwrap();
    let mut rng = Rng::new(seed);
    let mut promises = Vec::new();
    let mut ends = [None::<u64>; 3];
    let mut in_bucket = [0u64; 3];
    for _ in 0..60 {
        let n = rng.below(3) as usize;
        let id = n as u128 + 1;
        let promise = match (ends[n], rng.below(12)) {
            (None, _) => {
                let base = rng.below(4);
                let begun = store.begin(session(id), Lsn::new(base));
                if begun.is_err() {
                    continue;
                }
                ends[n] = Some(base);
                in_bucket[n] = base;
                Promise::Kept(id, base, base)
            }
            (Some(end), 0) => {
                let base = end + rng.below(6);
                if store.begin(session(id), Lsn::new(base)).is_err() {
                    continue;
                }
                ends[n] = Some(base.max(end));
                in_bucket[n] = base;
                Promise::Kept(id, base, base)
            }
            (Some(_), 1) if n > 0 => {
                store.seal(session(id)).unwrap();
                Promise::Sealed(id)
            }
            (Some(end), _) => {
                in_bucket[n] = in_bucket[n].max(end.saturating_sub(20));
                let last = end + 1 + rng.below(4);
                let bucket = bundled(in_bucket[n] + 1, in_bucket[n]);
                let appended = store.append(session(id), &batch(id, end + 1, last), bucket);
                if appended.is_err() {
                    continue;
                }
                ends[n] = Some(last);
                Promise::Kept(id, last, in_bucket[n])
            }
        };
        promises.push((disk.count(|_| true), promise));
    }
    (disk.ops(), promises)
}

/// Checks that what was promised by `count` operations is in what a crash left.
fn check(clone: &Path, promises: &[(usize, Promise)], count: usize) -> Result<(), String> {
    let store = FollowerStore::open(clone, small(None, Sabotage::None))
        .map_err(|error| error.to_string())?;
    let found = store.found();
    for (at, promise) in promises {
        if *at > count {
            break;
        }
        match promise {
            Promise::Sealed(id) => {
                if !found.get(&session(*id)).is_some_and(|log| log.sealed) {
                    return Err(format!("the seal of {id} is forgotten"));
                }
            }
            Promise::Kept(id, end, _) => {
                let log = found.get(&session(*id));
                if log.and_then(|log| log.end) < Some(Lsn::new(*end)) {
                    return Err(format!("{id} is lost up to {end}: {log:?}"));
                }
            }
        }
    }
    let latest = |id: u128| {
        let kept = promises.iter().rev().filter(|(at, _)| *at <= count);
        kept.filter_map(|(_, promise)| match promise {
            Promise::Kept(of, _, in_bucket) if *of == id => Some(*in_bucket),
            _ => None,
        })
        .next()
    };
    for id in 1..=3 {
        let (Some(after), Some(log)) = (latest(id), found.get(&session(id))) else {
            continue;
        };
        let Some(end) = log.end else { continue };
        // A crash may come after the log was moved on and before that was promised.
        let after = after.max(log.bundled.lsn.get());
        let Ok(tail) = store.tail(session(id), Lsn::new(after)) else {
            let moved = store.tail(session(id), end).is_ok();
            let begun = promises.iter().any(|(at, promise)| {
                *at > count && matches!(promise, Promise::Kept(of, kept, bucket) if *of == id && kept == bucket)
            });
            if moved && begun {
                continue;
            }
            return Err(format!("the tail of {id} after {after} is lost"));
        };
        if tail != batch(id, after + 1, end.get()) {
            return Err(format!("the tail of {id} is not what was written"));
        }
    }
    Ok(())
}

fn check_all(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let (ops, promises) = run(dir.path(), seed, sabotage);
    let mut disk = CloneDisk::default();
    for (count, op) in ops.iter().enumerate() {
        disk.apply(op);
        for clone in 0..2 {
            let mut rng = Rng::new(seed * 1_000_003 + count as u64 * 101 + clone);
            let left = tempfile::tempdir().unwrap();
            disk.clone().crash(dir.path(), left.path(), &mut rng);
            check(left.path(), &promises, count + 1)
                .map_err(|lost| format!("seed {seed}, operation {count}, clone {clone}: {lost}"))?;
        }
    }
    Ok(())
}

#[test]
fn every_acknowledged_batch_and_seal_survives_every_crash() {
    for seed in 1..=3 {
        check_all(seed, Sabotage::None).unwrap();
    }
}

fn broken_by(sabotage: Sabotage) -> String {
    (1..=6)
        .find_map(|seed| check_all(seed, sabotage).err())
        .unwrap_or_else(|| panic!("{sabotage:?} goes unnoticed"))
}

#[test]
fn the_check_catches_a_batch_acknowledged_before_its_flush() {
    assert!(broken_by(Sabotage::AcknowledgeBeforeSync).contains("lost"));
}

#[test]
fn the_check_catches_a_seal_that_is_not_durable() {
    assert!(broken_by(Sabotage::ForgetTheSeal).contains("forgotten"));
}

#[test]
fn the_check_catches_a_file_whose_name_was_not_flushed() {
    assert!(broken_by(Sabotage::SkipDirSync).contains("lost"));
}

fn store(dir: &Path) -> FollowerStore {
    FollowerStore::open(dir, small(None, Sabotage::None)).unwrap()
}

fn append(store: &mut FollowerStore, first: u64, last: u64) -> Result<Lsn, FollowError> {
    store.append(session(1), &batch(1, first, last), Bundled::default())
}

#[test]
fn a_log_goes_on_after_a_restart_and_gives_back_what_the_bucket_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = store(dir.path());
    first.begin(session(1), Lsn::new(4)).unwrap();
    assert_eq!(append(&mut first, 5, 30).unwrap(), Lsn::new(30));
    let bucket = bundled(3, 12);
    first.append(session(1), &batch(1, 31, 40), bucket).unwrap();
    drop(first);
    let mut second = store(dir.path());
    let found = second.found()[&session(1)];
    assert_eq!(
        (found.end, found.bundled, found.sealed),
        (Some(Lsn::new(40)), bucket, false)
    );
    assert_eq!(
        append(&mut second, 38, 45).unwrap(),
        Lsn::new(45),
        "what it has is passed over"
    );
    assert_eq!(
        second.tail(session(1), Lsn::new(12)).unwrap(),
        batch(1, 13, 45)
    );
    assert_eq!(second.tail(session(1), Lsn::new(45)).unwrap(), []);
    // Moved on: what came before is in the bucket.
    second.begin(session(1), Lsn::new(44)).unwrap();
    assert_eq!(
        second.tail(session(1), Lsn::new(40)).unwrap(),
        batch(1, 41, 45)
    );
    second.begin(session(1), Lsn::new(60)).unwrap();
    append(&mut second, 61, 62).unwrap();
    assert!(matches!(
        second.tail(session(1), Lsn::new(45)),
        Err(FollowError::Damaged { .. })
    ));
    assert_eq!(
        store(dir.path()).tail(session(1), Lsn::new(60)).unwrap(),
        batch(1, 61, 62)
    );
}

#[test]
fn a_sealed_follower_refuses_the_old_owner_even_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = store(dir.path());
    first.begin(session(1), Lsn::new(0)).unwrap();
    append(&mut first, 1, 3).unwrap();
    first.seal(session(1)).unwrap();
    first.seal(session(2)).unwrap();
    assert!(matches!(
        append(&mut first, 4, 4),
        Err(FollowError::Sealed(_))
    ));
    drop(first);
    let mut second = store(dir.path());
    assert!(matches!(
        append(&mut second, 4, 4),
        Err(FollowError::Sealed(_))
    ));
    let begun = second.begin(session(2), Lsn::new(0));
    assert!(
        matches!(begun, Err(FollowError::Sealed(_))),
        "never a follower, and refused"
    );
    assert_eq!(second.found()[&session(2)].end, None);
    assert_eq!(
        second.tail(session(1), Lsn::new(0)).unwrap(),
        batch(1, 1, 3)
    );
    second.discard(session(1)).unwrap();
    second.discard(session(2)).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn hostile_batches_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path());
    assert!(matches!(
        append(&mut store, 1, 1),
        Err(FollowError::Unknown(_))
    ));
    store.begin(session(1), Lsn::new(0)).unwrap();
    append(&mut store, 1, 2).unwrap();
    let bad = |batch: Vec<RawRecord>, store: &mut FollowerStore| {
        let refused = store.append(session(1), &batch, Bundled::default());
        assert!(
            matches!(refused, Err(FollowError::BadBatch { .. })),
            "{refused:?}"
        );
    };
    bad(batch(1, 4, 5), &mut store);
    bad(vec![record(1, 3), record(1, 3)], &mut store);
    let headless = RawRecord {
        head: Bytes::new(),
        ..record(1, 3)
    };
    bad(vec![headless], &mut store);
    assert_eq!(
        store.append(session(1), &[], Bundled::default()).unwrap(),
        Lsn::new(2)
    );
    assert_eq!(
        append(&mut store, 3, 3).unwrap(),
        Lsn::new(3),
        "and it goes on"
    );
}

#[test]
fn files_that_hold_only_what_the_bucket_has_are_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = store(dir.path());
    store.begin(session(1), Lsn::new(0)).unwrap();
    for n in 0..40 {
        let bucket = bundled(n + 1, n * 5);
        store
            .append(session(1), &batch(1, n * 5 + 1, n * 5 + 5), bucket)
            .unwrap();
    }
    let files = fs::read_dir(dir.path()).unwrap().count();
    assert!(files <= 3, "{files} files");
    assert_eq!(
        store.tail(session(1), Lsn::new(195)).unwrap(),
        batch(1, 196, 200)
    );
}

#[test]
fn a_torn_last_write_is_cut_off_and_damage_before_it_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = store(dir.path());
    first.begin(session(1), Lsn::new(0)).unwrap();
    for lsn in 1..=6 {
        append(&mut first, lsn, lsn).unwrap();
    }
    drop(first);
    let path = fs::read_dir(dir.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let sound = fs::read(&path).unwrap();
    let opened = || FollowerStore::open(dir.path(), small(None, Sabotage::None));
    // Any byte from the header to the last record: never a panic, and never silently less than
    // what was acknowledged, but for the last write, which a crash may have torn.
    let written = sound.iter().rposition(|byte| *byte != 0).unwrap();
    for at in (0..=written).step_by(3) {
        let mut damaged = sound.clone();
        damaged[at] ^= 0x40;
        fs::write(&path, damaged).unwrap();
        if let Ok(store) = opened() {
            let end = store.found().get(&session(1)).and_then(|log| log.end);
            assert!(end >= Some(Lsn::new(5)), "byte {at}: {end:?}");
        }
    }
    for length in (0..sound.len()).step_by(97) {
        fs::write(&path, &sound[..length]).unwrap();
        // Truncation is not what a crash does to a preallocated file; it is only to be survived.
        if let Ok(store) = opened() {
            let _ = store.tail(session(1), Lsn::new(0));
        }
        fs::write(&path, &sound).unwrap();
    }
    assert_eq!(
        opened().unwrap().tail(session(1), Lsn::new(0)).unwrap(),
        batch(1, 1, 6)
    );
}

#[test]
fn a_full_disk_is_named_and_what_was_acknowledged_stays() {
    let dir = tempfile::tempdir().unwrap();
    let disk = TestDisk::default();
    let mut store = FollowerStore::open(dir.path(), small(Some(&disk), Sabotage::None)).unwrap();
    store.begin(session(1), Lsn::new(0)).unwrap();
    append(&mut store, 1, 5).unwrap();
    disk.fail_creates(io::ErrorKind::StorageFull);
    assert!(matches!(
        store.begin(session(2), Lsn::new(0)),
        Err(FollowError::Full { .. })
    ));
    disk.fail_syncs(io::ErrorKind::Other);
    assert!(matches!(
        append(&mut store, 6, 6),
        Err(FollowError::Io { .. })
    ));
    assert!(
        matches!(append(&mut store, 6, 6), Err(FollowError::Broken(_))),
        "not tried again"
    );
    assert_eq!(store.found()[&session(1)].end, Some(Lsn::new(5)));
}
