//! What becomes of the sockets that a cell keeps while it hibernates.
#![allow(clippy::unwrap_used)]

mod support;

use std::time::Duration;

use celld_core::CellId;
use celld_runtime::api::HostMessage;
use celld_runtime::exchange::{Body, EventError, reply};
use celld_runtime::socket::{ABNORMAL, SocketEnd, SocketMessage};
use support::{Running, start};

const ROOM: &str = r#"
import { DurableObject } from "cloudflare:workers";
export class Counter extends DurableObject {
  async fetch(request) {
    if (new URL(request.url).pathname === "/abort") this.ctx.abort("gone");
    this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)");
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    return new Response(null, { status: 101, webSocket: client });
  }
}
export default { fetch: (request, env) => env.COUNTER.getByName("x").fetch(request) };
"#;

async fn connect(worker: &Running) -> SocketEnd {
    let answer = worker.send("GET", "/", Body::Empty).await.unwrap();
    answer.websocket.unwrap()
}

async fn evict(worker: &Running, cell: CellId) {
    let (reply, remains) = reply();
    let message = HostMessage::Evict {
        cell,
        // As a node says it to events that do not end in time.
        reason: EventError::reset("The Durable Object was moved."),
        grace: Duration::from_secs(1),
        reply,
    };
    assert!(worker.host.send(message).is_ok());
    assert!(remains.await.unwrap().snapshot.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_let_go_keeps_its_sockets() {
    let worker = start(ROOM).await;
    let mut socket = connect(&worker).await;
    let cell = worker.world.commits.lock()[0].cell.clone();
    evict(&worker, cell).await;
    let silence = tokio::time::timeout(Duration::from_millis(200), socket.incoming.recv()).await;
    assert!(silence.is_err(), "the client saw {silence:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_reset_loses_its_sockets() {
    let worker = start(ROOM).await;
    let mut socket = connect(&worker).await;
    assert!(worker.get("/abort").await.is_err());
    let end = socket.incoming.recv().await;
    assert!(
        matches!(&end, Some(SocketMessage::Close(Some(close))) if close.code == ABNORMAL),
        "{end:?}"
    );
}
