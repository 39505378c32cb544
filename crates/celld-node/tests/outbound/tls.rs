//! HTTPS with an authority of our own.
//!
//! `tls/localhost.pem` holds a certificate for `localhost` and 127.0.0.1 with its key, valid until
//! 2126 and trusted by nobody but `tls/authority.pem`, whose own key is gone.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use celld_node::outbound::{AllowAll, Outbound, OutboundConfig, OutboundError};
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::{fetch, get, outbound, text};

fn file(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests/outbound/tls", name]
        .iter()
        .collect()
}

/// A server that answers with the version of HTTP that it was spoken to in.
async fn server(protocols: &[&str]) -> SocketAddr {
    let pem = std::fs::read(file("localhost.pem")).unwrap();
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .collect::<Result<Vec<_>, _>>()
        .unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .unwrap();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else {
                    return;
                };
                let service = hyper::service::service_fn(
                    |request: http::Request<hyper::body::Incoming>| async move {
                        let seen = format!("{:?} {}", request.version(), request.uri().path());
                        Ok::<_, Infallible>(http::Response::new(Full::new(Bytes::from(seen))))
                    },
                );
                let _ = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    addr
}

fn trusting() -> Outbound {
    let config = OutboundConfig {
        policy: Arc::new(AllowAll),
        extra_ca_file: Some(file("authority.pem")),
        ..OutboundConfig::default()
    };
    Outbound::new(config, tokio::runtime::Handle::current()).unwrap()
}

#[tokio::test]
async fn the_best_protocol_that_both_speak_is_used() {
    for (protocols, expected) in [
        (&["h2", "http/1.1"][..], "HTTP/2.0 /x"),
        (&["http/1.1"], "HTTP/1.1 /x"),
        (&[], "HTTP/1.1 /x"),
    ] {
        let addr = server(protocols).await;
        let outbound = trusting();
        for host in ["127.0.0.1", "localhost"] {
            let answer = fetch(&outbound, get(format!("https://{host}:{}/x", addr.port())))
                .await
                .unwrap();
            assert_eq!(text(answer).await, expected, "{protocols:?} {host}");
        }
    }
}

#[tokio::test]
async fn a_certificate_that_nobody_vouches_for_is_refused() {
    let addr = server(&["h2"]).await;
    let error = fetch(&outbound(), get(format!("https://{addr}/")))
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with(&format!("connect to {addr} failed: ")),
        "{error}"
    );
    assert!(error.message.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_certificate_of_another_name_is_refused() {
    let addr = server(&["h2"]).await;
    let error = fetch(
        &trusting(),
        get(format!("https://[::ffff:127.0.0.1]:{}/", addr.port())),
    )
    .await
    .unwrap_err();
    assert!(error.message.contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_file_without_certificates_is_refused_by_name() {
    let config = OutboundConfig {
        extra_ca_file: Some(file("../main.rs")),
        ..OutboundConfig::default()
    };
    let error = Outbound::new(config, tokio::runtime::Handle::current())
        .err()
        .unwrap();
    assert!(matches!(error, OutboundError::CaFile { .. }));
    assert!(error.to_string().contains("main.rs"), "{error}");
}
