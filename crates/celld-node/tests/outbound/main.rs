//! Outgoing requests against real servers on the loopback.
// Clippy lets only the test functions themselves unwrap, not their helpers.
#![allow(clippy::unwrap_used)]

mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use celld_node::front::{Front, FrontConfig, Handler};
use celld_node::outbound::{AllowAll, Outbound, OutboundConfig, OutboundPolicy, PublicOnly};
use celld_runtime::exchange::{
    Body, BodyError, EventError, HttpRequest, HttpResponse, Redirect, Reply, body_channel, reply,
};
use celld_runtime::socket::{CloseFrame, SocketMessage, socket_pair};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

const PATIENCE: Duration = Duration::from_secs(10);

struct Closure<F>(F);

impl<F: Fn(HttpRequest, Reply<HttpResponse>) + Send + Sync + 'static> Handler for Closure<F> {
    fn handle(&self, request: HttpRequest, reply: Reply<HttpResponse>) {
        (self.0)(request, reply);
    }
}

async fn server(
    handler: impl Fn(HttpRequest, Reply<HttpResponse>) + Send + Sync + 'static,
) -> Front {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    Front::start(listener, FrontConfig::default(), Arc::new(Closure(handler))).unwrap()
}

fn answer(status: u16, headers: &[(&'static str, &str)], body: Body) -> HttpResponse {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.append(
            HeaderName::from_static(name),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    HttpResponse {
        status: StatusCode::from_u16(status).unwrap(),
        headers: map,
        body,
        websocket: None,
        body_is_encoded: false,
        status_text: None,
        url: None,
    }
}

fn request(method: Method, url: impl Into<String>, body: Body) -> HttpRequest {
    HttpRequest {
        method,
        url: url.into(),
        headers: HeaderMap::new(),
        body,
        cf: None,
        websocket: false,
        redirect: Redirect::Follow,
    }
}

fn get(url: impl Into<String>) -> HttpRequest {
    request(Method::GET, url, Body::Empty)
}

fn outbound_with(policy: impl OutboundPolicy) -> Outbound {
    let config = OutboundConfig {
        policy: Arc::new(policy),
        connect_timeout: Duration::from_millis(500),
        ..OutboundConfig::default()
    };
    Outbound::new(config, tokio::runtime::Handle::current()).unwrap()
}

fn outbound() -> Outbound {
    outbound_with(AllowAll)
}

async fn fetch(outbound: &Outbound, request: HttpRequest) -> Result<HttpResponse, EventError> {
    let (reply, answer) = reply();
    outbound.fetch(request, reply);
    tokio::time::timeout(PATIENCE, answer)
        .await
        .expect("no answer in time")
}

async fn drain(body: Body) -> Result<Vec<u8>, BodyError> {
    match body {
        Body::Empty => Ok(Vec::new()),
        Body::Bytes(bytes) => Ok(bytes.to_vec()),
        Body::Stream(mut stream) => {
            let mut bytes = Vec::new();
            while let Some(chunk) = stream.chunks.recv().await {
                bytes.extend_from_slice(&chunk?);
            }
            Ok(bytes)
        }
    }
}

async fn text(response: HttpResponse) -> String {
    String::from_utf8(drain(response.body).await.unwrap()).unwrap()
}

/// A server that answers each connection with the same bytes, whatever it is asked.
async fn canned(bytes: Vec<u8>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let _ = stream.write_all(&bytes).await;
        }
    });
    addr
}

#[tokio::test]
async fn a_request_arrives_as_it_was_made() {
    let server = server(|request, reply| {
        tokio::spawn(async move {
            let header = |name: &str| {
                request
                    .headers
                    .get(name)
                    .map_or("-", |value| value.to_str().unwrap())
                    .to_owned()
            };
            let seen = format!(
                "{} {} x={} accept-encoding={} host={} length={} connection={}",
                request.method,
                request.url,
                header("x-mine"),
                header("accept-encoding"),
                header("host"),
                header("content-length"),
                header("keep-alive"),
            );
            let body = drain(request.body).await.unwrap();
            reply.send(Ok(answer(
                201,
                &[("x-theirs", "1")],
                Body::Bytes([seen.as_bytes(), b" ", &body].concat().into()),
            )));
        });
    })
    .await;
    let addr = server.local_addr();
    let mut sent = request(
        Method::POST,
        format!("http://user:pw@{addr}/a?b#c"),
        Body::Bytes("hello".into()),
    );
    for (name, value) in [
        ("x-mine", "1"),
        ("host", "evil"),
        ("content-length", "99"),
        ("keep-alive", "1"),
    ] {
        sent.headers.insert(name, HeaderValue::from_static(value));
    }
    let got = fetch(&outbound(), sent).await.unwrap();
    assert_eq!(got.status, 201);
    assert_eq!(got.headers["x-theirs"], "1");
    assert_eq!(got.url, None);
    assert_eq!(
        text(got).await,
        format!(
            "POST http://{addr}/a?b x=1 accept-encoding=gzip, br host={addr} length=5 connection=- hello"
        )
    );
}

#[tokio::test]
async fn streams_travel_both_ways() {
    let server = server(|request, reply| reply.send(Ok(answer(200, &[], request.body)))).await;
    let (sender, stream) = body_channel(None);
    let sent = request(
        Method::PUT,
        format!("http://{}/", server.local_addr()),
        Body::Stream(stream),
    );
    let got = fetch(&outbound(), sent).await.unwrap();
    let Body::Stream(mut got) = got.body else {
        panic!("not a stream")
    };
    for word in ["one", "two", "three"] {
        sender
            .send(Ok(Bytes::from_static(word.as_bytes())))
            .await
            .unwrap();
        let chunk = tokio::time::timeout(PATIENCE, got.chunks.recv())
            .await
            .unwrap()
            .unwrap()
            .unwrap();
        assert_eq!(chunk, word.as_bytes());
    }
    drop(sender);
    assert!(got.chunks.recv().await.is_none());
}

#[tokio::test]
async fn a_failing_request_body_fails_the_request() {
    let server = server(|request, reply| {
        tokio::spawn(async move {
            let outcome = drain(request.body).await;
            reply.send(Ok(answer(
                200,
                &[],
                Body::Bytes(format!("{outcome:?}").into()),
            )));
        });
    })
    .await;
    let (sender, stream) = body_channel(None);
    sender
        .send(Err(BodyError::Failed("the producer broke".into())))
        .await
        .unwrap();
    let sent = request(
        Method::PUT,
        format!("http://{}/", server.local_addr()),
        Body::Stream(stream),
    );
    let error = fetch(&outbound(), sent).await.unwrap_err();
    assert!(error.message.contains("the producer broke"), "{error}");
}

#[tokio::test]
async fn dropping_the_answer_aborts_the_request() {
    let (told, mut abandoned) = tokio::sync::mpsc::unbounded_channel();
    let server = server(move |_, mut reply| {
        let told = told.clone();
        tokio::spawn(async move {
            told.send("arrived").unwrap();
            reply.abandoned().await;
            told.send("abandoned").unwrap();
        });
    })
    .await;
    let (reply, answer) = reply();
    outbound().fetch(get(format!("http://{}/", server.local_addr())), reply);
    assert_eq!(abandoned.recv().await, Some("arrived"));
    drop(answer);
    assert_eq!(
        tokio::time::timeout(PATIENCE, abandoned.recv())
            .await
            .unwrap(),
        Some("abandoned")
    );
}

#[tokio::test]
async fn dropping_the_answers_body_stops_its_producer() {
    let (told, mut stopped) = tokio::sync::mpsc::unbounded_channel();
    let server = server(move |_, reply| {
        let (sender, stream) = body_channel(None);
        reply.send(Ok(answer(200, &[], Body::Stream(stream))));
        let told = told.clone();
        tokio::spawn(async move {
            while sender.send(Ok(Bytes::from(vec![0; 60_000]))).await.is_ok() {}
            told.send(()).unwrap();
        });
    })
    .await;
    let outbound = outbound();
    let got = fetch(&outbound, get(format!("http://{}/", server.local_addr())))
        .await
        .unwrap();
    drop(got);
    tokio::time::timeout(PATIENCE, stopped.recv())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn connections_are_used_again() {
    let server = server(|_, reply| reply.send(Ok(answer(200, &[], Body::Bytes("x".into()))))).await;
    let outbound = outbound();
    for _ in 0..10 {
        text(
            fetch(&outbound, get(format!("http://{}/", server.local_addr())))
                .await
                .unwrap(),
        )
        .await;
    }
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn codings_are_decoded_and_their_headers_kept() {
    let server = server(|request, reply| {
        let coding = request.url.rsplit('/').next().unwrap().to_owned();
        // The listener codes what says that it is coded, when the client takes it.
        assert!(
            request.headers["accept-encoding"]
                .to_str()
                .unwrap()
                .contains("br")
        );
        reply.send(Ok(answer(
            200,
            &[("content-encoding", &coding)],
            Body::Bytes("plain ".repeat(20_000).into()),
        )));
    })
    .await;
    for coding in ["gzip", "br", "deflate"] {
        let mut sent = get(format!("http://{}/{coding}", server.local_addr()));
        sent.headers.insert(
            "accept-encoding",
            HeaderValue::from_static("gzip, br, deflate"),
        );
        let got = fetch(&outbound(), sent).await.unwrap();
        assert_eq!(got.headers["content-encoding"], coding);
        assert!(!got.body_is_encoded);
        assert_eq!(text(got).await, "plain ".repeat(20_000), "{coding}");
    }
}

#[tokio::test]
async fn a_coded_body_that_is_empty_or_broken() {
    let head = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n";
    let empty = canned(head.into()).await;
    let got = fetch(&outbound(), get(format!("http://{empty}/")))
        .await
        .unwrap();
    assert_eq!(drain(got.body).await, Ok(Vec::new()));
    let broken = canned(format!("{head}not gzip").into()).await;
    let got = fetch(&outbound(), get(format!("http://{broken}/")))
        .await
        .unwrap();
    assert!(matches!(drain(got.body).await, Err(BodyError::Failed(_))));
}

#[tokio::test]
async fn an_unusual_reason_phrase_is_kept() {
    let addr = canned(b"HTTP/1.1 200 Fine by me\r\nContent-Length: 0\r\n\r\n".into()).await;
    let got = fetch(&outbound(), get(format!("http://{addr}/")))
        .await
        .unwrap();
    assert_eq!(got.status_text.as_deref(), Some("Fine by me"));
    let addr = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".into()).await;
    let got = fetch(&outbound(), get(format!("http://{addr}/")))
        .await
        .unwrap();
    assert_eq!(got.status_text, None);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_a_disconnect() {
    let addr = canned(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nabc".into()).await;
    let got = fetch(&outbound(), get(format!("http://{addr}/")))
        .await
        .unwrap();
    assert_eq!(drain(got.body).await, Err(BodyError::Disconnected));
}

#[tokio::test]
async fn garbage_and_silence_are_named() {
    let addr = canned(b"this is not HTTP\r\n\r\n".into()).await;
    let error = fetch(&outbound(), get(format!("http://{addr}/")))
        .await
        .unwrap_err();
    assert!(
        error.message.starts_with("Network connection lost")
            && error.message.contains(&addr.to_string()),
        "{error}"
    );
    let addr = canned(Vec::new()).await;
    let error = fetch(&outbound(), get(format!("http://{addr}/")))
        .await
        .unwrap_err();
    assert!(
        error.message.starts_with("Network connection lost"),
        "{error}"
    );
}

#[tokio::test]
async fn redirects_are_followed_and_named() {
    let server = server(|request, reply| {
        tokio::spawn(async move {
            let path = request.url.splitn(4, '/').nth(3).unwrap().to_owned();
            let body = String::from_utf8(drain(request.body).await.unwrap()).unwrap();
            let redirect = |status, location: &str| {
                answer(
                    status,
                    &[("location", location)],
                    Body::Bytes("moved".into()),
                )
            };
            reply.send(Ok(match path.as_str() {
                "start" => redirect(307, "/second?x"),
                "second?x" => redirect(302, "end"),
                "loop" => redirect(302, "/loop"),
                "bad" => redirect(302, "http://[::"),
                "away" => redirect(302, "ftp://elsewhere/"),
                _ => answer(
                    200,
                    &[],
                    Body::Bytes(format!("{} {path} {body}", request.method).into()),
                ),
            }));
        });
    })
    .await;
    let base = format!("http://{}", server.local_addr());
    let outbound = outbound();
    let post = |path: &str, body| request(Method::POST, format!("{base}/{path}"), body);

    let got = fetch(&outbound, post("start", Body::Bytes("payload".into())))
        .await
        .unwrap();
    assert_eq!(got.url.as_deref(), Some(format!("{base}/end").as_str()));
    assert_eq!(text(got).await, "GET end ");

    let manual = HttpRequest {
        redirect: Redirect::Manual,
        ..get(format!("{base}/start"))
    };
    let got = fetch(&outbound, manual).await.unwrap();
    assert_eq!((got.status.as_u16(), got.url), (307, None));

    let error = fetch(&outbound, get(format!("{base}/loop")))
        .await
        .unwrap_err();
    assert!(
        error.name == "TypeError" && error.message.starts_with("Too many redirects"),
        "{error}"
    );
    assert!(
        fetch(&outbound, get(format!("{base}/bad")))
            .await
            .unwrap_err()
            .message
            .contains("Location")
    );
    assert!(
        fetch(&outbound, get(format!("{base}/away")))
            .await
            .unwrap_err()
            .message
            .contains("ftp://elsewhere/")
    );

    // A stream cannot be sent twice, unless the redirect makes a GET of it.
    let (sender, stream) = body_channel(None);
    sender.send(Ok("once".into())).await.unwrap();
    drop(sender);
    let error = fetch(&outbound, post("start", Body::Stream(stream)))
        .await
        .unwrap_err();
    assert!(
        error.name == "TypeError" && error.message.contains("stream"),
        "{error}"
    );
}

#[tokio::test]
async fn failures_to_connect_say_what_failed() {
    let closed = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let error = fetch(&outbound(), get(format!("http://{closed}/")))
        .await
        .unwrap_err();
    assert_eq!(
        error.message,
        format!("connect to {closed} failed: Connection refused")
    );
    let error = fetch(&outbound(), get("http://no-such-host.invalid/"))
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with("cannot resolve no-such-host.invalid"),
        "{error}"
    );
    let error = fetch(&outbound(), get("ftp://a/")).await.unwrap_err();
    assert_eq!(error.name, "TypeError");
    // Plain HTTP where TLS was expected.
    let addr = canned(b"HTTP/1.1 400 Bad Request\r\n\r\n".into()).await;
    let error = fetch(&outbound(), get(format!("https://{addr}/")))
        .await
        .unwrap_err();
    assert!(
        error
            .message
            .starts_with(&format!("connect to {addr} failed: ")),
        "{error}"
    );
}

#[tokio::test]
async fn a_server_that_never_finishes_tls_times_out() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let error = fetch(&outbound(), get(format!("https://{addr}/")))
        .await
        .unwrap_err();
    assert_eq!(
        error.message,
        format!("connect to {addr} timed out after 0.5 s")
    );
}

#[tokio::test]
async fn private_addresses_are_refused_by_number_and_by_name() {
    let server = server(|_, reply| reply.send(Ok(answer(200, &[], Body::Empty)))).await;
    let port = server.local_addr().port();
    let outbound = outbound_with(PublicOnly);
    for host in [
        "127.0.0.1",
        "localhost",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "0x7f.1",
        "169.254.169.254",
    ] {
        let error = fetch(&outbound, get(format!("http://{host}:{port}/")))
            .await
            .unwrap_err();
        assert!(
            error.message.contains("refused") && error.message.contains("--allow-private-network"),
            "{host}: {error}"
        );
    }
    assert_eq!(server.connections(), 0);
}

#[tokio::test]
async fn a_redirect_is_put_to_the_policy_again() {
    struct OnePort(u16);
    impl OutboundPolicy for OnePort {
        fn allows(&self, addr: SocketAddr) -> bool {
            addr.port() == self.0
        }
    }
    let visits = Arc::new(AtomicUsize::new(0));
    let counter = visits.clone();
    let secret = server(move |_, reply| {
        counter.fetch_add(1, Ordering::Relaxed);
        reply.send(Ok(answer(200, &[], Body::Empty)));
    })
    .await;
    let target = format!("http://{}/", secret.local_addr());
    let open =
        server(move |_, reply| reply.send(Ok(answer(302, &[("location", &target)], Body::Empty))))
            .await;
    let outbound = outbound_with(OnePort(open.local_addr().port()));
    let error = fetch(&outbound, get(format!("http://{}/", open.local_addr())))
        .await
        .unwrap_err();
    assert!(error.message.contains("refused"), "{error}");
    assert_eq!(visits.load(Ordering::Relaxed), 0);
}

#[tokio::test]
async fn large_headers_are_refused() {
    let mut sent = get("http://127.0.0.1:1/");
    sent.headers.insert(
        "x-big",
        HeaderValue::from_bytes(&vec![b'x'; 140_000]).unwrap(),
    );
    let error = fetch(&outbound(), sent).await.unwrap_err();
    assert!(
        error.name == "TypeError" && error.message.contains("too large"),
        "{error}"
    );
}

#[tokio::test]
async fn heads_and_empty_posts() {
    let server = server(|request, reply| {
        let length = request
            .headers
            .get("content-length")
            .map_or("none", |value| value.to_str().unwrap());
        reply.send(Ok(answer(
            200,
            &[("x-length", length)],
            Body::Bytes("body".into()),
        )));
    })
    .await;
    let url = format!("http://{}/", server.local_addr());
    let head = fetch(&outbound(), request(Method::HEAD, &url, Body::Empty))
        .await
        .unwrap();
    assert!(matches!(head.body, Body::Empty));
    assert_eq!(head.headers["content-length"], "4");
    let post = fetch(&outbound(), request(Method::POST, &url, Body::Empty))
        .await
        .unwrap();
    assert_eq!(post.headers["x-length"], "0");
}

#[tokio::test]
async fn a_websocket_is_opened_used_and_closed() {
    let server = server(|request, reply| {
        assert!(request.websocket);
        let (mut script, wire) = socket_pair();
        let mut response = answer(101, &[("sec-websocket-protocol", "chat")], Body::Empty);
        response.websocket = Some(wire);
        reply.send(Ok(response));
        tokio::spawn(async move {
            while let Some(message) = script.incoming.recv().await {
                script.outgoing.send(message).await.unwrap();
            }
        });
    })
    .await;
    for scheme in ["ws", "http"] {
        let mut sent = get(format!("{scheme}://{}/", server.local_addr()));
        sent.websocket = true;
        sent.headers
            .insert("upgrade", HeaderValue::from_static("websocket"));
        sent.headers
            .insert("sec-websocket-protocol", HeaderValue::from_static("chat"));
        let got = fetch(&outbound(), sent).await.unwrap();
        assert_eq!(got.status, 101);
        assert_eq!(got.headers["sec-websocket-protocol"], "chat");
        let mut socket = got.websocket.unwrap();
        let close = SocketMessage::Close(Some(CloseFrame {
            code: 1000,
            reason: "done".into(),
        }));
        for message in [
            SocketMessage::Text("hi".into()),
            SocketMessage::Binary(vec![1; 100_000].into()),
            close,
        ] {
            socket.outgoing.send(message.clone()).await.unwrap();
            let echo = tokio::time::timeout(PATIENCE, socket.incoming.recv())
                .await
                .unwrap();
            assert_eq!(echo, Some(message));
        }
        assert_eq!(
            tokio::time::timeout(PATIENCE, socket.incoming.recv())
                .await
                .unwrap(),
            None
        );
    }
}

#[tokio::test]
async fn a_refused_or_forged_handshake() {
    let server =
        server(|_, reply| reply.send(Ok(answer(403, &[], Body::Bytes("no".into()))))).await;
    let socket = |url: String| HttpRequest {
        websocket: true,
        ..get(url)
    };
    let got = fetch(
        &outbound(),
        socket(format!("ws://{}/", server.local_addr())),
    )
    .await
    .unwrap();
    assert_eq!((got.status.as_u16(), got.websocket.is_none()), (403, true));
    assert_eq!(text(got).await, "no");
    let forged = canned(
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n".into(),
    )
    .await;
    let error = fetch(&outbound(), socket(format!("ws://{forged}/")))
        .await
        .unwrap_err();
    assert!(error.message.contains("Sec-WebSocket-Accept"), "{error}");
}
