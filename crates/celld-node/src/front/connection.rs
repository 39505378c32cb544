//! One client connection: its HTTP state machine, its time limits, and its requests.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use celld_runtime::exchange::{Body, reply};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;

use super::admit::{Admitted, Refusal, admit};
use super::answer::{self, Asked, Wants};
use super::body::WireBody;
use super::bridge::BridgeConfig;
use super::edge::Visitor;
use super::target::OriginCache;
use super::{Phase, Shared, intake};

/// How long an idle connection that has to go may take to say goodbye.
const GOODBYE: Duration = Duration::from_secs(2);
/// How long a WebSocket's peer may take to answer our close frame.
const CLOSE_WAIT: Duration = Duration::from_secs(10);
/// A connection without traffic is probed, so that a vanished client is noticed.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);
/// Streams that one HTTP/2 connection may have open.
const HTTP2_STREAMS_MAX: u32 = 250;

/// What the requests of one connection share.
pub(super) struct Connection {
    shared: Arc<Shared>,
    visitor: Visitor,
    origins: Mutex<OriginCache>,
    clock: Clock,
    _permit: OwnedSemaphorePermit,
}

/// Times of a connection, in ms since it began.
struct Clock {
    began: Instant,
    open_requests: AtomicU32,
    /// When the connection last fell idle.
    idle_since: AtomicU64,
    /// When the first byte of an unfinished request head arrived; 0 for none.
    head_since: AtomicU64,
    /// HTTP/2 frames may arrive between requests, so bytes do not mean a head there.
    http2: AtomicBool,
}

impl Clock {
    fn now(&self) -> u64 {
        self.began.elapsed().as_millis() as u64
    }

    fn bytes_arrived(&self) {
        if self.open_requests.load(Ordering::Relaxed) == 0
            && self.head_since.load(Ordering::Relaxed) == 0
            && !self.http2.load(Ordering::Relaxed)
        {
            self.head_since.store(self.now().max(1), Ordering::Relaxed);
        }
    }

    /// `Err` when the connection has to go; else how long to wait before asking again.
    fn check(&self, header_timeout: Duration, idle_timeout: Duration) -> Result<Duration, Overdue> {
        if self.open_requests.load(Ordering::Relaxed) > 0 {
            return Ok(header_timeout);
        }
        let since = |start: u64| Duration::from_millis(self.now().saturating_sub(start));
        let head_since = self.head_since.load(Ordering::Relaxed);
        if head_since != 0 {
            return match header_timeout.checked_sub(since(head_since)) {
                None | Some(Duration::ZERO) => Err(Overdue::Head),
                Some(left) => Ok(left),
            };
        }
        match idle_timeout.checked_sub(since(self.idle_since.load(Ordering::Relaxed))) {
            None | Some(Duration::ZERO) => Err(Overdue::Idle),
            // A head may begin right after this look; it must not get much more than its time.
            Some(left) => Ok(left.min(header_timeout)),
        }
    }
}

/// Why a connection has to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overdue {
    /// The head of a request took too long. Its sender gets no answer to keep it going.
    Head,
    /// Nothing was asked for a while.
    Idle,
}

/// Counts a request as open until dropped.
pub(crate) struct OpenRequest(Arc<Connection>);

impl OpenRequest {
    fn new(connection: Arc<Connection>, version: Version) -> Self {
        let clock = &connection.clock;
        clock.open_requests.fetch_add(1, Ordering::Relaxed);
        clock.head_since.store(0, Ordering::Relaxed);
        if version == Version::HTTP_2 {
            clock.http2.store(true, Ordering::Relaxed);
        }
        Self(connection)
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let clock = &self.0.clock;
        clock.idle_since.store(clock.now(), Ordering::Relaxed);
        clock.open_requests.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The socket, which notes when bytes arrive.
struct Watched {
    stream: TcpStream,
    connection: Arc<Connection>,
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.connection.clock.bytes_arrived();
        }
        polled
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Options that every accepted socket gets. A socket that refuses them still works.
pub(super) fn prepare(stream: &TcpStream) {
    let _ = stream.set_nodelay(true);
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(TCP_KEEPALIVE)
        .with_interval(TCP_KEEPALIVE / 4);
    let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
}

/// Serves one connection to its end.
pub(super) async fn serve(
    shared: Arc<Shared>,
    stream: TcpStream,
    peer: SocketAddr,
    permit: OwnedSemaphorePermit,
) {
    prepare(&stream);
    let builder = protocols(&shared);
    let mut phase = shared.phase.clone();
    let (header_timeout, idle_timeout) = (shared.config.header_timeout, shared.config.idle_timeout);
    let connection = Arc::new(Connection {
        shared,
        visitor: Visitor::new(peer.ip()),
        origins: Mutex::default(),
        clock: Clock {
            began: Instant::now(),
            open_requests: AtomicU32::new(0),
            idle_since: AtomicU64::new(0),
            head_since: AtomicU64::new(0),
            http2: AtomicBool::new(false),
        },
        _permit: permit,
    });
    let io = TokioIo::new(Watched {
        stream,
        connection: connection.clone(),
    });
    let service = service_fn(|request| request_on(connection.clone(), request));
    let mut http = pin!(builder.serve_connection_with_upgrades(io, service));
    let mut timer = pin!(tokio::time::sleep(header_timeout));
    let mut draining = false;
    loop {
        tokio::select! {
            biased;
            ended = http.as_mut() => {
                if let Err(error) = ended {
                    tracing::debug!(%peer, %error, "connection ended");
                }
                return;
            }
            () = timer.as_mut() => match connection.clock.check(header_timeout, idle_timeout) {
                Ok(again) => timer.as_mut().reset(tokio::time::Instant::now() + again),
                Err(why) => {
                    tracing::debug!(%peer, ?why, "closing connection");
                    if why == Overdue::Idle {
                        http.as_mut().graceful_shutdown();
                        let _ = tokio::time::timeout(GOODBYE, http).await;
                    }
                    return;
                }
            },
            () = next_phase(&mut phase, draining) => {
                if *phase.borrow() != Phase::Draining || phase.has_changed().is_err() {
                    return;
                }
                draining = true;
                http.as_mut().graceful_shutdown();
            }
        }
    }
}

/// Completes when the connection should begin to drain, or is to be cut. A dropped listener cuts.
async fn next_phase(phase: &mut tokio::sync::watch::Receiver<Phase>, draining: bool) {
    let _ = phase
        .wait_for(|phase| *phase == Phase::Cut || (*phase == Phase::Draining && !draining))
        .await;
}

fn protocols(shared: &Shared) -> auto::Builder<TokioExecutor> {
    let config = &shared.config;
    let head_max = config.headers_max_bytes + config.url_max_bytes;
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        // Heads are timed by `Clock`, which costs no timer per request.
        .header_read_timeout(None)
        // Room for the separators; what remains is measured exactly by `admit`.
        .max_buf_size((head_max + head_max / 4).max(64 << 10));
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(Duration::from_secs(30))
        .keep_alive_timeout(Duration::from_secs(20))
        .max_concurrent_streams(HTTP2_STREAMS_MAX)
        .initial_stream_window_size(256 << 10)
        .initial_connection_window_size(1 << 20)
        .max_send_buf_size(256 << 10)
        // h2 counts 32 bytes for each field beside its text.
        .max_header_list_size(u32::try_from(head_max * 2).unwrap_or(u32::MAX))
        .enable_connect_protocol();
    builder
}

/// Answers one request. Never fails: what goes wrong becomes an answer.
async fn request_on(
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Result<Response<WireBody>, Infallible> {
    let shared = &connection.shared;
    let open = OpenRequest::new(connection.clone(), request.version());
    let (parts, incoming) = request.into_parts();
    let head_only = parts.method == Method::HEAD;
    if let Some(response) = platform_path(&parts.uri) {
        return Ok(response.map(|body| body.holding(open)));
    }
    let empty = http_body::Body::is_end_stream(&incoming);
    let admitted = {
        let mut origins = connection.origins.lock();
        admit(
            parts,
            &mut origins,
            &connection.visitor,
            &shared.edge,
            &shared.config,
        )
    };
    let response = match admitted {
        Ok(admitted) => {
            let asked = Asked {
                head_only,
                accept_encoding: admitted.accept_encoding.clone(),
                wants: Wants::of(&admitted.request.headers),
                ray: admitted.ray.clone(),
                errors: shared.config.errors,
            };
            exchange(&connection, admitted, incoming, empty, asked).await
        }
        Err(refusal) => refused(refusal),
    };
    Ok(response.map(|body| body.holding(open)))
}

async fn exchange(
    connection: &Arc<Connection>,
    admitted: Admitted,
    incoming: Incoming,
    empty: bool,
    asked: Asked,
) -> Response<WireBody> {
    let shared = &connection.shared;
    let Admitted {
        mut request,
        length,
        upgrade,
        ..
    } = admitted;
    if !empty {
        request.body = match intake::receive(incoming, length, shared.config.body_max_bytes).await {
            Ok(body) => body,
            Err(_) => {
                return refused(Refusal::new(
                    StatusCode::BAD_REQUEST,
                    "The request body ended early.",
                ));
            }
        };
    } else if length == Some(0) && request.method != Method::GET && request.method != Method::HEAD {
        request.body = Body::Bytes(bytes::Bytes::new());
    }
    let log = AccessLog::start(&request);
    let (reply, answer) = reply();
    shared.handler.handle(request, reply);
    let mut outcome = answer.await;
    if let (Some(upgrade), Ok(answer)) = (upgrade, &mut outcome)
        && let Some(end) = answer.websocket.take()
    {
        log.finish(StatusCode::SWITCHING_PROTOCOLS);
        let config = BridgeConfig {
            message_max_bytes: shared.config.socket_message_max_bytes,
            close_wait: CLOSE_WAIT,
            phase: Some(shared.phase.clone()),
        };
        return upgrade.accept(
            end,
            std::mem::take(&mut answer.headers),
            config,
            connection.clone(),
        );
    }
    let response = match outcome {
        Ok(answer) => answer::response(answer, &asked),
        Err(error) => answer::failure(&error, &asked),
    };
    log.finish(response.status());
    response
}

/// One line per request, when somebody listens for it.
struct AccessLog(Option<(Method, String, Instant)>);

impl AccessLog {
    fn start(request: &celld_runtime::exchange::HttpRequest) -> Self {
        Self(
            tracing::enabled!(target: "celld::access", tracing::Level::INFO)
                .then(|| (request.method.clone(), request.url.clone(), Instant::now())),
        )
    }

    fn finish(self, status: StatusCode) {
        if let Some((method, url, began)) = self.0 {
            let ms = began.elapsed().as_secs_f64() * 1000.0;
            let status = status.as_u16();
            tracing::info!(target: "celld::access", %method, url, status, ms, "request");
        }
    }
}

/// Paths below `/.well-known/celld/` are the platform's own.
fn platform_path(uri: &http::Uri) -> Option<Response<WireBody>> {
    let name = uri.path().strip_prefix("/.well-known/celld/")?;
    let (status, text) = match name {
        "health" => (StatusCode::OK, "ok\n"),
        _ => (
            StatusCode::NOT_FOUND,
            "There is nothing here. /.well-known/celld/health tells whether the node serves.\n",
        ),
    };
    Some(answer::plain(status, text))
}

fn refused(refusal: Refusal) -> Response<WireBody> {
    let mut response = answer::plain(refusal.status, refusal.message);
    if let Some((name, value)) = refusal.header {
        response.headers_mut().insert(name, value);
    }
    response
}
