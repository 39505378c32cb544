//! Requests and answers over HTTP/1.1.

use celld_node::front::FrontConfig;
use celld_runtime::exchange::{Body, HttpResponse};
use http::{HeaderValue, StatusCode};

use crate::support::{answering, front, get, ok, raw};

#[tokio::test]
async fn a_request_reaches_the_handler_with_what_the_edge_adds() {
    let front = answering(|request| {
        let header = |name: &str| {
            request
                .headers
                .get(name)
                .map_or("-", |value| value.to_str().unwrap())
                .to_owned()
        };
        let cf: serde_json::Value = serde_json::from_str(request.cf.as_deref().unwrap()).unwrap();
        Ok(ok(format!(
            "{} {} ip={} real={} proto={} country={} visitor={} ray={} cf={} ws={}",
            request.method,
            request.url,
            header("cf-connecting-ip"),
            header("x-real-ip"),
            header("x-forwarded-proto"),
            header("cf-ipcountry"),
            header("cf-visitor"),
            header("cf-ray").len(),
            cf["httpProtocol"],
            request.websocket,
        )))
    })
    .await;
    let answer = get(
        front.local_addr(),
        "/a/../b?q=1",
        "CF-Connecting-IP: 6.6.6.6\r\n",
    )
    .await;
    assert!(
        answer.ends_with(
            "GET http://test.example/b?q=1 ip=127.0.0.1 real=127.0.0.1 proto=http country=XX visitor={\"scheme\":\"http\"} ray=20 cf=\"HTTP/1.1\" ws=false"
        ),
        "{answer}"
    );
}

#[tokio::test]
async fn requests_that_make_no_url_get_400() {
    let front = answering(|_| Ok(ok("reached"))).await;
    for request in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a@b\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: :\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n",
        "NONSENSE\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ] {
        let answer = raw(front.local_addr(), request.as_bytes(), "\r\n\r\n").await;
        assert!(
            answer.starts_with("HTTP/1.1 400 "),
            "{request:?} got {answer:?}"
        );
    }
}

#[tokio::test]
async fn connect_is_refused() {
    let front = answering(|_| Ok(ok("reached"))).await;
    let answer = raw(
        front.local_addr(),
        b"CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n",
        "\r\n\r\n",
    )
    .await;
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
}

#[tokio::test]
async fn long_urls_get_414_and_large_headers_431() {
    let front = answering(|_| Ok(ok("reached"))).await;
    let path = |bytes: usize| format!("/{}", "a".repeat(bytes));
    assert!(
        get(front.local_addr(), &path(16_000), "")
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        get(front.local_addr(), &path(17_000), "")
            .await
            .starts_with("HTTP/1.1 414 ")
    );
    assert!(
        get(front.local_addr(), &path(100_000), "")
            .await
            .starts_with("HTTP/1.1 414 ")
    );
    let header = |bytes: usize| format!("x-big: {}\r\n", "a".repeat(bytes));
    assert!(
        get(front.local_addr(), "/", &header(120_000))
            .await
            .starts_with("HTTP/1.1 200 ")
    );
    assert!(
        get(front.local_addr(), "/", &header(132_000))
            .await
            .starts_with("HTTP/1.1 431 ")
    );
    assert!(
        get(front.local_addr(), "/", &header(400_000))
            .await
            .starts_with("HTTP/1.1 431 ")
    );
}

#[tokio::test]
async fn head_has_the_length_of_the_body_and_no_body() {
    let front = answering(|_| Ok(ok("twelve bytes"))).await;
    let answer = raw(
        front.local_addr(),
        b"HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n",
        "",
    )
    .await;
    assert!(answer.contains("content-length: 12\r\n"), "{answer}");
    assert!(answer.ends_with("\r\n\r\n"), "{answer}");
}

#[tokio::test]
async fn answers_without_a_body_have_none() {
    for status in [204, 205, 304] {
        let front = answering(move |_| {
            let mut answer = ok("must not be sent");
            answer.status = StatusCode::from_u16(status).unwrap();
            answer
                .headers
                .insert("content-length", HeaderValue::from_static("16"));
            Ok(answer)
        })
        .await;
        let answer = get(front.local_addr(), "/", "").await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} ")),
            "{answer}"
        );
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        assert!(!answer.contains("transfer-encoding"), "{answer}");
    }
}

#[tokio::test]
async fn a_null_body_has_length_zero() {
    let front = answering(|_| {
        Ok(HttpResponse {
            body: Body::Empty,
            ..ok("")
        })
    })
    .await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(answer.contains("content-length: 0\r\n"), "{answer}");
}

#[tokio::test]
async fn fields_of_the_connection_stay_on_it() {
    let front = answering(|request| {
        let names: Vec<&str> = request.headers.keys().map(|name| name.as_str()).collect();
        let mut answer = ok(names.join(" "));
        for (name, value) in [
            ("connection", "x-hop"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=1"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("content-length", "999"),
            ("x-end", "1"),
        ] {
            answer.headers.insert(name, HeaderValue::from_static(value));
        }
        Ok(answer)
    })
    .await;
    let answer = get(
        front.local_addr(),
        "/",
        "TE: trailers\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nUpgrade: h2c\r\nX-Kept: 1\r\n",
    )
    .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    for name in [
        "te",
        "keep-alive",
        "proxy-connection",
        "upgrade",
        "connection",
    ] {
        assert!(
            !body.split(' ').any(|sent| sent == name),
            "{name} was passed on in {body}"
        );
    }
    assert!(body.contains("x-kept"));
    assert!(
        !head.contains("x-hop") && !head.contains("keep-alive") && !head.contains("chunked"),
        "{head}"
    );
    assert!(
        head.contains(&format!("content-length: {}", body.len())),
        "{head}"
    );
    assert!(head.contains("x-end: 1"));
}

#[tokio::test]
async fn several_set_cookie_fields_stay_apart() {
    let front = answering(|_| {
        let mut answer = ok("");
        answer
            .headers
            .append("set-cookie", HeaderValue::from_static("a=1"));
        answer
            .headers
            .append("set-cookie", HeaderValue::from_static("b=2"));
        Ok(answer)
    })
    .await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(
        answer.contains("set-cookie: a=1\r\n") && answer.contains("set-cookie: b=2\r\n"),
        "{answer}"
    );
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let front = answering(|request| Ok(ok(format!("[{}]", request.url)))).await;
    let answer = raw(
        front.local_addr(),
        b"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: b\r\n\r\nGET /3 HTTP/1.1\r\nHost: a\r\n\r\n",
        "/3]",
    )
    .await;
    let (one, two) = (
        answer.find("[http://a/1]").unwrap(),
        answer.find("[http://b/2]").unwrap(),
    );
    assert!(one < two && two < answer.find("[http://a/3]").unwrap());
}

#[tokio::test]
async fn the_platform_owns_its_paths() {
    let front = answering(|_| Ok(ok("the Worker"))).await;
    let health = get(front.local_addr(), "/.well-known/celld/health", "").await;
    assert!(
        health.starts_with("HTTP/1.1 200 ") && health.ends_with("ok\n"),
        "{health}"
    );
    assert!(
        get(front.local_addr(), "/.well-known/celld/other", "")
            .await
            .starts_with("HTTP/1.1 404 ")
    );
    assert!(
        get(front.local_addr(), "/.well-known/acme-challenge/x", "")
            .await
            .ends_with("the Worker")
    );
}

#[tokio::test]
async fn a_trusted_proxy_names_scheme_and_client() {
    let config = FrontConfig {
        trust_proxy: true,
        ..FrontConfig::default()
    };
    let front = front(config, |request, reply| {
        let ip = request.headers["cf-connecting-ip"].to_str().unwrap();
        reply.send(Ok(ok(format!("{} {ip}", request.url))));
    })
    .await;
    let answer = get(
        front.local_addr(),
        "/",
        "X-Forwarded-Proto: https\r\nX-Forwarded-For: 1.2.3.4, 203.0.113.7\r\n",
    )
    .await;
    assert!(
        answer.ends_with("https://test.example/ 203.0.113.7"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_reason_phrase_of_ones_own_is_sent_and_an_impossible_one_is_not() {
    let front = answering(|request| {
        let text = if request.url.ends_with("/bad") {
            "a\r\nx-forged: 1"
        } else {
            "Fine by me"
        };
        Ok(HttpResponse {
            status_text: Some(text.into()),
            ..ok("")
        })
    })
    .await;
    let answer = get(front.local_addr(), "/", "").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 Fine by me\r\n"),
        "{answer}"
    );
    let answer = get(front.local_addr(), "/bad", "").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(!answer.contains("forged"), "{answer}");
}
