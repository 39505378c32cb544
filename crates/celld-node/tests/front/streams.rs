//! Bodies that arrive and leave in pieces: order, limits, back-pressure, and disconnects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use celld_node::front::FrontConfig;
use celld_runtime::exchange::{Body, BodyError, HttpResponse, body_channel};
use http::HeaderValue;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::support::{drain, front, get, ok, raw, read_until, soon};

#[tokio::test]
async fn a_small_body_arrives_whole_and_others_as_streams() {
    let front = front(FrontConfig::default(), |request, reply| {
        tokio::spawn(async move {
            let kind = match &request.body {
                Body::Empty => "empty".to_owned(),
                Body::Bytes(_) => "bytes".to_owned(),
                Body::Stream(stream) => format!("stream {:?}", stream.length),
            };
            let length = drain(request.body).await.unwrap().len();
            reply.send(Ok(ok(format!("{kind}, {length}"))));
        });
    })
    .await;
    let post = |headers: &str, body: &str| {
        let request =
            format!("POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{headers}\r\n{body}");
        let addr = front.local_addr();
        async move {
            raw(addr, request.as_bytes(), "")
                .await
                .split("\r\n\r\n")
                .nth(1)
                .unwrap()
                .to_owned()
        }
    };
    assert_eq!(post("", "").await, "empty, 0");
    assert_eq!(post("Content-Length: 0\r\n", "").await, "bytes, 0");
    assert_eq!(post("Content-Length: 5\r\n", "hello").await, "bytes, 5");
    let big = "x".repeat(70_000);
    assert_eq!(
        post("Content-Length: 70000\r\n", &big).await,
        "stream Some(70000), 70000"
    );
    assert_eq!(
        post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n0\r\n\r\n").await,
        "stream None, 3"
    );
}

#[tokio::test]
async fn an_expected_continue_is_sent_when_the_body_is_wanted() {
    let front = front(FrontConfig::default(), |request, reply| {
        tokio::spawn(async move { reply.send(Ok(ok(drain(request.body).await.unwrap()))) });
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(
            b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
        )
        .await
        .unwrap();
    assert!(
        read_until(&mut stream, "\r\n\r\n")
            .await
            .starts_with("HTTP/1.1 100 Continue")
    );
    stream.write_all(b"hello").await.unwrap();
    assert!(
        read_until(&mut stream, "hello")
            .await
            .starts_with("HTTP/1.1 200 OK")
    );
}

#[tokio::test]
async fn an_answer_can_begin_before_the_request_ends() {
    let front = front(FrontConfig::default(), |request, reply| {
        let Body::Stream(body) = request.body else {
            panic!("not a stream")
        };
        reply.send(Ok(HttpResponse {
            body: Body::Stream(body),
            ..ok("")
        }));
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
        .await
        .unwrap();
    for word in ["one", "two", "six"] {
        stream
            .write_all(format!("3\r\n{word}\r\n").as_bytes())
            .await
            .unwrap();
        read_until(&mut stream, word).await;
    }
    stream.write_all(b"0\r\n\r\n").await.unwrap();
    read_until(&mut stream, "0\r\n\r\n").await;
}

#[tokio::test]
async fn a_body_over_the_limit_gets_413_or_fails_its_stream() {
    let config = FrontConfig {
        body_max_bytes: 1_000,
        ..FrontConfig::default()
    };
    let front = front(config, |request, reply| {
        tokio::spawn(async move {
            reply.send(Ok(ok(format!(
                "{:?}",
                drain(request.body).await.map(|all| all.len())
            ))))
        });
    })
    .await;
    let addr = front.local_addr();
    let declared = raw(
        addr,
        b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1001\r\n\r\n",
        "\r\n\r\n",
    )
    .await;
    assert!(declared.starts_with("HTTP/1.1 413 "), "{declared}");
    let exactly = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n{}",
        "x".repeat(1_000)
    );
    assert!(
        raw(addr, exactly.as_bytes(), "Ok(1000)")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    let chunk = format!("1f4\r\n{}\r\n", "x".repeat(500));
    let chunked = format!(
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{0}{0}{0}0\r\n\r\n",
        chunk
    );
    let answer = raw(addr, chunked.as_bytes(), "Err").await;
    assert!(
        answer.contains("TooLarge { limit_bytes: 1000 }"),
        "{answer}"
    );
}

/// Writes as much as the other side takes within a moment.
async fn stuff(stream: &mut TcpStream, most: usize) -> usize {
    let chunk = vec![b'x'; 64 * 1024];
    let mut total = 0;
    while total < most {
        match tokio::time::timeout(Duration::from_millis(300), stream.write(&chunk)).await {
            Ok(Ok(written)) => total += written,
            _ => break,
        }
    }
    total
}

#[tokio::test]
async fn an_unread_request_body_holds_its_sender_back() {
    let (keep, mut kept) = mpsc::unbounded_channel();
    let front = front(FrontConfig::default(), move |request, reply| {
        keep.send((request, reply)).unwrap();
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 90000000\r\n\r\n")
        .await
        .unwrap();
    let written = stuff(&mut stream, 90_000_000).await;
    assert!(
        written < 20_000_000,
        "{written} bytes were taken though nobody reads"
    );
    // Once the body is read, all of it comes.
    let (request, _reply) = kept.recv().await.unwrap();
    let reader = tokio::spawn(drain(request.body));
    let rest = vec![b'x'; 90_000_000 - written];
    soon("the rest", stream.write_all(&rest)).await.unwrap();
    assert_eq!(
        soon("the body", reader).await.unwrap().unwrap().len(),
        90_000_000
    );
}

#[tokio::test]
async fn an_unread_answer_holds_its_producer_back() {
    let produced = Arc::new(AtomicUsize::new(0));
    let counter = produced.clone();
    let front = front(FrontConfig::default(), move |_, reply| {
        let (sender, stream) = body_channel(None);
        reply.send(Ok(HttpResponse {
            body: Body::Stream(stream),
            ..ok("")
        }));
        let counter = counter.clone();
        tokio::spawn(async move {
            while sender
                .send(Ok(Bytes::from(vec![b'y'; 64 * 1024])))
                .await
                .is_ok()
            {
                counter.fetch_add(64 * 1024, Ordering::Relaxed);
            }
            counter.store(usize::MAX, Ordering::Relaxed);
        });
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let stalled = produced.load(Ordering::Relaxed);
    assert!(
        stalled < 20_000_000,
        "{stalled} bytes were produced though nobody reads"
    );
    let mut sink = vec![0; 1 << 20];
    let mut read = 0;
    while read < 40_000_000 {
        read += soon("more of the answer", stream.read(&mut sink))
            .await
            .unwrap();
    }
    // A client that leaves stops the producer.
    drop(stream);
    soon("the end of production", async {
        while produced.load(Ordering::Relaxed) != usize::MAX {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_leaves_abandons_its_request() {
    let (told, mut abandoned) = mpsc::unbounded_channel();
    let front = front(FrontConfig::default(), move |_, mut reply| {
        let told = told.clone();
        tokio::spawn(async move {
            reply.abandoned().await;
            told.send(()).unwrap();
        });
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(abandoned.try_recv().is_err());
    drop(stream);
    soon("the abandonment", abandoned.recv()).await.unwrap();
}

#[tokio::test]
async fn a_client_that_leaves_fails_the_body_that_it_was_sending() {
    let (told, mut ended) = mpsc::unbounded_channel();
    let front = front(FrontConfig::default(), move |request, reply| {
        let told = told.clone();
        tokio::spawn(async move {
            told.send(drain(request.body).await).unwrap();
            drop(reply);
        });
    })
    .await;
    for head in [
        "Content-Length: 100000\r\n\r\nabc",
        "Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
    ] {
        let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
        stream
            .write_all(format!("POST / HTTP/1.1\r\nHost: a\r\n{head}").as_bytes())
            .await
            .unwrap();
        tokio::time::sleep(Duration::from_millis(50)).await;
        drop(stream);
        assert_eq!(
            soon("the failure", ended.recv()).await.unwrap(),
            Err(BodyError::Disconnected)
        );
    }
}

#[tokio::test]
async fn an_answer_that_breaks_off_is_not_taken_for_a_whole_one() {
    let front = front(FrontConfig::default(), |request, reply| {
        let length = request.url.ends_with("/declared").then_some(10);
        let (sender, stream) = body_channel(length);
        reply.send(Ok(HttpResponse {
            body: Body::Stream(stream),
            ..ok("")
        }));
        tokio::spawn(async move {
            sender.send(Ok(Bytes::from_static(b"abc"))).await.unwrap();
            if length.is_none() {
                sender
                    .send(Err(BodyError::Failed("broken".into())))
                    .await
                    .unwrap();
            }
        });
    })
    .await;
    let answer = get(front.local_addr(), "/declared", "").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("content-length: 10") && body.len() < 10,
        "{answer}"
    );
    let answer = get(front.local_addr(), "/failing", "").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(
        head.contains("transfer-encoding: chunked") && !body.contains("0\r\n\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_stream_of_declared_length_has_that_content_length() {
    let front = front(FrontConfig::default(), |_, reply| {
        let (sender, stream) = body_channel(Some(6));
        reply.send(Ok(HttpResponse {
            body: Body::Stream(stream),
            ..ok("")
        }));
        tokio::spawn(async move {
            for part in ["abc", "def"] {
                sender
                    .send(Ok(Bytes::from_static(part.as_bytes())))
                    .await
                    .unwrap();
            }
        });
    })
    .await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(
        answer.contains("content-length: 6\r\n") && answer.ends_with("abcdef"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_promised_content_encoding_is_applied_when_the_client_takes_it() {
    let front = front(FrontConfig::default(), |request, reply| {
        let mut answer = ok("plain ".repeat(1_000));
        answer
            .headers
            .insert("content-encoding", HeaderValue::from_static("gzip"));
        answer.body_is_encoded = request.url.ends_with("/manual");
        reply.send(Ok(answer));
    })
    .await;
    let coded = get(front.local_addr(), "/", "Accept-Encoding: gzip\r\n").await;
    assert!(
        coded.contains("content-encoding: gzip\r\n") && coded.len() < 1_000,
        "{coded}"
    );
    let plain = get(front.local_addr(), "/", "").await;
    assert!(
        !plain.contains("content-encoding") && plain.ends_with(&"plain ".repeat(1_000)),
        "{plain}"
    );
    let manual = get(front.local_addr(), "/manual", "Accept-Encoding: gzip\r\n").await;
    assert!(
        manual.contains("content-encoding: gzip\r\n") && manual.ends_with("plain "),
        "{manual}"
    );
}
