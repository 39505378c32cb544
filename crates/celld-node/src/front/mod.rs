//! The public listener: HTTP/1.1, HTTP/2 with prior knowledge, and WebSockets on plain TCP.
//!
//! Each connection is one task on the shared tokio runtime. A plain request runs inside that
//! task; only streamed bodies and WebSockets get tasks of their own. What a request becomes is
//! decided by a [`Handler`]; this module knows nothing of Workers.

mod admit;
mod answer;
pub(crate) mod body;
pub(crate) mod bridge;
pub(crate) mod coding;
mod connection;
mod edge;
mod error_page;
pub(crate) mod hop;
pub(crate) mod intake;
mod internal;
mod masked;
mod target;
mod upgrade;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use celld_runtime::exchange::{HttpRequest, HttpResponse, Reply};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

pub use internal::{InternalFront, InternalHandler, TokenError, read_token};

/// Takes the requests of a listener.
pub trait Handler: Send + Sync + 'static {
    /// Answers one request. Must not block: it runs on the connection's task.
    ///
    /// When the client goes away first, `reply` is abandoned and a streamed request body ends
    /// with [`BodyError::Disconnected`](celld_runtime::exchange::BodyError::Disconnected).
    fn handle(&self, request: HttpRequest, reply: Reply<HttpResponse>);
}

/// How much of a failure a client is told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorDetail {
    /// Message and stack: for development.
    Full,
    /// A ray id only; the rest is in the log.
    #[default]
    Hidden,
}

/// Settings of the public listener.
#[derive(Clone, Debug)]
pub struct FrontConfig {
    /// Longest URL, in bytes (default 16 KiB). Longer ones get 414.
    pub url_max_bytes: usize,
    /// Largest sum of request header names and values, in bytes (default 128 KiB). More gets 431.
    pub headers_max_bytes: usize,
    /// Largest request body, in bytes (default 100 MiB). More gets 413, or fails the stream.
    pub body_max_bytes: u64,
    /// Largest WebSocket message, in bytes (default 32 MiB). More closes the socket with 1009.
    pub socket_message_max_bytes: usize,
    /// Connections served at once (default 10,000). Further ones wait in the kernel's backlog.
    pub connections_max: usize,
    /// Time for a request's head to arrive (default 15 s).
    pub header_timeout: Duration,
    /// Time that an idle connection is kept (default 75 s).
    pub idle_timeout: Duration,
    /// How much of a failure a client is told.
    pub errors: ErrorDetail,
    /// Believe `X-Forwarded-Proto` and the last address of `X-Forwarded-For` (default false).
    /// Only for a listener that nothing but a trusted proxy can reach.
    pub trust_proxy: bool,
    /// Three letters that name this place in `cf-ray` and `request.cf.colo` (default `LOC`).
    pub colo: String,
}

impl Default for FrontConfig {
    fn default() -> Self {
        Self {
            url_max_bytes: 16 << 10,
            headers_max_bytes: 128 << 10,
            body_max_bytes: 100 << 20,
            socket_message_max_bytes: 32 << 20,
            connections_max: 10_000,
            header_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(75),
            errors: ErrorDetail::Hidden,
            trust_proxy: false,
            colo: "LOC".into(),
        }
    }
}

/// What a listener is doing, told to all of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Requests are welcome.
    Serving,
    /// Requests in progress are finished; connections close as they fall idle.
    Draining,
    /// Everything ends at once.
    Cut,
}

/// What all connections of a listener share.
pub(crate) struct Shared {
    pub(crate) config: FrontConfig,
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) edge: edge::Edge,
    pub(crate) phase: watch::Receiver<Phase>,
}

/// A running public listener. Dropping it cuts every connection.
pub struct Front {
    local_addr: SocketAddr,
    phase: watch::Sender<Phase>,
    gate: Gate,
}

impl Front {
    /// Serves `listener` on the current tokio runtime until [`Front::shutdown`].
    ///
    /// # Errors
    /// The listener's address cannot be read.
    pub fn start(
        listener: TcpListener,
        config: FrontConfig,
        handler: Arc<dyn Handler>,
    ) -> std::io::Result<Self> {
        let local_addr = listener.local_addr()?;
        let (phase, watcher) = watch::channel(Phase::Serving);
        let gate = Gate::new(config.connections_max);
        let shared = Arc::new(Shared {
            edge: edge::Edge::new(&config.colo),
            config,
            handler,
            phase: watcher.clone(),
        });
        tokio::spawn(accept(
            listener,
            gate.clone(),
            watcher,
            move |stream, peer, permit| {
                tokio::spawn(connection::serve(shared.clone(), stream, peer, permit));
            },
        ));
        Ok(Self {
            local_addr,
            phase,
            gate,
        })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.gate.open()
    }

    /// Stops accepting, lets requests in progress finish within `budget`, and then cuts what is
    /// left. WebSockets are told 1001 at once. Returns how many connections had to be cut.
    pub async fn shutdown(self, budget: Duration) -> usize {
        self.phase.send_replace(Phase::Draining);
        let left = self.gate.wait_until_empty(budget).await;
        self.phase.send_replace(Phase::Cut);
        left
    }
}

/// Counts connections and bounds them.
#[derive(Clone)]
pub(crate) struct Gate {
    permits: Arc<Semaphore>,
    max: u32,
}

impl Gate {
    pub(crate) fn new(max: usize) -> Self {
        let max = u32::try_from(max).unwrap_or(u32::MAX).clamp(1, 1 << 28);
        Self {
            permits: Arc::new(Semaphore::new(max as usize)),
            max,
        }
    }

    fn open(&self) -> usize {
        self.max as usize - self.permits.available_permits()
    }

    /// Returns how many connections are still open when the budget is spent.
    pub(crate) async fn wait_until_empty(&self, budget: Duration) -> usize {
        match tokio::time::timeout(budget, self.permits.acquire_many(self.max)).await {
            Ok(_) => 0,
            Err(_) => self.open(),
        }
    }
}

/// Accepts connections until the listener drains. A connection over the limit waits in the
/// kernel's backlog, which tells clients more than a refused one would.
pub(crate) async fn accept(
    listener: TcpListener,
    gate: Gate,
    mut phase: watch::Receiver<Phase>,
    mut serve: impl FnMut(tokio::net::TcpStream, SocketAddr, OwnedSemaphorePermit),
) {
    loop {
        let next = async {
            drop(gate.permits.acquire().await);
            listener.accept().await
        };
        let accepted = tokio::select! {
            biased;
            _ = phase.wait_for(|phase| *phase != Phase::Serving) => return,
            next = next => next,
        };
        match accepted {
            // Only this loop takes permits, so the one that was seen is still there.
            Ok((stream, peer)) => match gate.permits.clone().try_acquire_owned() {
                Ok(permit) => serve(stream, peer, permit),
                Err(_) => return,
            },
            Err(error) if connection_failed(&error) => {}
            Err(error) => {
                // Out of file descriptors or memory: trying again at once would only spin.
                tracing::warn!(%error, "cannot accept connections; trying again");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

/// Errors of the one connection that was being accepted, not of the listener.
fn connection_failed(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}
