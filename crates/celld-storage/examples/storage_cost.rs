//! Prints what a cell's storage costs: CPU time per operation, sizes, and heap per open database.
//!
//! `cargo run --release -p celld-storage --example storage_cost [all|commit N]`; with
//! `commit N` it only makes N small commits, for `strace -c` and profilers.

use std::path::Path;

use celld_core::Txid;
use celld_storage::{CellDb, CursorStep, Image, OpenOptions, RowSink, SqlValue, StorageError};

/// Takes rows without keeping them.
struct Drop;

impl RowSink for Drop {
    fn null(&mut self) {}
    fn integer(&mut self, _: i64) {}
    fn real(&mut self, _: f64) {}
    fn text(&mut self, _: &str) {}
    fn blob(&mut self, _: &[u8]) {}
}

fn open(path: &Path) -> Result<CellDb, StorageError> {
    CellDb::create(path, OpenOptions::default(), Image::default())
}

fn exec(db: &mut CellDb, sql: &str, bindings: &[SqlValue]) -> Result<(), StorageError> {
    if let Some(cursor) = db.sql_exec(sql, bindings)?.cursor {
        let mut step = CursorStep {
            done: false,
            rows_read: 0,
            rows_written: 0,
        };
        while !step.done {
            step = db.cursor_next(cursor, usize::MAX, &mut Drop)?;
        }
    }
    Ok(())
}

fn time(
    name: &str,
    rounds: u32,
    mut run: impl FnMut(u32) -> Result<(), StorageError>,
) -> Result<(), StorageError> {
    for round in 0..rounds / 10 {
        run(round)?;
    }
    let start = cpu_ns();
    for round in 0..rounds {
        run(round)?;
    }
    let each = (cpu_ns() - start) as f64 / 1e3 / f64::from(rounds);
    println!("{name:<52} {each:>9.2} µs");
    Ok(())
}

/// CPU time of this thread, in nanoseconds: unlike wall time, not disturbed by a busy machine.
fn cpu_ns() -> u64 {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let first = stat
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok());
    first.unwrap_or(0)
}

/// Anonymous memory of the process, in bytes.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("cell");
    let args: Vec<String> = std::env::args().collect();
    if let Some(count) = args.get(2) {
        let mut db = open(&path)?;
        for round in 0..count.parse::<u32>()? {
            db.kv_put("counter", &round.to_le_bytes())?;
            db.commit()?;
        }
        return Ok(());
    }
    times(&path)?;
    threads(dir.path())?;
    sizes(&path)?;
    memory(dir.path())?;
    Ok(())
}

fn times(path: &Path) -> Result<(), StorageError> {
    let rounds = 20_000;
    let mut db = open(path)?;
    time("kv put + commit, one key", rounds, |round| {
        db.kv_put("counter", &round.to_le_bytes())?;
        db.commit().map(|_| ())
    })?;
    exec(&mut db, "CREATE TABLE c (id INTEGER PRIMARY KEY, n)", &[])?;
    exec(&mut db, "INSERT INTO c VALUES (1, 0)", &[])?;
    time("UPDATE by key + commit", rounds, |_| {
        exec(
            &mut db,
            "UPDATE c SET n = n + 1 WHERE id = ?",
            &[SqlValue::Real(1.0)],
        )?;
        db.commit().map(|_| ())
    })?;
    time("INSERT 100 bytes + commit", rounds, |_| {
        exec(
            &mut db,
            "INSERT INTO c (n) VALUES (?)",
            &[SqlValue::Blob(vec![7; 100])],
        )?;
        db.commit().map(|_| ())
    })?;
    for key in 0..10_000 {
        db.kv_put(&format!("key-{key:06}"), &[1; 100])?;
    }
    db.commit()?;
    let mut next = 0u32;
    time("kv put, random of 10,000 keys + commit", rounds, |round| {
        next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        db.kv_put(
            &format!("key-{:06}", (next >> 8) % 10_000),
            &round.to_le_bytes(),
        )?;
        db.commit().map(|_| ())
    })?;
    time("kv put without commit", rounds, |round| {
        db.kv_put("counter", &round.to_le_bytes())
    })?;
    db.commit()?;
    time("nested transaction with a put + commit", rounds, |round| {
        let depth = db.begin_nested()?;
        db.kv_put("counter", &round.to_le_bytes())?;
        db.release_nested(depth)?;
        db.commit().map(|_| ())
    })?;
    time("kv get", rounds, |_| db.kv_get("counter").map(|_| ()))?;
    time("kv get, random of 10,000 keys", rounds, |_| {
        next = next.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        db.kv_get(&format!("key-{:06}", (next >> 8) % 10_000))
            .map(|_| ())
    })?;
    time("SELECT by key", rounds, |_| {
        exec(
            &mut db,
            "SELECT n FROM c WHERE id = ?",
            &[SqlValue::Real(1.0)],
        )
    })?;
    time("SELECT 1,000 rows", 500, |_| {
        exec(&mut db, "SELECT * FROM c LIMIT 1000", &[])
    })?;
    let mut text = 0;
    time("SELECT with a new text (compiles)", rounds, |_| {
        text += 1;
        exec(&mut db, &format!("SELECT n FROM c WHERE id = {text}"), &[])
    })?;
    time("INSERT with a new text (compiles)", rounds, |_| {
        text += 1;
        exec(&mut db, &format!("INSERT INTO c (n) VALUES ({text})"), &[])
    })?;
    db.commit()?;
    db.destroy()?;
    let mut db = open(path)?;
    db.kv_put("a", b"1")?;
    let segments = [db.commit()?.map(|c| c.segment).unwrap_or_default()];
    time("park + first read", 2000, |_| {
        db.park()?;
        db.kv_get("a").map(|_| ())
    })?;
    time("park + first write + commit", 2000, |round| {
        db.park()?;
        db.kv_put("a", &round.to_le_bytes())?;
        db.commit().map(|_| ())
    })?;
    time("snapshot of a small cell", 2000, |_| {
        db.snapshot().map(|_| ())
    })?;
    let (txid, snapshot) = db.snapshot()?;
    time("create from the template + destroy", 2000, |_| {
        open(path)?.destroy()
    })?;
    time("create from a snapshot + destroy", 2000, |_| {
        let image = Image {
            snapshot: Some(&snapshot),
            tail: &[],
            txid,
        };
        CellDb::create(path, OpenOptions::default(), image)?.destroy()
    })?;
    time("create from a segment, first read + destroy", 2000, |_| {
        let image = Image {
            snapshot: None,
            tail: &segments,
            txid: Txid::new(1),
        };
        let mut db = CellDb::create(path, OpenOptions::default(), image)?;
        db.kv_get("a")?;
        db.destroy()
    })
}

/// The same work on cells of their own in four threads at once: what cells share shows here.
fn threads(dir: &Path) -> Result<(), StorageError> {
    let work = |index: u32| -> Result<(f64, f64), StorageError> {
        let rounds = 50_000u32;
        let mut db = open(&dir.join(format!("t{index}")))?;
        let each = |from: u64| (cpu_ns() - from) as f64 / 1e3 / f64::from(rounds);
        db.kv_put("counter", &[1; 8])?;
        let start = cpu_ns();
        for _ in 0..rounds {
            db.kv_get("counter")?;
        }
        let read = each(start);
        let start = cpu_ns();
        for round in 0..rounds {
            db.kv_put("counter", &round.to_le_bytes())?;
            db.commit()?;
        }
        let write = each(start);
        db.destroy()?;
        Ok((read, write))
    };
    let results = std::thread::scope(|scope| {
        let all: Vec<_> = (0..4)
            .map(|index| scope.spawn(move || work(index)))
            .collect();
        let join =
            |thread: std::thread::ScopedJoinHandle<'_, _>| thread.join().unwrap_or(Ok((0.0, 0.0)));
        all.into_iter().map(join).collect::<Result<Vec<_>, _>>()
    })?;
    let mean = |pick: fn(&(f64, f64)) -> f64| results.iter().map(pick).sum::<f64>() / 4.0;
    println!("{:<52} {:>9.2} µs", "kv get, four threads", mean(|r| r.0));
    println!(
        "{:<52} {:>9.2} µs",
        "kv put + commit, four threads",
        mean(|r| r.1)
    );
    Ok(())
}

fn sizes(path: &Path) -> Result<(), StorageError> {
    let mut db = open(path)?;
    let show = |name: &str, db: &mut CellDb| {
        let size = db.commit().map(|c| c.map_or(0, |c| c.segment.len()));
        size.map(|size| println!("{name:<52} {size:>9} bytes"))
    };
    db.kv_put("counter", &[1; 8])?;
    show("segment: first commit", &mut db)?;
    db.kv_put("counter", &[2; 8])?;
    show("segment: one key of a small cell", &mut db)?;
    for key in 0..2000u32 {
        let noise = key.wrapping_mul(2_654_435_761);
        db.kv_put(
            &format!("key-{key:06}"),
            format!("{noise:x} {:x}", !noise).repeat(5).as_bytes(),
        )?;
    }
    show("segment: 2,000 keys", &mut db)?;
    db.kv_put("key-001000", &[2; 8])?;
    show("segment: one key of 2,000", &mut db)?;
    let (_, snapshot) = db.snapshot()?;
    println!("{:<52} {:>9} bytes", "snapshot: 2,000 keys", snapshot.len());
    println!(
        "{:<52} {:>9} bytes",
        "database: 2,000 keys",
        db.database_size()?
    );
    db.destroy()
}

fn memory(dir: &Path) -> Result<(), StorageError> {
    let count = 500u64;
    let before = resident();
    let mut cells = Vec::new();
    for index in 0..count {
        let mut db = open(&dir.join(format!("m{index}")))?;
        exec(&mut db, "CREATE TABLE c (id INTEGER PRIMARY KEY, n)", &[])?;
        exec(
            &mut db,
            "INSERT INTO c VALUES (?, 0)",
            &[SqlValue::Integer(1)],
        )?;
        exec(&mut db, "SELECT * FROM c", &[])?;
        db.kv_put("k", b"1")?;
        db.kv_get("k")?;
        db.commit()?;
        cells.push(db);
    }
    let held = (resident() - before) / count;
    println!(
        "{:<52} {held:>9} bytes",
        "resident memory per open cell, two tables in use"
    );
    println!(
        "{:<52} {:>9} bytes",
        "of that in SQLite's accounts",
        cells[0].memory_bytes()
    );
    drop(cells);
    let before = resident();
    let mut cells = Vec::new();
    for index in 0..4 * count {
        let mut db = open(&dir.join(format!("p{index}")))?;
        db.kv_put("k", b"1")?;
        db.commit()?;
        db.park()?;
        cells.push(db);
    }
    let held = resident().saturating_sub(before) / (4 * count);
    println!("{:<52} {held:>9} bytes", "resident memory per parked cell");
    println!(
        "{:<52} {:>9} bytes",
        "the parked value itself",
        size_of::<CellDb>()
    );
    Ok(())
}
