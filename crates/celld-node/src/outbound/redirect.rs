//! Redirects, by the rules of the fetch specification (HTTP-redirect fetch).

use celld_runtime::exchange::EventError;
use http::header::{self, HeaderMap};
use http::{Method, StatusCode};
use url::Url;

use super::error::type_error;
use super::request::{Payload, clean};

/// Redirects that one request may follow.
const REDIRECTS_MAX: usize = 20;

/// What changes from hop to hop.
pub(super) struct Hop {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) payload: Payload,
    pub(super) followed: usize,
}

/// The target of a redirect; `None` when the answer is none.
pub(super) fn location(status: StatusCode, headers: &HeaderMap) -> Option<&[u8]> {
    let redirects = matches!(status.as_u16(), 301 | 302 | 303 | 307 | 308);
    headers
        .get(header::LOCATION)
        .filter(|_| redirects)
        .map(|value| value.as_bytes())
}

impl Hop {
    /// Turns this hop into the next one.
    pub(super) fn follow(&mut self, status: StatusCode, location: &[u8]) -> Result<(), EventError> {
        if self.followed == REDIRECTS_MAX {
            return Err(type_error(format!(
                "Too many redirects: gave up after {REDIRECTS_MAX}, at {}",
                self.url
            )));
        }
        let text = String::from_utf8_lossy(location);
        let mut next = self.url.join(&text).map_err(|error| {
            type_error(format!(
                "the redirect from {} has a bad Location, {text:?}: {error}",
                self.url
            ))
        })?;
        if !matches!(next.scheme(), "http" | "https") {
            return Err(type_error(format!(
                "the redirect from {} leads to {next}, which is not an http or https URL",
                self.url
            )));
        }
        clean(&mut next);
        let becomes_get = match status {
            StatusCode::SEE_OTHER => !matches!(self.method, Method::GET | Method::HEAD),
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.payload = Payload::Empty;
            for name in [
                header::CONTENT_ENCODING,
                header::CONTENT_LANGUAGE,
                header::CONTENT_LOCATION,
                header::CONTENT_TYPE,
            ] {
                self.headers.remove(name);
            }
        }
        if next.origin() != self.url.origin() {
            // Credentials for one origin are none of another's business.
            self.headers.remove(header::AUTHORIZATION);
            self.headers.remove(header::PROXY_AUTHORIZATION);
        }
        self.url = next;
        self.followed += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn hop(method: Method) -> Hop {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_static("secret"));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain"));
        Hop {
            method,
            url: Url::parse("http://a.example/x/y?z").unwrap(),
            headers,
            payload: Payload::Whole(bytes::Bytes::from_static(b"body")),
            followed: 0,
        }
    }

    #[test]
    fn methods_change_as_the_specification_says() {
        for (status, before, after) in [
            (301, Method::POST, Method::GET),
            (302, Method::POST, Method::GET),
            (303, Method::PUT, Method::GET),
            (303, Method::HEAD, Method::HEAD),
            (301, Method::PUT, Method::PUT),
            (307, Method::POST, Method::POST),
            (308, Method::DELETE, Method::DELETE),
        ] {
            let mut hop = hop(before.clone());
            hop.follow(StatusCode::from_u16(status).unwrap(), b"/next")
                .unwrap();
            assert_eq!(hop.method, after, "{status} {before}");
            let changed = before != after;
            assert_eq!(
                matches!(hop.payload, Payload::Empty),
                changed,
                "{status} {before}"
            );
            assert_eq!(hop.headers.contains_key(header::CONTENT_TYPE), !changed);
        }
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let mut same = hop(Method::GET);
        same.follow(StatusCode::FOUND, b"../q").unwrap();
        assert_eq!(same.url.as_str(), "http://a.example/q");
        assert!(same.headers.contains_key(header::AUTHORIZATION));
        for other in ["https://a.example/", "http://a.example:81/", "//b.example/"] {
            let mut hop = hop(Method::GET);
            hop.follow(StatusCode::FOUND, other.as_bytes()).unwrap();
            assert!(!hop.headers.contains_key(header::AUTHORIZATION), "{other}");
        }
    }

    #[test]
    fn a_redirect_cannot_leave_http_or_go_on_for_ever() {
        let error = hop(Method::GET)
            .follow(StatusCode::FOUND, b"file:///etc/passwd")
            .unwrap_err();
        assert!(error.message.contains("file:///etc/passwd"));
        let mut endless = hop(Method::GET);
        for _ in 0..REDIRECTS_MAX {
            endless.follow(StatusCode::FOUND, b"/").unwrap();
        }
        assert!(
            endless
                .follow(StatusCode::FOUND, b"/")
                .unwrap_err()
                .message
                .starts_with("Too many redirects")
        );
    }
}
