//! The runtime with its API layer: one isolate host, real V8, no network.
#![allow(clippy::unwrap_used)]

mod support;

use celld_runtime::api::Limits;
use celld_runtime::exchange::Body;
use support::{code, read, start, try_start};

#[tokio::test(flavor = "multi_thread")]
async fn a_module_worker_answers() {
    let worker = start("export default { async fetch(request, env) { return new Response(env.GREETING + ' ' + new URL(request.url).pathname + ' ' + env.LIST.length); } }").await;
    assert_eq!(worker.get("/x").await.unwrap(), "hello /x 2");
    assert_eq!(worker.surface.handlers, ["fetch"]);
}

const COUNTER: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Counter extends DurableObject {
  constructor(ctx, env) { super(ctx, env); ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS n (v INTEGER)"); }
  async fetch(request) {
    if (request.method === "POST") this.ctx.storage.sql.exec("INSERT INTO n VALUES (1)");
    return new Response(String(this.ctx.storage.sql.exec("SELECT count(*) AS c FROM n").one().c));
  }
  add(a, b) { return a + b; }
  async kv() { await this.ctx.storage.put("k", { a: new Map([[1, 2]]) }); return (await this.ctx.storage.get("k")).a.get(1); }
  fail() { const e = new TypeError("no"); e.code = 7; throw e; }
}
export default { async fetch(request, env) {
  const stub = env.COUNTER.getByName("x");
  const { pathname } = new URL(request.url);
  if (pathname === "/rpc") return Response.json([await stub.add(1, 2), await stub.kv()]);
  if (pathname === "/fail") { try { await stub.fail(); } catch (e) { return Response.json([e instanceof TypeError, e.message, e.remote, e.code]); } }
  return stub.fetch(request);
} }
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_durable_object_counts_and_answers_calls() {
    let worker = start(COUNTER).await;
    assert_eq!(worker.get("/").await.unwrap(), "0");
    for expected in 1..=3 {
        let answer = worker.send("POST", "/", Body::Empty).await.unwrap();
        assert_eq!(read(answer).await.unwrap(), expected.to_string());
    }
    assert_eq!(worker.get("/rpc").await.unwrap(), "[3,2]");
    assert_eq!(worker.get("/fail").await.unwrap(), r#"[true,"no",true,7]"#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_waits_for_the_proof_of_what_it_reveals() {
    let worker = start(COUNTER).await;
    assert_eq!(worker.get("/").await.unwrap(), "0");
    *worker.world.held.lock() = Some(Vec::new());
    let mut answer = worker.send("POST", "/", Body::Empty);
    let early = tokio::time::timeout(std::time::Duration::from_millis(200), &mut answer).await;
    assert!(early.is_err(), "the answer left before its proof");
    let held = worker.world.held.lock().take().unwrap();
    assert!(!held.is_empty());
    for open in held {
        open(Ok(()));
    }
    assert_eq!(read(answer.await.unwrap()).await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_streams_both_ways() {
    let worker = start("export default { fetch(request) { return new Response(request.body.pipeThrough(new TransformStream({ transform(chunk, c) { c.enqueue(chunk); } }))); } }").await;
    let (sender, stream) = celld_runtime::exchange::body_channel(None);
    let answer = worker.send("POST", "/", Body::Stream(stream));
    let writer = tokio::spawn(async move {
        for _ in 0..100 {
            sender.send(Ok(vec![b'a'; 1000].into())).await.unwrap();
        }
    });
    assert_eq!(read(answer.await.unwrap()).await.unwrap().len(), 100_000);
    writer.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endless_loop_ends_alone() {
    let limits = Limits {
        cpu_max: std::time::Duration::from_millis(200),
        ..Limits::default()
    };
    let source = format!("{COUNTER}\nexport class Other extends DurableObject {{ fetch() {{ for (;;); }} }}")
        .replace("return stub.fetch(request);", "if (pathname === '/loop') for (;;); if (pathname === '/later') { await scheduler.wait(1); for (;;); } if (pathname === '/cell') return env.OTHER.getByName('o').fetch(request); return stub.fetch(request);");
    let worker = try_start(code(&source), limits).await.unwrap();
    for path in ["/loop", "/later"] {
        let error = worker.get(path).await.unwrap_err();
        assert_eq!(error.message, "Worker exceeded CPU time limit.", "{path}");
    }
    let error = worker.get("/cell").await.unwrap_err();
    assert!(
        error.message.contains("exceeded its CPU time limit"),
        "{error}"
    );
    assert_eq!(worker.get("/").await.unwrap(), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_heap_bomb_is_an_error_not_a_crash() {
    let limits = Limits {
        heap_max_bytes: 32 << 20,
        ..Limits::default()
    };
    let source = "export default { fetch() { const all = []; for (;;) all.push(new Array(1000).fill(Math.random())); } }";
    let worker = try_start(code(source), limits).await.unwrap();
    let error = worker.get("/").await.unwrap_err();
    assert!(error.message.contains("memory limit"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_does_not_load_says_why() {
    let error = try_start(
        code("export default { fetch() {} };\nthrow new Error('at start');"),
        Limits::default(),
    )
    .await
    .err()
    .unwrap();
    assert_eq!(error.message, "at start");
    assert!(error.stack.unwrap().contains("index.js:2:7"));
    let error = try_start(code("import './missing.js';"), Limits::default())
        .await
        .err()
        .unwrap();
    assert!(
        error.message.contains("No such module \"./missing.js\""),
        "{error}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_until_work_goes_on_and_has_an_end() {
    let limits = Limits {
        wait_until_max: std::time::Duration::from_millis(300),
        ..Limits::default()
    };
    let source = "let done = 0; export default { fetch(request, env, ctx) {
        const { pathname } = new URL(request.url);
        if (pathname === '/done') return new Response(String(done));
        if (pathname === '/short') ctx.waitUntil(scheduler.wait(20).then(() => done++));
        if (pathname === '/long') ctx.waitUntil(scheduler.wait(60_000));
        return new Response('at once');
    } }";
    let worker = try_start(code(source), limits).await.unwrap();
    assert_eq!(worker.get("/short").await.unwrap(), "at once");
    assert_eq!(worker.get("/long").await.unwrap(), "at once");
    tokio::time::sleep(std::time::Duration::from_millis(600)).await;
    assert_eq!(worker.get("/done").await.unwrap(), "1");
    let lines = worker.world.lines.lock();
    assert!(
        lines
            .iter()
            .any(|line| line.text.starts_with("waitUntil() tasks did not complete")),
        "{lines:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_streamed_answer_may_outlast_the_limit_of_wait_until() {
    let limits = Limits {
        wait_until_max: std::time::Duration::from_millis(100),
        ..Limits::default()
    };
    let source = "export default { fetch() {
        const { readable, writable } = new TransformStream();
        (async () => {
            const writer = writable.getWriter();
            for (let i = 0; i < 4; i++) { await writer.write(new TextEncoder().encode(i)); await scheduler.wait(100); }
            await writer.close();
        })();
        return new Response(readable);
    } }";
    let worker = try_start(code(source), limits).await.unwrap();
    assert_eq!(worker.get("/").await.unwrap(), "0123");
    assert!(worker.world.lines.lock().is_empty());
}
