//! What a hibernated socket costs: everything that this process allocates for it, outside of V8.
//! (The network connection in front of it is not part of it.)
#![allow(clippy::unwrap_used)]

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use celld_runtime::socket::SocketMessage;
use support::start;

struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it is; the counting has no part in it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Sockets that are measured.
const COUNT: usize = 4_000;
/// What one of them may cost, in bytes.
const MAX_BYTES: usize = 4_096;

const ROOM: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Counter extends DurableObject {
  fetch(request) {
    this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)");
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server, ["a tag", "another"]);
    server.serializeAttachment({ user: "somebody", since: 12345 });
    return new Response(null, { status: 101, webSocket: client });
  }
  webSocketMessage(socket, message) {
    socket.send(`${message} of ${this.ctx.getWebSockets().length}`);
  }
}
export default { fetch: (request, env) => env.COUNTER.getByName("x").fetch(request) };
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_hibernated_socket_costs_at_most_four_kilobytes() {
    let worker = start(ROOM).await;
    let mut ends = Vec::with_capacity(COUNT + 100);
    for _ in 0..100 {
        ends.push(worker.connect("/").await);
    }
    let cell = worker.world.commits.lock()[0].cell.clone();
    worker.evict(&cell).await;
    let before = LIVE.load(Ordering::Relaxed);
    for _ in 0..COUNT {
        ends.push(worker.connect("/").await);
    }
    worker.evict(&cell).await;
    let each = LIVE.load(Ordering::Relaxed).saturating_sub(before) / COUNT;
    println!("{each} bytes for each of {COUNT} hibernated sockets");
    assert!(each <= MAX_BYTES, "{each} bytes");
    // They are all still there.
    let last = ends.last_mut().unwrap();
    let hello = SocketMessage::Text("one".into());
    last.outgoing.send(hello).await.unwrap();
    let answer = last.incoming.recv().await;
    assert_eq!(
        answer,
        Some(SocketMessage::Text(format!("one of {}", COUNT + 100)))
    );
}
