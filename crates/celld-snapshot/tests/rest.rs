//! Cells that have nothing to do: what they let go of, and what keeps it.
#![allow(clippy::unwrap_used)]

mod support;

use celld_core::CellId;
use celld_runtime::exchange::Body;
use support::{Running, start};

const CELLS: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Other extends DurableObject {
  async fetch() {
    await new Promise((go) => { globalThis.letGo = go; });
    return new Response("late");
  }
}
export class Counter extends DurableObject {
  calls = 0;
  async fetch(request) {
    const { pathname } = new URL(request.url);
    this.calls++;
    if (pathname === "/count") {
      const n = ((await this.ctx.storage.get("n")) ?? 0) + 1;
      await this.ctx.storage.put("n", n);
      return new Response(`${this.calls} ${n}`);
    }
    if (pathname === "/timer") this.timer = setInterval(() => {}, 60_000);
    if (pathname === "/clear") clearInterval(this.timer);
    if (pathname === "/call") this.env.OTHER.getByName("o").fetch("http://x/").then(() => { this.answered = true; });
    if (pathname === "/answer") { globalThis.letGo(); await scheduler.wait(1); }
    if (pathname === "/block") this.ctx.blockConcurrencyWhile(() => new Promise((go) => setTimeout(go, 60_000)));
    if (pathname === "/stream") {
      const { readable, writable } = new TransformStream();
      this.writer = writable.getWriter();
      this.writer.write(new TextEncoder().encode("begun"));
      return new Response(readable);
    }
    return new Response(String(this.calls));
  }
}
export default {
  async fetch(request, env) {
    return env.COUNTER.getByName("c").fetch(request);
  }
};
"#;

/// The one cell of class `Counter`.
fn counter(running: &Running) -> CellId {
    let is_counter = |cell: &CellId| cell.namespace.as_str().ends_with("Counter");
    running.cells().into_iter().find(is_counter).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_cell_closes_its_database_and_drops_its_object() {
    let running = start(CELLS).await;
    assert_eq!(running.get("/count").await.unwrap(), "1 1");
    assert_eq!(running.get("/count").await.unwrap(), "2 2");
    let cell = counter(&running);
    assert_eq!(running.descriptors(&cell), 1);
    assert!(!running.pulse(&cell).is_busy());
    running.rest(&cell).await;
    assert_eq!(running.descriptors(&cell), 0, "the database is parked");
    assert_eq!(running.get("/count").await.unwrap(), "1 3");
    assert_eq!(running.descriptors(&cell), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cell_that_never_used_storage_has_no_file() {
    let running = start(CELLS).await;
    assert_eq!(running.get("/plain").await.unwrap(), "1");
    let cell = counter(&running);
    running.rest(&cell).await;
    assert_eq!(running.get("/plain").await.unwrap(), "1");
    assert!(!running.database(&cell).exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timer_and_a_call_and_a_critical_section_keep_the_object_but_not_the_database() {
    let running = start(CELLS).await;
    assert_eq!(running.get("/count").await.unwrap(), "1 1");
    let cell = counter(&running);
    running.get("/timer").await.unwrap();
    running.rest(&cell).await;
    assert_eq!(running.descriptors(&cell), 0);
    assert_eq!(running.get("/clear").await.unwrap(), "3");
    running.rest(&cell).await;
    assert_eq!(running.get("/call").await.unwrap(), "1");
    running.rest(&cell).await;
    assert_eq!(running.get("/answer").await.unwrap(), "2");
    while running.pulse(&cell).is_busy() {
        tokio::task::yield_now().await;
    }
    running.rest(&cell).await;
    assert_eq!(running.get("/block").await.unwrap(), "1");
    running.rest(&cell).await;
    let blocked = running.send("GET", "/plain", Body::Empty);
    let waited = tokio::time::timeout(std::time::Duration::from_millis(200), blocked).await;
    assert!(waited.is_err(), "the section goes on");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_that_still_streams_keeps_a_cell_busy() {
    let running = start(CELLS).await;
    let response = running.send("GET", "/stream", Body::Empty).await.unwrap();
    let cell = counter(&running);
    assert!(running.pulse(&cell).is_busy());
    running.rest(&cell).await;
    assert_eq!(running.get("/plain").await.unwrap(), "2");
    assert!(running.pulse(&cell).is_busy());
    drop(response);
}
