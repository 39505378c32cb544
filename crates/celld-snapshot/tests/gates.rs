//! Input and output gates where they are easy to get wrong.
#![allow(clippy::unwrap_used)]

mod support;

use celld_runtime::exchange::Body;
use support::{Running, read, start};

const CELLS: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Other extends DurableObject {
  async fetch() { return new Response("other"); }
}
export class Counter extends DurableObject {
  log = [];
  constructor(ctx, env) {
    super(ctx, env);
    ctx.blockConcurrencyWhile(async () => {
      this.log.push("ready");
      setTimeout(() => this.later(), 30);
    });
  }
  async later() {
    await this.ctx.storage.transaction(async (txn) => { await txn.put("later", 1); });
    this.log.push("later");
  }
  async outside() {
    return this.ctx.storage.transaction(async (txn) => {
      await txn.put("a", 1);
      const answer = await this.env.OTHER.getByName("o").fetch("http://x/");
      return (await answer.text()) + (await txn.get("a"));
    });
  }
  async parallel() {
    const { storage } = this.ctx;
    return this.ctx.blockConcurrencyWhile(() => Promise.all([1, 2, 3].map((n) =>
      storage.transaction(async (txn) => {
        const before = (await txn.get("n")) ?? 0;
        await scheduler.wait(5);
        await txn.put("n", before + n);
        return before + n;
      }))));
  }
  async left() {
    await this.ctx.blockConcurrencyWhile(async () => {
      this.ctx.storage.transaction(async (txn) => { await scheduler.wait(20); await txn.put("left", 1); });
    });
    return "left";
  }
  async undone() {
    await this.ctx.storage.transaction(async (txn) => {
      await txn.put("undone", 1);
      await scheduler.wait(150);
      txn.rollback();
    });
    return "undone";
  }
  async fetch(request) {
    const { n } = await request.json();
    await this.ctx.storage.put("kept", n);
    return new Response(String(n));
  }
  async state() { return [this.log.join(" "), await this.ctx.storage.get("kept"), await this.ctx.storage.get("undone")]; }
}
export default { async fetch(request, env) {
  const stub = env.COUNTER.getByName("x");
  const { pathname } = new URL(request.url);
  if (pathname === "/put") return stub.fetch(request);
  return Response.json(await stub[pathname.slice(1)]());
} }
"#;

async fn answer(worker: &Running, path: &str) -> String {
    worker.get(path).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_may_wait_for_an_answer_from_outside() {
    let worker = start(CELLS).await;
    assert_eq!(answer(&worker, "/outside").await, r#""other1""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_inside_a_block_follow_each_other() {
    let worker = start(CELLS).await;
    assert_eq!(answer(&worker, "/parallel").await, "[1,3,6]");
    assert_eq!(answer(&worker, "/outside").await, r#""other1""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_section_left_behind_does_not_shut_the_gate() {
    let worker = start(CELLS).await;
    assert_eq!(answer(&worker, "/left").await, r#""left""#);
    assert_eq!(answer(&worker, "/left").await, r#""left""#);
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(
        answer(&worker, "/state").await,
        r#"["ready later",null,null]"#
    );
    assert_eq!(answer(&worker, "/parallel").await, "[1,3,6]");
}

/// The write of an event whose body arrives while another event's transaction is open belongs to
/// itself, not to the transaction, and survives its end.
#[tokio::test(flavor = "multi_thread")]
async fn an_acknowledged_write_is_no_part_of_another_events_transaction() {
    let worker = start(CELLS).await;
    assert_eq!(answer(&worker, "/state").await, r#"["ready",null,null]"#);
    let (sender, stream) = celld_runtime::exchange::body_channel(None);
    let put = worker.send("POST", "/put", Body::Stream(stream));
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    let undone = worker.send("GET", "/undone", Body::Empty);
    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    sender.send(Ok("{\"n\":7}".into())).await.unwrap();
    drop(sender);
    assert_eq!(read(put.await.unwrap()).await.unwrap(), "7");
    assert_eq!(read(undone.await.unwrap()).await.unwrap(), r#""undone""#);
    assert_eq!(answer(&worker, "/state").await, r#"["ready later",7,null]"#);
}
