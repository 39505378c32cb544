//! A listener with a handler made of a closure, and clients that talk to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use celld_node::front::{Front, FrontConfig, Handler};
use celld_runtime::exchange::{Body, BodyError, EventError, HttpRequest, HttpResponse, Reply};
use http::{HeaderMap, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Nothing in these tests may take longer.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub struct Closure<F>(pub F);

impl<F: Fn(HttpRequest, Reply<HttpResponse>) + Send + Sync + 'static> Handler for Closure<F> {
    fn handle(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        (self.0)(request, reply);
    }
}

/// Starts a listener on a free port.
pub async fn front(
    config: FrontConfig,
    handler: impl Fn(HttpRequest, Reply<HttpResponse>) + Send + Sync + 'static,
) -> Front {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Front::start(listener, config, Arc::new(Closure(handler))).unwrap()
}

/// Starts a listener whose handler answers at once.
pub async fn answering(
    answer: impl Fn(HttpRequest) -> Result<HttpResponse, EventError> + Send + Sync + 'static,
) -> Front {
    front(FrontConfig::default(), move |request, reply| {
        reply.send(answer(request))
    })
    .await
}

pub fn ok(body: impl Into<Bytes>) -> HttpResponse {
    HttpResponse {
        status: StatusCode::OK,
        headers: HeaderMap::new(),
        body: Body::Bytes(body.into()),
        websocket: None,
        body_is_encoded: false,
        status_text: None,
        url: None,
    }
}

/// Sends raw bytes and reads until the server closes, or `until` appears.
pub async fn raw(addr: SocketAddr, request: &[u8], until: &str) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(request).await.unwrap();
    read_until(&mut stream, until).await
}

pub async fn read_until(stream: &mut TcpStream, until: &str) -> String {
    let mut got = Vec::new();
    let read = async {
        loop {
            let text = String::from_utf8_lossy(&got).into_owned();
            if !until.is_empty() && text.contains(until) {
                return text;
            }
            let mut chunk = [0; 4096];
            match stream.read(&mut chunk).await {
                Ok(0) | Err(_) => return text,
                Ok(n) => got.extend_from_slice(&chunk[..n]),
            }
        }
    };
    tokio::time::timeout(PATIENCE, read)
        .await
        .expect("no answer in time")
}

/// A GET over HTTP/1.1; the connection closes after it.
pub async fn get(addr: SocketAddr, path: &str, headers: &str) -> String {
    raw(
        addr,
        format!("GET {path} HTTP/1.1\r\nHost: test.example\r\nConnection: close\r\n{headers}\r\n")
            .as_bytes(),
        "",
    )
    .await
}

pub async fn h1(addr: SocketAddr) -> http1::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection.with_upgrades());
    sender
}

pub async fn h2(addr: SocketAddr) -> http2::SendRequest<Full<Bytes>> {
    let stream = TcpStream::connect(addr).await.unwrap();
    let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    sender
}

pub async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(
        response
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .to_vec(),
    )
    .unwrap()
}

/// Reads a request's body to its end.
pub async fn drain(body: Body) -> Result<Vec<u8>, BodyError> {
    match body {
        Body::Empty => Ok(Vec::new()),
        Body::Bytes(bytes) => Ok(bytes.to_vec()),
        Body::Stream(mut stream) => {
            let mut bytes = Vec::new();
            while let Some(chunk) = stream.chunks.recv().await {
                bytes.extend_from_slice(&chunk?);
            }
            Ok(bytes)
        }
    }
}

/// Waits for something that must happen soon.
pub async fn soon<T>(what: &str, work: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, work)
        .await
        .unwrap_or_else(|_| panic!("{what} did not happen in time"))
}

/// A TCP connection that has become a WebSocket.
pub async fn handshake(front: &Front) -> TcpStream {
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut stream, "\r\n\r\n").await;
    stream
}
