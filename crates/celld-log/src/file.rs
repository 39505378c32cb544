//! The format of a log file: a header in a block of its own, then frames.
//!
//! | bytes of the header | holds |
//! |---|---|
//! | 0..8 | `celldlog` |
//! | 8..12 | format version, 1 |
//! | 12..16 | zero |
//! | 16..32 | session |
//! | 32..40 | generation: orders the sessions of a directory |
//! | 40..48 | number of the file within its session, from 1 |
//! | 48..56 | LSN of the first record |
//! | 56..64 | salt, random for every file |
//! | 64..68 | CRC-32 of bytes 0..64 |
//!
//! | bytes of a frame | holds |
//! |---|---|
//! | 0..4 | length of head and segment together |
//! | 4..8 | length of the head, at least 1 |
//! | 8..16 | LSN |
//! | 16..24 | LSN of the first record that was written together with this one |
//! | 24..28 | CRC-32 of head and segment |
//! | 28..32 | CRC-32 of the salt and bytes 0..28 |
//! | 32.. | head, segment, zeros up to a multiple of 8 |
//!
//! Numbers are little-endian. The rest of the file is zeros. The salt keeps bytes that a user
//! stores in a cell from being taken for frames.

use celld_core::{Lsn, SessionId};

/// Frames begin here: no later write touches the header's block.
pub(crate) const FRAMES_AT: u64 = 4_096;

/// Length of a header's meaningful part, in bytes.
pub(crate) const HEADER_BYTES: usize = 68;

/// Length of a frame without head and segment, in bytes.
pub(crate) const FRAME_BYTES: usize = 32;

/// Frames begin at multiples of this.
pub(crate) const ALIGN: u64 = 8;

const MAGIC: &[u8; 8] = b"celldlog";
const VERSION: u32 = 1;

/// The header of a log file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub session: SessionId,
    pub generation: u64,
    pub seq: u64,
    pub first_lsn: Lsn,
    pub salt: u64,
}

/// What the first bytes of a file turn out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderRead {
    Sound(Header),
    /// The machine died while the file was being made.
    Unwritten,
    Bad(&'static str),
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&session_bits(self.session).to_le_bytes());
        out[32..40].copy_from_slice(&self.generation.to_le_bytes());
        out[40..48].copy_from_slice(&self.seq.to_le_bytes());
        out[48..56].copy_from_slice(&self.first_lsn.get().to_le_bytes());
        out[56..64].copy_from_slice(&self.salt.to_le_bytes());
        let crc = crc32fast::hash(&out[..64]);
        out[64..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    pub fn decode(raw: &[u8]) -> HeaderRead {
        if raw.iter().all(|byte| *byte == 0) {
            return HeaderRead::Unwritten;
        }
        let Some(raw) = raw.first_chunk::<HEADER_BYTES>() else {
            return HeaderRead::Bad("shorter than a header");
        };
        if &raw[..8] != MAGIC {
            return HeaderRead::Bad("not written by a node log");
        }
        if u32_at(raw, 8) != VERSION {
            return HeaderRead::Bad("a format version that this celld does not know");
        }
        if u32_at(raw, 64) != crc32fast::hash(&raw[..64]) {
            return HeaderRead::Bad("a header whose checksum is wrong");
        }
        // Leaves room to count on from any of them.
        if [32, 40, 48]
            .iter()
            .any(|at| u64_at(raw, *at) > u64::MAX / 2)
        {
            return HeaderRead::Bad("a header with an impossible number");
        }
        let bits = u128::from(u64_at(raw, 16)) | u128::from(u64_at(raw, 24)) << 64;
        HeaderRead::Sound(Self {
            session: SessionId::from_random(bits),
            generation: u64_at(raw, 32),
            seq: u64_at(raw, 40),
            first_lsn: Lsn::new(u64_at(raw, 48)),
            salt: u64_at(raw, 56),
        })
    }
}

/// A session's bits, from its text: the identifier has no other way out.
fn session_bits(session: SessionId) -> u128 {
    u128::from_str_radix(&session.to_string(), 16)
        .expect("a session id is written as 32 hex digits")
}

/// What a frame says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub payload_length: u32,
    pub head_length: u32,
    pub lsn: Lsn,
    pub batch_first: Lsn,
    pub payload_crc: u32,
}

impl Frame {
    pub fn encode(&self, salt: u64) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..4].copy_from_slice(&self.payload_length.to_le_bytes());
        out[4..8].copy_from_slice(&self.head_length.to_le_bytes());
        out[8..16].copy_from_slice(&self.lsn.get().to_le_bytes());
        out[16..24].copy_from_slice(&self.batch_first.get().to_le_bytes());
        out[24..28].copy_from_slice(&self.payload_crc.to_le_bytes());
        let crc = frame_crc(salt, &out);
        out[28..].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// `None` where no frame of this file is.
    pub fn decode(raw: &[u8; FRAME_BYTES], salt: u64) -> Option<Self> {
        let frame = Self {
            payload_length: u32_at(raw, 0),
            head_length: u32_at(raw, 4),
            lsn: Lsn::new(u64_at(raw, 8)),
            batch_first: Lsn::new(u64_at(raw, 16)),
            payload_crc: u32_at(raw, 24),
        };
        let plausible = (1..=frame.payload_length).contains(&frame.head_length)
            && frame.batch_first <= frame.lsn;
        (plausible && u32_at(raw, 28) == frame_crc(salt, raw)).then_some(frame)
    }

    /// Bytes from this frame's begin to the next one's.
    pub fn stride(&self) -> u64 {
        stride_of(u64::from(self.payload_length))
    }
}

/// Bytes that a frame with such a payload takes in a file.
pub(crate) fn stride_of(payload_length: u64) -> u64 {
    (FRAME_BYTES as u64 + payload_length).next_multiple_of(ALIGN)
}

fn frame_crc(salt: u64, raw: &[u8; FRAME_BYTES]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_le_bytes());
    hasher.update(&raw[..28]);
    hasher.finalize()
}

fn u32_at(raw: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

fn u64_at(raw: &[u8], at: usize) -> u64 {
    u64::from(u32_at(raw, at)) | u64::from(u32_at(raw, at + 4)) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_round_trip_and_flipped_bits_are_noticed(session: u128, generation in 0..u64::MAX / 2, seq in 0..u64::MAX / 2, lsn in 0..u64::MAX / 2, salt: u64, bit in 0usize..HEADER_BYTES * 8) {
            let header = Header { session: SessionId::from_random(session), generation, seq, first_lsn: Lsn::new(lsn), salt };
            let mut raw = header.encode();
            prop_assert_eq!(Header::decode(&raw), HeaderRead::Sound(header));
            raw[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(matches!(Header::decode(&raw), HeaderRead::Bad(_)));
        }

        #[test]
        fn frames_round_trip_and_flipped_bits_are_noticed(length in 1u32.., lsn: u64, crc: u32, salt: u64, bit in 0usize..FRAME_BYTES * 8) {
            let frame = Frame { payload_length: length, head_length: length, lsn: Lsn::new(lsn), batch_first: Lsn::new(lsn), payload_crc: crc };
            let mut raw = frame.encode(salt);
            prop_assert_eq!(Frame::decode(&raw, salt), Some(frame));
            prop_assert_eq!(Frame::decode(&raw, salt.wrapping_add(1)), None);
            raw[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(Frame::decode(&raw, salt), None);
        }

        #[test]
        fn foreign_bytes_are_refused(raw: Vec<u8>, frame: [u8; FRAME_BYTES]) {
            prop_assert!(!matches!(Header::decode(&raw), HeaderRead::Sound(_)));
            prop_assert_eq!(Frame::decode(&frame, 7), None);
        }
    }

    #[test]
    fn a_later_version_is_named() {
        let mut raw = Header {
            session: SessionId::from_random(1),
            generation: 1,
            seq: 1,
            first_lsn: Lsn::new(1),
            salt: 1,
        }
        .encode();
        raw[8] = 2;
        assert_eq!(
            Header::decode(&raw),
            HeaderRead::Bad("a format version that this celld does not know")
        );
        assert_eq!(Header::decode(&[0; 4096]), HeaderRead::Unwritten);
        assert_eq!(Header::decode(&[]), HeaderRead::Unwritten);
    }
}
