//! Connections: name resolution, policy, TCP, TLS, and what went wrong with them.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder, MaybeHttpsStream};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioIo;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tower_service::Service;

use super::{OutboundConfig, OutboundError, OutboundPolicy};

/// A connection could not be made.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectFailure {
    /// The name has no address.
    #[error("cannot resolve {host}: {why}")]
    Resolve { host: String, why: String },
    /// The policy forbids every address of the name.
    #[error(
        "connect to {target} refused: {address} is not on the public internet. `celld run` lets Workers reach such addresses with --allow-private-network"
    )]
    Refused { target: String, address: IpAddr },
    /// TCP or TLS failed.
    #[error("connect to {target} failed: {why}")]
    Failed { target: String, why: String },
    /// It took too long.
    #[error("connect to {target} timed out after {} s", limit.as_secs_f32())]
    TimedOut { target: String, limit: Duration },
    /// The URL has no host, or a scheme without connections.
    #[error("cannot connect to {0}: it is not an http or https URL")]
    Unusable(Uri),
}

/// Makes connectors for HTTP/1.1 and HTTP/2, and for HTTP/1.1 alone.
pub(super) fn connectors(config: &OutboundConfig) -> Result<(Connector, Connector), OutboundError> {
    let tls = tls(config)?;
    let tcp = Tcp {
        policy: config.policy.clone(),
    };
    let timeout = config.connect_timeout;
    let builder = || {
        HttpsConnectorBuilder::new()
            .with_tls_config(tls.clone())
            .https_or_http()
    };
    let both = builder().enable_all_versions().wrap_connector(tcp.clone());
    let http1 = builder().enable_http1().wrap_connector(tcp);
    Ok((
        Connector {
            inner: both,
            timeout,
        },
        Connector {
            inner: http1,
            timeout,
        },
    ))
}

/// Trusts Mozilla's authorities, which are built in, so that a node behaves alike on every machine.
fn tls(config: &OutboundConfig) -> Result<ClientConfig, OutboundError> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    if let Some(path) = &config.extra_ca_file {
        let bad = |reason: String| OutboundError::CaFile {
            path: path.clone(),
            reason,
        };
        let certificates: Vec<_> = CertificateDer::pem_file_iter(path)
            .and_then(Iterator::collect)
            .map_err(|error: rustls::pki_types::pem::Error| bad(error.to_string()))?;
        if certificates.is_empty() {
            return Err(bad("it holds no PEM certificate".into()));
        }
        for certificate in certificates {
            roots
                .add(certificate)
                .map_err(|error| bad(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config =
        ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

type Connecting<T> = Pin<Box<dyn Future<Output = Result<T, ConnectFailure>> + Send>>;

/// The whole way to a server, within one time limit.
#[derive(Clone)]
pub(super) struct Connector {
    inner: HttpsConnector<Tcp>,
    timeout: Duration,
}

impl Service<Uri> for Connector {
    type Response = MaybeHttpsStream<TokioIo<TcpStream>>;
    type Error = ConnectFailure;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        // Nothing below ever has to wait before a call.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let limit = self.timeout;
        let target = target(&uri);
        let connecting = self.inner.call(uri);
        Box::pin(async move {
            match tokio::time::timeout(limit, connecting).await {
                Ok(Ok(stream)) => Ok(stream),
                Ok(Err(error)) => Err(match error.downcast::<ConnectFailure>() {
                    Ok(failure) => *failure,
                    Err(error) => ConnectFailure::Failed {
                        target,
                        why: super::error::root_cause(&*error),
                    },
                }),
                Err(_) => Err(ConnectFailure::TimedOut { target, limit }),
            }
        })
    }
}

/// TCP connections to addresses that the policy allows.
#[derive(Clone)]
pub(super) struct Tcp {
    policy: Arc<dyn OutboundPolicy>,
}

impl Service<Uri> for Tcp {
    type Response = TokioIo<TcpStream>;
    type Error = ConnectFailure;
    type Future = Connecting<Self::Response>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), ConnectFailure>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let policy = self.policy.clone();
        Box::pin(async move {
            let addresses = allowed_addresses(&uri, &*policy).await?;
            // The addresses that were checked are the ones that are used: a second look-up could
            // give others.
            let mut connector = HttpConnector::new_with_resolver(Resolved(addresses));
            connector.enforce_http(false);
            connector.set_nodelay(true);
            connector.set_keepalive(Some(Duration::from_secs(60)));
            let target = target(&uri);
            connector
                .call(uri)
                .await
                .map_err(|error| ConnectFailure::Failed {
                    target,
                    why: super::error::root_cause(&error),
                })
        })
    }
}

fn host_and_port(uri: &Uri) -> Option<(&str, u16)> {
    let host = uri.host()?.trim_start_matches('[').trim_end_matches(']');
    let port = uri.port_u16().or(match uri.scheme_str()? {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    Some((host, port))
}

/// `host:port`, for messages.
fn target(uri: &Uri) -> String {
    match (uri.host(), host_and_port(uri)) {
        (Some(host), Some((_, port))) => format!("{host}:{port}"),
        _ => uri.to_string(),
    }
}

async fn allowed_addresses(
    uri: &Uri,
    policy: &dyn OutboundPolicy,
) -> Result<Vec<SocketAddr>, ConnectFailure> {
    let (host, port) = host_and_port(uri).ok_or_else(|| ConnectFailure::Unusable(uri.clone()))?;
    let found: Vec<SocketAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![SocketAddr::new(ip, port)],
        Err(_) => tokio::net::lookup_host((host, port))
            .await
            .map_err(|error| ConnectFailure::Resolve {
                host: host.to_owned(),
                why: error.to_string(),
            })?
            .collect(),
    };
    let first = found.first().map(SocketAddr::ip);
    let allowed: Vec<SocketAddr> = found
        .into_iter()
        .filter(|address| policy.allows(*address))
        .collect();
    match first {
        _ if !allowed.is_empty() => Ok(allowed),
        Some(address) => Err(ConnectFailure::Refused {
            target: target(uri),
            address,
        }),
        None => Err(ConnectFailure::Resolve {
            host: host.to_owned(),
            why: "the name has no address".into(),
        }),
    }
}

/// A resolver that knows its one answer.
#[derive(Clone)]
struct Resolved(Vec<SocketAddr>);

impl Service<Name> for Resolved {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Self::Response>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _name: Name) -> Self::Future {
        std::future::ready(Ok(self.0.clone().into_iter()))
    }
}
