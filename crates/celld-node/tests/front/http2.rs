//! Requests and answers over HTTP/2 with prior knowledge.

use bytes::Bytes;
use http::{HeaderValue, Method, Request};
use http_body_util::{BodyExt, Full};

use crate::support::{answering, drain, front, h2, ok, soon, text};

#[tokio::test]
async fn a_request_looks_as_it_does_over_http1() {
    let front = answering(|request| {
        let host = request.headers["host"].to_str().unwrap().to_owned();
        let cookie = request.headers["cookie"].to_str().unwrap().to_owned();
        assert!(request.cf.as_deref().unwrap().contains("HTTP/2"));
        let mut answer = ok(format!(
            "{} {} {host} {cookie}",
            request.method, request.url
        ));
        answer
            .headers
            .insert("connection", HeaderValue::from_static("close"));
        Ok(answer)
    })
    .await;
    let mut client = h2(front.local_addr()).await;
    let request = Request::get("http://test.example:99/x?y")
        .header("cookie", "a=1")
        .header("cookie", "b=2")
        .body(Full::default())
        .unwrap();
    let answer = client.send_request(request).await.unwrap();
    assert_eq!(
        text(answer).await,
        "GET http://test.example:99/x?y test.example:99 a=1; b=2"
    );
}

#[tokio::test]
async fn head_has_no_body() {
    let front = answering(|_| Ok(ok("twelve bytes"))).await;
    let mut client = h2(front.local_addr()).await;
    let request = Request::head("http://a/").body(Full::default()).unwrap();
    let answer = client.send_request(request).await.unwrap();
    assert_eq!(answer.headers()["content-length"], "12");
    assert!(
        answer
            .into_body()
            .collect()
            .await
            .unwrap()
            .to_bytes()
            .is_empty()
    );
}

#[tokio::test]
async fn bodies_travel_both_ways() {
    let front = front(Default::default(), |request, reply| {
        tokio::spawn(async move {
            let bytes = drain(request.body).await.unwrap();
            reply.send(Ok(ok(bytes)));
        });
    })
    .await;
    let client = h2(front.local_addr()).await;
    // One of each way of taking a body in, and several at once.
    let sizes = [0, 1, 1_000, 64 * 1024, 64 * 1024 + 1, 3 << 20];
    let exchanges = sizes.map(|size| {
        let mut client = client.clone();
        async move {
            let sent = Bytes::from(vec![b'x'; size]);
            let request = Request::builder()
                .method(Method::POST)
                .uri("http://a/")
                .body(Full::new(sent.clone()))
                .unwrap();
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(
                answer.into_body().collect().await.unwrap().to_bytes().len(),
                sent.len()
            );
        }
    });
    soon("the exchanges", futures::future::join_all(exchanges)).await;
}

#[tokio::test]
async fn a_reset_stream_abandons_its_request_only() {
    let (told, mut abandoned) = tokio::sync::mpsc::channel(1);
    let front = front(Default::default(), move |request, mut reply| {
        if request.url.ends_with("/slow") {
            let told = told.clone();
            tokio::spawn(async move {
                reply.abandoned().await;
                told.send(()).await.unwrap();
            });
        } else {
            reply.send(Ok(ok("alive")));
        }
    })
    .await;
    let mut client = h2(front.local_addr()).await;
    let slow = client.send_request(Request::get("http://a/slow").body(Full::default()).unwrap());
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(100), slow)
            .await
            .is_err()
    );
    soon("the abandonment", abandoned.recv()).await.unwrap();
    let answer = client
        .send_request(Request::get("http://a/").body(Full::default()).unwrap())
        .await
        .unwrap();
    assert_eq!(text(answer).await, "alive");
}
