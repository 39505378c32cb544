//! A node with made-up hosts and a real bucket, log and storage.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use support::{Bench, cell};

fn wall_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(SystemTime::UNIX_EPOCH)
        .expect("it is later than 1970");
    i64::try_from(since.as_millis()).expect("it is not that late")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_reach_the_worker_and_a_new_deployment_takes_over_without_losing_one() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    assert!(!bench.handle.is_ready());
    let early = bench.get("/").await.unwrap_err();
    assert!(early.message.contains("No Worker is deployed"), "{early}");
    bench.deploy("one", &[]).await.unwrap();
    assert!(bench.handle.is_ready());
    assert_eq!(bench.get("/").await.unwrap(), "one");

    let (reached, deployed) = tokio::join!(
        async {
            let mut versions = Vec::new();
            for _ in 0..300 {
                versions.push(bench.get("/").await.unwrap());
            }
            versions
        },
        bench.deploy("two", &[]),
    );
    deployed.unwrap();
    assert!(
        reached
            .iter()
            .all(|version| version == "one" || version == "two")
    );
    assert_eq!(bench.get("/").await.unwrap(), "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_that_does_not_load_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &[]).await.unwrap();
    let why = bench.deploy("broken", &[]).await.unwrap_err();
    assert!(why.contains("SyntaxError: it is broken"), "{why}");
    assert_eq!(bench.get("/").await.unwrap(), "one");
    bench.deploy("two", &[]).await.unwrap();
    assert_eq!(bench.get("/").await.unwrap(), "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_for_a_cold_cell_is_answered_in_order_by_one_activation() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &["Counter"]).await.unwrap();
    let counter = cell("Counter", 1);
    let waiting: Vec<_> = (0..500).map(|_| bench.send(&counter, "/add")).collect();
    for (i, answer) in waiting.into_iter().enumerate() {
        assert_eq!(
            support::text(answer.await.unwrap()),
            format!("{} name", i + 1)
        );
    }
    assert_eq!(bench.stage.activations.load(Ordering::Relaxed), 1);
    bench.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_cells_leave_and_come_back_with_their_data_while_requests_go_on() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| {
        config.core.idle_after_ms = 1;
        config.core.hibernate_after_ms = 1;
    });
    bench.deploy("one", &["Counter"]).await.unwrap();
    let rounds = 120u64;
    let mut tasks = tokio::task::JoinSet::new();
    let bench = std::sync::Arc::new(bench);
    for n in 0..6 {
        let bench = bench.clone();
        tasks.spawn(async move {
            for i in 1..=rounds {
                let got = bench.cell(&cell("Counter", n), "/add").await.unwrap();
                assert_eq!(got, format!("{i} name"));
                if i % 3 == u64::from(n) % 3 {
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.unwrap();
    }
    bench.check();
    assert!(
        bench.stage.activations.load(Ordering::Relaxed) > 20,
        "cells did leave"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_one_caller_stay_in_order_while_the_cell_leaves_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| {
        config.core.idle_after_ms = 1;
        config.core.hibernate_after_ms = 1;
    });
    bench.deploy("one", &["Counter"]).await.unwrap();
    let counter = cell("Counter", 1);
    let mut waiting = Vec::new();
    for i in 0..1_500u64 {
        waiting.push(bench.send(&counter, "/add"));
        if i % 7 == 0 {
            tokio::time::sleep(Duration::from_micros(300 * (i % 11))).await;
        }
    }
    for (i, answer) in waiting.into_iter().enumerate() {
        assert_eq!(
            support::text(answer.await.unwrap()),
            format!("{} name", i + 1)
        );
    }
    bench.check();
    assert!(
        bench.stage.activations.load(Ordering::Relaxed) > 5,
        "the cell did leave"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_marker_stands_for_a_cold_cells_alarm_and_goes_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let markers = async |bench: &Bench| {
        let listing = celld_bucket::Bucket::list(&*bench.handle.bucket(), "alarms/", None, 10)
            .await
            .unwrap();
        listing.objects.len()
    };
    let due = wall_ms() + 700;
    {
        let bench = Bench::start(dir.path(), |_| {});
        bench.deploy("one", &["Counter"]).await.unwrap();
        bench
            .cell(&cell("Counter", 2), &format!("/alarm?{due}"))
            .await
            .unwrap();
        assert_eq!(markers(&bench).await, 0, "the log knows it");
        assert!(bench.node.drain(Duration::from_secs(5)).await.complete);
        assert_eq!(markers(&bench).await, 1);
    }
    let bench = Bench::start(dir.path(), |_| {});
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(
        bench.stage.alarms.lock().len(),
        0,
        "there is no code to run it"
    );
    bench.deploy("one", &["Counter"]).await.unwrap();
    bench
        .until("the alarm fires", |bench| {
            !bench.stage.alarms.lock().is_empty()
        })
        .await;
    assert_eq!(
        bench.stage.alarms.lock().clone(),
        [(cell("Counter", 2), due, 0)]
    );
    assert!(bench.node.drain(Duration::from_secs(5)).await.complete);
    assert_eq!(markers(&bench).await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_writes_survive_a_crash_and_a_drain() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    {
        let bench = Bench::start(dir.path(), |_| {});
        bench.deploy("one", &["Counter"]).await.unwrap();
        for n in 0..40 {
            for i in 1..=3 {
                assert_eq!(
                    bench.cell(&cell("Counter", n), "/add").await.unwrap(),
                    format!("{i} name")
                );
            }
        }
        // What a crash would leave: nothing is saved, the log is not closed.
        copy_dir(&dir.path().join("bucket"), &copy.path().join("bucket"));
    }
    {
        let bench = Bench::start(copy.path(), |_| {});
        bench.deploy("two", &["Counter"]).await.unwrap();
        assert_eq!(
            bench.cell(&cell("Counter", 7), "/add").await.unwrap(),
            "4 name"
        );
        let drained = bench.node.drain(Duration::from_secs(5)).await;
        assert!(drained.complete, "{drained:?}");
        assert_eq!(drained.log_error, None);
        assert!(bench.stage.resident.lock().is_empty());
    }
    let bench = Bench::start(copy.path(), |_| {});
    bench.deploy("two", &["Counter"]).await.unwrap();
    for n in 0..40 {
        let expected = if n == 7 { "4 name" } else { "3 name" };
        assert_eq!(
            bench.cell(&cell("Counter", n), "/get").await.unwrap(),
            expected
        );
    }
    bench.check();
}

fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a readable directory");
    for entry in std::fs::read_dir(from).expect("a readable directory") {
        let entry = entry.expect("a readable directory");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a readable directory").is_dir() {
            copy_dir(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a readable directory");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovered_cells_move_into_their_records_in_the_background() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    {
        let bench = Bench::start(dir.path(), |_| {});
        bench.deploy("one", &["Counter"]).await.unwrap();
        for n in 0..10 {
            bench.cell(&cell("Counter", n), "/add").await.unwrap();
        }
        copy_dir(&dir.path().join("bucket"), &copy.path().join("bucket"));
    }
    let bench = Bench::start(copy.path(), |_| {});
    for _ in 0..500 {
        let metrics = bench.metrics().await;
        if metrics["cells"]["recovered_unsaved"] == 0 && metrics["cells"]["records_written"] == 10 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let metrics = bench.metrics().await;
    assert_eq!(metrics["cells"]["records_written"], 10, "{metrics}");
    assert_eq!(metrics["log"]["live_bytes"], 0, "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_host_takes_no_acknowledged_write_with_it() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &["Counter"]).await.unwrap();
    let (one, two) = (cell("Counter", 1), cell("Counter", 2));
    for i in 1..=20 {
        assert_eq!(bench.cell(&one, "/add").await.unwrap(), format!("{i} name"));
        assert_eq!(bench.cell(&two, "/add").await.unwrap(), format!("{i} name"));
        bench.cell(&one, "/die").await.unwrap_err();
    }
    bench.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_code_takes_the_cells_over_with_their_data() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("v1", &["Counter", "Old"]).await.unwrap();
    for n in 0..50 {
        assert_eq!(
            bench.cell(&cell("Counter", n), "/add").await.unwrap(),
            "1 name"
        );
    }
    bench.cell(&cell("Old", 1), "/add").await.unwrap();
    bench.deploy("v2", &["Counter"]).await.unwrap();
    for n in 0..50 {
        assert_eq!(
            bench.cell(&cell("Counter", n), "/add").await.unwrap(),
            "2 name"
        );
    }
    let gone = bench.cell(&cell("Old", 1), "/add").await.unwrap_err();
    assert!(gone.message.contains("\"Old\""), "{gone}");
    bench.check();
    bench
        .until("hosts of old code end", |bench| {
            bench.stage.hosts_started.load(Ordering::Relaxed) >= 4
        })
        .await;
    let metrics = bench.metrics().await;
    assert_eq!(metrics["hosts"]["stateless"], 1, "{metrics}");
    assert_eq!(metrics["hosts"]["cells"], 2, "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_fires_is_tried_again_and_wakes_a_cold_cell_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let due = {
        let bench = Bench::start(dir.path(), |_| {});
        bench.deploy("one", &["Counter"]).await.unwrap();
        bench.stage.alarms_fail.store(1, Ordering::Relaxed);
        let at = wall_ms() + 50;
        bench
            .cell(&cell("Counter", 1), &format!("/alarm?{at}"))
            .await
            .unwrap();
        bench
            .until("the alarm fires twice", |bench| {
                bench.stage.alarms.lock().len() == 2
            })
            .await;
        let fired = bench.stage.alarms.lock().clone();
        assert_eq!(
            fired,
            [(cell("Counter", 1), at, 0), (cell("Counter", 1), at, 1)]
        );
        let due = wall_ms() + 1_500;
        bench
            .cell(&cell("Counter", 2), &format!("/alarm?{due}"))
            .await
            .unwrap();
        assert!(bench.node.drain(Duration::from_secs(5)).await.complete);
        due
    };
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &["Counter"]).await.unwrap();
    bench
        .until("the alarm fires", |bench| {
            !bench.stage.alarms.lock().is_empty()
        })
        .await;
    assert_eq!(
        bench.stage.alarms.lock().clone(),
        [(cell("Counter", 2), due, 0)]
    );
    assert!(wall_ms() >= due);
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(
        bench.stage.alarms.lock().len(),
        1,
        "and it does not fire again"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_log_is_kept_small_by_checkpoints() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| {
        config.core.log_budget_bytes = 128 << 10
    });
    bench.deploy("one", &["Counter"]).await.unwrap();
    for _ in 0..60 {
        for n in 0..20 {
            bench.cell(&cell("Counter", n), "/add").await.unwrap();
        }
    }
    let metrics = bench.metrics().await;
    assert!(
        metrics["cells"]["records_written"].as_u64().unwrap() > 0,
        "{metrics}"
    );
    assert!(metrics["log"]["files"].as_u64().unwrap() < 4, "{metrics}");
    bench.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_node_lets_idle_cells_go_for_new_ones() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| config.core.resident_max = 8);
    bench.deploy("one", &["Counter"]).await.unwrap();
    for n in 0..40 {
        assert_eq!(
            bench.cell(&cell("Counter", n), "/add").await.unwrap(),
            "1 name"
        );
        assert!(bench.stage.resident.lock().len() <= 8);
    }
    assert_eq!(
        bench.cell(&cell("Counter", 0), "/add").await.unwrap(),
        "2 name"
    );
    bench.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_node_in_the_same_bucket_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let _bench = Bench::start(dir.path(), |_| {});
    let bucket =
        celld_bucket::BucketUrl::parse(&format!("file://{}/bucket", dir.path().display())).unwrap();
    let config = celld_node::NodeConfig::new(bucket, dir.path().join("other"), &[]);
    let error = celld_node::Node::start(config, tokio::runtime::Handle::current())
        .err()
        .unwrap();
    assert!(error.to_string().contains("another celld node"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_nodes_do_not_share_a_scratch_directory() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &["Counter"]).await.unwrap();
    bench.cell(&cell("Counter", 1), "/add").await.unwrap();
    let files = || std::fs::read_dir(dir.path().join("work")).unwrap().count();
    assert_ne!(files(), 0);
    let config = || {
        let url = format!("file://{}/other-bucket", dir.path().display());
        let bucket = celld_bucket::BucketUrl::parse(&url).unwrap();
        celld_node::NodeConfig::new(bucket, dir.path().join("work"), &[])
    };
    let start = || celld_node::Node::start(config(), tokio::runtime::Handle::current());
    let error = start().err().unwrap();
    assert!(
        matches!(error, celld_node::StartError::ScratchBusy { .. }),
        "{error}"
    );
    assert!(
        error.to_string().contains("work.lock): stop it first"),
        "{error}"
    );
    assert_ne!(files(), 0, "what the first node works with is still there");
    drop(bench);
    for _ in 0..500 {
        if start().is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the directory is not free after the first node's end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_alarm_of_a_class_that_is_not_deployed_waits_for_code_without_using_up_its_retries() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("v1", &["Counter", "Old"]).await.unwrap();
    let due = wall_ms() + 500;
    let path = format!("/alarm?{due}");
    bench.cell(&cell("Old", 1), &path).await.unwrap();
    bench.deploy("v2", &["Counter"]).await.unwrap();
    assert!(wall_ms() < due, "the class was gone before the alarm");
    tokio::time::sleep(Duration::from_millis(1_000)).await;
    assert_eq!(
        bench.stage.alarms.lock().len(),
        0,
        "there is no code to run it"
    );
    bench.deploy("v1", &["Counter", "Old"]).await.unwrap();
    bench
        .until("the alarm fires", |bench| {
            !bench.stage.alarms.lock().is_empty()
        })
        .await;
    let fired = bench.stage.alarms.lock().clone();
    assert_eq!(fired, [(cell("Old", 1), due, 0)], "no retry is used up");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_of_a_lost_host_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("v1", &["Counter"]).await.unwrap();
    let lose_hosts = async |count: u32| {
        for _ in 0..count {
            bench.cell(&cell("Counter", 1), "/add").await.unwrap();
            bench.cell(&cell("Counter", 1), "/die").await.unwrap_err();
        }
    };
    lose_hosts(3).await;
    let old = bench.stage.codes.lock().len();
    bench.deploy("v2", &["Counter"]).await.unwrap();
    // The map of hosts frees what is taken out of it in batches.
    lose_hosts(100).await;
    bench
        .until("the code of lost hosts is freed", |bench| {
            let codes = bench.stage.codes.lock();
            codes[..old].iter().all(|code| code.strong_count() == 0)
        })
        .await;
    assert_eq!(
        bench.cell(&cell("Counter", 1), "/get").await.unwrap(),
        "103 name"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_do_not_wait_for_a_worker_that_cannot_be_started_again() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |_| {});
    bench.deploy("one", &[]).await.unwrap();
    bench.stage.starts_fail.store(true, Ordering::Relaxed);
    bench.get("/die").await.unwrap_err();
    let refused = tokio::time::timeout(Duration::from_secs(5), bench.get("/"))
        .await
        .expect("it does not wait for ever")
        .unwrap_err();
    assert!(refused.retryable, "{refused:?}");
    assert_eq!(
        refused.message,
        "The Worker cannot be started: it is out of memory"
    );
    bench.stage.starts_fail.store(false, Ordering::Relaxed);
    for _ in 0..50 {
        if let Ok(version) = bench.get("/").await {
            assert_eq!(version, "one");
            return;
        }
    }
    panic!("the Worker does not come back");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_that_breaks_limits_again_and_again_is_kept_out_for_a_while_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let bench = Bench::start(dir.path(), |config| {
        config.core.quarantine_first_ms = 1_500;
    });
    bench.deploy("one", &["Counter"]).await.unwrap();
    let (bad, good) = (cell("Counter", 1), cell("Counter", 2));
    assert_eq!(bench.cell(&bad, "/add").await.unwrap(), "1 name");
    let shown = async || bench.internal("/cells").await;
    for _ in 0..2 {
        bench.cell(&bad, "/burn").await.unwrap_err();
        assert_eq!(bench.cell(&bad, "/get").await.unwrap(), "1 name");
    }
    assert_eq!(shown().await["quarantined"], serde_json::json!([]));
    bench.cell(&bad, "/burn").await.unwrap_err();
    bench
        .until_async("it is kept out", async |bench| {
            let answer = bench.cell(&bad, "/get").await;
            answer.is_err_and(|error| {
                error.overloaded
                    && error
                        .message
                        .starts_with("Durable Object is quarantined for another")
            })
        })
        .await;
    assert_eq!(bench.cell(&good, "/add").await.unwrap(), "1 name");
    let quarantined = &shown().await["quarantined"][0];
    assert_eq!(quarantined["id"], bad.object.to_hex());
    assert_eq!(quarantined["times"], 3);
    assert!(quarantined["until_ms"].as_i64().unwrap() > wall_ms());
    bench
        .until_async("it is let in again, with its data", async |bench| {
            bench
                .cell(&bad, "/get")
                .await
                .is_ok_and(|text| text == "1 name")
        })
        .await;
    assert_eq!(shown().await["quarantined"], serde_json::json!([]));
    bench.check();
}
