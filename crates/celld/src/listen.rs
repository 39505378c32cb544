//! Listening sockets, signals, and what they have to say.

use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpListener;

use crate::errors::{self, Failure};

/// Binds an address. `flag` is the option that chooses another one.
pub async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address)
        .await
        .map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => Failure::new(
                errors::PORT_IN_USE,
                format!(
                    "port {} of {} is in use; choose another with {flag}",
                    address.port(),
                    address.ip()
                ),
            ),
            _ => Failure::new(
                errors::LISTEN,
                format!("cannot listen on {address}: {error}"),
            ),
        })
}

/// The URL under which a listener is reached from this machine.
pub fn url(address: SocketAddr) -> String {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => format!("http://127.0.0.1:{}", address.port()),
        IpAddr::V6(ip) if ip.is_unspecified() => format!("http://[::1]:{}", address.port()),
        _ => format!("http://{address}"),
    }
}

/// Completes at SIGINT or SIGTERM. A second signal ends the process at once.
pub async fn asked_to_stop() -> &'static str {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut interrupt), Ok(mut terminate)) = (
        signal(SignalKind::interrupt()),
        signal(SignalKind::terminate()),
    ) else {
        // Without handlers the system's own apply: the process ends at the first signal.
        return std::future::pending().await;
    };
    let which = tokio::select! {
        _ = interrupt.recv() => "Ctrl-C",
        _ = terminate.recv() => "SIGTERM",
    };
    tokio::spawn(async move {
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
        std::process::exit(130);
    });
    which
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_taken_port_is_named_with_the_option_that_chooses_another() {
        let taken = bind("127.0.0.1:0".parse().unwrap(), "--port")
            .await
            .unwrap();
        let address = taken.local_addr().unwrap();
        let failure = bind(address, "--port").await.unwrap_err();
        assert_eq!(failure.kind.code, "CD0201");
        assert!(
            failure.message.contains(&address.port().to_string())
                && failure.message.contains("--port")
        );
    }

    #[test]
    fn an_unspecified_address_is_shown_as_one_that_can_be_visited() {
        assert_eq!(url("0.0.0.0:80".parse().unwrap()), "http://127.0.0.1:80");
        assert_eq!(url("[::]:80".parse().unwrap()), "http://[::1]:80");
        assert_eq!(url("10.0.0.1:80".parse().unwrap()), "http://10.0.0.1:80");
    }
}
