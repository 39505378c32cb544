//! Periods and limits of a fleet.

use std::hash::{Hash, Hasher};

use super::sabotage::Fault;

/// Periods and limits. All nodes of a fleet must agree on `lease_ttl_ms`, `grant_ms` and
/// `drift_permille`; the shell compares them when nodes meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// A session without witnesses keeps its authority for so long after the last renewal was
    /// sent, in ms (default 9,000). Renewed when a third has passed: 0.33 requests a second.
    pub lease_ttl_ms: u64,
    /// A witness's grant covers the owner's reads for so long after the owner asked, in ms
    /// (default 800).
    pub grant_ms: u64,
    /// How far two clocks may run apart, in thousandths of the time that passes (default 50).
    /// Who waits for another's authority to end waits so much longer.
    pub drift_permille: u64,
    /// Pause between two pings of a peer, in ms (default 250).
    pub ping_ms: u64,
    /// A peer that was not heard for so long is suspected, in ms (default 700).
    pub suspect_ms: u64,
    /// A peer whose link was reset is suspected when it is not heard again within so long, in ms
    /// (default 150).
    pub reset_grace_ms: u64,
    /// A witness that was not heard for so long is dropped from the record, in ms (default 500).
    pub drop_ms: u64,
    /// Witnesses that a session wants (default 2).
    pub witnesses: usize,
    /// What proves a write in a fleet (default: its followers).
    pub durability: Durability,
    /// In a fleet with followers, a bundle is written so long after the first record that it
    /// holds, in ms (default 1,000).
    pub bundle_ms: u64,
    /// Bundles that may be on their way at the same time (default 4).
    pub bundles_in_flight: usize,
    /// Records that may wait for the bucket before writes are refused (default 1,000,000). The
    /// shell bounds their bytes.
    pub backlog_max: u64,
    /// Batches are sent again to a follower that has not answered for so long, in ms
    /// (default 300).
    pub resend_ms: u64,
    /// Pause before a refused or failed bucket request is made again, in ms (default 100).
    pub retry_ms: u64,
    /// Longest time that one bucket request may take, in ms (default 2,000).
    pub request_ms: u64,
    /// A request that needs a takeover is refused after so long, in ms (default 10,000). The
    /// takeover goes on.
    pub takeover_wait_ms: u64,
    /// A mistake that a test has planted.
    pub(crate) planted: Option<Fault>,
}

/// What proves that a log is durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Durability {
    /// Every recorded follower has flushed it; the bucket follows.
    Fleet,
    /// The bucket has it.
    Bucket,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            lease_ttl_ms: 9_000,
            grant_ms: 800,
            drift_permille: 50,
            ping_ms: 250,
            suspect_ms: 700,
            reset_grace_ms: 150,
            drop_ms: 500,
            witnesses: 2,
            durability: Durability::Fleet,
            bundle_ms: 1_000,
            bundles_in_flight: 4,
            backlog_max: 1_000_000,
            resend_ms: 300,
            retry_ms: 100,
            request_ms: 2_000,
            takeover_wait_ms: 10_000,
            planted: None,
        }
    }
}

impl Config {
    /// How long to wait, on this node's clock, until `ms` have passed on any other's.
    ///
    /// Both clocks may be wrong, one by running fast and one by running slow, and each reading is
    /// cut to whole milliseconds.
    pub fn outlast_ms(&self, ms: u64) -> u64 {
        ms + (ms * self.drift_permille * 2).div_ceil(1_000) + 2
    }

    /// True when a test has planted this mistake. Constantly false in the product.
    pub(crate) fn plants(&self, fault: Fault) -> bool {
        cfg!(test) && self.planted == Some(fault)
    }
}

/// One configuration lives as long as its machine, so it does not tell states apart.
impl Hash for Config {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}
