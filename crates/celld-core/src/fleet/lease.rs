//! A session's hold on its own record: creation, renewal, changes of its witnesses, and its end.
//!
//! A session without witnesses has authority for [`Config::lease_ttl_ms`] after its last
//! successful write of the record *was about to be sent*, on its own monotonic clock. An observer
//! that wants to replace it watches the record, unchanged, for longer than that on its own clock,
//! from a moment after the write was applied; so no two clocks are compared. A session with
//! witnesses needs no renewals.
//!
//! The clock must go on while the machine sleeps (`CLOCK_BOOTTIME`).

use std::collections::BTreeSet;

use super::config::Config;
use super::ids::{Bundled, NodeId, Tokens};
use super::register::{Ask, Found, Register, Settled, Written};
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use super::stop::Stop;
use crate::MonoMs;

/// A session's own record.
///
/// Ask [`Self::poll_ask`] after every call; answer with [`Self::wrote`] or [`Self::read`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    config: Config,
    register: Register<SessionRecord>,
    tokens: Tokens,
    until: MonoMs,
    /// When the next renewal begins.
    renew_at: MonoMs,
    bundled: Bundled,
    stop: Option<Stop>,
}

impl Lease {
    /// Begins to create the record of a fresh session. Its token is replaced by a fresh one.
    pub fn open(config: Config, record: SessionRecord, now: MonoMs) -> Self {
        let tokens = Tokens::new(record.session);
        let mut lease = Self {
            config,
            register: Register::new(None),
            tokens,
            until: MonoMs::default(),
            renew_at: MonoMs::default(),
            bundled: record.bundled,
            stop: None,
        };
        lease.propose(record, now);
        lease
    }

    /// The record as it is known to be; `None` before it was created.
    pub fn record(&self) -> Option<&SessionRecord> {
        self.register.known()
    }

    /// Every form that the record may have by now. Whoever relies on witnesses relies on those of
    /// all of them.
    pub fn possible(&self) -> impl Iterator<Item = &SessionRecord> {
        self.register
            .known()
            .into_iter()
            .chain(self.register.pending())
    }

    /// No write of the record is under way.
    pub fn is_settled(&self) -> bool {
        self.register.pending().is_none()
    }

    /// True while the lease itself gives authority. Counts only without witnesses.
    pub fn holds(&self, now: MonoMs) -> bool {
        self.stop.is_none() && (now < self.until || self.config.plants(Fault::ServeAfterLeaseLoss))
    }

    /// Why the session is over, if it is.
    pub fn stopped(&self) -> Option<Stop> {
        self.stop
    }

    /// What the bucket holds of the log; written with the next change of the record.
    pub fn set_bundled(&mut self, bundled: Bundled) {
        self.bundled = self.bundled.max(bundled);
    }

    /// Begins to replace the recorded witnesses; false while another change is under way.
    pub fn set_witnesses(&mut self, witnesses: BTreeSet<NodeId>, now: MonoMs) -> bool {
        let Some(record) = self.register.known().filter(|_| self.stop.is_none()) else {
            return false;
        };
        if !self.is_settled() {
            return false;
        }
        let mut next = record.clone();
        next.witnesses = witnesses;
        self.propose(next, now);
        true
    }

    /// Begins to write that the session is over and left nothing behind: every cell is released.
    /// The log's first free number becomes its seal's, and nothing will be there.
    pub fn close(&mut self, now: MonoMs) -> bool {
        let Some(record) = self.register.known().filter(|_| self.stop.is_none()) else {
            return false;
        };
        if !self.is_settled() {
            return false;
        }
        let mut next = record.clone();
        next.phase = Phase::Sealed {
            seq: self.bundled.next_seq,
        };
        self.propose(next, now);
        true
    }

    /// The next bucket request for `sessions/<session>`.
    pub fn poll_ask(&mut self, now: MonoMs) -> Option<Ask<SessionRecord>> {
        if self.stop.is_some() {
            return None;
        }
        let within = self.attempt_ms(now);
        self.register.poll(within)
    }

    /// The answer to [`Ask::Write`].
    pub fn wrote(&mut self, outcome: Written, now: MonoMs) {
        let pause = self.pause_ms(now);
        let settled = self.register.wrote(outcome, pause, now, &self.config);
        self.settle(settled, now);
    }

    /// The answer to [`Ask::Read`].
    pub fn read(&mut self, found: Found<SessionRecord>, now: MonoMs) {
        let pause = self.pause_ms(now);
        let settled = self.register.read(found, pause, now);
        self.settle(settled, now);
    }

    /// Renews, tries again, or notices that the lease has run out.
    pub fn handle_time(&mut self, now: MonoMs) {
        if self.stop.is_some() {
            return;
        }
        self.register.handle_time(now);
        let Some(record) = self
            .register
            .known()
            .filter(|record| record.witnesses.is_empty())
        else {
            return;
        };
        if record.phase == Phase::Open && now >= self.until {
            self.stop_if(Stop::LeaseLost);
        } else if now >= self.renew_at && self.is_settled() {
            let next = record.clone();
            self.propose(next, now);
        }
    }

    /// When to call [`Self::handle_time`], and what for.
    pub fn deadline(&self) -> Option<(MonoMs, &'static str)> {
        if self.stop.is_some() {
            return None;
        }
        let retry = self
            .register
            .deadline()
            .map(|at| (at, "session record: try again"));
        let lone = self
            .record()
            .is_some_and(|record| record.witnesses.is_empty() && record.phase == Phase::Open);
        let end = lone.then_some((self.until, "lease: it runs out"));
        let renew = (lone && self.is_settled()).then_some((self.renew_at, "lease: renew"));
        [retry, end, renew].into_iter().flatten().min()
    }

    fn propose(&mut self, mut next: SessionRecord, now: MonoMs) {
        next.token = self.tokens.fresh();
        next.bundled = self.bundled;
        self.register.propose(next, now);
    }

    fn settle(&mut self, settled: Option<Settled<SessionRecord>>, now: MonoMs) {
        match settled {
            None => {}
            Some(Settled::Won { sent }) => {
                let from = if self.config.plants(Fault::LeaseFromReceipt) {
                    now
                } else {
                    sent
                };
                self.until = self.until.max(from.plus(self.config.lease_ttl_ms));
                self.renew_at = from.plus(self.config.lease_ttl_ms / 3);
            }
            Some(Settled::Lost(_)) => self.stop_if(Stop::RecordReplaced),
        }
    }

    fn stop_if(&mut self, why: Stop) {
        if why == Stop::LeaseLost && self.config.plants(Fault::ServeAfterLeaseLoss) {
            return;
        }
        self.stop = Some(why);
    }

    fn authority_left_ms(&self, now: MonoMs) -> u64 {
        self.until.get().saturating_sub(now.get())
    }

    /// A sixth of the authority that is left, so that at least five attempts fit into the last
    /// third of the lease, however short that is.
    fn attempt_ms(&self, now: MonoMs) -> u64 {
        match self.record() {
            Some(record) if record.witnesses.is_empty() => {
                (self.authority_left_ms(now) / 6).clamp(1, self.config.request_ms)
            }
            _ => self.config.request_ms,
        }
    }

    fn pause_ms(&self, now: MonoMs) -> u64 {
        match self.record() {
            Some(record) if record.witnesses.is_empty() => {
                (self.authority_left_ms(now) / 60).clamp(1, self.config.retry_ms)
            }
            _ => self.config.retry_ms,
        }
    }
}
