//! What crosses an isolate's boundary: requests, answers, bodies, errors.
//!
//! The same forms serve the public listener, calls between Workers and cells, and outgoing
//! fetches, so that a message can later come from another node without the isolate noticing.

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode};
use tokio::sync::{mpsc, oneshot};

use crate::socket::SocketEnd;

/// How many chunks a body channel holds before the sender waits.
pub const BODY_CHANNEL_CHUNKS: usize = 8;
/// Largest chunk that a sender should put into a body channel, in bytes.
pub const BODY_CHUNK_MAX_BYTES: usize = 64 * 1024;

/// A request's or an answer's payload.
#[derive(Debug, Default)]
pub enum Body {
    /// No body at all (`request.body === null`).
    #[default]
    Empty,
    /// A body that is here as a whole.
    Bytes(Bytes),
    /// A body that arrives in pieces.
    Stream(BodyStream),
}

/// Why a body ended before its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The other side went away.
    #[error("Network connection lost.")]
    Disconnected,
    /// The body is larger than the configured limit.
    #[error("body is larger than the limit of {limit_bytes} bytes")]
    TooLarge {
        /// The limit.
        limit_bytes: u64,
    },
    /// The producer failed; the text is the producer's.
    #[error("{0}")]
    Failed(String),
}

/// Reading end of a streamed body. Dropping it cancels the sender.
#[derive(Debug)]
pub struct BodyStream {
    /// Chunks; the channel's end is the body's end.
    pub chunks: mpsc::Receiver<Result<Bytes, BodyError>>,
    /// Length in bytes, when the sender declared it.
    pub length: Option<u64>,
}

/// Writing end of a streamed body. Dropping it ends the body; send an `Err` to fail it.
pub type BodySender = mpsc::Sender<Result<Bytes, BodyError>>;

/// Makes a bounded body channel.
pub fn body_channel(length: Option<u64>) -> (BodySender, BodyStream) {
    let (sender, chunks) = mpsc::channel(BODY_CHANNEL_CHUNKS);
    (sender, BodyStream { chunks, length })
}

/// A request as it reaches an isolate, or leaves one.
#[derive(Debug)]
pub struct HttpRequest {
    /// Method, as sent.
    pub method: Method,
    /// Absolute URL.
    pub url: String,
    /// Headers; names are lower case.
    pub headers: HeaderMap,
    /// Payload.
    pub body: Body,
    /// `request.cf` as JSON text, when there is one.
    pub cf: Option<String>,
    /// True when the sender asks for a WebSocket (`Upgrade: websocket`, or RFC 8441's extended CONNECT).
    pub websocket: bool,
    /// For outgoing requests: follow redirects?
    pub redirect: Redirect,
}

/// What an outgoing fetch does about redirects. (Workers have no `error` mode.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Redirect {
    /// Follow, at most 20 times.
    #[default]
    Follow,
    /// Hand the 3xx answer to the caller.
    Manual,
}

/// An answer.
#[derive(Debug)]
pub struct HttpResponse {
    /// Status; 101 exactly when `websocket` is present.
    pub status: StatusCode,
    /// Reason phrase, when it is not the status's usual one.
    pub status_text: Option<String>,
    /// Headers.
    pub headers: HeaderMap,
    /// Payload.
    pub body: Body,
    /// The server's end of a WebSocket that the receiver now owns.
    pub websocket: Option<SocketEnd>,
    /// The body is already encoded as `content-encoding` says (`encodeBody: "manual"`).
    pub body_is_encoded: bool,
    /// The final URL, when redirects were followed.
    pub url: Option<String>,
}

/// Why an event failed, in the terms that Workers scripts test for.
#[derive(Clone, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {message}")]
pub struct EventError {
    /// The class of the error: `Error`, `TypeError`, …
    pub name: String,
    /// The message.
    pub message: String,
    /// The thrower's stack, mapped to its sources. For logs; it never reaches a remote caller.
    pub stack: Option<String>,
    /// The thrown value, serialized by V8, when it could be.
    pub value: Option<Bytes>,
    /// Infrastructure failure after which a fresh stub may succeed.
    pub retryable: bool,
    /// The cell has more work than it takes.
    pub overloaded: bool,
    /// The object was reset while the event ran.
    pub durable_object_reset: bool,
    /// The stub that carried the call is of no further use.
    pub breaks_stub: bool,
    /// A limit that the event broke, if that is why it failed.
    pub limit: Option<Limit>,
    /// The script is to blame: it threw this, or had its object reset.
    pub by_script: bool,
}

/// A limit that ended an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// CPU time of one event.
    Cpu,
    /// Heap of one isolate.
    Memory,
    /// Requests waiting for one cell or one Worker.
    Concurrency,
    /// Body size.
    Body,
}

impl EventError {
    /// A plain error of class `Error`.
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            name: "Error".into(),
            message: message.into(),
            ..Self::default()
        }
    }

    /// The receiver vanished: "Network connection lost.", retryable, and the stub is broken.
    pub fn disconnected() -> Self {
        Self {
            retryable: true,
            breaks_stub: true,
            ..Self::new("Network connection lost.")
        }
    }

    /// Too much work is waiting. `message` starts with "Durable Object is overloaded." for cells.
    pub fn overloaded(message: impl Into<String>) -> Self {
        Self {
            overloaded: true,
            limit: Some(Limit::Concurrency),
            ..Self::new(message)
        }
    }

    /// The object was reset.
    pub fn reset(message: impl Into<String>) -> Self {
        Self {
            durable_object_reset: true,
            breaks_stub: true,
            ..Self::new(message)
        }
    }
}

/// Where an answer goes. Dropping it without an answer makes the waiting side see a disconnect.
#[derive(Debug)]
pub struct Reply<T>(oneshot::Sender<Result<T, EventError>>);

/// The waiting side of a [`Reply`].
#[derive(Debug)]
pub struct Answer<T>(oneshot::Receiver<Result<T, EventError>>);

/// Makes a connected pair.
pub fn reply<T>() -> (Reply<T>, Answer<T>) {
    let (sender, receiver) = oneshot::channel();
    (Reply(sender), Answer(receiver))
}

impl<T> Reply<T> {
    /// Sends the answer. A caller that is gone is not an error.
    pub fn send(self, answer: Result<T, EventError>) {
        let _ = self.0.send(answer);
    }

    /// True when nobody waits any more.
    pub fn is_abandoned(&self) -> bool {
        self.0.is_closed()
    }

    /// Completes when the waiting side gives up.
    pub async fn abandoned(&mut self) {
        self.0.closed().await;
    }
}

impl<T> std::future::Future for Answer<T> {
    type Output = Result<T, EventError>;

    fn poll(
        mut self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        std::pin::Pin::new(&mut self.0)
            .poll(cx)
            .map(|got| got.unwrap_or_else(|_| Err(EventError::disconnected())))
    }
}
