//! The internal listener: a node's own requests and answers behind a token.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{self, HeaderMap, HeaderValue};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, watch};

use super::{Gate, Phase, accept, connection};

/// Connections served at once.
const CONNECTIONS_MAX: usize = 256;
/// Largest request body, in bytes.
const BODY_MAX_BYTES: usize = 16 << 20;
/// Time for a request's head to arrive, and for an idle connection to be kept.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);
/// Time for a request's body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);
/// Shortest token that is worth checking.
const TOKEN_MIN_CHARS: usize = 16;

/// Paths that tell nothing and are asked by load balancers, which have no token.
const OPEN_PATHS: [&str; 2] = ["/healthz", "/readyz"];

/// Answers the internal listener's requests; they have passed the token check.
pub trait InternalHandler: Send + Sync + 'static {
    /// Answers one request, whose body is here as a whole (at most 16 MiB).
    fn handle(
        &self,
        request: Request<Bytes>,
    ) -> Pin<Box<dyn Future<Output = Response<Bytes>> + Send + '_>>;
}

/// The token file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The file cannot be read.
    #[error("cannot read the token file {}: {error}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: std::io::Error,
    },
    /// The token is too short, or not printable ASCII.
    #[error("the token in {} is not usable: put one line of at least {TOKEN_MIN_CHARS} printable ASCII characters there, e.g. from `openssl rand -hex 32`", .0.display())]
    Unusable(PathBuf),
}

/// Reads a token file: one line.
///
/// # Errors
/// The file cannot be read, or what it holds is no token.
pub fn read_token(path: &Path) -> Result<String, TokenError> {
    let text = std::fs::read_to_string(path).map_err(|error| TokenError::Unreadable {
        path: path.to_owned(),
        error,
    })?;
    let token = text.trim();
    if token.len() < TOKEN_MIN_CHARS || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(TokenError::Unusable(path.to_owned()));
    }
    Ok(token.to_owned())
}

/// A running internal listener. Dropping it cuts every connection.
pub struct InternalFront {
    local_addr: SocketAddr,
    phase: watch::Sender<Phase>,
    gate: Gate,
}

struct Shared {
    token: Option<String>,
    handler: Arc<dyn InternalHandler>,
    phase: watch::Receiver<Phase>,
}

impl InternalFront {
    /// Serves `listener` on the current tokio runtime. With a token, a request must carry it as
    /// `Authorization: Bearer …`, but for `/healthz` and `/readyz`; without, everybody who reaches
    /// the listener is trusted.
    ///
    /// # Errors
    /// The listener's address cannot be read.
    pub fn start(
        listener: TcpListener,
        token: Option<String>,
        handler: Arc<dyn InternalHandler>,
    ) -> std::io::Result<Self> {
        let local_addr = listener.local_addr()?;
        let (phase, watcher) = watch::channel(Phase::Serving);
        let gate = Gate::new(CONNECTIONS_MAX);
        let shared = Arc::new(Shared {
            token,
            handler,
            phase: watcher.clone(),
        });
        tokio::spawn(accept(
            listener,
            gate.clone(),
            watcher,
            move |stream, _, permit| {
                tokio::spawn(serve(shared.clone(), stream, permit));
            },
        ));
        Ok(Self {
            local_addr,
            phase,
            gate,
        })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Stops accepting, lets requests in progress finish within `budget`, and cuts what is left.
    /// Returns how many connections had to be cut.
    pub async fn shutdown(self, budget: Duration) -> usize {
        self.phase.send_replace(Phase::Draining);
        let left = self.gate.wait_until_empty(budget).await;
        self.phase.send_replace(Phase::Cut);
        left
    }
}

async fn serve(shared: Arc<Shared>, stream: TcpStream, permit: OwnedSemaphorePermit) {
    connection::prepare(&stream);
    let mut phase = shared.phase.clone();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIMEOUT);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(HEADER_TIMEOUT);
    let service = service_fn(|request| {
        let shared = shared.clone();
        async move { Ok::<_, Infallible>(answer(&shared, request).await) }
    });
    let mut http = pin!(builder.serve_connection(TokioIo::new(stream), service));
    tokio::select! {
        biased;
        _ = http.as_mut() => return,
        () = reached(&mut phase, |phase| phase != Phase::Serving) => {}
    }
    http.as_mut().graceful_shutdown();
    tokio::select! {
        _ = http => {}
        () = reached(&mut phase, |phase| phase == Phase::Cut) => {}
    }
    drop(permit);
}

/// Completes when the listener reaches a phase, or is gone.
async fn reached(phase: &mut watch::Receiver<Phase>, which: impl Fn(Phase) -> bool) {
    let _ = phase.wait_for(|phase| which(*phase)).await;
}

async fn answer(shared: &Shared, request: Request<Incoming>) -> Response<Full<Bytes>> {
    if let Some(token) = &shared.token
        && !OPEN_PATHS.contains(&request.uri().path())
        && !bears(request.headers(), token)
    {
        let mut response = plain(
            StatusCode::UNAUTHORIZED,
            "This listener needs the internal token: send `Authorization: Bearer <token>`.\n",
        );
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        return response;
    }
    let (parts, body) = request.into_parts();
    let declared = http_body::Body::size_hint(&body).lower();
    let too_large = || {
        plain(
            StatusCode::PAYLOAD_TOO_LARGE,
            "The request body is larger than 16 MiB.\n",
        )
    };
    if declared > BODY_MAX_BYTES as u64 {
        return too_large();
    }
    let arriving = Limited::new(body, BODY_MAX_BYTES).collect();
    match tokio::time::timeout(BODY_TIMEOUT, arriving).await {
        Ok(Ok(body)) => {
            let request = Request::from_parts(parts, body.to_bytes());
            shared.handler.handle(request).await.map(Full::new)
        }
        Ok(Err(error)) if error.is::<LengthLimitError>() => too_large(),
        Ok(Err(_)) | Err(_) => plain(
            StatusCode::REQUEST_TIMEOUT,
            "The request body did not arrive in time.\n",
        ),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

fn bears(headers: &HeaderMap, token: &str) -> bool {
    let sent = headers
        .get(header::AUTHORIZATION)
        .map(HeaderValue::as_bytes)
        .and_then(|value| {
            let (scheme, rest) = value.split_at_checked(7)?;
            scheme.eq_ignore_ascii_case(b"bearer ").then_some(rest)
        });
    sent.is_some_and(|sent| same(sent, token.as_bytes()))
}

/// Compares in a time that depends on the lengths only, so that a token cannot be guessed byte
/// by byte.
fn same(left: &[u8], right: &[u8]) -> bool {
    let differences = left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b));
    left.len() == right.len() && std::hint::black_box(differences) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_very_token_passes() {
        let sent = |value: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, HeaderValue::from_static(value));
            bears(&headers, "0123456789abcdef")
        };
        assert!(sent("Bearer 0123456789abcdef"));
        assert!(sent("bearer 0123456789abcdef"));
        assert!(!sent("Bearer 0123456789abcdeF"));
        assert!(!sent("Bearer 0123456789abcdef0"));
        assert!(!sent("Bearer "));
        assert!(!sent("0123456789abcdef"));
        assert!(!bears(&HeaderMap::new(), "0123456789abcdef"));
    }

    #[test]
    fn a_token_file_must_hold_a_token() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        assert!(matches!(
            read_token(&path),
            Err(TokenError::Unreadable { .. })
        ));
        std::fs::write(&path, "short\n").unwrap();
        assert!(matches!(read_token(&path), Err(TokenError::Unusable(_))));
        std::fs::write(&path, "0123456789abcdef\n").unwrap();
        assert_eq!(read_token(&path).unwrap(), "0123456789abcdef");
    }
}
