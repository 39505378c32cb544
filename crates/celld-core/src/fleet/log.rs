//! The leader's side of its log: who has what, and what is proven by that.
//!
//! A position is proven when it would be found under every form that the session record may have:
//! the bucket's contiguous beginning counts under all of them; under one that names followers, so
//! does what all of these have flushed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::config::Config;
use super::ids::{Bundled, NodeId, Tokens};
use super::message::Message;
use super::register::{Ask, Found, Register, Settled, Tokened, Written};
use super::sabotage::Fault;
use super::session::SessionRecord;
use super::stop::Stop;
use super::takeover::LogObject;
use crate::{Lsn, MonoMs};

/// One session's log as its leader sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Log {
    config: Config,
    end: Lsn,
    durable: Lsn,
    /// What the bucket has for certain.
    bundled: Bundled,
    /// Bundles on their way or behind one that is.
    bundles: BTreeMap<u64, Bundle>,
    /// The last record that a bundle was cut for.
    cut: Lsn,
    next_seq: u64,
    /// When the first record behind `cut` was appended.
    waiting_since: Option<MonoMs>,
    followers: BTreeMap<NodeId, Follower>,
    out: VecDeque<(NodeId, Message)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bundle {
    after: Lsn,
    end: Lsn,
    /// `None` once it is stored.
    register: Option<Register<LogObject>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Follower {
    /// It has answered that it keeps the log.
    joined: bool,
    acked: Lsn,
    sent: Lsn,
    /// Since when it owes an answer.
    owes_since: MonoMs,
    /// When it was last sent something again.
    sent_at: MonoMs,
}

impl Tokened for LogObject {
    fn token(&self) -> super::ids::Token {
        self.token
    }
}

impl Log {
    pub(crate) fn new(config: Config) -> Self {
        Self {
            config,
            end: Lsn::default(),
            durable: Lsn::default(),
            bundled: Bundled::default(),
            bundles: BTreeMap::new(),
            cut: Lsn::default(),
            next_seq: 1,
            waiting_since: None,
            followers: BTreeMap::new(),
            out: VecDeque::new(),
        }
    }

    pub(crate) fn durable(&self) -> Lsn {
        self.durable
    }

    pub(crate) fn end(&self) -> Lsn {
        self.end
    }

    pub(crate) fn bundled(&self) -> Bundled {
        self.bundled
    }

    /// Records that wait for the bucket.
    pub(crate) fn backlog(&self) -> u64 {
        self.end.get() - self.bundled.lsn.get()
    }

    /// Takes `records` more records and sends them to every follower.
    pub(crate) fn append(&mut self, records: u64, now: MonoMs) -> Lsn {
        self.end = Lsn::new(self.end.get() + records);
        self.waiting_since.get_or_insert(now);
        for (node, follower) in &mut self.followers {
            if follower.joined {
                follower.stream(*node, self.end, now, &mut self.out);
            }
        }
        self.end
    }

    /// Begins to stream to a follower, or begins again after its link was down.
    pub(crate) fn follow(&mut self, node: NodeId, now: MonoMs) {
        let fresh = Follower {
            joined: false,
            acked: Lsn::default(),
            sent: Lsn::default(),
            owes_since: now,
            sent_at: now,
        };
        let follower = self.followers.entry(node).or_insert(fresh);
        follower.again(node, self.bundled.lsn, self.end, now, &mut self.out);
    }

    pub(crate) fn follows(&self, node: NodeId) -> bool {
        self.followers.contains_key(&node)
    }

    pub(crate) fn followers(&self) -> impl Iterator<Item = NodeId> + '_ {
        self.followers.keys().copied()
    }

    pub(crate) fn unfollow(&mut self, node: NodeId) {
        self.followers.remove(&node);
    }

    /// A follower has flushed up to `lsn`.
    pub(crate) fn stored(&mut self, node: NodeId, lsn: Lsn, now: MonoMs) {
        let end = self.end;
        let Some(follower) = self.followers.get_mut(&node) else {
            return;
        };
        if lsn > end {
            // Not of this log.
            return;
        }
        if lsn > follower.acked || !follower.joined {
            follower.owes_since = now;
        }
        follower.acked = follower.acked.max(lsn);
        if !follower.joined {
            follower.joined = true;
            follower.sent = follower.acked;
        }
        follower.sent = follower.sent.max(follower.acked);
        follower.stream(node, end, now, &mut self.out);
    }

    /// True when every proven record would be found at this follower: it may be recorded.
    pub(crate) fn has_caught_up(&self, node: NodeId) -> bool {
        self.followers.get(&node).is_some_and(|follower| {
            follower.joined
                && (follower.acked >= self.durable || self.config.plants(Fault::AddBeforeCaughtUp))
        })
    }

    /// True when every proven record would be found under a session record with these followers.
    /// A record that names none leaves only the bucket to look in.
    pub(crate) fn would_be_found(&self, witnesses: &BTreeSet<NodeId>) -> bool {
        if self.bundled.lsn >= self.durable || self.config.plants(Fault::LeaveTheFollowersEarly) {
            return true;
        }
        !witnesses.is_empty() && witnesses.iter().all(|node| self.has_caught_up(*node))
    }

    /// True when a follower has owed an answer for longer than is borne.
    pub(crate) fn is_slow(&self, node: NodeId, now: MonoMs) -> bool {
        self.followers.get(&node).is_some_and(|follower| {
            let owes = !follower.joined || follower.acked < follower.sent;
            owes && follower.owes_since.plus(self.config.drop_ms) <= now
        })
    }

    /// Moves the proven position, which never falls; true when it moved.
    pub(crate) fn prove<'a>(&mut self, possible: impl Iterator<Item = &'a SessionRecord>) -> bool {
        let followers = possible
            .map(|record| self.followers_have(record))
            .min()
            .unwrap_or_default();
        let proven = match self.config.planted {
            Some(Fault::AcknowledgeBeforeProof) => self.end,
            _ => followers.max(self.bundled.lsn),
        };
        let moved = proven > self.durable;
        self.durable = self.durable.max(proven);
        moved
    }

    fn followers_have(&self, record: &SessionRecord) -> Lsn {
        if !record.relies_on_followers() {
            return Lsn::default();
        }
        let acked = record.witnesses.iter().map(|node| {
            self.followers
                .get(node)
                .map_or(Lsn::default(), |follower| follower.acked)
        });
        if self.config.plants(Fault::OneFollowerIsEnough) {
            return acked.max().unwrap_or_default();
        }
        acked.min().unwrap_or_default()
    }

    /// Cuts the bundle that is due. `soon`: the bucket is the proof.
    pub(crate) fn cut(&mut self, soon: bool, tokens: &mut Tokens, now: MonoMs) {
        let under_way = self
            .bundles
            .values()
            .filter(|bundle| bundle.register.is_some())
            .count();
        let due = self
            .waiting_since
            .is_some_and(|since| soon || since.plus(self.config.bundle_ms) <= now);
        // Numbers behind the first free one are bounded, so that a seal finds that one soon.
        let ahead = self.bundles.len() >= self.config.bundles_in_flight;
        if !due || ahead || under_way >= self.config.bundles_in_flight {
            return;
        }
        let object = LogObject {
            token: tokens.fresh(),
            seal: false,
            end: self.end,
        };
        let mut register = Register::new(None);
        register.propose(object, now);
        let bundle = Bundle {
            after: self.cut,
            end: self.end,
            register: Some(register),
        };
        self.bundles.insert(self.next_seq, bundle);
        self.next_seq += 1;
        self.cut = self.end;
        self.waiting_since = None;
    }

    /// A request for one of the bundles: number, what to do, what is in those before it.
    pub(crate) fn poll_ask(&mut self) -> Option<(u64, Ask<LogObject>, Lsn)> {
        let within_ms = self.config.request_ms;
        self.bundles.iter_mut().find_map(|(seq, bundle)| {
            let ask = bundle.register.as_mut()?.poll(within_ms)?;
            Some((*seq, ask, bundle.after))
        })
    }

    pub(crate) fn poll_message(&mut self) -> Option<(NodeId, Message)> {
        self.out.pop_front()
    }

    pub(crate) fn wrote(&mut self, seq: u64, outcome: Written, now: MonoMs) -> Result<(), Stop> {
        let config = self.config;
        let settled = self
            .register(seq)
            .and_then(|register| register.wrote(outcome, config.retry_ms, now, &config));
        self.settle(seq, settled)
    }

    pub(crate) fn read(
        &mut self,
        seq: u64,
        found: Found<LogObject>,
        now: MonoMs,
    ) -> Result<(), Stop> {
        let pause = self.config.retry_ms;
        let settled = self
            .register(seq)
            .and_then(|register| register.read(found, pause, now));
        self.settle(seq, settled)
    }

    fn register(&mut self, seq: u64) -> Option<&mut Register<LogObject>> {
        self.bundles.get_mut(&seq)?.register.as_mut()
    }

    fn settle(&mut self, seq: u64, settled: Option<Settled<LogObject>>) -> Result<(), Stop> {
        match settled {
            None => Ok(()),
            Some(Settled::Lost(_)) => Err(Stop::LogSealed),
            Some(Settled::Won { .. }) => {
                if let Some(bundle) = self.bundles.get_mut(&seq) {
                    bundle.register = None;
                }
                self.shift();
                Ok(())
            }
        }
    }

    /// Moves the contiguous beginning over what is stored.
    fn shift(&mut self) {
        while let Some(entry) = self.bundles.first_entry() {
            let stored = entry.get().register.is_none();
            if !stored {
                break;
            }
            self.bundled = Bundled {
                next_seq: entry.key() + 1,
                lsn: entry.get().end,
            };
            entry.remove();
        }
        if self.config.plants(Fault::AHoleInTheBundlesCounts) {
            let stored = self
                .bundles
                .values()
                .filter(|bundle| bundle.register.is_none());
            let last = stored.map(|bundle| bundle.end).max();
            self.bundled.lsn = self.bundled.lsn.max(last.unwrap_or_default());
        }
    }

    pub(crate) fn handle_time(&mut self, now: MonoMs) {
        for bundle in self.bundles.values_mut() {
            if let Some(register) = bundle.register.as_mut() {
                register.handle_time(now);
            }
        }
        let (base, end, resend) = (self.bundled.lsn, self.end, self.config.resend_ms);
        for (node, follower) in &mut self.followers {
            if follower.owes() && follower.sent_at.plus(resend) <= now {
                follower.again(*node, base, end, now, &mut self.out);
            }
        }
    }

    /// When to call [`Self::handle_time`] or [`Self::cut`].
    pub(crate) fn deadline(&self) -> Option<(MonoMs, &'static str)> {
        let registers = self
            .bundles
            .values()
            .filter_map(|bundle| bundle.register.as_ref());
        let retry = registers.filter_map(Register::deadline).min();
        let resend = self
            .followers
            .values()
            .filter(|follower| follower.owes())
            .map(|follower| follower.sent_at.plus(self.config.resend_ms))
            .min();
        let room = self.bundles.len() < self.config.bundles_in_flight;
        let cut = self.waiting_since.filter(|_| room);
        [
            retry.map(|at| (at, "log: write a bundle again")),
            resend.map(|at| (at, "log: send to a follower again")),
            cut.map(|since| (since.plus(self.config.bundle_ms), "log: write a bundle")),
        ]
        .into_iter()
        .flatten()
        .min()
    }
}

impl Follower {
    fn owes(&self) -> bool {
        !self.joined || self.acked < self.sent
    }

    fn stream(
        &mut self,
        node: NodeId,
        end: Lsn,
        now: MonoMs,
        out: &mut VecDeque<(NodeId, Message)>,
    ) {
        if self.sent >= end {
            return;
        }
        if self.acked == self.sent {
            self.owes_since = now;
            self.sent_at = now;
        }
        let first = self.sent.next();
        out.push_back((node, Message::Append { first, last: end }));
        self.sent = end;
    }

    /// Sends everything that is not known to have arrived.
    fn again(
        &mut self,
        node: NodeId,
        base: Lsn,
        end: Lsn,
        now: MonoMs,
        out: &mut VecDeque<(NodeId, Message)>,
    ) {
        self.sent_at = now;
        if !self.joined || self.acked < base {
            out.push_back((node, Message::Join { base }));
        }
        let from = self.acked.max(base);
        if from < end {
            let first = from.next();
            out.push_back((node, Message::Append { first, last: end }));
        }
        self.sent = end;
    }
}
