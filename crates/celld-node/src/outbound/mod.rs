//! Requests that scripts send out into the world: `fetch` and WebSockets.
//!
//! Requests run on the shared tokio runtime over pooled HTTP/1.1 and HTTP/2 connections. Each
//! address is put to an [`OutboundPolicy`] after the name was resolved and before a byte is
//! sent, redirects included. When the caller drops its answer, the request is aborted.

mod connect;
mod error;
mod exchange;
mod policy;
mod redirect;
mod request;
mod socket;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use celld_runtime::exchange::{EventError, HttpRequest, HttpResponse, Reply};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioTimer};

use crate::front::body::WireBody;
use connect::Connector;
pub use policy::{AllowAll, OutboundPolicy, PublicOnly};

/// Idle connections that are kept for each host.
const POOL_PER_HOST: usize = 64;

/// Settings of outgoing requests.
#[derive(Clone)]
pub struct OutboundConfig {
    /// Which addresses may be reached.
    pub policy: Arc<dyn OutboundPolicy>,
    /// Time for name resolution, TCP and TLS together (default 10 s).
    pub connect_timeout: Duration,
    /// How long an idle connection is kept for the next request (default 60 s).
    pub pool_idle_timeout: Duration,
    /// Largest sum of header names and values of a request, in bytes (default 128 KiB).
    pub headers_max_bytes: usize,
    /// Largest WebSocket message, in bytes (default 32 MiB).
    pub socket_message_max_bytes: usize,
    /// PEM file of certificate authorities that are trusted beside the built-in ones.
    pub extra_ca_file: Option<PathBuf>,
}

impl Default for OutboundConfig {
    fn default() -> Self {
        Self {
            policy: Arc::new(AllowAll),
            connect_timeout: Duration::from_secs(10),
            pool_idle_timeout: Duration::from_secs(60),
            headers_max_bytes: 128 << 10,
            socket_message_max_bytes: 32 << 20,
            extra_ca_file: None,
        }
    }
}

/// Outgoing requests cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    /// The file of extra certificate authorities is not usable.
    #[error("cannot use the CA file {}: {reason}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The TLS library refuses its own defaults.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
}

/// Sends requests. Cheap to clone; clones share their connections.
#[derive(Clone)]
pub struct Outbound(Arc<Inner>);

struct Inner {
    tokio: tokio::runtime::Handle,
    config: OutboundConfig,
    /// HTTP/1.1 and HTTP/2, as the server likes.
    client: Client<Connector, WireBody>,
    /// HTTP/1.1 only: WebSocket handshakes.
    upgrading: Client<Connector, WireBody>,
}

impl Outbound {
    /// Prepares connections; nothing is opened yet. `tokio` carries all I/O.
    ///
    /// # Errors
    /// The extra certificate authorities cannot be read.
    pub fn new(
        config: OutboundConfig,
        tokio: tokio::runtime::Handle,
    ) -> Result<Self, OutboundError> {
        let (both, http1) = connect::connectors(&config)?;
        Ok(Self(Arc::new(Inner {
            client: client(&config, both),
            upgrading: client(&config, http1),
            config,
            tokio,
        })))
    }

    /// Sends a request; the answer arrives as soon as its head is here. Never blocks.
    pub fn fetch(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        let inner = self.0.clone();
        self.0
            .tokio
            .spawn(async move { inner.run(request, reply).await });
    }
}

impl Inner {
    async fn run(&self, request: HttpRequest, mut reply: Reply<HttpResponse>) {
        let outcome: Result<HttpResponse, EventError> = tokio::select! {
            biased;
            // Dropping the exchange closes its connection or resets its stream.
            () = reply.abandoned() => return,
            outcome = async {
                if request.websocket { self.open_socket(request).await } else { self.exchange(request).await }
            } => outcome,
        };
        reply.send(outcome);
    }
}

fn client(config: &OutboundConfig, connector: Connector) -> Client<Connector, WireBody> {
    Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(config.pool_idle_timeout)
        .pool_max_idle_per_host(POOL_PER_HOST)
        .http2_max_header_list_size(u32::try_from(config.headers_max_bytes).unwrap_or(u32::MAX))
        .http2_initial_stream_window_size(256 << 10)
        .http2_initial_connection_window_size(1 << 20)
        .build(connector)
}
