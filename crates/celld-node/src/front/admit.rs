//! Checks a request's head and turns it into what a handler sees.

use celld_runtime::exchange::{Body, HttpRequest, Redirect};
use http::header::{self, HeaderMap, HeaderValue};
use http::request::Parts;
use http::{Method, StatusCode, Version};

use super::edge::Visitor;
use super::target::{BadTarget, OriginCache};
use super::upgrade::Upgrade;
use super::{FrontConfig, edge, hop, upgrade};

/// A request that the listener answers by itself.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) status: StatusCode,
    pub(super) message: &'static str,
    /// One more header.
    pub(super) header: Option<(header::HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(super) fn new(status: StatusCode, message: &'static str) -> Self {
        Self {
            status,
            message,
            header: None,
        }
    }
}

/// A request that goes to the handler, except for its body.
pub(super) struct Admitted {
    pub(super) request: HttpRequest,
    /// Declared length of the body.
    pub(super) length: Option<u64>,
    /// How to switch protocols, when the client asks for a WebSocket.
    pub(super) upgrade: Option<Upgrade>,
    /// The ray id, for error pages and logs.
    pub(super) ray: HeaderValue,
    /// Encodings that the client takes, when it says so.
    pub(super) accept_encoding: Option<HeaderValue>,
}

/// Checks limits, builds the URL, and puts the headers in order.
pub(super) fn admit(
    mut parts: Parts,
    origins: &mut OriginCache,
    visitor: &Visitor,
    edge: &edge::Edge,
    config: &FrontConfig,
) -> Result<Admitted, Refusal> {
    check_sizes(&parts, config)?;
    let upgrade = upgrade::requested(&mut parts)?;
    if parts.method == Method::CONNECT && upgrade.is_none() {
        return Err(Refusal::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "CONNECT is not supported here.",
        ));
    }
    let length = body_length(&parts.headers, config.body_max_bytes)?;
    let behind_proxy;
    let visitor = if config.trust_proxy {
        behind_proxy = visitor.behind_proxy(&parts.headers);
        &behind_proxy
    } else {
        visitor
    };
    let url = url(&parts, origins, visitor.scheme())
        .map_err(|bad| Refusal::new(StatusCode::BAD_REQUEST, bad.message()))?;

    let ray = edge.ray();
    let mut headers = parts.headers;
    hop::strip(&mut headers);
    headers.remove(header::EXPECT);
    let accept_encoding = headers.get(header::ACCEPT_ENCODING).cloned();
    visitor.stamp(&mut headers, ray.clone());
    if parts.version == Version::HTTP_2 {
        tidy_http2(&mut headers, &parts.uri);
    }
    let method = match &upgrade {
        // Scripts look for these, whichever way the client asked.
        Some(_) => {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
            headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
            Method::GET
        }
        None => parts.method,
    };
    let request = HttpRequest {
        method,
        url,
        headers,
        body: Body::Empty,
        cf: Some(edge.cf(parts.version, visitor.is_secure()).to_owned()),
        websocket: upgrade.is_some(),
        redirect: Redirect::Manual,
    };
    Ok(Admitted {
        request,
        length,
        upgrade,
        ray,
        accept_encoding,
    })
}

fn check_sizes(parts: &Parts, config: &FrontConfig) -> Result<(), Refusal> {
    let url = parts
        .uri
        .path_and_query()
        .map_or(0, |text| text.as_str().len())
        + parts.uri.authority().map_or(0, |text| text.as_str().len());
    if url > config.url_max_bytes {
        return Err(Refusal::new(
            StatusCode::URI_TOO_LONG,
            "The URL is too long.",
        ));
    }
    let headers: usize = parts
        .headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if headers > config.headers_max_bytes {
        return Err(Refusal::new(
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "The request headers are too large.",
        ));
    }
    Ok(())
}

/// The declared length of the body, if it is one that is taken in. hyper has refused
/// contradictory lengths already; what is left is one number or nothing.
fn body_length(headers: &HeaderMap, max_bytes: u64) -> Result<Option<u64>, Refusal> {
    let Some(value) = headers.get(header::CONTENT_LENGTH) else {
        return Ok(None);
    };
    let digits = value.as_bytes();
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|_| digits.iter().all(u8::is_ascii_digit));
    match number.and_then(|text| text.parse().ok()) {
        Some(length) if length <= max_bytes => Ok(Some(length)),
        Some(_) => Err(Refusal::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request body is larger than this server accepts.",
        )),
        None => Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "The Content-Length header is not valid.",
        )),
    }
}

fn url(
    parts: &Parts,
    origins: &mut OriginCache,
    scheme: &'static str,
) -> Result<String, BadTarget> {
    let authority = match parts.uri.authority() {
        Some(authority) => authority.as_str().as_bytes(),
        None => parts
            .headers
            .get(header::HOST)
            .ok_or(BadTarget::Host)?
            .as_bytes(),
    };
    let path = parts.uri.path_and_query().map_or("/", |text| text.as_str());
    // A URL without a path, `GET http://host?query`, has its query right after the authority.
    if path.starts_with('?') {
        return origins.url(scheme, authority, &format!("/{path}"));
    }
    origins.url(scheme, authority, path)
}

/// HTTP/2 carries the host in `:authority` and may split cookies into several fields
/// (RFC 9113, section 8.2.3); a script expects the HTTP/1.1 form of both.
fn tidy_http2(headers: &mut HeaderMap, uri: &http::Uri) {
    if !headers.contains_key(header::HOST)
        && let Some(authority) = uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        headers.insert(header::HOST, host);
    }
    if headers.get_all(header::COOKIE).iter().nth(1).is_some() {
        let crumbs: Vec<&[u8]> = headers
            .get_all(header::COOKIE)
            .iter()
            .map(HeaderValue::as_bytes)
            .collect();
        if let Ok(cookie) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
            headers.insert(header::COOKIE, cookie);
        }
    }
}
