//! From a request's target and authority to an absolute, normalized URL.

use url::Url;

/// The request's target cannot be made into a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadTarget {
    /// No usable `Host` or `:authority`.
    Host,
    /// The path or query is not that of a URL.
    Path,
}

impl BadTarget {
    /// For the client.
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => "The request has no valid Host header.",
            Self::Path => "The request target is not a valid URL.",
        }
    }
}

/// The normalized `scheme://host[:port]` of one connection's latest authority.
///
/// Clients repeat one authority on a connection, so parsing it once is enough.
#[derive(Debug, Default)]
pub(crate) struct OriginCache {
    scheme: &'static str,
    authority: Vec<u8>,
    origin: String,
}

impl OriginCache {
    /// Builds the URL of `path_and_query` (which starts with `/`) at `authority`.
    pub(crate) fn url(
        &mut self,
        scheme: &'static str,
        authority: &[u8],
        path_and_query: &str,
    ) -> Result<String, BadTarget> {
        if self.scheme != scheme || self.authority != authority {
            self.origin = origin(scheme, authority)?;
            self.scheme = scheme;
            self.authority = authority.to_owned();
        }
        if !path_and_query.starts_with('/') {
            return Err(BadTarget::Path);
        }
        let mut url = String::with_capacity(self.origin.len() + path_and_query.len());
        url.push_str(&self.origin);
        url.push_str(path_and_query);
        if is_normal(path_and_query.as_bytes()) {
            return Ok(url);
        }
        match Url::parse(&url) {
            Ok(url) => Ok(url.into()),
            Err(_) => Err(BadTarget::Path),
        }
    }
}

/// Checks an authority. User info is refused: it has no place in `Host`.
fn origin(scheme: &str, authority: &[u8]) -> Result<String, BadTarget> {
    let text = std::str::from_utf8(authority).map_err(|_| BadTarget::Host)?;
    // A delimiter would move the rest of the text out of the host when it is parsed.
    if text.is_empty()
        || text
            .bytes()
            .any(|b| b.is_ascii_control() || b" /\\?#@%".contains(&b))
    {
        return Err(BadTarget::Host);
    }
    let url = Url::parse(&format!("{scheme}://{text}/")).map_err(|_| BadTarget::Host)?;
    if !url.has_host() || url.path() != "/" {
        return Err(BadTarget::Host);
    }
    let mut origin: String = url.into();
    origin.pop();
    Ok(origin)
}

/// True when the URL parser would leave the text as it is: no dot segments, nothing to escape.
fn is_normal(text: &[u8]) -> bool {
    let mut previous = 0;
    for &byte in text {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' => {}
            // "/." may begin a dot segment, and so may its escaped form "%2e".
            b'.' if previous == b'/' => return false,
            b'%' => return false,
            b'/' | b'-' | b'_' | b'.' | b'~' | b'?' | b'&' | b'=' | b'+' | b',' | b';' | b':'
            | b'@' | b'!' | b'$' | b'(' | b')' | b'*' => {}
            _ => return false,
        }
        previous = byte;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn build(authority: &str, path: &str) -> Result<String, BadTarget> {
        OriginCache::default().url("http", authority.as_bytes(), path)
    }

    #[test]
    fn urls_are_normalized() {
        assert_eq!(
            build("Example.COM:80", "/a/../b?q").unwrap(),
            "http://example.com/b?q"
        );
        assert_eq!(
            build("127.0.0.1:8787", "/").unwrap(),
            "http://127.0.0.1:8787/"
        );
        assert_eq!(build("[::1]:99", "/x").unwrap(), "http://[::1]:99/x");
        assert_eq!(
            build("bücher.example", "/").unwrap(),
            "http://xn--bcher-kva.example/"
        );
        assert_eq!(build("a", "/%2e%2e/x").unwrap(), "http://a/x");
    }

    #[test]
    fn a_host_that_would_become_another_url_is_refused() {
        for host in [
            "", "a/b", "a@b", "a?b", "a#b", "a b", "a\\b", "a:99999", "a:b", "[::1", "a%2fb",
            "\u{0}",
        ] {
            assert_eq!(build(host, "/"), Err(BadTarget::Host), "{host:?}");
        }
    }

    #[test]
    fn targets_that_are_not_paths_are_refused() {
        assert_eq!(build("a", "*"), Err(BadTarget::Path));
        assert_eq!(build("a", ""), Err(BadTarget::Path));
    }

    #[test]
    fn a_cache_follows_a_change_of_authority() {
        let mut cache = OriginCache::default();
        assert_eq!(cache.url("http", b"a", "/").unwrap(), "http://a/");
        assert_eq!(cache.url("http", b"b", "/").unwrap(), "http://b/");
        assert_eq!(cache.url("https", b"b", "/").unwrap(), "https://b/");
        assert_eq!(cache.url("https", b"/", "/"), Err(BadTarget::Host));
        assert_eq!(cache.url("https", b"b", "/").unwrap(), "https://b/");
    }

    proptest! {
        /// The short cut gives what the parser would give.
        #[test]
        fn the_short_cut_agrees_with_the_parser(path in "/[ -~]{0,40}") {
            if let Ok(url) = build("host", &path) {
                let parsed: String = Url::parse(&format!("http://host{path}")).unwrap().into();
                prop_assert_eq!(parsed, url);
            }
        }
    }
}
