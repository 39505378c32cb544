//! The session record: what a fleet agrees on about one life of a node.

use std::collections::BTreeSet;

use super::config::Durability;
use super::ids::{Bundled, CertHash, NodeId, Token};
use super::register::Tokened;
use crate::SessionId;

/// The bucket object `sessions/<session>`. Changed by conditional writes only.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SessionRecord {
    /// Names this write of the record.
    pub token: Token,
    /// Whose record it is.
    pub session: SessionId,
    /// The data directory of that life.
    pub node: NodeId,
    /// How far the session's life has come.
    pub phase: Phase,
    /// What proves its writes while it has witnesses. Without any, the bucket does.
    pub durability: Durability,
    /// Those who grant its reads and, with [`Durability::Fleet`], keep its log. Without any, the
    /// session holds a lease: this record must change within the time to live.
    pub witnesses: BTreeSet<NodeId>,
    /// What the bucket held of its log when this was written: where a seal begins to look for the
    /// first free number.
    pub bundled: Bundled,
    /// Hash of the certificate that its links present.
    pub cert: CertHash,
}

/// How far a session's life has come. It never goes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// It lives, as far as the bucket knows.
    Open,
    /// Someone is fencing it off. Its own conditional writes fail from here on, so the witnesses
    /// are those of this record for good.
    Recovering,
    /// It can prove nothing any more and its grants have ended: its cells can be claimed.
    Sealed {
        /// The log object that holds the rest of its log.
        seq: u64,
    },
}

impl SessionRecord {
    /// True when its log may hold proven writes that the bucket lacks.
    pub fn relies_on_followers(&self) -> bool {
        self.durability == Durability::Fleet && !self.witnesses.is_empty()
    }
}

impl Tokened for SessionRecord {
    fn token(&self) -> Token {
        self.token
    }
}
