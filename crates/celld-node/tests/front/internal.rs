//! The internal listener: its token, its limits, its end.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use celld_node::front::{InternalFront, InternalHandler};
use http::{Request, Response};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{get, raw, soon};

struct Echo;

impl InternalHandler for Echo {
    fn handle(
        &self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Response<Bytes>> + Send + '_>> {
        Box::pin(async move {
            if request.uri().path() == "/slow" {
                tokio::time::sleep(Duration::from_millis(300)).await;
            }
            let seen = format!("{} {} bytes", request.uri().path(), request.body().len());
            Response::new(Bytes::from(seen))
        })
    }
}

async fn start(token: Option<&str>) -> InternalFront {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    InternalFront::start(listener, token.map(str::to_owned), Arc::new(Echo)).unwrap()
}

#[tokio::test]
async fn a_token_is_asked_for_but_not_by_health_checks() {
    let front = start(Some("0123456789abcdef")).await;
    let addr = front.local_addr();
    let without = get(addr, "/debug/metrics", "").await;
    assert!(
        without.starts_with("HTTP/1.1 401 ") && without.contains("www-authenticate: Bearer"),
        "{without}"
    );
    let wrong = get(addr, "/x", "Authorization: Bearer 0123456789abcdeF\r\n").await;
    assert!(wrong.starts_with("HTTP/1.1 401 "), "{wrong}");
    let with = get(addr, "/x", "Authorization: Bearer 0123456789abcdef\r\n").await;
    assert!(with.ends_with("/x 0 bytes"), "{with}");
    for path in ["/healthz", "/readyz"] {
        assert!(get(addr, path, "").await.starts_with("HTTP/1.1 200 "));
    }
    // Not by a path that only looks like one.
    for path in ["/healthz/../debug", "/HEALTHZ", "//healthz"] {
        assert!(
            get(addr, path, "").await.starts_with("HTTP/1.1 401 "),
            "{path}"
        );
    }
}

#[tokio::test]
async fn bodies_arrive_whole_and_are_bounded() {
    let front = start(None).await;
    let addr = front.local_addr();
    let request = |bytes: usize| {
        format!(
            "POST /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {bytes}\r\n\r\n{}",
            "x".repeat(bytes)
        )
    };
    let answer = raw(addr, request(100_000).as_bytes(), "").await;
    assert!(answer.ends_with("/x 100000 bytes"), "{answer}");
    let head = "POST /x HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999\r\n\r\n";
    let answer = raw(addr, head.as_bytes(), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn shutdown_finishes_what_is_in_progress() {
    let front = start(None).await;
    let addr = front.local_addr();
    let slow = tokio::spawn(async move { get(addr, "/slow", "").await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    let left = soon("shutdown", front.shutdown(Duration::from_secs(5))).await;
    assert_eq!(left, 0);
    assert!(slow.await.unwrap().ends_with("/slow 0 bytes"));
    assert!(TcpStream::connect(addr).await.is_err());
}
