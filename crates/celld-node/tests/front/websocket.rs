//! WebSockets over HTTP/1.1 and HTTP/2.

use std::time::Duration;

use bytes::Bytes;
use celld_node::front::{Front, FrontConfig};
use celld_runtime::exchange::{Body, HttpResponse};
use celld_runtime::socket::{CloseFrame, SocketEnd, SocketMessage, socket_pair};
use fastwebsockets::{FragmentCollector, Frame, OpCode, Payload, Role, WebSocket};
use http::{HeaderMap, HeaderValue, Method, Request, StatusCode};
use http_body_util::Full;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use crate::support::{answering, front, h1, h2, handshake, ok, raw, soon, text};

type Socket = FragmentCollector<TokioIo<Upgraded>>;

/// A listener that accepts every WebSocket and hands the script's ends out.
pub async fn sockets(config: FrontConfig) -> (Front, mpsc::UnboundedReceiver<SocketEnd>) {
    let (ends, taken) = mpsc::unbounded_channel();
    let front = front(config, move |request, reply| {
        assert!(request.websocket);
        assert_eq!(request.method, Method::GET);
        assert_eq!(request.headers["upgrade"], "websocket");
        let (script, wire) = socket_pair();
        let mut headers = HeaderMap::new();
        if request.headers.contains_key("sec-websocket-protocol") {
            headers.insert("sec-websocket-protocol", HeaderValue::from_static("chat"));
        }
        reply.send(Ok(HttpResponse {
            status: StatusCode::SWITCHING_PROTOCOLS,
            headers,
            body: Body::Empty,
            websocket: Some(wire),
            body_is_encoded: false,
            status_text: None,
            url: None,
        }));
        let _ = ends.send(script);
    })
    .await;
    (front, taken)
}

fn upgrade_request() -> http::request::Builder {
    Request::get("/socket")
        .header("host", "a")
        .header("upgrade", "websocket")
        .header("connection", "Upgrade")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
}

async fn over_http1(front: &Front) -> Socket {
    let mut client = h1(front.local_addr()).await;
    let answer = client
        .send_request(upgrade_request().body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::SWITCHING_PROTOCOLS);
    // The example of RFC 6455, section 1.3.
    assert_eq!(
        answer.headers()["sec-websocket-accept"],
        "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    );
    let upgraded = hyper::upgrade::on(answer).await.unwrap();
    socket(upgraded)
}

async fn over_http2(front: &Front) -> Socket {
    let mut client = h2(front.local_addr()).await;
    // The server's SETTINGS allow the extended CONNECT; a plain exchange waits for them.
    tokio::time::sleep(Duration::from_millis(50)).await;
    let mut request = Request::builder()
        .method(Method::CONNECT)
        .uri("http://a/socket")
        .header("sec-websocket-version", "13")
        .body(Full::default())
        .unwrap();
    request
        .extensions_mut()
        .insert(hyper::ext::Protocol::from_static("websocket"));
    let answer = client.send_request(request).await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    socket(hyper::upgrade::on(answer).await.unwrap())
}

fn socket(upgraded: Upgraded) -> Socket {
    let mut socket = WebSocket::after_handshake(TokioIo::new(upgraded), Role::Client);
    socket.set_auto_close(false);
    FragmentCollector::new(socket)
}

async fn send(socket: &mut Socket, frame: Frame<'_>) {
    let frame = Frame::new(
        frame.fin,
        frame.opcode,
        None,
        Payload::Owned(frame.payload.to_vec()),
    );
    soon("sending", socket.write_frame(frame)).await.unwrap();
}

async fn receive(socket: &mut Socket) -> (OpCode, Vec<u8>) {
    let frame = soon("a frame", socket.read_frame()).await.unwrap();
    (frame.opcode, frame.payload.to_vec())
}

async fn converse(mut socket: Socket, mut script: SocketEnd) {
    send(
        &mut socket,
        Frame::text(Payload::Borrowed("grüße".as_bytes())),
    )
    .await;
    assert_eq!(
        soon("text", script.incoming.recv()).await,
        Some(SocketMessage::Text("grüße".into()))
    );
    let big = vec![7u8; 300_000];
    send(&mut socket, Frame::binary(Payload::Borrowed(&big))).await;
    assert_eq!(
        soon("binary", script.incoming.recv()).await,
        Some(SocketMessage::Binary(big.clone().into()))
    );
    script
        .outgoing
        .send(SocketMessage::Text("hello".into()))
        .await
        .unwrap();
    assert_eq!(
        receive(&mut socket).await,
        (OpCode::Text, b"hello".to_vec())
    );
    script
        .outgoing
        .send(SocketMessage::Binary(Bytes::from(big.clone())))
        .await
        .unwrap();
    assert_eq!(receive(&mut socket).await, (OpCode::Binary, big));
    send(
        &mut socket,
        Frame::new(true, OpCode::Ping, None, Payload::Borrowed(b"beat")),
    )
    .await;
    assert_eq!(receive(&mut socket).await, (OpCode::Pong, b"beat".to_vec()));
    // The client closes, the script echoes.
    send(&mut socket, Frame::close(4001, b"bye")).await;
    let close = SocketMessage::Close(Some(CloseFrame {
        code: 4001,
        reason: "bye".into(),
    }));
    assert_eq!(
        soon("close", script.incoming.recv()).await,
        Some(close.clone())
    );
    script.outgoing.send(close).await.unwrap();
    let (opcode, payload) = receive(&mut socket).await;
    assert_eq!((opcode, &payload[..]), (OpCode::Close, &b"\x0f\xa1bye"[..]));
    assert_eq!(soon("the end", script.incoming.recv()).await, None);
    assert!(
        soon("the end of the connection", socket.read_frame())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn messages_pings_and_closes_travel_over_http1() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let socket = over_http1(&front).await;
    converse(socket, ends.recv().await.unwrap()).await;
    soon("the end of the connection", async {
        while front.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn messages_pings_and_closes_travel_over_http2() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let socket = over_http2(&front).await;
    converse(socket, ends.recv().await.unwrap()).await;
}

#[tokio::test]
async fn the_script_can_close_first() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut socket = over_http1(&front).await;
    let mut script = ends.recv().await.unwrap();
    script
        .outgoing
        .send(SocketMessage::Close(None))
        .await
        .unwrap();
    assert_eq!(receive(&mut socket).await, (OpCode::Close, Vec::new()));
    // What the client had still to say arrives.
    send(&mut socket, Frame::text(Payload::Borrowed(b"wait"))).await;
    assert_eq!(
        soon("text", script.incoming.recv()).await,
        Some(SocketMessage::Text("wait".into()))
    );
}

#[tokio::test]
async fn a_lost_connection_ends_without_a_close() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let socket = over_http1(&front).await;
    let mut script = ends.recv().await.unwrap();
    drop(socket);
    assert_eq!(soon("the loss", script.incoming.recv()).await, None);
    soon("the other direction's end", script.outgoing.closed()).await;
}

#[tokio::test]
async fn a_vanished_script_ends_the_connection() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut socket = over_http1(&front).await;
    drop(ends.recv().await.unwrap());
    assert!(soon("the end", socket.read_frame()).await.is_err());
}

#[tokio::test]
async fn the_chosen_subprotocol_is_announced() {
    let (front, _ends) = sockets(FrontConfig::default()).await;
    let mut client = h1(front.local_addr()).await;
    let request = upgrade_request()
        .header("sec-websocket-protocol", "chat, superchat")
        .body(Full::default())
        .unwrap();
    let answer = client.send_request(request).await.unwrap();
    assert_eq!(answer.headers()["sec-websocket-protocol"], "chat");
}

#[tokio::test]
async fn an_answer_without_a_socket_is_an_ordinary_one() {
    let front = answering(|request| {
        assert!(request.websocket);
        let mut answer = ok("no sockets here");
        answer.status = StatusCode::FORBIDDEN;
        Ok(answer)
    })
    .await;
    let mut client = h1(front.local_addr()).await;
    let answer = client
        .send_request(upgrade_request().body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(answer.status(), StatusCode::FORBIDDEN);
    assert_eq!(text(answer).await, "no sockets here");
    // The connection goes on.
    let again = client
        .send_request(upgrade_request().body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(again.status(), StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_wrong_handshake_is_refused() {
    let (front, _ends) = sockets(FrontConfig::default()).await;
    let head = "GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\n";
    let old = raw(
        front.local_addr(),
        format!("{head}Sec-WebSocket-Version: 8\r\n\r\n").as_bytes(),
        "\r\n\r\n",
    )
    .await;
    assert!(
        old.starts_with("HTTP/1.1 426 ") && old.contains("sec-websocket-version: 13\r\n"),
        "{old}"
    );
    let keyless = raw(
        front.local_addr(),
        format!("{head}Sec-WebSocket-Version: 13\r\n\r\n").as_bytes(),
        "\r\n\r\n",
    )
    .await;
    assert!(keyless.starts_with("HTTP/1.1 400 "), "{keyless}");
}

#[tokio::test]
async fn fragments_are_put_together() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut socket = over_http1(&front).await;
    let mut script = ends.recv().await.unwrap();
    // "ü" is cut in two.
    let parts: [(bool, OpCode, &[u8]); 3] = [
        (false, OpCode::Text, b"gr\xc3"),
        (false, OpCode::Continuation, b"\xbc"),
        (true, OpCode::Continuation, b"n"),
    ];
    for (fin, opcode, bytes) in parts {
        send(
            &mut socket,
            Frame::new(fin, opcode, None, Payload::Borrowed(bytes)),
        )
        .await;
        send(
            &mut socket,
            Frame::new(true, OpCode::Ping, None, Payload::Borrowed(b"")),
        )
        .await;
    }
    assert_eq!(
        soon("the text", script.incoming.recv()).await,
        Some(SocketMessage::Text("grün".into()))
    );
}

#[tokio::test]
async fn violations_are_answered_with_their_codes() {
    let config = FrontConfig {
        socket_message_max_bytes: 1_000,
        ..FrontConfig::default()
    };
    let (front, mut ends) = sockets(config).await;
    let long = vec![b'x'; 600];
    let too_long = vec![b'x'; 1_001];
    let cases: [(&str, u16, Vec<Frame<'_>>); 6] = [
        (
            "text that is not UTF-8",
            1007,
            vec![Frame::text(Payload::Borrowed(b"\xff"))],
        ),
        (
            "a frame over the limit",
            1009,
            vec![Frame::binary(Payload::Borrowed(&too_long))],
        ),
        (
            "fragments over the limit",
            1009,
            vec![
                Frame::new(false, OpCode::Binary, None, Payload::Borrowed(&long)),
                Frame::new(true, OpCode::Continuation, None, Payload::Borrowed(&long)),
            ],
        ),
        (
            "a continuation of nothing",
            1002,
            vec![Frame::new(
                true,
                OpCode::Continuation,
                None,
                Payload::Borrowed(b""),
            )],
        ),
        ("a reserved close code", 1002, vec![Frame::close(1005, b"")]),
        (
            "a message inside a message",
            1002,
            vec![
                Frame::new(false, OpCode::Text, None, Payload::Borrowed(b"a")),
                Frame::text(Payload::Borrowed(b"b")),
            ],
        ),
    ];
    for (what, code, frames) in cases {
        let mut socket = over_http1(&front).await;
        let mut script = ends.recv().await.unwrap();
        for frame in frames {
            send(&mut socket, frame).await;
        }
        let (opcode, payload) = receive(&mut socket).await;
        assert_eq!(
            (opcode, payload),
            (OpCode::Close, code.to_be_bytes().to_vec()),
            "{what}"
        );
        let end = soon("the end", script.incoming.recv()).await;
        assert!(
            matches!(end, Some(SocketMessage::Failure(_))),
            "{what}: {end:?}"
        );
    }
}

#[tokio::test]
async fn a_message_of_exactly_the_limit_passes() {
    let config = FrontConfig {
        socket_message_max_bytes: 1_000,
        ..FrontConfig::default()
    };
    let (front, mut ends) = sockets(config).await;
    let mut socket = over_http1(&front).await;
    send(&mut socket, Frame::binary(Payload::Borrowed(&[1; 1_000]))).await;
    let message = soon("the message", ends.recv().await.unwrap().incoming.recv()).await;
    assert!(matches!(message, Some(SocketMessage::Binary(data)) if data.len() == 1_000));
}

#[tokio::test]
async fn a_script_that_does_not_read_holds_the_client_back() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut socket = over_http1(&front).await;
    let mut script = ends.recv().await.unwrap();
    let big = vec![9u8; 1 << 20];
    let mut sent = 0;
    loop {
        let frame = Frame::binary(Payload::Owned(big.clone()));
        match tokio::time::timeout(Duration::from_millis(300), socket.write_frame(frame)).await {
            Ok(written) => written.unwrap(),
            Err(_) => break,
        }
        sent += 1;
        assert!(sent < 100, "{sent} MiB were taken though nobody reads");
    }
    for _ in 0..sent {
        assert!(matches!(
            soon("a message", script.incoming.recv()).await,
            Some(SocketMessage::Binary(_))
        ));
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_holds_the_script_back() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let _socket = over_http1(&front).await;
    let script = ends.recv().await.unwrap();
    let big = Bytes::from(vec![9u8; 1 << 20]);
    let mut sent = 0;
    let stalled = async {
        while script
            .outgoing
            .send(SocketMessage::Binary(big.clone()))
            .await
            .is_ok()
        {
            sent += 1;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(1), stalled)
            .await
            .is_err()
    );
    // The channel's capacity and the kernel's buffers, no more.
    assert!(
        sent < 1_100,
        "{sent} messages were taken though nobody reads"
    );
}

#[tokio::test]
async fn shutdown_tells_clients_to_come_back() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut socket = over_http1(&front).await;
    let _script = ends.recv().await.unwrap();
    let shutdown = tokio::spawn(front.shutdown(Duration::from_secs(5)));
    let (opcode, payload) = receive(&mut socket).await;
    assert_eq!(
        (opcode, &payload[..2]),
        (OpCode::Close, &1001u16.to_be_bytes()[..])
    );
    send(&mut socket, Frame::close(1001, b"")).await;
    assert_eq!(soon("shutdown", shutdown).await.unwrap(), 0);
}

#[tokio::test]
async fn a_flood_of_pings_is_answered_without_memory() {
    let (front, mut ends) = sockets(FrontConfig::default()).await;
    let mut stream = handshake(&front).await;
    let _script = ends.recv().await.unwrap();
    let ping = [0x89, 0x80, 0, 0, 0, 0].repeat(10_000);
    let mut total = 0;
    while total < 1 << 30 {
        match tokio::time::timeout(Duration::from_millis(300), stream.write(&ping)).await {
            Ok(Ok(written)) => total += written,
            _ => break,
        }
    }
    assert!(
        total < 64 << 20,
        "{total} bytes of pings were taken though no pong is read"
    );
}
