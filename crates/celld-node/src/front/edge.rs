//! What Cloudflare's edge adds to a request, so that scripts find it here too: `cf-*` headers,
//! the client's address, and `request.cf`.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Version;
use http::header::{HeaderMap, HeaderName, HeaderValue};

pub(crate) static CF_CONNECTING_IP: HeaderName = HeaderName::from_static("cf-connecting-ip");
static CF_IPCOUNTRY: HeaderName = HeaderName::from_static("cf-ipcountry");
pub(crate) static CF_RAY: HeaderName = HeaderName::from_static("cf-ray");
static CF_VISITOR: HeaderName = HeaderName::from_static("cf-visitor");
static X_REAL_IP: HeaderName = HeaderName::from_static("x-real-ip");
pub(crate) static X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
pub(crate) static X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Ready-made values of one listener.
pub(crate) struct Edge {
    colo: String,
    /// `request.cf` for HTTP/1.0, HTTP/1.1 and HTTP/2, in clear and behind TLS.
    cf: [[String; 2]; 3],
    /// Seed and counter of ray ids.
    seed: u64,
    next: AtomicU64,
}

impl Edge {
    pub(crate) fn new(colo: &str) -> Self {
        let cf = ["HTTP/1.0", "HTTP/1.1", "HTTP/2"].map(|protocol| {
            [
                cf_json(colo, protocol, false),
                cf_json(colo, protocol, true),
            ]
        });
        Self {
            colo: colo.to_owned(),
            cf,
            seed: RandomState::new().hash_one("ray"),
            next: AtomicU64::new(1),
        }
    }

    /// `request.cf` as JSON text.
    pub(crate) fn cf(&self, version: Version, secure: bool) -> &str {
        let row = match version {
            Version::HTTP_10 => 0,
            Version::HTTP_2 => 2,
            _ => 1,
        };
        &self.cf[row][usize::from(secure)]
    }

    /// A fresh id such as `8f1c2d3e4a5b6c7d-LOC`, unique within the process.
    pub(crate) fn ray(&self) -> HeaderValue {
        let mut text = String::with_capacity(17 + self.colo.len());
        let bits = scramble(self.seed ^ self.next.fetch_add(1, Ordering::Relaxed));
        for shift in (0..16).rev() {
            let digit = (bits >> (shift * 4)) as u32 & 15;
            text.push(char::from_digit(digit, 16).unwrap_or('0'));
        }
        text.push('-');
        text.push_str(&self.colo);
        HeaderValue::from_maybe_shared(bytes::Bytes::from(text))
            .unwrap_or_else(|_| HeaderValue::from_static("0"))
    }
}

/// A bijection (the finalizer of splitmix64), so that distinct counters give distinct ids.
fn scramble(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The client's address and scheme, as headers carry them. Made once per connection.
#[derive(Clone, Debug)]
pub(crate) struct Visitor {
    ip: HeaderValue,
    secure: bool,
    /// `X-Forwarded-For` is the trusted proxy's and stays.
    forwarded: bool,
}

impl Visitor {
    pub(crate) fn new(ip: IpAddr) -> Self {
        Self {
            ip: HeaderValue::from_maybe_shared(bytes::Bytes::from(ip.to_canonical().to_string()))
                .unwrap_or_else(|_| HeaderValue::from_static("0.0.0.0")),
            secure: false,
            forwarded: false,
        }
    }

    /// The visitor whom a trusted proxy names; `self` where it names none.
    pub(crate) fn behind_proxy(&self, headers: &HeaderMap) -> Self {
        let last = |name: &HeaderName| {
            let value = headers.get_all(name).iter().next_back()?.to_str().ok()?;
            value.rsplit(',').next().map(str::trim)
        };
        let forwarded = last(&X_FORWARDED_FOR).and_then(|text| text.parse::<IpAddr>().ok());
        Self {
            secure: last(&X_FORWARDED_PROTO)
                .is_some_and(|proto| proto.eq_ignore_ascii_case("https")),
            forwarded: headers.contains_key(&X_FORWARDED_FOR),
            ..forwarded.map_or_else(|| self.clone(), Self::new)
        }
    }

    pub(crate) fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    pub(crate) fn is_secure(&self) -> bool {
        self.secure
    }

    /// Sets the headers, replacing whatever the client sent under these names.
    pub(crate) fn stamp(&self, headers: &mut HeaderMap, ray: HeaderValue) {
        headers.insert(&CF_RAY, ray);
        headers.insert(&CF_CONNECTING_IP, self.ip.clone());
        headers.insert(&X_REAL_IP, self.ip.clone());
        if !self.forwarded {
            headers.insert(&X_FORWARDED_FOR, self.ip.clone());
        }
        headers.insert(&CF_IPCOUNTRY, HeaderValue::from_static("XX"));
        headers.insert(&X_FORWARDED_PROTO, HeaderValue::from_static(self.scheme()));
        headers.insert(
            &CF_VISITOR,
            HeaderValue::from_static(if self.secure {
                r#"{"scheme":"https"}"#
            } else {
                r#"{"scheme":"http"}"#
            }),
        );
    }
}

/// Plausible values for a client whose place is unknown; every member that scripts commonly
/// read is there, so that reading one does not fail.
fn cf_json(colo: &str, protocol: &str, secure: bool) -> String {
    let (tls_version, tls_cipher) = if secure {
        ("TLSv1.3", "AEAD-AES128-GCM-SHA256")
    } else {
        ("", "")
    };
    serde_json::json!({
        "asn": 64512,
        "asOrganization": "Private network",
        "city": "Unknown",
        "clientAcceptEncoding": "gzip, br",
        "clientTcpRtt": 0,
        "colo": colo,
        "continent": "EU",
        "country": "XX",
        "edgeRequestKeepAliveStatus": 1,
        "httpProtocol": protocol,
        "latitude": "0.00000",
        "longitude": "0.00000",
        "metroCode": "0",
        "postalCode": "00000",
        "region": "Unknown",
        "regionCode": "XX",
        "requestPriority": "",
        "timezone": "Etc/UTC",
        "tlsCipher": tls_cipher,
        "tlsClientAuth": {
            "certPresented": "0",
            "certRevoked": "0",
            "certVerified": "NONE",
        },
        "tlsVersion": tls_version,
    })
    .to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn rays_differ_and_name_the_place() {
        let edge = Edge::new("LOC");
        let rays: HashSet<String> = (0..1000)
            .map(|_| edge.ray().to_str().unwrap().to_owned())
            .collect();
        assert_eq!(rays.len(), 1000);
        assert!(
            rays.iter()
                .all(|ray| ray.len() == 20 && ray.ends_with("-LOC"))
        );
    }

    #[test]
    fn cf_is_json_and_names_the_protocol() {
        let edge = Edge::new("LOC");
        let cf: serde_json::Value = serde_json::from_str(edge.cf(Version::HTTP_2, true)).unwrap();
        assert_eq!(cf["httpProtocol"], "HTTP/2");
        assert_eq!(cf["tlsVersion"], "TLSv1.3");
        assert_eq!(cf["colo"], "LOC");
    }

    #[test]
    fn a_client_cannot_forge_what_the_edge_sets() {
        let mut headers = HeaderMap::new();
        for name in [
            "cf-connecting-ip",
            "x-real-ip",
            "cf-ray",
            "x-forwarded-proto",
        ] {
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("forged"),
            );
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static("forged"),
            );
        }
        Visitor::new([192, 0, 2, 1].into()).stamp(&mut headers, HeaderValue::from_static("ray"));
        assert!(headers.values().all(|value| value != "forged"));
        assert_eq!(headers["cf-connecting-ip"], "192.0.2.1");
    }

    #[test]
    fn a_trusted_proxy_names_the_visitor() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "x-forwarded-for",
            HeaderValue::from_static("203.0.113.9, 198.51.100.7"),
        );
        headers.insert("x-forwarded-proto", HeaderValue::from_static("https"));
        let visitor = Visitor::new([127, 0, 0, 1].into()).behind_proxy(&headers);
        assert_eq!(visitor.scheme(), "https");
        assert_eq!(visitor.ip, "198.51.100.7");
    }
}
