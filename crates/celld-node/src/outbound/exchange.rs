//! One `fetch`: attempts, redirects, and the answer's body.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use celld_runtime::exchange::{
    BODY_CHUNK_MAX_BYTES, Body, BodyError, BodySender, EventError, HttpRequest, HttpResponse,
    Redirect, body_channel,
};
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::io::AsyncReadExt;

use super::redirect::{self, Hop};
use super::request::{Payload, accept_codings, assemble, prepare_headers, uri_of, url_of};
use super::{Inner, error};
use crate::front::coding::{self, ChunkReader, Coding};
use crate::front::{hop, intake};

impl Inner {
    /// Sends a request, follows redirects, and gives the answer once its head has arrived.
    pub(super) async fn exchange(
        &self,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, EventError> {
        let url = url_of(&request)?;
        prepare_headers(&mut request.headers, &self.config)?;
        accept_codings(&mut request.headers);
        let mut hop = Hop {
            method: request.method,
            url,
            headers: request.headers,
            payload: Payload::from(request.body),
            followed: 0,
        };
        loop {
            let response = self.attempt(&mut hop).await?;
            if request.redirect == Redirect::Follow
                && let Some(location) = redirect::location(response.status(), response.headers())
            {
                hop.follow(response.status(), location)?;
                continue;
            }
            let url = (hop.followed > 0).then(|| hop.url.into());
            return receive(response, &hop.method, url).await;
        }
    }

    async fn attempt(&self, hop: &mut Hop) -> Result<Response<Incoming>, EventError> {
        let Some(body) = hop.payload.next() else {
            return Err(error::type_error(format!(
                "the redirect to {} asks for the body again, but it was a stream and is spent; send a string or an ArrayBuffer, or use redirect: \"manual\"",
                hop.url
            )));
        };
        let uri = uri_of(&hop.url)?;
        let request = assemble(&hop.method, &uri, &hop.headers, body);
        self.client
            .request(request)
            .await
            .map_err(|failed| error::exchange_failed(&uri, &failed))
    }
}

/// Turns a server's answer into a script's.
pub(super) async fn receive(
    response: Response<Incoming>,
    method: &Method,
    url: Option<String>,
) -> Result<HttpResponse, EventError> {
    let (mut parts, body) = response.into_parts();
    let length = http_body::Body::size_hint(&body).exact();
    let bodiless = *method == Method::HEAD
        || matches!(
            parts.status,
            StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
        );
    let body = if bodiless {
        Body::Empty
    } else if http_body::Body::is_end_stream(&body) {
        Body::Bytes(Bytes::new())
    } else if let Some(coding) = Coding::of(&parts.headers) {
        decoded(coding, body)
    } else {
        intake::receive(body, length, u64::MAX)
            .await
            .map_err(|error| EventError::new(error.to_string()))?
    };
    hop::strip(&mut parts.headers);
    Ok(HttpResponse {
        status: parts.status,
        headers: parts.headers,
        body,
        websocket: None,
        status_text: reason_of(&parts.extensions),
        body_is_encoded: false,
        url,
    })
}

/// The reason phrase, which hyper keeps only when it is not the usual one.
fn reason_of(extensions: &http::Extensions) -> Option<String> {
    let reason = extensions.get::<hyper::ext::ReasonPhrase>()?;
    Some(String::from_utf8_lossy(reason.as_bytes()).into_owned())
}

/// A body without its content coding. `Content-Encoding` and `Content-Length` keep describing
/// what was received, as in workerd.
fn decoded(coding: Coding, body: Incoming) -> Body {
    let (sender, stream) = body_channel(None);
    tokio::spawn(async move {
        let cancelled = sender.clone();
        tokio::select! {
            biased;
            () = cancelled.closed() => {}
            () = decode(coding, body, sender) => {}
        }
    });
    Body::Stream(stream)
}

async fn decode(coding: Coding, mut body: Incoming, sender: BodySender) {
    // An empty body is valid in every coding, but no decoder thinks so.
    let first = loop {
        match body.frame().await {
            None => return,
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if !data.is_empty() => break data,
                _ => {}
            },
            Some(Err(_)) => {
                let _ = sender.send(Err(BodyError::Disconnected)).await;
                return;
            }
        }
    };
    let mut plain = coding.decoder(ChunkReader::new(first, move |cx: &mut Context<'_>| {
        next_data(&mut body, cx)
    }));
    loop {
        let mut chunk = BytesMut::with_capacity(BODY_CHUNK_MAX_BYTES / 4);
        match plain.read_buf(&mut chunk).await {
            Ok(0) => return,
            Ok(_) => {
                if sender.send(Ok(chunk.freeze())).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                let _ = sender.send(Err(coding::body_error(error))).await;
                return;
            }
        }
    }
}

/// Polls for the next data of a body, past its trailers.
fn next_data(body: &mut Incoming, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BodyError>>> {
    loop {
        let frame = std::task::ready!(http_body::Body::poll_frame(Pin::new(&mut *body), cx));
        return Poll::Ready(match frame {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) => Some(Ok(data)),
                Err(_) => continue,
            },
            Some(Err(_)) => Some(Err(BodyError::Disconnected)),
            None => None,
        });
    }
}
