//! Programs that misbehave: the offender gets a clear error, its neighbours go on, the process lives.

mod support;

use std::fs;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use support::http::{self, Answer, Connection};
use support::{Celld, Project};

const WRANGLER: &str = r#"{
  "name": "trouble",
  "main": "index.js",
  "compatibility_date": "2026-06-01",
  "limits": { "cpu_ms": 300 },
  "durable_objects": { "bindings": [{ "name": "CELL", "class_name": "Cell" }] },
  "migrations": [{ "tag": "v1", "new_sqlite_classes": ["Cell"] }]
}"#;

/// The same troubles in the Worker (`/worker/<trouble>`) and in a cell (`/<cell>/<trouble>`).
const CODE: &str = r#"
import { DurableObject } from "cloudflare:workers";

const dive = (n) => 1 + dive(n + 1);

const troubles = {
  ok: () => "fine",
  loop() {
    for (;;);
  },
  asyncLoop: async () => {
    for (;;) await null;
  },
  heap() {
    const all = [];
    for (;;) all.push(new Array(100_000).fill({}));
  },
  buffers() {
    const all = [];
    for (;;) all.push(new Uint8Array(10_000_000).fill(1));
  },
  text() {
    let text = "x".repeat(1_000_000);
    for (;;) text = [text + text, text].join("");
  },
  deep: () => String(dive(0)),
  regexp: () => String(/^(a+)+$/.test("a".repeat(60) + "b")),
  throws() {
    throw new RangeError("thrown on purpose");
  },
  rejects: () => Promise.reject(new Error("rejected on purpose")),
  async unhandled() {
    Promise.reject(new Error("nobody handles this"));
    await scheduler.wait(5);
    return "answered";
  },
  never: () => new Promise(() => {}),
  recursionInJson() {
    const circular = {};
    circular.self = circular;
    return JSON.stringify(circular);
  },
  deepJson: () => JSON.stringify(JSON.parse("[".repeat(100_000) + "]".repeat(100_000))),
  wasm: () => new WebAssembly.Memory({ initial: 65_536 }).buffer.byteLength.toString(),
};

export class Cell extends DurableObject {
  async fetch(request) {
    const { pathname } = new URL(request.url);
    const trouble = pathname.split("/")[2];
    if (trouble === "count") {
      const count = ((await this.ctx.storage.get("count")) ?? 0) + 1;
      await this.ctx.storage.put("count", count);
      return new Response(String(count));
    }
    if (trouble === "fill") {
      this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)");
      for (;;) this.ctx.storage.sql.exec("INSERT INTO t VALUES (1)");
    }
    if (trouble === "sql") {
      const endless = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT count(*) FROM c";
      return new Response(String(this.ctx.storage.sql.exec(endless).one()));
    }
    return new Response(await troubles[trouble]());
  }
}

export default {
  async fetch(request, env) {
    const [, where, trouble] = new URL(request.url).pathname.split("/");
    if (where === "ready") return new Response("ready");
    if (where === "body") return new Response(String((await request.arrayBuffer()).byteLength));
    if (where === "worker") return new Response(await troubles[trouble]());
    return env.CELL.getByName(where).fetch(request);
  },
};
"#;

fn start() -> (Project, Celld) {
    let project = Project::new(WRANGLER, CODE);
    let server = Celld::dev(&project);
    (project, server)
}

/// Sends `path` while a neighbour counts; the neighbour goes on and loses no count.
fn beside_a_neighbour(server: &Celld, path: &str) -> Answer {
    let stop = AtomicBool::new(false);
    let port = server.port();
    thread::scope(|scope| {
        let neighbour = scope.spawn(|| {
            let mut counts = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let answer = http::get(port, "/neighbour/count").expect("the neighbour answers");
                // A full heap takes along what shares the isolate: told so, it goes on afterwards.
                if answer.text().contains("memory limit") {
                    continue;
                }
                assert_eq!(answer.status, 200, "{}", answer.text());
                counts.push(answer.text().parse::<u64>().expect("a number"));
            }
            counts
        });
        let answer = server.get(path);
        stop.store(true, Ordering::Relaxed);
        let counts = neighbour.join().expect("the neighbour goes on");
        assert!(
            counts.windows(2).all(|pair| pair[1] > pair[0]),
            "{counts:?}"
        );
        answer
    })
}

fn is_a_server_error(answer: &Answer, path: &str) {
    assert!(
        (500..600).contains(&answer.status),
        "{path}: {} {}",
        answer.status,
        answer.text()
    );
}

/// The offender fails within `limit`, the process lives, and the same place serves again.
fn offends(server: &mut Celld, place: &str, trouble: &str, limit: Duration) {
    let path = format!("/{place}/{trouble}");
    let began = Instant::now();
    let answer = beside_a_neighbour(server, &path);
    is_a_server_error(&answer, &path);
    assert!(began.elapsed() < limit, "{path} took {:?}", began.elapsed());
    assert!(server.lives(), "{path}:\n{}", server.output());
    let again = server.get(&format!("/{place}/ok"));
    assert_eq!(
        (again.status, again.text().as_str()),
        (200, "fine"),
        "after {path}"
    );
}

const SOON: Duration = Duration::from_secs(10);
/// Filling a heap takes a while in a debug build.
const LATER: Duration = Duration::from_secs(60);

#[test]
fn an_endless_loop_is_stopped_and_named() {
    let (_project, mut server) = start();
    for trouble in ["loop", "asyncLoop"] {
        offends(&mut server, "worker", trouble, SOON);
        offends(&mut server, "offender", trouble, SOON);
    }
    server.prints("CPU");
}

#[test]
fn native_work_without_end_is_stopped() {
    let (_project, mut server) = start();
    offends(&mut server, "offender", "sql", SOON);
    offends(&mut server, "offender", "fill", SOON);
    offends(&mut server, "worker", "regexp", SOON);
}

#[test]
fn a_full_heap_resets_the_offender_only() {
    let (_project, mut server) = start();
    for trouble in ["heap", "buffers", "text"] {
        offends(&mut server, "worker", trouble, LATER);
        // An object each: one that does it again and again is kept out.
        offends(&mut server, &format!("offender-{trouble}"), trouble, LATER);
    }
    server.prints("memory");
    let rss = support::rss_bytes(server.pid());
    assert!(rss < 1 << 30, "{} MiB resident", rss >> 20);
}

#[test]
fn deep_recursion_is_an_exception() {
    let (_project, mut server) = start();
    for place in ["worker", "offender"] {
        for trouble in ["deep", "recursionInJson"] {
            offends(&mut server, place, trouble, SOON);
        }
        // Either a RangeError or the text itself is right; a crash is not.
        let answer = server.get(&format!("/{place}/deepJson"));
        assert!(matches!(answer.status, 200 | 500), "{}", answer.status);
    }
    assert!(server.lives());
    server.prints("Maximum call stack size exceeded");
}

#[test]
fn exceptions_and_rejections_are_shown_with_their_place() {
    let (_project, mut server) = start();
    for place in ["worker", "offender"] {
        offends(&mut server, place, "throws", SOON);
        offends(&mut server, place, "rejects", SOON);
        assert_eq!(
            server.get(&format!("/{place}/unhandled")).text(),
            "answered"
        );
    }
    server.prints("thrown on purpose");
    server.prints("rejected on purpose");
    server.prints("nobody handles this");
    server.prints("index.js:");
}

#[test]
fn a_request_that_can_never_end_is_ended() {
    let (_project, mut server) = start();
    offends(&mut server, "worker", "never", SOON);
}

#[test]
fn a_huge_body_is_refused_early() {
    let (_project, mut server) = start();
    let mut connection = Connection::open(server.port()).expect("connect");
    connection
        .head("POST", "/body", &format!("Content-Length: {}", 1_u64 << 30))
        .expect("send the head");
    // The server may answer before it has read anything, and stop reading.
    let chunk = vec![b'x'; 1 << 16];
    let sent = (0..1 << 14).take_while(|_| connection.raw().write_all(&chunk).is_ok());
    let sent_bytes = sent.count() << 16;
    if let Ok(answer) = connection.answer() {
        assert_eq!(answer.status, 413, "{}", answer.text());
        assert!(answer.text().contains("body"), "{}", answer.text());
    }
    assert!(sent_bytes < 1 << 30, "the whole body was read");
    check_memory_after_bodies(&mut server);
}

#[test]
fn an_endless_chunked_body_is_cut_off() {
    let (_project, mut server) = start();
    let mut connection = Connection::open(server.port()).expect("connect");
    connection
        .head("POST", "/body", "Transfer-Encoding: chunked")
        .expect("send the head");
    let mut chunk = b"10000\r\n".to_vec();
    chunk.resize(chunk.len() + 0x10000, b'x');
    chunk.extend(b"\r\n");
    let sent = (0..1 << 14).take_while(|_| connection.raw().write_all(&chunk).is_ok());
    assert!(sent.count() < 1 << 14, "a gigabyte was read");
    check_memory_after_bodies(&mut server);
}

fn check_memory_after_bodies(server: &mut Celld) {
    assert!(server.lives(), "{}", server.output());
    let small = server.post("/body", &[7; 100_000]);
    assert_eq!(small.text(), "100000");
    let rss = support::rss_bytes(server.pid());
    assert!(rss < 1 << 30, "{} MiB resident", rss >> 20);
}

#[test]
fn what_is_not_http_does_no_harm() {
    let (_project, mut server) = start();
    let requests: [&[u8]; 6] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n",
        b"GET / HTTP/1.1\r\nHost: \xff\xfe\r\n\r\n",
    ];
    for request in requests {
        let mut connection = Connection::open(server.port()).expect("connect");
        connection.raw().write_all(request).expect("send");
        connection
            .raw()
            .shutdown(std::net::Shutdown::Write)
            .expect("end of the request");
        if let Ok(answer) = connection.answer() {
            assert!(answer.status >= 400, "{request:?}: {}", answer.status);
        }
    }
    let mut connection = Connection::open(server.port()).expect("connect");
    let huge = format!("X-Huge: {}", "x".repeat(2 << 20));
    // It may stop reading before the end.
    let _ = connection.head("GET", "/ready", &huge);
    if let Ok(answer) = connection.answer() {
        assert!((400..500).contains(&answer.status), "{}", answer.status);
    }
    assert!(server.lives());
    assert_eq!(server.get("/ready").text(), "ready");
}

#[test]
fn clients_that_vanish_leave_nothing_behind() {
    let (_project, mut server) = start();
    let before = open_files(server.pid());
    for _ in 0..50 {
        let mut connection = Connection::open(server.port()).expect("connect");
        connection
            .head("GET", "/gone/count", "X-A: b")
            .expect("send");
        drop(connection);
        let mut half = Connection::open(server.port()).expect("connect");
        half.raw().write_all(b"POST /body HT").expect("send");
    }
    assert_eq!(server.get("/ready").text(), "ready");
    support::eventually("sockets of lost clients are closed", || {
        open_files(server.pid()) < before + 20
    });
    assert!(server.lives());
}

fn open_files(pid: u32) -> usize {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .expect("the process lives")
        .count()
}
