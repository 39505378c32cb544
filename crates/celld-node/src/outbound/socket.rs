//! WebSocket connections that scripts open.

use std::time::Duration;

use base64::Engine;
use celld_runtime::exchange::{Body, EventError, HttpRequest, HttpResponse};
use celld_runtime::socket::socket_pair;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Method, StatusCode};
use hyper_util::rt::TokioIo;

use super::exchange::receive;
use super::request::{assemble, prepare_headers, uri_of, url_of};
use super::{Inner, error};
use crate::front::body::WireBody;
use crate::front::bridge::{self, BridgeConfig, Role};
use crate::front::hop;

/// How long the server may take to answer our close frame.
const CLOSE_WAIT: Duration = Duration::from_secs(10);

impl Inner {
    /// Performs the handshake. An answer other than 101 is handed to the script as it is.
    pub(super) async fn open_socket(
        &self,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, EventError> {
        let url = url_of(&request)?;
        let uri = uri_of(&url)?;
        prepare_headers(&mut request.headers, &self.config)?;
        let key = handshake(&mut request.headers)?;
        let outgoing = assemble(&Method::GET, &uri, &request.headers, WireBody::empty());
        let response = self
            .upgrading
            .request(outgoing)
            .await
            .map_err(|failed| error::exchange_failed(&uri, &failed))?;
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            return receive(response, &Method::GET, None).await;
        }
        check(response.headers(), &key).map_err(|why| {
            EventError::new(format!("WebSocket handshake with {url} failed: {why}"))
        })?;
        let mut headers = response.headers().clone();
        hop::strip(&mut headers);
        let upgraded = hyper::upgrade::on(response).await.map_err(|failed| {
            EventError::new(format!("WebSocket handshake with {url} failed: {failed}"))
        })?;
        let (ours, theirs) = socket_pair();
        let config = BridgeConfig {
            message_max_bytes: self.config.socket_message_max_bytes,
            close_wait: CLOSE_WAIT,
            phase: None,
        };
        tokio::spawn(bridge::run(
            TokioIo::new(upgraded),
            Role::Client,
            ours,
            config,
        ));
        Ok(HttpResponse {
            status: StatusCode::SWITCHING_PROTOCOLS,
            headers,
            body: Body::Empty,
            websocket: Some(theirs),
            status_text: None,
            body_is_encoded: false,
            url: None,
        })
    }
}

/// Adds the fields of the handshake, and returns its key.
fn handshake(headers: &mut HeaderMap) -> Result<HeaderValue, EventError> {
    let mut random = [0u8; 16];
    getrandom::fill(&mut random)
        .map_err(|error| EventError::new(format!("no random numbers: {error}")))?;
    let key = base64::engine::general_purpose::STANDARD.encode(random);
    let key = HeaderValue::from_str(&key).map_err(|error| EventError::new(error.to_string()))?;
    // Extensions are not negotiated: none is implemented.
    headers.remove(header::SEC_WEBSOCKET_EXTENSIONS);
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(
        header::SEC_WEBSOCKET_VERSION,
        HeaderValue::from_static("13"),
    );
    headers.insert(header::SEC_WEBSOCKET_KEY, key.clone());
    Ok(key)
}

/// Checks a server's side of the handshake (RFC 6455, section 4.1).
fn check(headers: &HeaderMap, key: &HeaderValue) -> Result<(), &'static str> {
    if !hop::has_token(headers, &header::UPGRADE, "websocket")
        || !hop::has_token(headers, &header::CONNECTION, "upgrade")
    {
        return Err("the server did not switch to the WebSocket protocol");
    }
    if headers.get(header::SEC_WEBSOCKET_ACCEPT) != Some(&bridge::accept_key(key.as_bytes())) {
        return Err("the server's Sec-WebSocket-Accept does not match");
    }
    if headers.contains_key(header::SEC_WEBSOCKET_EXTENSIONS) {
        return Err("the server uses an extension that was not asked for");
    }
    Ok(())
}
