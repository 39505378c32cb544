//! Bodies as they come in from a connection: small ones whole, all others piece by piece.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use celld_runtime::exchange::{BODY_CHUNK_MAX_BYTES, Body, BodyError, BodySender, body_channel};
use http_body_util::BodyExt;

/// Largest body that is gathered into one piece, in bytes.
const WHOLE_MAX_BYTES: u64 = 64 * 1024;
/// How long the rest of a small body may take to arrive before it is streamed instead. Long
/// enough for the segment behind the headers, short enough not to be felt.
const WHOLE_GRACE: Duration = Duration::from_millis(5);

/// Takes a body in: whole when it is small and already on its way, else as a stream that a task
/// of its own fills, no faster than the reader takes it.
///
/// # Errors
/// The sender vanished in the middle of a small body.
pub(crate) async fn receive<B>(
    mut body: B,
    length: Option<u64>,
    limit_bytes: u64,
) -> Result<Body, BodyError>
where
    B: http_body::Body<Data = Bytes> + Unpin + Send + 'static,
{
    let mut whole = Whole::default();
    if let Some(length) =
        length.filter(|length| *length <= WHOLE_MAX_BYTES && *length <= limit_bytes)
        && within_grace(whole.gather(&mut body, length)).await?
    {
        return Ok(Body::Bytes(whole.into_bytes()));
    }
    let (sender, stream) = body_channel(length);
    tokio::spawn(pump(body, whole.into_bytes(), sender, length, limit_bytes));
    Ok(Body::Stream(stream))
}

/// What has arrived of a small body. One piece is kept as it is; more are copied together.
#[derive(Default)]
struct Whole {
    first: Bytes,
    more: BytesMut,
}

impl Whole {
    async fn gather<B>(&mut self, body: &mut B, length: u64) -> Result<(), BodyError>
    where
        B: http_body::Body<Data = Bytes> + Unpin,
    {
        while let Some(frame) = body.frame().await {
            let Ok(frame) = frame else {
                return Err(BodyError::Disconnected);
            };
            if let Ok(data) = frame.into_data() {
                self.push(data);
            }
        }
        if self.len() == length {
            Ok(())
        } else {
            Err(BodyError::Disconnected)
        }
    }

    fn push(&mut self, data: Bytes) {
        if self.first.is_empty() {
            self.first = data;
            return;
        }
        if self.more.is_empty() {
            self.more.extend_from_slice(&self.first);
        }
        self.more.extend_from_slice(&data);
    }

    fn len(&self) -> u64 {
        if self.more.is_empty() {
            self.first.len() as u64
        } else {
            self.more.len() as u64
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.more.is_empty() {
            self.first
        } else {
            self.more.freeze()
        }
    }
}

/// Runs `work` for a moment; false when it is not done by then.
async fn within_grace(
    work: impl Future<Output = Result<(), BodyError>>,
) -> Result<bool, BodyError> {
    let mut work = pin!(work);
    // The first poll tells hyper that the body is wanted, the second finds it if it came along
    // with the head. Only a body that is not here yet costs a timer.
    let mut asked = false;
    let at_once = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if asked => Poll::Ready(None),
        Poll::Pending => {
            asked = true;
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await;
    let done = match at_once {
        Some(done) => Some(done),
        None => tokio::time::timeout(WHOLE_GRACE, work).await.ok(),
    };
    done.transpose().map(|done| done.is_some())
}

/// Moves a body into a channel until it ends, fails, or is not wanted any more.
pub(crate) async fn pump<B>(
    mut body: B,
    arrived: Bytes,
    sender: BodySender,
    length: Option<u64>,
    limit_bytes: u64,
) where
    B: http_body::Body<Data = Bytes> + Unpin,
{
    let mut total = 0u64;
    let mut data = arrived;
    loop {
        total += data.len() as u64;
        if total > limit_bytes {
            let _ = sender.send(Err(BodyError::TooLarge { limit_bytes })).await;
            return;
        }
        while !data.is_empty() {
            let chunk = data.split_to(data.len().min(BODY_CHUNK_MAX_BYTES));
            if sender.send(Ok(chunk)).await.is_err() {
                return;
            }
        }
        let frame = tokio::select! {
            biased;
            () = sender.closed() => return,
            frame = body.frame() => frame.map(|frame| frame.map_err(drop)),
        };
        let whole = length.is_none_or(|length| length == total);
        data = match frame {
            Some(Ok(frame)) => frame.into_data().unwrap_or_default(),
            None if whole => return,
            None | Some(Err(_)) => {
                let _ = sender.send(Err(BodyError::Disconnected)).await;
                return;
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use std::convert::Infallible;

    type Part = Result<Frame<Bytes>, Infallible>;

    fn parts(
        parts: &'static [&'static str],
    ) -> StreamBody<impl futures::Stream<Item = Part> + Send + Unpin> {
        StreamBody::new(futures::stream::iter(
            parts
                .iter()
                .map(|part| Ok(Frame::data(Bytes::from_static(part.as_bytes())))),
        ))
    }

    async fn read(body: Body) -> (Vec<u8>, Option<BodyError>) {
        let Body::Stream(mut stream) = body else {
            panic!("not a stream")
        };
        let mut bytes = Vec::new();
        while let Some(chunk) = stream.chunks.recv().await {
            match chunk {
                Ok(chunk) => bytes.extend_from_slice(&chunk),
                Err(error) => return (bytes, Some(error)),
            }
        }
        (bytes, None)
    }

    #[tokio::test]
    async fn a_small_body_arrives_whole() {
        let body = receive(parts(&["ab", "", "cd", "e"]), Some(5), 100)
            .await
            .unwrap();
        assert!(matches!(body, Body::Bytes(bytes) if bytes == "abcde"));
    }

    #[tokio::test]
    async fn a_small_body_that_ends_early_is_a_disconnect() {
        assert_eq!(
            receive(parts(&["ab"]), Some(5), 100).await.unwrap_err(),
            BodyError::Disconnected
        );
    }

    #[tokio::test]
    async fn a_slow_small_body_is_streamed_with_what_came_first() {
        let slow = futures::StreamExt::chain(
            futures::stream::iter([Part::Ok(Frame::data(Bytes::from_static(b"ab")))]),
            Box::pin(futures::stream::once(async {
                tokio::time::sleep(WHOLE_GRACE * 4).await;
                Part::Ok(Frame::data(Bytes::from_static(b"cd")))
            })),
        );
        let body = receive(StreamBody::new(slow), Some(4), 100).await.unwrap();
        assert_eq!(read(body).await, (b"abcd".to_vec(), None));
    }

    #[tokio::test]
    async fn a_stream_over_the_limit_fails_by_name() {
        let body = receive(parts(&["abc", "def"]), None, 5).await.unwrap();
        let (bytes, error) = read(body).await;
        assert_eq!(bytes, b"abc");
        assert_eq!(error, Some(BodyError::TooLarge { limit_bytes: 5 }));
    }

    #[tokio::test]
    async fn a_chunk_is_never_larger_than_agreed() {
        let big = StreamBody::new(futures::stream::iter([Part::Ok(Frame::data(Bytes::from(
            vec![7; 200_000],
        )))]));
        let Body::Stream(mut stream) = receive(big, None, 1 << 20).await.unwrap() else {
            panic!()
        };
        let mut total = 0;
        while let Some(chunk) = stream.chunks.recv().await {
            let chunk = chunk.unwrap();
            assert!(chunk.len() <= BODY_CHUNK_MAX_BYTES);
            total += chunk.len();
        }
        assert_eq!(total, 200_000);
    }
}
