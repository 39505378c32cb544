//! Refuses WebSocket frames that the library would take: those whose mask bit is wrong for their
//! direction (RFC 6455, section 5.1: clients mask every frame, servers none), and control frames
//! with more than 125 bytes (section 5.5).
//!
//! It follows the frames through the byte stream, looking at headers only. Bytes ahead of a wrong
//! header are passed on; the read behind them fails with [`BadFrame`].

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A frame came masked that must not be, or the other way round; or a control frame is too long.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a WebSocket frame is not as the protocol wants it")]
pub(super) struct BadFrame;

/// Where in a frame the stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    /// Before the first byte.
    Start,
    /// Before the second byte, which holds the mask bit; of a control frame?
    Length(bool),
    /// Within an extended length: bytes to come, value so far.
    Extended(u8, u64),
    /// Within mask and payload: bytes to come.
    Rest(u64),
}

/// Follows one direction of a conversation.
#[derive(Debug)]
struct Frames {
    at: At,
    masked: bool,
}

/// Bit of an opcode that only control frames have.
const CONTROL: u8 = 0x08;
/// Bytes of a masking key.
const KEY_BYTES: u64 = 4;

impl Frames {
    fn new(masked: bool) -> Self {
        Self {
            at: At::Start,
            masked,
        }
    }

    /// Follows `bytes`. An error holds how many of them lie before the wrong frame.
    fn follow(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut start = 0;
        let mut next = 0;
        while next < bytes.len() {
            let byte = bytes[next];
            match self.at {
                At::Start => {
                    start = next;
                    self.at = At::Length(byte & CONTROL != 0);
                    next += 1;
                }
                At::Length(control) => {
                    let wrong_mask = (byte & 0x80 != 0) != self.masked;
                    if wrong_mask || (control && byte & 0x7f > 125) {
                        return Err(start);
                    }
                    self.at = match byte & 0x7f {
                        126 => At::Extended(2, 0),
                        127 => At::Extended(8, 0),
                        short => self.rest(u64::from(short)),
                    };
                    next += 1;
                }
                At::Extended(left, value) => {
                    let value = value << 8 | u64::from(byte);
                    self.at = if left > 1 {
                        At::Extended(left - 1, value)
                    } else {
                        self.rest(value)
                    };
                    next += 1;
                }
                At::Rest(left) => {
                    let here = usize::try_from(left)
                        .unwrap_or(usize::MAX)
                        .min(bytes.len() - next);
                    next += here;
                    self.at = match left - here as u64 {
                        0 => At::Start,
                        left => At::Rest(left),
                    };
                }
            }
        }
        Ok(())
    }

    fn rest(&self, payload: u64) -> At {
        let key = if self.masked { KEY_BYTES } else { 0 };
        match payload.saturating_add(key) {
            0 => At::Start,
            left => At::Rest(left),
        }
    }
}

/// A reader of frames that are all masked, or all not.
pub(super) struct MaskChecked<R> {
    inner: R,
    frames: Frames,
    failed: bool,
}

impl<R> MaskChecked<R> {
    pub(super) fn new(inner: R, masked: bool) -> Self {
        Self {
            inner,
            frames: Frames::new(masked),
            failed: false,
        }
    }

    /// The reader below, at the position that it has come to.
    pub(super) fn into_inner(self) -> R {
        self.inner
    }
}

impl<R: AsyncRead + Unpin> AsyncRead for MaskChecked<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidData, BadFrame);
        if self.failed {
            return Poll::Ready(Err(wrong()));
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buf))?;
        if let Err(sound) = self.frames.follow(&buf.filled()[before..]) {
            self.failed = true;
            buf.set_filled(before + sound);
            // An empty read would say that the stream has ended.
            if sound == 0 {
                return Poll::Ready(Err(wrong()));
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A frame as it is on the wire.
    fn frame(payload: usize, masked: bool) -> Vec<u8> {
        let bit = if masked { 0x80 } else { 0 };
        let mut out = vec![0x82];
        match payload {
            0..=125 => out.push(bit | payload as u8),
            126..=65_535 => {
                out.push(bit | 126);
                out.extend_from_slice(&(payload as u16).to_be_bytes());
            }
            _ => {
                out.push(bit | 127);
                out.extend_from_slice(&(payload as u64).to_be_bytes());
            }
        }
        if masked {
            out.extend_from_slice(&[0xff; 4]);
        }
        out.resize(out.len() + payload, 0x7f);
        out
    }

    proptest! {
        #[test]
        fn a_wrong_frame_is_found_wherever_reads_are_cut(
            sizes in prop::collection::vec(prop_oneof![0usize..300, 65_000usize..66_000], 0..6),
            masked: bool,
            cut in 1usize..5_000,
        ) {
            let mut stream: Vec<u8> = sizes.iter().flat_map(|size| frame(*size, masked)).collect();
            let mut frames = Frames::new(masked);
            for part in stream.chunks(cut) {
                prop_assert_eq!(frames.follow(part), Ok(()));
            }
            prop_assert_eq!(frames.at, At::Start);
            let sound = stream.len();
            stream.extend(frame(3, !masked));
            let mut frames = Frames::new(masked);
            let mut passed = 0;
            let mut found = false;
            for part in stream.chunks(cut) {
                match frames.follow(part) {
                    Ok(()) => passed += part.len(),
                    Err(ahead) => {
                        passed += ahead;
                        found = true;
                        break;
                    }
                }
            }
            prop_assert!(found);
            // At most the first byte of the wrong frame was passed on, in a read of its own.
            prop_assert!(passed == sound || passed == sound + 1);
        }

        #[test]
        fn any_bytes_are_followed_without_a_panic(parts: Vec<Vec<u8>>, masked: bool) {
            let mut frames = Frames::new(masked);
            for part in parts {
                if frames.follow(&part).is_err() {
                    break;
                }
            }
        }
    }
}
