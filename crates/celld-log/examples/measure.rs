//! Measures this disk under the node log: append to durable, with 1 and 64 writers that each wait
//! for their commit before the next.
//!
//! `cargo run --release -p celld-log --example measure [DIRECTORY [ZERO_AHEAD_KIB]]`

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use celld_core::{CellId, Epoch, NamespaceKey, ObjectId, SessionId, Txid};
use celld_log::{Commit, Disk, NodeLog, Options, RealDisk};

const RUN: Duration = Duration::from_secs(3);

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let root = args.next().unwrap_or_else(|| ".".to_owned());
    let dir = std::path::Path::new(&root).join("celld-log-measure");
    let zero_ahead_kib: Option<u64> = args.next().map(|text| text.parse()).transpose()?;
    std::fs::create_dir_all(&dir)?;
    raw_flushes(&dir)?;
    println!(
        "{:>8} {:>9} {:>10} {:>9} {:>9} {:>9} {:>12} {:>12}",
        "writers", "bytes", "commits/s", "p50 µs", "p99 µs", "max µs", "per batch", "µs a flush"
    );
    for bytes in [300, 4_200] {
        for writers in [1, 8, 64] {
            let mut options = Options::default();
            if let Some(kib) = zero_ahead_kib {
                options.zero_ahead_bytes = kib << 10;
            }
            run(&dir, options, writers, bytes)?;
        }
    }
    recovery(&dir)?;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// How long a start takes that finds the log of a crash.
fn recovery(dir: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let open = |n| {
        NodeLog::open(
            dir,
            SessionId::from_random(n),
            Options::default(),
            Box::new(|why| eprintln!("{why}")),
        )
    };
    let log = open(1)?;
    for n in 0..32_000u64 {
        let mut object = [0; 32];
        object[..8].copy_from_slice(&(n % 2_000).to_le_bytes());
        log.append(Commit {
            cell: CellId {
                namespace: NamespaceKey::new("measure")?,
                object: ObjectId::from_bytes(object),
            },
            epoch: Epoch::new(1),
            txid: Txid::new(n / 2_000 + 1),
            name: None,
            alarm_ms: None,
            segment: vec![1; 4_200].into(),
        });
    }
    drop(log);
    let begun = Instant::now();
    let log = open(2)?;
    let recovery = log.recovery();
    let mib = log.stats().live_bytes >> 20;
    println!(
        "recovery: {} records, {} cells, {mib} MiB in {:?}",
        recovery.records,
        log.cells().len(),
        begun.elapsed()
    );
    Ok(())
}

/// What one small write and its flush cost on blocks that were written before.
fn raw_flushes(dir: &std::path::Path) -> Result<(), Box<dyn std::error::Error>> {
    let path = dir.join("raw");
    let mut file = RealDisk.create(&path, 1 << 20)?;
    file.write_at(&vec![1; 1 << 20], 0)?;
    file.sync()?;
    let mut times = Vec::new();
    for n in 0..2_000 {
        let begun = Instant::now();
        file.write_at(&[2; 512], n * 512)?;
        file.sync()?;
        times.push(begun.elapsed());
    }
    times.sort();
    println!(
        "write + fdatasync of 512 bytes: p50 {:?}, p99 {:?}",
        times[1_000], times[1_980]
    );
    RealDisk.remove(&path)?;
    Ok(())
}

fn run(
    dir: &std::path::Path,
    options: Options,
    writers: u8,
    bytes: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let log = Arc::new(NodeLog::open(
        dir,
        SessionId::from_random(1),
        options,
        Box::new(|why| eprintln!("{why}")),
    )?);
    let begun = Instant::now();
    let threads: Vec<_> = (0..writers)
        .map(|n| {
            let log = log.clone();
            std::thread::spawn(move || write(&log, n, bytes, begun))
        })
        .collect();
    let mut times: Vec<Duration> = threads
        .into_iter()
        .flat_map(|thread| thread.join().expect("a writer ends in order"))
        .collect();
    let spent = begun.elapsed();
    times.sort();
    let stats = log.stats();
    let micros = |part: f64| times[((times.len() - 1) as f64 * part) as usize].as_micros();
    println!(
        "{writers:>8} {bytes:>9} {:>10.0} {:>9} {:>9} {:>9} {:>12.1} {:>12.1}",
        times.len() as f64 / spent.as_secs_f64(),
        micros(0.5),
        micros(0.99),
        micros(1.0),
        stats.records as f64 / stats.batches as f64,
        stats.flush_total.as_secs_f64() * 1e6 / stats.batches as f64,
    );
    for cell in log.cells() {
        log.checkpointed(&cell, Txid::new(u64::MAX));
    }
    log.close()?;
    Ok(())
}

fn write(log: &NodeLog, n: u8, bytes: usize, begun: Instant) -> Vec<Duration> {
    let cell = CellId {
        namespace: NamespaceKey::new("measure").expect("a valid key"),
        object: ObjectId::from_bytes([n; 32]),
    };
    let (sent, got) = mpsc::channel();
    let mut times = Vec::new();
    for txid in 1.. {
        let at = Instant::now();
        if at - begun > RUN {
            break;
        }
        let lsn = log.append(Commit {
            cell: cell.clone(),
            epoch: Epoch::new(1),
            txid: Txid::new(txid),
            name: None,
            alarm_ms: None,
            segment: vec![n; bytes].into(),
        });
        let sent = sent.clone();
        log.when_durable(
            lsn,
            Box::new(move |result| {
                // The receiver lives until its loop ends.
                let _ = sent.send(result.is_ok());
            }),
        );
        if !got.recv().unwrap_or(false) {
            break;
        }
        times.push(at.elapsed());
        log.checkpointed(&cell, Txid::new(txid));
    }
    times
}
