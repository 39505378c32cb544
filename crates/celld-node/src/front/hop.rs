//! Header fields that belong to one connection and are not passed on (RFC 9110, section 7.6.1).

use http::header::{self, HeaderMap, HeaderName};

static KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
static PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
static HTTP2_SETTINGS: HeaderName = HeaderName::from_static("http2-settings");

/// Removes the fields of the connection, and those that `Connection` names.
pub(crate) fn strip(headers: &mut HeaderMap) {
    if headers.is_empty() {
        return;
    }
    if headers.contains_key(header::CONNECTION) {
        for name in named_by_connection(headers) {
            headers.remove(name);
        }
        headers.remove(header::CONNECTION);
    }
    for name in [
        &KEEP_ALIVE,
        &PROXY_CONNECTION,
        &HTTP2_SETTINGS,
        &header::TRANSFER_ENCODING,
        &header::TE,
        &header::TRAILER,
        &header::UPGRADE,
    ] {
        headers.remove(name);
    }
}

/// `keep-alive` and `close` are the usual tokens; they name no field worth a look-up.
fn named_by_connection(headers: &HeaderMap) -> Vec<HeaderName> {
    headers
        .get_all(header::CONNECTION)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .map(<[u8]>::trim_ascii)
        .filter(|token| {
            !token.eq_ignore_ascii_case(b"keep-alive") && !token.eq_ignore_ascii_case(b"close")
        })
        .filter_map(|token| HeaderName::from_bytes(token).ok())
        .collect()
}

/// True when a comma-separated field holds `token`, in any case.
pub(crate) fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .any(|part| part.trim_ascii().eq_ignore_ascii_case(token.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn connection_fields_and_what_they_name_are_removed() {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("close, X-Private"));
        headers.insert("x-private", HeaderValue::from_static("1"));
        headers.insert("keep-alive", HeaderValue::from_static("timeout=5"));
        headers.insert("transfer-encoding", HeaderValue::from_static("chunked"));
        headers.insert("x-public", HeaderValue::from_static("1"));
        strip(&mut headers);
        assert_eq!(
            headers.keys().map(HeaderName::as_str).collect::<Vec<_>>(),
            ["x-public"]
        );
    }

    #[test]
    fn tokens_match_in_any_case_and_position() {
        let mut headers = HeaderMap::new();
        headers.append("connection", HeaderValue::from_static("keep-alive"));
        headers.append("connection", HeaderValue::from_static("a, UPGRADE"));
        assert!(has_token(&headers, &header::CONNECTION, "upgrade"));
        assert!(!has_token(&headers, &header::CONNECTION, "up"));
    }
}
