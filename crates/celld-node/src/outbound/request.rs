//! From a script's request to one on the wire.

use celld_runtime::exchange::{Body, EventError, HttpRequest};
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, Request, Uri};
use url::Url;

use super::OutboundConfig;
use super::error::type_error;
use crate::front::body::WireBody;
use crate::front::hop;

/// Parses and checks the URL of a request. User info and fragment are never sent.
pub(super) fn url_of(request: &HttpRequest) -> Result<Url, EventError> {
    let mut url = Url::parse(&request.url).map_err(|error| {
        type_error(format!(
            "Fetch API cannot load: {} is not a URL ({error})",
            request.url
        ))
    })?;
    let scheme = match url.scheme() {
        "http" | "https" => None,
        "ws" if request.websocket => Some("http"),
        "wss" if request.websocket => Some("https"),
        other => {
            return Err(type_error(format!(
                "Fetch API cannot load {url}: the scheme \"{other}\" is not supported; use http or https"
            )));
        }
    };
    if let Some(scheme) = scheme {
        // Both are special schemes, between which a change cannot fail.
        let _ = url.set_scheme(scheme);
    }
    clean(&mut url);
    Ok(url)
}

/// Removes what does not belong on the wire.
pub(super) fn clean(url: &mut Url) {
    url.set_fragment(None);
    // These fail only for URLs without a host, which http and https URLs cannot be.
    let _ = url.set_username("");
    let _ = url.set_password(None);
}

/// A URL in the form of the HTTP library, which allows fewer characters in paths and queries.
pub(super) fn uri_of(url: &Url) -> Result<Uri, EventError> {
    if let Ok(uri) = url.as_str().parse::<Uri>() {
        return Ok(uri);
    }
    let mut escaped = String::with_capacity(url.as_str().len() + 16);
    for byte in url.as_str().bytes() {
        if byte.is_ascii_graphic() && !b"`\"<>{}|^\\".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
        .parse()
        .map_err(|error| type_error(format!("Fetch API cannot load {url}: {error}")))
}

/// Puts a script's headers in order: what the connection decides is taken out.
pub(super) fn prepare_headers(
    headers: &mut HeaderMap,
    config: &OutboundConfig,
) -> Result<(), EventError> {
    let size: usize = headers
        .iter()
        .map(|(name, value)| name.as_str().len() + value.len())
        .sum();
    if size > config.headers_max_bytes {
        return Err(type_error(format!(
            "the request headers are too large: {size} bytes, of at most {}",
            config.headers_max_bytes
        )));
    }
    hop::strip(headers);
    for name in [header::HOST, header::CONTENT_LENGTH, header::EXPECT] {
        headers.remove(name);
    }
    Ok(())
}

/// Asks for the codings that are decoded on the way back, unless the script asks for its own.
pub(super) fn accept_codings(headers: &mut HeaderMap) {
    if !headers.contains_key(header::ACCEPT_ENCODING) {
        headers.insert(
            header::ACCEPT_ENCODING,
            HeaderValue::from_static("gzip, br"),
        );
    }
}

/// A body that may have to be sent again after a redirect.
pub(super) enum Payload {
    Empty,
    Whole(bytes::Bytes),
    /// A stream, until it has been sent.
    Once(Option<celld_runtime::exchange::BodyStream>),
}

impl From<Body> for Payload {
    fn from(body: Body) -> Self {
        match body {
            Body::Empty => Self::Empty,
            Body::Bytes(bytes) => Self::Whole(bytes),
            Body::Stream(stream) => Self::Once(Some(stream)),
        }
    }
}

impl Payload {
    /// The body for the next attempt; `None` when it is spent.
    pub(super) fn next(&mut self) -> Option<WireBody> {
        match self {
            Self::Empty => Some(WireBody::empty()),
            Self::Whole(bytes) => Some(WireBody::whole(bytes.clone())),
            Self::Once(stream) => stream.take().map(WireBody::stream),
        }
    }
}

/// Assembles the request of one attempt.
pub(super) fn assemble(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    body: WireBody,
) -> Request<WireBody> {
    let empty = http_body::Body::is_end_stream(&body);
    let mut request = Request::new(body);
    *request.method_mut() = method.clone();
    *request.uri_mut() = uri.clone();
    *request.headers_mut() = headers.clone();
    // Some servers insist on a length for methods that usually have a body.
    if empty && matches!(*method, Method::POST | Method::PUT | Method::PATCH) {
        request
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use celld_runtime::exchange::Redirect;

    fn request(url: &str, websocket: bool) -> HttpRequest {
        HttpRequest {
            method: Method::GET,
            url: url.into(),
            headers: HeaderMap::new(),
            body: Body::Empty,
            cf: None,
            websocket,
            redirect: Redirect::Follow,
        }
    }

    #[test]
    fn only_http_and_https_are_fetched() {
        for url in [
            "ftp://a/",
            "file:///etc/passwd",
            "ws://a/",
            "data:,x",
            "javascript:1",
        ] {
            let error = url_of(&request(url, false)).unwrap_err();
            assert_eq!(error.name, "TypeError", "{url}");
            assert!(error.message.contains("scheme"), "{error}");
        }
        assert_eq!(
            url_of(&request("wss://a/x", true)).unwrap().as_str(),
            "https://a/x"
        );
        assert!(
            url_of(&request("nonsense", false))
                .unwrap_err()
                .message
                .contains("nonsense")
        );
    }

    #[test]
    fn user_info_and_fragment_stay_at_home() {
        assert_eq!(
            url_of(&request("http://u:p@a/x#y", false))
                .unwrap()
                .as_str(),
            "http://a/x"
        );
    }

    #[test]
    fn characters_that_the_library_refuses_are_escaped() {
        let url = Url::parse("http://a/x?q=`|^").unwrap();
        let uri = uri_of(&url).unwrap();
        assert_eq!(uri.host(), Some("a"));
        assert!(uri.query().unwrap().starts_with("q="));
    }
}
