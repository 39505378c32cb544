//! What becomes of the sockets that a cell keeps while it hibernates, and of forgotten ones.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::atomic::Ordering;
use std::time::Duration;

use celld_core::CellId;
use celld_runtime::api::{CellEvent, HostMessage, Limits};
use celld_runtime::exchange::{EventError, reply};
use celld_runtime::socket::{ABNORMAL, CloseFrame, SocketEnd, SocketMessage};
use support::{Running, code, start, try_start};

const ROOM: &str = r#"
import { DurableObject } from "cloudflare:workers";
let made = 0;
export class Counter extends DurableObject {
  log = [`instance ${++made} has ${this.ctx.getWebSockets().length}`];
  async fetch(request) {
    const { pathname } = new URL(request.url);
    if (pathname === "/abort") this.ctx.abort("gone");
    if (pathname === "/log") return Response.json(this.log);
    if (pathname === "/many") {
      try {
        for (let i = 0; i <= 32_768; i++) this.ctx.acceptWebSocket(new WebSocketPair()[1]);
      } catch (error) {
        return new Response(`${this.ctx.getWebSockets().length} ${error}`);
      }
    }
    if (pathname === "/hang") {
      await this.ctx.storage.setAlarm(1);
      return new Response("set");
    }
    if (pathname === "/write") {
      await this.ctx.storage.put("x", Date.now());
      return new Response("written");
    }
    this.ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS t (x)");
    const [client, server] = Object.values(new WebSocketPair());
    this.ctx.acceptWebSocket(server);
    this.ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    if (pathname === "/hasty") this.ctx.setHibernatableWebSocketEventTimeout(50);
    return new Response(null, { status: 101, webSocket: client });
  }
  async webSocketMessage(socket, message) {
    this.log.push(message);
    if (message === "slow") {
      await new Promise((resolve) => setTimeout(resolve, 500));
      this.log.push("slow is done");
    }
    if (message === "throw") throw new Error("by the handler");
    socket.send(`${this.log.length} ${message}`);
  }
  webSocketClose(socket, code) {
    this.log.push(`close ${code}`);
  }
  webSocketError(socket, error) {
    this.log.push(`${error}`);
  }
  async alarm() {
    await new Promise(() => {});
  }
}
export default {
  fetch(request, env) {
    const { pathname } = new URL(request.url);
    if (pathname === "/churn") {
      for (let i = 0; i < 40; i++) new Array(500_000).fill({});
      return new Response("churned");
    }
    if (pathname === "/forgotten" || pathname === "/dropped") {
      const [client, server] = Object.values(new WebSocketPair());
      if (pathname === "/forgotten") {
        server.accept();
        server.addEventListener("message", ({ data }) => server.send(`echo ${data}`));
      }
      return new Response(null, { status: 101, webSocket: client });
    }
    return env.COUNTER.getByName("x").fetch(request);
  },
};
"#;

fn text(text: &str) -> SocketMessage {
    SocketMessage::Text(text.into())
}

/// The next thing that a client sees.
async fn next(socket: &mut SocketEnd) -> Option<SocketMessage> {
    let waiting = tokio::time::timeout(Duration::from_secs(20), socket.incoming.recv());
    waiting.await.expect("something within 20 s")
}

fn cell_of(worker: &Running) -> CellId {
    worker.world.commits.lock()[0].cell.clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_let_go_keeps_its_sockets_and_wakes_for_them() {
    let worker = start(ROOM).await;
    let mut socket = worker.connect("/").await;
    let cell = cell_of(&worker);
    assert!(worker.evict(&cell).await.snapshot.is_some());
    assert!(socket.incoming.is_empty(), "the client saw something");
    for word in ["a", "b", "c"] {
        socket.outgoing.send(text(word)).await.unwrap();
    }
    for answer in ["2 a", "3 b", "4 c"] {
        assert_eq!(next(&mut socket).await, Some(text(answer)));
    }
    let close = SocketMessage::Close(Some(CloseFrame {
        code: 4001,
        reason: String::new(),
    }));
    socket.outgoing.send(close.clone()).await.unwrap();
    assert_eq!(next(&mut socket).await, Some(close));
    assert_eq!(
        worker.get("/log").await.unwrap(),
        r#"["instance 2 has 1","a","b","c","close 4001"]"#
    );
    assert!(worker.sockets_of(&cell).is_empty(), "it is forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cell_that_is_reset_loses_its_sockets() {
    let worker = start(ROOM).await;
    let mut socket = worker.connect("/").await;
    assert!(worker.get("/abort").await.is_err());
    let end = next(&mut socket).await;
    assert!(
        matches!(&end, Some(SocketMessage::Close(Some(close))) if close.code == ABNORMAL),
        "{end:?}"
    );
    assert!(worker.sockets_of(&cell_of(&worker)).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn auto_responses_wake_nobody_and_do_not_wait_for_proofs() {
    let worker = start(ROOM).await;
    let mut socket = worker.connect("/").await;
    let cell = cell_of(&worker);
    // A write whose proof is held back holds back what the handler says, and nothing else.
    *worker.world.held.lock() = Some(Vec::new());
    let written = worker.get("/write");
    let mut written = std::pin::pin!(written);
    let blocked = tokio::time::timeout(Duration::from_millis(200), &mut written).await;
    assert!(blocked.is_err(), "an answer passed the gate");
    socket.outgoing.send(text("ping")).await.unwrap();
    assert_eq!(next(&mut socket).await, Some(text("pong")));
    for open in worker.world.held.lock().take().unwrap() {
        open(Ok(()));
    }
    assert_eq!(written.await.unwrap(), "written");

    worker.evict(&cell).await;
    let events = worker.world.events.load(Ordering::SeqCst);
    for _ in 0..1_000 {
        socket.outgoing.send(text("ping")).await.unwrap();
        assert_eq!(next(&mut socket).await, Some(text("pong")));
    }
    assert_eq!(
        worker.world.events.load(Ordering::SeqCst),
        events,
        "a cell was woken"
    );
    assert_eq!(
        worker.get("/log").await.unwrap(),
        r#"["instance 2 has 1"]"#,
        "no handler heard of it"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn one_more_socket_than_an_object_may_have_is_refused() {
    let worker = start(ROOM).await;
    assert_eq!(
        worker.get("/many").await.unwrap(),
        "32768 Error: only 32768 websockets can be accepted on a single Durable Object instance"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handler_that_takes_longer_than_the_event_timeout_is_left_behind() {
    let worker = start(ROOM).await;
    let mut socket = worker.connect("/hasty").await;
    socket.outgoing.send(text("slow")).await.unwrap();
    socket.outgoing.send(text("next")).await.unwrap();
    assert_eq!(next(&mut socket).await, Some(text("3 next")));
    // The event ends by the timeout: else the cell could not be let go before the timer.
    tokio::time::sleep(Duration::from_millis(800)).await;
    assert_eq!(
        worker.get("/log").await.unwrap(),
        r#"["instance 1 has 0","slow","next"]"#
    );
    let messages = worker.world.lines.lock().len();
    assert_eq!(messages, 0, "{:?}", worker.world.lines.lock());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broken_protocol_is_told_to_web_socket_error() {
    let worker = start(ROOM).await;
    let socket = worker.connect("/").await;
    let failure = SocketMessage::Failure("Message is too large".into());
    socket.outgoing.send(failure).await.unwrap();
    let wanted = r#"["instance 1 has 0","Error: Message is too large"]"#;
    for _ in 0..500 {
        if worker.get("/log").await.unwrap() == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{}", worker.get("/log").await.unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_that_the_script_forgot_goes_on_and_one_that_nobody_took_ends() {
    let worker = start(ROOM).await;
    let mut forgotten = worker.connect("/forgotten").await;
    let mut dropped = worker.connect("/dropped").await;
    let mut collected = false;
    // Until the collector has been: it is asked by memory that is needed.
    for round in 0..200 {
        assert_eq!(worker.get("/churn").await.unwrap(), "churned");
        let said = format!("{round}");
        forgotten.outgoing.send(text(&said)).await.unwrap();
        let answer = next(&mut forgotten).await;
        assert_eq!(answer, Some(text(&format!("echo {said}"))));
        let end = tokio::time::timeout(Duration::from_millis(5), dropped.incoming.recv()).await;
        if let Ok(end) = end {
            assert_eq!(end, None);
            collected = true;
            break;
        }
    }
    assert!(collected, "an end that nobody can reach is kept for ever");
    let close = SocketMessage::Close(None);
    forgotten.outgoing.send(close.clone()).await.unwrap();
    assert_eq!(next(&mut forgotten).await, Some(close));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alarm_handler_that_never_ends_resets_its_object_and_counts() {
    let limits = Limits {
        alarm_max: Duration::from_millis(300),
        ..Limits::default()
    };
    let worker = try_start(code(ROOM), limits).await.unwrap();
    let mut socket = worker.connect("/").await;
    let cell = cell_of(&worker);
    assert_eq!(worker.get("/hang").await.unwrap(), "set");
    let (told, end) = reply();
    let event = CellEvent::Alarm {
        scheduled_ms: i64::MAX,
        retry_count: 0,
        reply: told,
    };
    let message = HostMessage::Cell(cell, event);
    assert!(worker.host.send(message).is_ok());
    let error: EventError = end.await.unwrap_err();
    assert!(
        error.message.contains("time limit of 0.3 seconds"),
        "{error}"
    );
    assert!(error.by_script && error.durable_object_reset, "{error:?}");
    assert!(matches!(
        next(&mut socket).await,
        Some(SocketMessage::Close(_))
    ));
    assert_eq!(worker.get("/log").await.unwrap(), r#"["instance 2 has 0"]"#);
}
