//! Many alarms at once, and what they cost the bucket.

#[allow(dead_code, reason = "each file of tests uses its part")]
mod support;

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use celld_bucket::Operation;
use celld_core::CellId;
use support::{Bench, cell};

/// As many as one node is to take.
const MANY: u16 = 10_000;

fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("it is later than 1970");
    i64::try_from(since.as_millis()).expect("it is not that late")
}

/// Sets the alarm of `count` cells to `due_ms`.
async fn set(bench: &Bench, count: u16, due_ms: i64) {
    for first in (0..count).step_by(500) {
        let waiting: Vec<_> = (first..count.min(first + 500))
            .map(|n| bench.send(&cell("Counter", n), &format!("/alarm?{due_ms}")))
            .collect();
        for answer in waiting {
            answer.await.expect("the alarm is set");
        }
    }
}

/// Waits until `count` alarms have fired. Gives up when nothing has happened for a minute.
async fn fired(bench: &Bench, count: usize) {
    let (mut seen, mut still) = (0, 0);
    while seen < count {
        let now = bench.stage.alarms.lock().len();
        still = if now > seen { 0 } else { still + 1 };
        assert!(still < 6_000, "{now} of {count} alarms fired");
        seen = now;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn times(bench: &Bench) -> HashMap<CellId, usize> {
    let mut times = HashMap::new();
    for (cell, _, _) in bench.stage.alarms.lock().iter() {
        *times.entry(cell.clone()).or_default() += 1;
    }
    times
}

fn lists(bench: &Bench) -> u64 {
    let counts = bench.handle.bucket().snapshot();
    let lists = counts
        .iter()
        .filter(|count| count.operation == Operation::List);
    lists.map(|count| count.requests).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_alarms_of_one_moment_fire_once_each_without_the_bucket() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| {
        config.core.resident_max = usize::from(MANY);
        config.core.cells_per_host_max = 2_500;
        config.core.idle_after_ms = 3_600_000;
        config.core.log_budget_bytes = 1 << 40;
    });
    bench.stage.parks.store(true, Ordering::Relaxed);
    bench.deploy("one", &["Counter"]).await.unwrap();
    // All cells are there before the alarms are due.
    set(&bench, MANY, wall_ms() + 3_600_000).await;
    let before = bench.handle.bucket().requests();
    let due = wall_ms() + 2_000;
    set(&bench, MANY, due).await;
    fired(&bench, usize::from(MANY)).await;
    // One more would be seen by now, or within the life of a cell that is asked again.
    assert_eq!(
        bench.cell(&cell("Counter", 1), "/get").await.unwrap(),
        "0 name"
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    let times = times(&bench);
    assert_eq!(times.len(), usize::from(MANY));
    assert!(times.values().all(|count| *count == 1));
    let early = bench
        .stage
        .alarms
        .lock()
        .iter()
        .any(|(_, at, _)| *at != due);
    assert!(!early, "an alarm that was moved fired at its old time");
    assert_eq!(
        bench.handle.bucket().requests(),
        before,
        "alarms of resident cells ask the bucket for nothing"
    );
    bench.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn overdue_alarms_of_cold_cells_fire_once_each_at_the_start_with_few_listings() {
    let dir = tempfile::tempdir().unwrap();
    let count: u16 = 1_200;
    {
        // A node that starts no handler leaves them all to the next one.
        let bench = Bench::start(dir.path(), |config| config.core.alarms_max = 0);
        bench.deploy("one", &["Counter"]).await.unwrap();
        set(&bench, count, wall_ms()).await;
        assert!(bench.node.drain(Duration::from_secs(60)).await.complete);
        assert_eq!(bench.stage.alarms.lock().len(), 0);
    }
    let bench = Bench::start(dir.path(), |config| {
        config.core.alarms_max = 64;
    });
    bench.deploy("one", &["Counter"]).await.unwrap();
    fired(&bench, usize::from(count)).await;
    let times = times(&bench);
    assert_eq!(times.len(), usize::from(count));
    assert!(times.values().all(|count| *count == 1), "none twice");
    // Two pages of markers, and the look for logs.
    assert!(
        lists(&bench) <= 6,
        "{} listings for {count} alarms",
        lists(&bench)
    );
    bench.check();
}
