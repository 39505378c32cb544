//! The bridge over an in-memory pipe.

use super::*;
use celld_runtime::socket::socket_pair;
use proptest::prelude::*;

fn config() -> BridgeConfig {
    BridgeConfig {
        message_max_bytes: 1 << 20,
        close_wait: Duration::from_millis(200),
        phase: None,
    }
}

#[tokio::test]
async fn a_peer_that_never_closes_is_left_after_a_while() {
    let (wire, _peer) = tokio::io::duplex(1 << 16);
    let (script, end) = socket_pair();
    let bridge = tokio::spawn(run(wire, Role::Server, end, config()));
    script
        .outgoing
        .send(SocketMessage::Close(None))
        .await
        .unwrap();
    tokio::time::timeout(Duration::from_secs(5), bridge)
        .await
        .expect("the bridge waits for ever")
        .unwrap();
}

#[tokio::test]
async fn a_client_and_a_server_bridge_understand_each_other() {
    let (left, right) = tokio::io::duplex(1 << 10);
    let (mut client, client_end) = socket_pair();
    let (mut server, server_end) = socket_pair();
    tokio::spawn(run(left, Role::Client, client_end, config()));
    tokio::spawn(run(right, Role::Server, server_end, config()));
    for size in [0, 1, 125, 126, 65_535, 65_536, 500_000] {
        let data = SocketMessage::Binary(vec![size as u8; size].into());
        client.outgoing.send(data.clone()).await.unwrap();
        assert_eq!(server.incoming.recv().await, Some(data.clone()));
        server.outgoing.send(data.clone()).await.unwrap();
        assert_eq!(client.incoming.recv().await, Some(data));
    }
    let close = SocketMessage::Close(Some(CloseFrame {
        code: 1000,
        reason: "done".into(),
    }));
    client.outgoing.send(close.clone()).await.unwrap();
    assert_eq!(server.incoming.recv().await, Some(close.clone()));
    server.outgoing.send(close.clone()).await.unwrap();
    assert_eq!(client.incoming.recv().await, Some(close));
    assert_eq!(client.incoming.recv().await, None);
    assert_eq!(server.incoming.recv().await, None);
}

#[test]
fn close_frames_are_read_strictly() {
    let read = |payload: &[u8]| close_message(payload);
    assert_eq!(read(b""), Ok(SocketMessage::Close(None)));
    assert_eq!(read(b"\x03"), Err(1002));
    for (code, allowed) in [
        (0, false),
        (999, false),
        (1000, true),
        (1004, false),
        (1005, false),
        (1006, false),
        (1011, true),
        (1015, false),
        (2999, false),
        (3000, true),
        (4999, true),
        (5000, false),
    ] {
        assert_eq!(read(&u16::to_be_bytes(code)).is_ok(), allowed, "{code}");
    }
    assert_eq!(read(b"\x03\xe8\xff"), Err(1007));
}

proptest! {
    /// Whatever arrives, the bridge ends when the peer does, and never panics.
    #[test]
    fn hostile_bytes_end_the_bridge(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (wire, mut peer) = tokio::io::duplex(1 << 16);
            let (mut script, end) = socket_pair();
            let bridge = tokio::spawn(run(wire, Role::Server, end, config()));
            let listening = tokio::spawn(async move { while script.incoming.recv().await.is_some() {} });
            peer.write_all(&bytes).await.unwrap();
            drop(peer);
            tokio::time::timeout(Duration::from_secs(5), bridge).await.expect("the bridge hangs").unwrap();
            listening.await.unwrap();
        });
    }
}
