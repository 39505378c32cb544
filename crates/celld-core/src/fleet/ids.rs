//! Identifiers that only a fleet needs.

use std::fmt;

use crate::{Lsn, SessionId};

/// A node's data directory: 128 random bits written when the directory was made.
///
/// Follower logs lie in it, so a restarted process is the same witness, and a machine with an
/// empty disk is a new one. Copies of a directory must not run side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u128);

impl NodeId {
    /// Wraps random bits that the caller drew.
    pub const fn from_random(bits: u128) -> Self {
        Self(bits)
    }

    /// Parses 32 hex digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        crate::ids::bits_from_hex(text).map(Self)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "n{:x}", self.0)
    }
}

/// Names one write of one object: no two writes of any session carry the same.
///
/// It stands inside the object, so whoever reads the object back knows whose write it was. For
/// the core it takes the place of the store's tag: the shell remembers which tag belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    /// Who wrote it.
    pub session: SessionId,
    /// Counts the session's writes, from 1.
    pub number: u64,
}

impl Token {
    /// Parses what `Display` writes.
    pub fn parse(text: &str) -> Option<Self> {
        let (session, number) = text.split_once('-')?;
        Some(Self {
            session: SessionId::from_hex(session)?,
            number: number.parse().ok()?,
        })
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.session, self.number)
    }
}

/// Gives out a session's tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tokens {
    session: SessionId,
    given: u64,
}

impl Tokens {
    /// Of a session that has given none out.
    pub fn new(session: SessionId) -> Self {
        Self { session, given: 0 }
    }

    /// One that was never given out.
    pub fn fresh(&mut self) -> Token {
        self.given += 1;
        Token {
            session: self.session,
            number: self.given,
        }
    }
}

/// SHA-256 of a session's certificate: peers accept no other from it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CertHash(pub [u8; 32]);

/// A contiguous beginning of a session's bundles: what a bucket holds for certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bundled {
    /// The first sequence number that may be free. The first object of a log has number 1.
    pub next_seq: u64,
    /// Bundles before `next_seq` hold the log up to this position.
    pub lsn: Lsn,
}

impl Default for Bundled {
    fn default() -> Self {
        Self {
            next_seq: 1,
            lsn: Lsn::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_as_they_are_written() {
        let mut tokens = Tokens::new(SessionId::from_random(0xab));
        assert_ne!(tokens.fresh(), tokens.fresh());
        let token = tokens.fresh();
        assert_eq!(Token::parse(&token.to_string()), Some(token));
        for bad in ["", "-", "ab-1", "000000000000000000000000000000ab-x"] {
            assert_eq!(Token::parse(bad), None, "{bad:?}");
        }
    }
}
