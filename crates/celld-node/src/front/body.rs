//! Bodies as they go out on a connection: answers to clients, and requests to other servers.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use celld_runtime::exchange::{BodyError, BodyStream};
use http_body::{Frame, SizeHint};
use tokio::io::{AsyncRead, ReadBuf};
use tokio::sync::mpsc;

use super::connection::OpenRequest;

/// Bytes of an encoder's output that make one frame.
const CODED_FRAME_BYTES: usize = 16 * 1024;

/// A payload on its way out. An answer keeps its request counted as open until it has been sent
/// or dropped.
pub(crate) struct WireBody {
    payload: Payload,
    open: Option<OpenRequest>,
}

enum Payload {
    Empty,
    Whole(Bytes),
    Stream {
        chunks: mpsc::Receiver<Result<Bytes, BodyError>>,
        /// Bytes still to come, when the length is known.
        left: Option<u64>,
    },
    /// The output of a content encoder.
    Coded(Pin<Box<dyn AsyncRead + Send>>),
}

impl WireBody {
    pub(crate) fn empty() -> Self {
        Self {
            payload: Payload::Empty,
            open: None,
        }
    }

    pub(crate) fn whole(bytes: Bytes) -> Self {
        let payload = if bytes.is_empty() {
            Payload::Empty
        } else {
            Payload::Whole(bytes)
        };
        Self {
            payload,
            open: None,
        }
    }

    pub(crate) fn stream(stream: BodyStream) -> Self {
        let payload = Payload::Stream {
            chunks: stream.chunks,
            left: stream.length,
        };
        Self {
            payload,
            open: None,
        }
    }

    pub(crate) fn coded(encoder: Pin<Box<dyn AsyncRead + Send>>) -> Self {
        Self {
            payload: Payload::Coded(encoder),
            open: None,
        }
    }

    /// Counts `open` as finished when this body is.
    pub(crate) fn holding(self, open: OpenRequest) -> Self {
        Self {
            open: Some(open),
            ..self
        }
    }
}

impl http_body::Body for WireBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = &mut *self;
        let frame = match &mut this.payload {
            Payload::Empty => None,
            Payload::Whole(bytes) => {
                let bytes = std::mem::take(bytes);
                this.payload = Payload::Empty;
                Some(Ok(bytes))
            }
            Payload::Stream { chunks, left } => match ready!(chunks.poll_recv(cx)) {
                Some(Ok(chunk)) => Some(account(left, chunk)),
                Some(Err(error)) => Some(Err(error)),
                None if left.is_some_and(|left| left > 0) => Some(Err(BodyError::Failed(
                    "the body ended before its declared length".into(),
                ))),
                None => None,
            },
            Payload::Coded(encoder) => ready!(poll_encoder(encoder.as_mut(), cx)),
        };
        if !matches!(frame, Some(Ok(_))) {
            this.payload = Payload::Empty;
            this.open = None;
        }
        Poll::Ready(frame.map(|frame| frame.map(Frame::data)))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.payload, Payload::Empty)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.payload {
            Payload::Empty => SizeHint::with_exact(0),
            Payload::Whole(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Payload::Stream {
                left: Some(left), ..
            } => SizeHint::with_exact(*left),
            Payload::Stream { left: None, .. } | Payload::Coded(_) => SizeHint::default(),
        }
    }
}

/// Holds a producer to the length that it declared.
fn account(left: &mut Option<u64>, chunk: Bytes) -> Result<Bytes, BodyError> {
    if let Some(left) = left {
        let Some(rest) = left.checked_sub(chunk.len() as u64) else {
            return Err(BodyError::Failed(
                "the body is longer than its declared length".into(),
            ));
        };
        *left = rest;
    }
    Ok(chunk)
}

fn poll_encoder(
    encoder: Pin<&mut (dyn AsyncRead + Send)>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, BodyError>>> {
    let mut buffer = BytesMut::zeroed(CODED_FRAME_BYTES);
    let mut window = ReadBuf::new(&mut buffer);
    let read = ready!(encoder.poll_read(cx, &mut window));
    let filled = window.filled().len();
    Poll::Ready(match read {
        Ok(()) if filled == 0 => None,
        Ok(()) => {
            buffer.truncate(filled);
            Some(Ok(buffer.freeze()))
        }
        Err(error) => Some(Err(super::coding::body_error(error))),
    })
}
