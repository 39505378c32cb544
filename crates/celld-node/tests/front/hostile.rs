//! Requests as nobody should send them. Whatever comes, the listener answers the next client.

use bytes::Bytes;
use celld_runtime::exchange::{Body, HttpResponse};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::support::{drain, front, get, ok, soon};

/// A seeded generator (splitmix64): a failing run can be repeated.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

const SEEDS: &[&[u8]] = &[
    b"GET /a?b=c HTTP/1.1\r\nHost: a.example:80\r\nAccept: */*\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81\x85\x01\x02\x03\x04abcde",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x05\x01\x05\x00\x00\x00\x01\x82\x84\x86\x41\x01a",
];

fn mutate(random: &mut Random, seed: &[u8]) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        match random.below(5) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes.insert(at, random.next() as u8),
            2 => {
                bytes.remove(at);
            }
            3 => bytes.truncate(at.max(1)),
            _ => {
                let part = bytes[at..(at + 20).min(bytes.len())].to_vec();
                bytes.splice(at..at, part);
            }
        }
        if bytes.is_empty() {
            bytes.push(b'G');
        }
    }
    bytes
}

#[tokio::test]
async fn mutated_requests_do_no_harm() {
    let front = front(Default::default(), |request, reply| {
        tokio::spawn(async move {
            let body = drain(request.body).await.unwrap_or_default();
            reply.send(Ok(ok(Bytes::from(body))));
        });
    })
    .await;
    let addr = front.local_addr();
    let mut random = Random(20_261_130);
    for round in 0..600 {
        let bytes = mutate(&mut random, SEEDS[round % SEEDS.len()]);
        let mut stream = TcpStream::connect(addr).await.unwrap();
        // The listener may close before it has read everything.
        let _ = stream.write_all(&bytes).await;
        if round % 3 == 0 {
            let _ = stream.shutdown().await;
        }
        drop(stream);
    }
    let answer = soon("an answer", get(addr, "/", "")).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    soon("the end of all connections", async {
        while front.connections() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_handler_that_panics_costs_its_own_request_only() {
    let front = front(Default::default(), |request, reply| {
        assert!(!request.url.ends_with("/panic"), "a planted panic");
        reply.send(Ok(HttpResponse {
            body: Body::Bytes("fine".into()),
            ..ok("")
        }));
    })
    .await;
    assert_eq!(get(front.local_addr(), "/panic", "").await, "");
    assert!(get(front.local_addr(), "/", "").await.ends_with("fine"));
    // The connection that was lost is not counted for ever.
    soon("the end of all connections", async {
        while front.connections() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
}
