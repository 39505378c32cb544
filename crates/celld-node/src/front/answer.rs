//! From a handler's answer, or its failure, to what the client receives.

use std::task::Context;

use bytes::Bytes;
use celld_runtime::exchange::{Body, EventError, HttpResponse, Limit};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use hyper::ext::ReasonPhrase;

use super::body::WireBody;
use super::coding::{ChunkReader, Coding};
use super::upgrade::HANDSHAKE_FIELDS;
use super::{ErrorDetail, edge, error_page, hop};

const PLAIN: &str = "text/plain; charset=utf-8";

/// What of a request shapes its answer.
pub(super) struct Asked {
    pub(super) head_only: bool,
    pub(super) accept_encoding: Option<HeaderValue>,
    pub(super) wants: Wants,
    pub(super) ray: HeaderValue,
    pub(super) errors: ErrorDetail,
}

/// The form in which a client wants to read an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    Text,
    Html,
    Json,
}

impl Wants {
    /// By `Accept`: browsers name HTML, programs that want JSON name that.
    pub(super) fn of(headers: &HeaderMap) -> Self {
        let accept = headers
            .get(header::ACCEPT)
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        if accept.contains("text/html") {
            Self::Html
        } else if accept.contains("application/json") {
            Self::Json
        } else {
            Self::Text
        }
    }
}

/// A short answer in plain text.
pub(super) fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<WireBody> {
    let mut response = Response::new(WireBody::whole(text.into()));
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(PLAIN));
    response
}

/// Turns a handler's answer into hyper's.
pub(super) fn response(answer: HttpResponse, asked: &Asked) -> Response<WireBody> {
    let HttpResponse {
        status,
        status_text,
        mut headers,
        body,
        body_is_encoded,
        ..
    } = answer;
    if status.is_informational() {
        // A 101 whose socket nobody asked for cannot be sent, nor any other interim answer.
        let why = format!(
            "The Worker answered {} to a request that did not ask for it.",
            status.as_u16()
        );
        return failure(&EventError::new(why), asked);
    }
    hop::strip(&mut headers);
    for name in &HANDSHAKE_FIELDS {
        headers.remove(name);
    }
    let bodiless = matches!(
        status,
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    );
    let body = if asked.head_only || bodiless {
        describe_absent(&body, status, &mut headers);
        WireBody::empty()
    } else {
        // The length is the body's own; a header that contradicts it would break the framing.
        headers.remove(header::CONTENT_LENGTH);
        match Coding::of(&headers) {
            Some(coding) if !body_is_encoded && !matches!(body, Body::Empty) => {
                encode(coding, body, &mut headers, asked)
            }
            _ => present(body),
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // Only HTTP/1.1 has reason phrases; hyper leaves it out elsewhere.
    if let Some(reason) = status_text.and_then(|text| ReasonPhrase::try_from(text).ok()) {
        response.extensions_mut().insert(reason);
    }
    response
}

/// Keeps or sets `Content-Length` of an answer that has no body on the wire.
fn describe_absent(body: &Body, status: StatusCode, headers: &mut HeaderMap) {
    if status == StatusCode::NO_CONTENT || status == StatusCode::RESET_CONTENT {
        headers.remove(header::CONTENT_LENGTH);
        return;
    }
    let length = match body {
        Body::Empty => return,
        Body::Bytes(bytes) => Some(bytes.len() as u64),
        Body::Stream(stream) => stream.length,
    };
    if Coding::of(headers).is_none()
        && let Some(length) = length
    {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
}

fn present(body: Body) -> WireBody {
    match body {
        Body::Empty => WireBody::empty(),
        Body::Bytes(bytes) => WireBody::whole(bytes),
        Body::Stream(stream) => WireBody::stream(stream),
    }
}

/// Applies the coding that the headers promise, or takes the promise back when the client did
/// not ask for it.
fn encode(coding: Coding, body: Body, headers: &mut HeaderMap, asked: &Asked) -> WireBody {
    if !coding.is_accepted(asked.accept_encoding.as_ref()) {
        headers.remove(header::CONTENT_ENCODING);
        return present(body);
    }
    match body {
        Body::Empty => WireBody::empty(),
        Body::Bytes(bytes) => {
            let end = |_: &mut Context<'_>| std::task::Poll::Ready(None);
            WireBody::coded(coding.encoder(ChunkReader::new(bytes, end)))
        }
        Body::Stream(mut stream) => WireBody::coded(coding.encoder(ChunkReader::new(
            Bytes::new(),
            move |cx: &mut Context<'_>| stream.chunks.poll_recv(cx),
        ))),
    }
}

/// Turns a failed event into an answer.
pub(super) fn failure(error: &EventError, asked: &Asked) -> Response<WireBody> {
    let status = if error.overloaded || error.retryable {
        StatusCode::SERVICE_UNAVAILABLE
    } else if error.limit == Some(Limit::Body) {
        StatusCode::PAYLOAD_TOO_LARGE
    } else {
        StatusCode::INTERNAL_SERVER_ERROR
    };
    tracing::debug!(ray = ?asked.ray, %error, "request failed");
    let ray = asked.ray.to_str().unwrap_or_default();
    let (content_type, text) = match (asked.errors, asked.wants) {
        (ErrorDetail::Hidden, _) => (PLAIN, error_page::hidden(status, ray)),
        (ErrorDetail::Full, Wants::Text) => (PLAIN, error_page::text(error)),
        (ErrorDetail::Full, Wants::Html) => (
            "text/html; charset=utf-8",
            error_page::html(error, status, ray),
        ),
        (ErrorDetail::Full, Wants::Json) => ("application/json", error_page::json(error)),
    };
    let mut response = plain(status, text);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    let headers = response.headers_mut();
    headers.insert(&edge::CF_RAY, asked.ray.clone());
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if error.overloaded {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    if asked.head_only {
        return response.map(|_| WireBody::empty());
    }
    response
}
