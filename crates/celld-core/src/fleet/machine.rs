//! The fleet machine of one session: everything in this folder, put together.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::cells::{CellRecord, Cells, Owner};
use super::config::Config;
use super::ids::{Bundled, CertHash, NodeId, Token, Tokens};
use super::lease::Lease;
use super::log::Log;
use super::message::{Effect, Event, Message, StoreOp, Unavailable};
use super::peers::Peers;
use super::register::Found;
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use super::stop::Stop;
use super::takeover::Takeover;
use super::witness::{Deed, Followed, Witness};
use crate::{CellId, Epoch, Lsn, MonoMs, SessionId};

/// What a node is when its process begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its data directory.
    pub node: NodeId,
    /// This life of it: fresh random bits.
    pub session: SessionId,
    /// Hash of the certificate of this session's links.
    pub cert: CertHash,
    /// Cells that it takes at most.
    pub cells_max: u32,
    /// The session that lived in this directory before, and whether its process is known to be
    /// dead, because the shell holds the directory's lock under the same kernel.
    pub predecessor: Option<(SessionId, bool)>,
    /// The logs of other sessions that lie in the directory.
    pub followed: BTreeMap<SessionId, Followed>,
}

/// The decisions of one session about the fleet.
///
/// Feed it with [`Self::handle_event`], [`Self::handle_time`] and [`Self::append`]; after each,
/// carry out what [`Self::poll_effect`] gives. An answer that reveals a write may leave when
/// [`Self::durable`] covers it; one that reveals a read, when moreover [`Self::may_read`] holds
/// *after* the read was made.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fleet {
    pub(super) config: Config,
    pub(super) node: NodeId,
    pub(super) session: SessionId,
    pub(super) cells_max: u32,
    pub(super) tokens: Tokens,
    pub(super) lease: Lease,
    pub(super) log: Log,
    pub(super) witness: Witness,
    pub(super) peers: Peers,
    pub(super) cells: Cells,
    pub(super) takeovers: BTreeMap<SessionId, Takeover>,
    /// Sessions whose end is settled.
    pub(super) sealed: BTreeSet<SessionId>,
    /// Sessions that the bucket had no record of when they were last heard.
    pub(super) unknown: BTreeSet<SessionId>,
    /// A witness is to be dropped as soon as the bucket has what only followers have.
    pub(super) hurry: bool,
    pub(super) draining: bool,
    pub(super) yielded: BTreeSet<CellId>,
    pub(super) stopped: Option<Stop>,
    pub(super) closed: bool,
    pub(super) effects: VecDeque<Effect>,
}

impl Fleet {
    /// Begins a session: its record is created, its predecessor's log is sealed.
    pub fn new(config: Config, start: Start, now: MonoMs) -> Self {
        let record = SessionRecord {
            token: Token {
                session: start.session,
                number: 0,
            },
            session: start.session,
            node: start.node,
            phase: Phase::Open,
            durability: config.durability,
            witnesses: BTreeSet::new(),
            bundled: Bundled::default(),
            cert: start.cert,
        };
        let mut fleet = Self {
            config,
            node: start.node,
            session: start.session,
            cells_max: start.cells_max,
            tokens: Tokens::new(start.session),
            lease: Lease::open(config, record, now),
            log: Log::new(config),
            witness: Witness::new(config, &start.followed, now),
            peers: Peers::new(config, now),
            cells: Cells::new(config, start.session, start.node),
            takeovers: BTreeMap::new(),
            sealed: BTreeSet::new(),
            unknown: BTreeSet::new(),
            hurry: false,
            draining: false,
            yielded: BTreeSet::new(),
            stopped: None,
            closed: false,
            effects: VecDeque::new(),
        };
        if let Some((session, known_dead)) = start.predecessor {
            fleet
                .takeovers
                .insert(session, Takeover::new(config, known_dead));
        }
        fleet.go_on(now);
        fleet
    }

    /// Everything up to here is proven.
    pub fn durable(&self) -> Lsn {
        self.log.durable()
    }

    /// The last record that was appended.
    pub fn appended(&self) -> Lsn {
        self.log.end()
    }

    /// True while no later owner can have proven a write: under every form that the session
    /// record may have, either the lease lives or every witness grants reads.
    pub fn may_read(&self, now: MonoMs) -> bool {
        if self.config.plants(Fault::ReadWithoutAGrant) {
            return self.stopped.is_none();
        }
        let covered = |record: &SessionRecord| {
            if record.witnesses.is_empty() {
                self.lease.holds(now)
            } else {
                self.peers.all_grant(record, now)
            }
        };
        self.stopped.is_none()
            && self
                .lease
                .record()
                .is_some_and(|record| record.phase == Phase::Open)
            && self.lease.possible().all(covered)
    }

    /// The epoch under which this session serves the cell, if it does.
    pub fn serving(&self, cell: &CellId) -> Option<Epoch> {
        self.cells.serving(cell).filter(|_| self.stopped.is_none())
    }

    /// Why the session is over, if it is.
    pub fn stopped(&self) -> Option<Stop> {
        self.stopped
    }

    /// The session record as it is known to be.
    pub fn record(&self) -> Option<&SessionRecord> {
        self.lease.record()
    }

    /// Takes a batch of so many records into the log; gives back the position of the last.
    pub fn append(&mut self, records: u64, now: MonoMs) -> Result<Lsn, Unavailable> {
        if self.stopped.is_some() || self.closed {
            return Err(Unavailable::NotHere);
        }
        if self.log.backlog() + records > self.config.backlog_max {
            return Err(Unavailable::Backlog);
        }
        let end = self.log.append(records, now);
        self.go_on(now);
        Ok(end)
    }

    /// Takes in what happened.
    pub fn handle_event(&mut self, event: Event, now: MonoMs) {
        if self.stopped.is_some() {
            return;
        }
        self.take_in(event, now);
        self.go_on(now);
    }

    /// Lets time pass.
    pub fn handle_time(&mut self, now: MonoMs) {
        if self.stopped.is_none() {
            self.go_on(now);
        }
    }

    /// What to do, in order.
    pub fn poll_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When to call [`Self::handle_time`], and what for. It may lie in the past.
    pub fn poll_deadline(&self, now: MonoMs) -> Option<(MonoMs, &'static str)> {
        if self.stopped.is_some() {
            return None;
        }
        let takeovers = self.takeovers.values().filter_map(Takeover::deadline);
        let young = self.witness.started().plus(self.config.suspect_ms);
        let restart = (young > now).then_some((young, "fleet: what was found at the start"));
        let others = [
            self.lease.deadline(),
            self.log.deadline(),
            self.peers.deadline(now),
            self.cells.deadline(),
            restart,
        ];
        takeovers.chain(others.into_iter().flatten()).min()
    }

    fn take_in(&mut self, event: Event, now: MonoMs) {
        match event {
            Event::Linked { node, session } => self.linked(node, session, now),
            Event::LinkLost { node, session } => self.peers.lost(node, session, now),
            Event::Received {
                node,
                session,
                message,
            } => {
                self.received(node, session, message, now);
            }
            Event::RecordWrote(session, outcome) if session == self.session => {
                self.lease.wrote(outcome, now);
            }
            Event::RecordRead(session, found) if session == self.session => {
                self.lease.read(found, now);
            }
            Event::RecordWrote(session, outcome) => {
                if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.record_wrote(outcome, now);
                }
            }
            Event::RecordRead(session, found) => {
                if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.record_read(found, &mut self.tokens, now);
                }
            }
            Event::LogWrote(session, seq, outcome) => {
                if session == self.session {
                    let verdict = self.log.wrote(seq, outcome, now);
                    self.stop_on(verdict);
                } else if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.log_wrote(outcome, now);
                }
            }
            Event::LogRead(session, seq, found) => {
                if session == self.session {
                    let verdict = self.log.read(seq, found, now);
                    self.stop_on(verdict);
                } else if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.log_read(found, now);
                }
            }
            Event::CellWrote(cell, outcome) => {
                let fine = self.cells.wrote(&cell, outcome, now);
                self.stop_unless(fine);
            }
            Event::CellRead(cell, found) => self.cell_read(&cell, found, now),
            Event::Stored(session, op) => self.stored(session, op, now),
            Event::Wanted { cell, forwarded } => self.cells.wanted(cell, forwarded, now),
            Event::Release { cell, to } => {
                self.cells.release(&cell, to, &mut self.tokens, now);
            }
            Event::Save { cell } => {
                self.cells.save(&cell, &mut self.tokens, now);
            }
            Event::Drain => self.draining = true,
        }
    }

    fn linked(&mut self, node: NodeId, session: SessionId, now: MonoMs) {
        if let Some(before) = self.peers.linked(node, session, now) {
            self.begin_takeover(before);
        }
        if self.log.follows(node) {
            self.log.follow(node, now);
        }
    }

    fn cell_read(&mut self, cell: &CellId, found: Found<CellRecord>, now: MonoMs) {
        if !self.cells.awaits_read(cell) {
            let fine = self.cells.read(cell, found, now);
            self.stop_unless(fine);
            return;
        }
        let named = match &found {
            Found::Here(record) => record.owner.map(|(session, _)| session),
            _ => None,
        };
        let owner = named.map_or(Owner::Me, |session| {
            let owner = self.owner_of(session, now);
            if matches!(owner, Owner::Unsettled { .. }) {
                self.begin_takeover(session);
            }
            owner
        });
        self.cells
            .found(cell, found, |_| owner, &mut self.tokens, now);
    }

    fn stored(&mut self, session: SessionId, op: StoreOp, now: MonoMs) {
        let leader = self.peers.node_of(session);
        for deed in self.witness.stored(session, op, leader, now) {
            self.carry_out(deed, now);
        }
    }

    fn received(&mut self, node: NodeId, session: SessionId, message: Message, now: MonoMs) {
        if !self.peers.heard(node, session, now) {
            return;
        }
        self.unknown.remove(&session);
        if self
            .takeovers
            .get(&session)
            .is_some_and(Takeover::may_be_dropped)
        {
            self.takeovers.remove(&session);
        }
        let from = (node, session);
        let deed = match message {
            Message::Ping {
                sent,
                bundled,
                load,
            } => {
                self.peers.set_load(node, load);
                Some(self.witness.ping(from, sent, bundled, now))
            }
            #[cfg(test)]
            Message::Pong { sent, theirs } => {
                self.peers.granted(node, sent, theirs, now);
                None
            }
            #[cfg(not(test))]
            Message::Pong { sent } => {
                self.peers.granted(node, sent, sent, now);
                None
            }
            Message::Join { base } => Some(self.witness.join(from, base)),
            Message::Append { first, last } => self.witness.append(from, first, last),
            Message::Stored { lsn } => {
                self.log.stored(node, lsn, now);
                None
            }
            Message::Refused => {
                self.stop(Stop::WitnessSealed);
                None
            }
            Message::Doubt { session } => {
                let silent = self.hears_nothing_of(session, now);
                Some(Deed::Say(node, Message::Doubted { session, silent }))
            }
            Message::Seal { session } => self.witness.seal(node, session, now),
            told => {
                self.told(node, told, now);
                None
            }
        };
        if let Some(deed) = deed {
            self.carry_out(deed, now);
        }
    }

    /// Answers that takeovers wait for, and cells that are handed over.
    pub(super) fn told(&mut self, node: NodeId, message: Message, now: MonoMs) {
        match message {
            Message::Doubted { session, silent } => {
                if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.doubted(node, silent, &mut self.tokens, now);
                }
            }
            Message::SealAnswer { session, answer } => {
                if let Some(takeover) = self.takeovers.get_mut(&session) {
                    takeover.sealed(node, answer, now);
                }
            }
            Message::Take { cell } => self.cells.wanted(cell, true, now),
            _ => {}
        }
    }

    pub(super) fn carry_out(&mut self, deed: Deed, now: MonoMs) {
        match deed {
            Deed::Say(node, message) if node == self.node => self.told(node, message, now),
            Deed::Say(node, message) => self.effects.push_back(Effect::Send(node, message)),
            Deed::Store(session, op) => self.effects.push_back(Effect::Store(session, op)),
        }
    }

    pub(super) fn hears_nothing_of(&self, session: SessionId, now: MonoMs) -> bool {
        if session == self.session {
            return false;
        }
        match self.peers.node_of(session) {
            Some(node) => self.peers.is_suspect(node, now),
            None => self.witness.started().plus(self.config.suspect_ms) <= now,
        }
    }

    pub(super) fn owner_of(&self, session: SessionId, now: MonoMs) -> Owner {
        if session == self.session {
            return Owner::Me;
        }
        if self.sealed.contains(&session) {
            return Owner::Sealed;
        }
        if self.unknown.contains(&session) {
            return Owner::Unknown;
        }
        let node = self.peers.node_of(session);
        if let Some(node) = node.filter(|node| !self.peers.is_suspect(*node, now)) {
            return Owner::At(node);
        }
        let takeover = self.takeovers.get(&session);
        if self.config.plants(Fault::ClaimBeforeSealed)
            && takeover.is_some_and(Takeover::is_recovering)
        {
            return Owner::Sealed;
        }
        Owner::Unsettled {
            lacks_witness: takeover.is_some_and(Takeover::lacks_witness),
        }
    }

    pub(super) fn begin_takeover(&mut self, session: SessionId) {
        if session != self.session
            && !self.sealed.contains(&session)
            && !self.unknown.contains(&session)
        {
            let config = self.config;
            self.takeovers
                .entry(session)
                .or_insert_with(|| Takeover::new(config, false));
        }
    }

    fn stop_on(&mut self, verdict: Result<(), Stop>) {
        if let Err(why) = verdict {
            self.stop(why);
        }
    }

    fn stop_unless(&mut self, fine: bool) {
        if !fine {
            self.stop(Stop::CellTaken);
        }
    }

    pub(super) fn stop(&mut self, why: Stop) {
        if self.stopped.is_none() {
            self.stopped = Some(why);
            self.effects.clear();
            self.effects.push_back(Effect::Stop(why));
        }
    }
}
