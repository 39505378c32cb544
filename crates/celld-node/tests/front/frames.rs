//! Hostile WebSocket frames: each is answered with its code, behind whatever came before it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use celld_node::front::{Front, FrontConfig};
use celld_runtime::socket::{SocketEnd, SocketMessage};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

use crate::support::{handshake, soon};
use crate::websocket::sockets;

/// Largest message that the listener under test takes, in bytes.
const MESSAGE_MAX: usize = 2_000;

/// A small generator, so that a seed names a run.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

/// A frame with any first byte, masked or not.
fn frame(first: u8, payload: &[u8], masked: bool) -> Vec<u8> {
    let bit = if masked { 0x80 } else { 0 };
    let mut out = vec![first];
    match payload.len() {
        short @ 0..=125 => out.push(bit | short as u8),
        length => {
            out.push(bit | 126);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
    }
    if masked {
        out.extend_from_slice(&[7, 0, 9, 3]);
        let mask = [7, 0, 9, 3].into_iter().cycle();
        out.extend(payload.iter().zip(mask).map(|(byte, mask)| byte ^ mask));
    } else {
        out.extend_from_slice(payload);
    }
    out
}

/// A frame that breaks the protocol, and the code that it deserves.
fn hostile(random: &mut Random) -> (&'static str, Vec<u8>, u16) {
    let short = random.below(100);
    let payload = random.bytes(short);
    let text = "x".repeat(short).into_bytes();
    match random.below(12) {
        0 => ("no mask", frame(0x81, &text, false), 1002),
        1 => ("no mask on a ping", frame(0x89, &text, false), 1002),
        2 => {
            let bits = (random.below(7) as u8 + 1) << 4;
            ("reserved bits", frame(0x81 | bits, &text, true), 1002)
        }
        3 => {
            let opcode = [3, 4, 5, 6, 7, 11, 12, 13, 14, 15][random.below(10)];
            (
                "an unknown opcode",
                frame(0x80 | opcode, &payload, true),
                1002,
            )
        }
        4 => {
            let opcode = 8 + random.below(3) as u8;
            ("a control frame in parts", frame(opcode, b"", true), 1002)
        }
        5 => {
            let opcode = 0x88 + random.below(3) as u8;
            let long = random.bytes(126 + short);
            ("a long control frame", frame(opcode, &long, true), 1002)
        }
        6 => {
            let long = vec![b'x'; MESSAGE_MAX + 1 + short];
            ("a message over the limit", frame(0x82, &long, true), 1009)
        }
        7 => {
            let mut huge = vec![0x82, 0x80 | 127];
            huge.extend_from_slice(&(u64::MAX - short as u64).to_be_bytes());
            huge.extend_from_slice(&[1, 2, 3, 4]);
            ("a length beyond everything", huge, 1009)
        }
        8 => {
            let mut broken = text;
            broken.push(0xff);
            ("text that is no UTF-8", frame(0x81, &broken, true), 1007)
        }
        9 => ("half a close code", frame(0x88, &[3], true), 1002),
        10 => {
            let code: u16 = [0, 999, 1004, 1005, 1006, 1015, 2999, 5000][random.below(8)];
            (
                "a forbidden close code",
                frame(0x88, &code.to_be_bytes(), true),
                1002,
            )
        }
        _ => (
            "a continuation of nothing",
            frame(0x80, &payload, true),
            1002,
        ),
    }
}

/// The code of the close frame at the end of what a server has said.
fn close_code(said: &[u8]) -> Option<u16> {
    let mut rest = said;
    while let [first, length, tail @ ..] = rest {
        let payload = tail.get(..usize::from(*length))?;
        if first & 0x0f == 8 {
            return Some(u16::from_be_bytes([*payload.first()?, *payload.get(1)?]));
        }
        rest = &tail[payload.len()..];
    }
    None
}

/// Counts panics of this process's tasks: tokio would hide them. Those of other tests' own code
/// do not count.
fn panics() -> &'static AtomicUsize {
    static PANICS: AtomicUsize = AtomicUsize::new(0);
    static HOOK: std::sync::Once = std::sync::Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let place = info.location().map_or("", |location| location.file());
            if !place.contains("tests/") {
                PANICS.fetch_add(1, Ordering::SeqCst);
            }
            before(info);
        }));
    });
    &PANICS
}

async fn listener() -> (Front, mpsc::UnboundedReceiver<SocketEnd>) {
    sockets(FrontConfig {
        socket_message_max_bytes: MESSAGE_MAX,
        ..FrontConfig::default()
    })
    .await
}

#[tokio::test]
async fn a_hostile_frame_is_answered_with_its_code_behind_what_came_before() {
    let before = panics().load(Ordering::SeqCst);
    let (front, mut ends) = listener().await;
    for seed in 1..=400u64 {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let (what, bytes, code) = hostile(&mut random);
        let good = random.below(4);
        let mut stream = Vec::new();
        for number in 0..good {
            let text = format!("message {number}");
            stream.extend(frame(0x81, text.as_bytes(), true));
        }
        stream.extend(bytes);
        let mut client = handshake(&front).await;
        let mut script = soon("the script's end", ends.recv()).await.unwrap();
        // Frames arrive in pieces of any size.
        while !stream.is_empty() {
            let cut = (random.below(stream.len()) + 1).min(stream.len());
            let piece: Vec<u8> = stream.drain(..cut).collect();
            if client.write_all(&piece).await.is_err() {
                break;
            }
        }
        let mut said = Vec::new();
        let mut scratch = [0; 1024];
        while close_code(&said).is_none() {
            let waits = format!("a close frame (seed {seed}, {what})");
            match soon(&waits, client.read(&mut scratch)).await {
                Ok(count) if count > 0 => said.extend_from_slice(&scratch[..count]),
                ended => panic!("seed {seed}, {what}: {ended:?} after {said:?}"),
            }
        }
        assert_eq!(close_code(&said), Some(code), "seed {seed}, {what}");
        for number in 0..good {
            let wanted = SocketMessage::Text(format!("message {number}"));
            let got = soon("a message", script.incoming.recv()).await;
            assert_eq!(got, Some(wanted), "seed {seed}, {what}");
        }
        let end = soon("the end", script.incoming.recv()).await;
        let told =
            matches!(&end, Some(SocketMessage::Failure(why)) if why.contains(&code.to_string()));
        assert!(told, "seed {seed}, {what}: {end:?}");
        drop(client);
    }
    assert_eq!(panics().load(Ordering::SeqCst), before);
}

#[tokio::test]
async fn any_bytes_behind_a_handshake_end_in_order() {
    let before = panics().load(Ordering::SeqCst);
    let (front, mut ends) = listener().await;
    for seed in 1..=200u64 {
        let mut random = Random(seed.wrapping_mul(0x2545_f491_4f6c_dd1d));
        let length = random.below(3_000);
        let bytes = random.bytes(length);
        let mut client = handshake(&front).await;
        let mut script = soon("the script's end", ends.recv()).await.unwrap();
        let _ = client.write_all(&bytes).await;
        let _ = client.shutdown().await;
        let end = async {
            while let Some(message) = script.incoming.recv().await {
                if message.is_end() {
                    break;
                }
            }
        };
        soon("the end", end).await;
        drop(script);
        let mut scratch = Vec::new();
        let read = tokio::time::timeout(Duration::from_secs(20), client.read_to_end(&mut scratch));
        assert!(read.await.is_ok(), "seed {seed}: the connection is kept");
    }
    assert_eq!(panics().load(Ordering::SeqCst), before);
}
