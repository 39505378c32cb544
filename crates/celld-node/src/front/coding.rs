//! Content codings: answers of other servers are decoded, and answers of scripts are encoded as
//! their `Content-Encoding` says.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::Level;
use async_compression::tokio::bufread::{
    BrotliDecoder, BrotliEncoder, GzipDecoder, GzipEncoder, ZlibDecoder, ZlibEncoder,
};
use bytes::{Buf, Bytes};
use celld_runtime::exchange::BodyError;
use http::header::{self, HeaderMap, HeaderValue};
use tokio::io::{AsyncBufRead, AsyncRead, ReadBuf};

/// Brotli's default level costs a hundred times the CPU of this one for a tenth less output.
const BROTLI_LEVEL: Level = Level::Precise(4);

/// A coding that is applied and removed on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Gzip,
    Brotli,
    Deflate,
}

impl Coding {
    /// The coding that `Content-Encoding` names; `None` for identity and for what is passed
    /// through untouched.
    pub(crate) fn of(headers: &HeaderMap) -> Option<Self> {
        let value = headers
            .get(header::CONTENT_ENCODING)?
            .as_bytes()
            .trim_ascii();
        let is = |name: &str| value.eq_ignore_ascii_case(name.as_bytes());
        if is("gzip") || is("x-gzip") {
            Some(Self::Gzip)
        } else if is("br") {
            Some(Self::Brotli)
        } else if is("deflate") {
            Some(Self::Deflate)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Deflate => "deflate",
        }
    }

    /// True when `Accept-Encoding` allows this coding.
    pub(crate) fn is_accepted(self, accept: Option<&HeaderValue>) -> bool {
        let Some(text) = accept.and_then(|value| value.to_str().ok()) else {
            return false;
        };
        let mut any = false;
        for item in text.split(',') {
            let mut parameters = item.split(';').map(str::trim);
            let name = parameters.next().unwrap_or_default();
            let refused = parameters.any(|parameter| {
                let weight = parameter
                    .strip_prefix("q=")
                    .or_else(|| parameter.strip_prefix("Q="));
                weight.is_some_and(|weight| weight.trim_matches(['0', '.']).is_empty())
            });
            if name.eq_ignore_ascii_case(self.name()) {
                return !refused;
            }
            any |= name == "*" && !refused;
        }
        any
    }

    /// Wraps a reader so that it yields the coded form.
    pub(crate) fn encoder<R: AsyncBufRead + Send + 'static>(
        self,
        plain: R,
    ) -> Pin<Box<dyn AsyncRead + Send>> {
        match self {
            Self::Gzip => Box::pin(GzipEncoder::with_quality(plain, Level::Fastest)),
            Self::Brotli => Box::pin(BrotliEncoder::with_quality(plain, BROTLI_LEVEL)),
            Self::Deflate => Box::pin(ZlibEncoder::with_quality(plain, Level::Fastest)),
        }
    }

    /// Wraps a reader of the coded form so that it yields the plain one.
    pub(crate) fn decoder<R: AsyncBufRead + Send + 'static>(
        self,
        coded: R,
    ) -> Pin<Box<dyn AsyncRead + Send>> {
        match self {
            Self::Gzip => {
                let mut decoder = GzipDecoder::new(coded);
                decoder.multiple_members(true);
                Box::pin(decoder)
            }
            Self::Brotli => Box::pin(BrotliDecoder::new(coded)),
            Self::Deflate => Box::pin(ZlibDecoder::new(coded)),
        }
    }
}

/// Puts a body error into the form that readers carry.
pub(crate) fn io_error(error: BodyError) -> io::Error {
    io::Error::other(error)
}

/// Takes a body error out again; anything else is the coder's own complaint.
pub(crate) fn body_error(error: io::Error) -> BodyError {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<BodyError>())
    {
        Some(inner) => inner.clone(),
        None => BodyError::Failed(format!(
            "the body does not match its Content-Encoding: {error}"
        )),
    }
}

/// A source of chunks as a buffered reader. `next` is polled like a stream.
pub(crate) struct ChunkReader<F> {
    next: F,
    chunk: Bytes,
}

impl<F> ChunkReader<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> + Unpin,
{
    /// `first` is read before anything from `next`.
    pub(crate) fn new(first: Bytes, next: F) -> Self {
        Self { next, chunk: first }
    }
}

impl<F> AsyncBufRead for ChunkReader<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> + Unpin,
{
    fn poll_fill_buf(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<&[u8]>> {
        let this = self.get_mut();
        while this.chunk.is_empty() {
            match ready!((this.next)(cx)) {
                Some(Ok(chunk)) => this.chunk = chunk,
                Some(Err(error)) => return Poll::Ready(Err(io_error(error))),
                None => break,
            }
        }
        Poll::Ready(Ok(&this.chunk))
    }

    fn consume(self: Pin<&mut Self>, amount: usize) {
        self.get_mut().chunk.advance(amount);
    }
}

impl<F> AsyncRead for ChunkReader<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> + Unpin,
{
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let available = ready!(self.as_mut().poll_fill_buf(cx))?;
        let amount = available.len().min(buffer.remaining());
        buffer.put_slice(&available[..amount]);
        self.consume(amount);
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncReadExt;

    fn reader(chunks: Vec<Result<Bytes, BodyError>>) -> impl AsyncBufRead + Send + 'static {
        let mut chunks = chunks.into_iter();
        ChunkReader::new(Bytes::new(), move |_: &mut Context<'_>| {
            Poll::Ready(chunks.next())
        })
    }

    #[tokio::test]
    async fn every_coding_gives_back_what_it_took() {
        for coding in [Coding::Gzip, Coding::Brotli, Coding::Deflate] {
            let text = "celld ".repeat(10_000);
            let mut coded = Vec::new();
            let plain = reader(vec![
                Ok(Bytes::from(text.clone())),
                Ok(Bytes::new()),
                Ok(Bytes::from("end")),
            ]);
            coding.encoder(plain).read_to_end(&mut coded).await.unwrap();
            assert!(
                coded.len() < text.len() / 10,
                "{coding:?} does not compress"
            );
            let mut decoded = String::new();
            coding
                .decoder(reader(vec![Ok(Bytes::from(coded))]))
                .read_to_string(&mut decoded)
                .await
                .unwrap();
            assert_eq!(decoded, text + "end");
        }
    }

    #[tokio::test]
    async fn a_failing_source_keeps_its_error() {
        let mut decoder = Coding::Gzip.decoder(reader(vec![Err(BodyError::Disconnected)]));
        let error = decoder.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(body_error(error), BodyError::Disconnected);
    }

    #[tokio::test]
    async fn garbage_is_named_as_such() {
        let mut decoder = Coding::Gzip.decoder(reader(vec![Ok(Bytes::from_static(
            b"this is not gzip at all",
        ))]));
        let error = decoder.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert!(body_error(error).to_string().contains("Content-Encoding"));
    }

    #[test]
    fn accept_encoding_is_read_with_weights() {
        let accepts =
            |text: &'static str| Coding::Gzip.is_accepted(Some(&HeaderValue::from_static(text)));
        assert!(accepts("gzip"));
        assert!(accepts("br;q=0.5, GZIP;q=0.1"));
        assert!(accepts("*"));
        assert!(!accepts("gzip;q=0"));
        assert!(!accepts("gzip;q=0.000, *"));
        assert!(!accepts("br"));
        assert!(!Coding::Gzip.is_accepted(None));
    }
}
