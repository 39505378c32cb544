//! Limits of CPU time and memory, and whom they are held against.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use celld_core::CellLimit;
use celld_runtime::api::Limits;
use support::{Running, code, try_start};

const WORKER: &str = r#"
import { DurableObject } from "cloudflare:workers";
function burn(ms) { const end = performance.now() + ms; while (performance.now() < end); }
export class Counter extends DurableObject {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/slices") for (;;) { burn(20); await scheduler.wait(0); }
    if (pathname === "/calls") for (;;) { burn(20); await this.env.OTHER.getByName("o").fetch("http://x/"); }
    if (pathname === "/fill") { const all = []; for (;;) all.push(new Array(10_000).fill({}).map(() => ({}))); }
    burn(60);
    return new Response("done");
  }
}
export class Other extends DurableObject { fetch() { return new Response("other"); } }
export default {
  async fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/own") for (;;) { burn(20); await scheduler.wait(0); }
    return env.COUNTER.getByName("c").fetch(request);
  }
};
"#;

async fn limited(limits: Limits) -> Running {
    try_start(code(WORKER), limits).await.unwrap()
}

fn short() -> Limits {
    Limits {
        cpu_max: Duration::from_millis(200),
        ..Limits::default()
    }
}

/// The classes whose cells broke limits.
fn broken(running: &Running) -> Vec<(String, CellLimit)> {
    let all = running.world.broken.lock();
    let named = all
        .iter()
        .map(|(cell, limit)| (cell.namespace.to_string(), *limit));
    named.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slices_of_a_stateless_event_are_summed_up() {
    let running = limited(short()).await;
    let error = running.get("/own").await.unwrap_err();
    assert_eq!(error.message, "Worker exceeded CPU time limit.");
    assert_eq!(broken(&running), [], "no cell is to blame");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_slices_of_an_event_of_a_cell_are_summed_up() {
    for path in ["/slices", "/calls"] {
        let running = limited(short()).await;
        let error = running.get(path).await.unwrap_err();
        let expected = "Durable Object exceeded its CPU time limit and was reset.";
        assert_eq!(error.message, expected, "{path}");
        let culprit = ("test-Counter".to_owned(), CellLimit::Cpu);
        assert_eq!(broken(&running), [culprit], "{path}");
        assert_eq!(running.get("/again").await.unwrap(), "done", "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_event_gives_a_cell_a_fresh_budget() {
    let running = limited(short()).await;
    for _ in 0..8 {
        assert_eq!(running.get("/short").await.unwrap(), "done");
    }
    assert_eq!(broken(&running), []);
    let cells = running.cells();
    let counter = cells
        .iter()
        .find(|cell| cell.namespace.as_str() == "test-Counter");
    let spent_us = running.pulse(counter.unwrap()).spent_us();
    assert!(spent_us >= 8 * 60_000, "all of it is known: {spent_us}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_heap_is_held_against_the_cell_that_filled_it() {
    let running = limited(Limits {
        heap_max_bytes: 32 << 20,
        ..Limits::default()
    })
    .await;
    assert!(running.get("/fill").await.is_err());
    let culprit = ("test-Counter".to_owned(), CellLimit::Memory);
    assert_eq!(broken(&running), [culprit]);
}
