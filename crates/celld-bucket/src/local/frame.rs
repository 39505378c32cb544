//! The format of an object's file: a fixed header, then the content.
//!
//! | bytes | holds |
//! |---|---|
//! | 0..8 | `celldobj` |
//! | 8..12 | format version, 1 |
//! | 12..16 | CRC-32 of the content |
//! | 16..24 | length of the content |
//! | 24..40 | nonce, random for every write |
//! | 40..44 | CRC-32 of bytes 0..40 |
//! | 44..48 | zero |
//!
//! Numbers are little-endian. The nonce makes the tag, so that equal bytes written twice differ.

use crate::Etag;

/// Length of the header, in bytes.
pub(super) const HEADER_BYTES: usize = 48;

const MAGIC: &[u8; 8] = b"celldobj";
const VERSION: u32 = 1;

/// A header that was found sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// CRC-32 of the content.
    pub crc: u32,
    /// Length of the content, in bytes.
    pub length: u64,
    /// Random for every write.
    pub nonce: u128,
}

impl Header {
    /// Describes `content`, written under `nonce`.
    pub fn describe(content: &[u8], nonce: u128) -> Self {
        Self {
            crc: crc32fast::hash(content),
            length: content.len() as u64,
            nonce,
        }
    }

    /// The tag of this write.
    pub fn etag(&self) -> Etag {
        Etag::new(format!("{:032x}", self.nonce))
    }

    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.crc.to_le_bytes());
        out[16..24].copy_from_slice(&self.length.to_le_bytes());
        out[24..40].copy_from_slice(&self.nonce.to_le_bytes());
        let crc = crc32fast::hash(&out[..40]);
        out[40..44].copy_from_slice(&crc.to_le_bytes());
        out
    }

    /// Reads the header of a file of `file_length` bytes; an error says what is wrong with it.
    pub fn decode(raw: &[u8], file_length: u64) -> Result<Self, &'static str> {
        let raw: &[u8; HEADER_BYTES] = raw
            .get(..HEADER_BYTES)
            .and_then(|raw| raw.try_into().ok())
            .ok_or("shorter than a header")?;
        if &raw[..8] != MAGIC {
            return Err("not written by a bucket");
        }
        if word(raw, 8) != VERSION {
            return Err("a format version that this celld does not know");
        }
        if word(raw, 40) != crc32fast::hash(&raw[..40]) {
            return Err("a header whose checksum is wrong");
        }
        let mut length = [0; 8];
        length.copy_from_slice(&raw[16..24]);
        let mut nonce = [0; 16];
        nonce.copy_from_slice(&raw[24..40]);
        let header = Self {
            crc: word(raw, 12),
            length: u64::from_le_bytes(length),
            nonce: u128::from_le_bytes(nonce),
        };
        if header.length.checked_add(HEADER_BYTES as u64) != Some(file_length) {
            return Err("truncated or padded");
        }
        Ok(header)
    }
}

fn word(raw: &[u8; HEADER_BYTES], at: usize) -> u32 {
    u32::from_le_bytes([raw[at], raw[at + 1], raw[at + 2], raw[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(content: Vec<u8>, nonce: u128) {
            let header = Header::describe(&content, nonce);
            let total = (HEADER_BYTES + content.len()) as u64;
            prop_assert_eq!(Header::decode(&header.encode(), total), Ok(header));
            prop_assert!(Header::decode(&header.encode(), total + 1).is_err());
        }

        #[test]
        fn any_flipped_bit_is_noticed(bit in 0usize..44 * 8, nonce: u128) {
            let mut raw = Header::describe(b"abc", nonce).encode();
            raw[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Header::decode(&raw, 51).is_err());
        }

        #[test]
        fn foreign_bytes_are_refused(raw: Vec<u8>, length: u64) {
            prop_assert!(Header::decode(&raw, length).is_err());
        }
    }
}
