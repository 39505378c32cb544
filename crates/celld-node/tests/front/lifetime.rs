//! How long connections live: time limits, the bound on their number, and shutdown.

use std::time::{Duration, Instant};

use celld_node::front::FrontConfig;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use crate::support::{answering, front, get, h2, ok, read_until, soon};

fn quick() -> FrontConfig {
    FrontConfig {
        header_timeout: Duration::from_millis(200),
        idle_timeout: Duration::from_millis(600),
        ..FrontConfig::default()
    }
}

#[tokio::test]
async fn a_head_that_trickles_in_is_cut_off() {
    let front = front(quick(), |_, reply| reply.send(Ok(ok("hi")))).await;
    for prefix in ["", "GET / HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
        stream.write_all(prefix.as_bytes()).await.unwrap();
        if !prefix.is_empty() {
            read_until(&mut stream, "hi").await;
        }
        let began = Instant::now();
        let mut drip = 0;
        while stream
            .write_all(if drip == 0 { b"G" } else { b"E" })
            .await
            .is_ok()
        {
            drip += 1;
            assert!(
                began.elapsed() < Duration::from_secs(5),
                "a slow head is never cut off"
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(
            began.elapsed() < Duration::from_millis(1_500),
            "cut off after {:?}",
            began.elapsed()
        );
    }
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let front = front(quick(), |_, reply| {
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(1_200)).await;
            reply.send(Ok(ok("late")));
        });
    })
    .await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut stream, "late").await;
    let idle = Instant::now();
    read_until(&mut stream, "").await;
    assert!(
        idle.elapsed() >= Duration::from_millis(500) && idle.elapsed() < Duration::from_secs(3),
        "{:?}",
        idle.elapsed()
    );
}

#[tokio::test]
async fn an_idle_http2_connection_is_closed() {
    let front = front(quick(), |_, reply| reply.send(Ok(ok("hi")))).await;
    let mut client = h2(front.local_addr()).await;
    let request = || {
        http::Request::get("http://a/")
            .body(http_body_util::Full::default())
            .unwrap()
    };
    client.send_request(request()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    client
        .send_request(request())
        .await
        .expect("the connection lives while it is used");
    soon("the end of the connection", async {
        while front.connections() > 0 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn connections_over_the_bound_wait_for_their_turn() {
    let config = FrontConfig {
        connections_max: 1,
        ..FrontConfig::default()
    };
    let front = front(config, |_, reply| reply.send(Ok(ok("served")))).await;
    let first = TcpStream::connect(front.local_addr()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let addr = front.local_addr();
    let second = tokio::spawn(async move { get(addr, "/", "").await });
    tokio::time::sleep(Duration::from_millis(150)).await;
    assert!(!second.is_finished());
    drop(first);
    assert!(
        soon("the second connection", second)
            .await
            .unwrap()
            .ends_with("served")
    );
}

#[tokio::test]
async fn shutdown_finishes_what_is_in_progress() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let front = front(FrontConfig::default(), move |_, reply| {
        started.send(()).unwrap();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(300)).await;
            reply.send(Ok(ok("finished")));
        });
    })
    .await;
    let addr = front.local_addr();
    let idle = TcpStream::connect(addr).await.unwrap();
    let busy = tokio::spawn(async move { get(addr, "/", "").await });
    starts.recv().await.unwrap();
    let left = soon("shutdown", front.shutdown(Duration::from_secs(5))).await;
    assert_eq!(left, 0);
    assert!(busy.await.unwrap().ends_with("finished"));
    assert!(
        TcpStream::connect(addr).await.is_err(),
        "the listener still accepts"
    );
    drop(idle);
}

#[tokio::test]
async fn shutdown_cuts_what_exceeds_its_budget() {
    let (keep, mut kept) = mpsc::unbounded_channel();
    let front = front(FrontConfig::default(), move |_, reply| {
        keep.send(reply).unwrap()
    })
    .await;
    let addr = front.local_addr();
    let stuck = tokio::spawn(async move { get(addr, "/", "").await });
    let mut reply = kept.recv().await.unwrap();
    let left = soon("shutdown", front.shutdown(Duration::from_millis(200))).await;
    assert_eq!(left, 1);
    soon("the abandonment", reply.abandoned()).await;
    assert_eq!(soon("the cut", stuck).await.unwrap(), "");
}

#[tokio::test]
async fn dropping_the_listener_cuts_its_connections() {
    let front = answering(|_| Ok(ok("hi"))).await;
    let mut stream = TcpStream::connect(front.local_addr()).await.unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        .await
        .unwrap();
    read_until(&mut stream, "hi").await;
    drop(front);
    assert_eq!(read_until(&mut stream, "").await, "");
}
