//! WebSocket handshakes of the public listener: `Upgrade: websocket` (RFC 6455) and HTTP/2's
//! extended CONNECT (RFC 8441).

use celld_runtime::socket::SocketEnd;
use http::header::{self, HeaderMap, HeaderName, HeaderValue};
use http::request::Parts;
use http::{Method, Response, StatusCode, Version};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::admit::Refusal;
use super::body::WireBody;
use super::bridge::{self, BridgeConfig, Role};
use super::hop;

/// A client's wish to switch protocols.
pub(super) struct Upgrade {
    on_upgrade: OnUpgrade,
    /// `Sec-WebSocket-Accept`; `None` over HTTP/2, which needs none.
    accept: Option<HeaderValue>,
}

/// Finds out whether a request asks for a WebSocket. A request that asks wrongly is refused.
pub(super) fn requested(parts: &mut Parts) -> Result<Option<Upgrade>, Refusal> {
    if parts.version == Version::HTTP_2 {
        return Ok(requested_by_http2(parts));
    }
    if parts.version != Version::HTTP_11
        || parts.method != Method::GET
        || !hop::has_token(&parts.headers, &header::UPGRADE, "websocket")
        || !hop::has_token(&parts.headers, &header::CONNECTION, "upgrade")
    {
        return Ok(None);
    }
    if parts
        .headers
        .get(header::SEC_WEBSOCKET_VERSION)
        .is_none_or(|version| version != "13")
    {
        return Err(Refusal {
            header: Some((
                header::SEC_WEBSOCKET_VERSION,
                HeaderValue::from_static("13"),
            )),
            ..Refusal::new(
                StatusCode::UPGRADE_REQUIRED,
                "Only version 13 of the WebSocket protocol is spoken here.",
            )
        });
    }
    let accept = parts
        .headers
        .get(header::SEC_WEBSOCKET_KEY)
        .map(|key| bridge::accept_key(key.as_bytes()));
    let (Some(accept), Some(on_upgrade)) = (accept, parts.extensions.remove::<OnUpgrade>()) else {
        return Err(Refusal::new(
            StatusCode::BAD_REQUEST,
            "The WebSocket handshake lacks its Sec-WebSocket-Key header.",
        ));
    };
    Ok(Some(Upgrade {
        on_upgrade,
        accept: Some(accept),
    }))
}

fn requested_by_http2(parts: &mut Parts) -> Option<Upgrade> {
    let protocol = parts.extensions.get::<hyper::ext::Protocol>()?;
    if parts.method != Method::CONNECT || protocol.as_str() != "websocket" {
        return None;
    }
    let on_upgrade = parts.extensions.remove::<OnUpgrade>()?;
    Some(Upgrade {
        on_upgrade,
        accept: None,
    })
}

impl Upgrade {
    /// Makes the answer that switches protocols, and joins the connection to `end` once it has
    /// been sent. `connection` is kept until the socket is closed.
    pub(super) fn accept<C: Send + 'static>(
        self,
        end: SocketEnd,
        mut headers: HeaderMap,
        config: BridgeConfig,
        connection: C,
    ) -> Response<WireBody> {
        hop::strip(&mut headers);
        for name in [
            header::CONTENT_LENGTH,
            header::SEC_WEBSOCKET_EXTENSIONS,
            header::SEC_WEBSOCKET_ACCEPT,
        ] {
            headers.remove(name);
        }
        let mut response = Response::new(WireBody::empty());
        match self.accept {
            Some(accept) => {
                *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
                headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
                headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
                headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
            }
            None => *response.status_mut() = StatusCode::OK,
        }
        *response.headers_mut() = headers;
        let on_upgrade = self.on_upgrade;
        tokio::spawn(async move {
            // A client that leaves before the switch drops `end`, which its other side sees.
            if let Ok(upgraded) = on_upgrade.await {
                bridge::run(TokioIo::new(upgraded), Role::Server, end, config).await;
            }
            drop(connection);
        });
        response
    }
}

/// Fields of a handshake that mean nothing in an ordinary answer.
pub(super) const HANDSHAKE_FIELDS: [HeaderName; 2] = [
    header::SEC_WEBSOCKET_ACCEPT,
    header::SEC_WEBSOCKET_EXTENSIONS,
];
