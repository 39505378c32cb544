//! Which cells are this session's: claims, releases, and what stands in their way.

use std::collections::{BTreeMap, VecDeque};

use super::config::Config;
use super::ids::{NodeId, Token, Tokens};
use super::message::{Effect, Unavailable};
use super::register::{Ask, Found, Register, Settled, Tokened, Written};
use super::sabotage::Fault;
use crate::{CellId, Epoch, MonoMs, SessionId};

/// The bucket object `cells/<namespace>/<id>`, as far as ownership goes; the cell's snapshot
/// stands beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CellRecord {
    /// Names this write of the record.
    pub token: Token,
    /// Whose it is, if anyone's: session and node.
    pub owner: Option<(SessionId, NodeId)>,
    /// Rises by one with every claim.
    pub epoch: Epoch,
    /// Sealed sessions whose logs hold commits that the snapshot lacks, each under one epoch,
    /// oldest first.
    pub inherits: Vec<(SessionId, Epoch)>,
}

impl Tokened for CellRecord {
    fn token(&self) -> Token {
        self.token
    }
}

/// Where a cell that nobody owns is to live.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// Here.
    Here,
    /// There, or nowhere.
    Away(Option<NodeId>),
}

/// What is known of a session that a record names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// This very session.
    Me,
    /// It lives there, as far as this node hears.
    At(NodeId),
    /// It is sealed: its cells can be claimed.
    Sealed,
    /// The bucket has no record of it.
    Unknown,
    /// Not settled; a takeover is on its way.
    Unsettled {
        /// None of its witnesses answers.
        lacks_witness: bool,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Read,
    AwaitRead,
    /// Read again at this time.
    Pause(MonoMs),
    /// Waits for the end of its owner's session.
    Blocked(CellRecord, SessionId),
    Claim(Register<CellRecord>),
    Own(Register<CellRecord>),
    /// Given up: not served, and not certain to be free before the write has ended.
    Release(Register<CellRecord>, Option<NodeId>),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Entry {
    state: State,
    /// Since when a request waits.
    wanted: Option<MonoMs>,
    forwarded: bool,
}

/// The cells that this session owns, claims, gives up or looks for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Cells {
    config: Config,
    me: (SessionId, NodeId),
    cells: BTreeMap<CellId, Entry>,
    /// Where cells that nobody owns go, and those that were sent here for want of room elsewhere.
    place: Place,
    place_forwarded: Place,
    out: VecDeque<Effect>,
}

impl Cells {
    pub(crate) fn new(config: Config, session: SessionId, node: NodeId) -> Self {
        Self {
            config,
            me: (session, node),
            cells: BTreeMap::new(),
            place: Place::Away(None),
            place_forwarded: Place::Away(None),
            out: VecDeque::new(),
        }
    }

    /// Where cells that nobody owns go.
    pub(crate) fn set_place(&mut self, place: Place, forwarded: Place) {
        self.place = place;
        self.place_forwarded = forwarded;
    }

    pub(crate) fn owned(&self) -> impl Iterator<Item = &CellId> {
        let owned = self
            .cells
            .iter()
            .filter(|(_, entry)| matches!(entry.state, State::Own(_)));
        owned.map(|(cell, _)| cell)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The epoch under which this session serves the cell.
    pub(crate) fn serving(&self, cell: &CellId) -> Option<Epoch> {
        match &self.cells.get(cell)?.state {
            State::Own(register) => register.known().map(|record| record.epoch),
            State::Release(register, _) if self.config.plants(Fault::ServeWhileReleasing) => {
                register.known().map(|record| record.epoch)
            }
            _ => None,
        }
    }

    pub(crate) fn poll_effect(&mut self) -> Option<Effect> {
        self.out.pop_front()
    }

    /// A request waits for the cell.
    pub(crate) fn wanted(&mut self, cell: CellId, forwarded: bool, now: MonoMs) {
        match self.cells.get_mut(&cell) {
            None => {
                let entry = Entry {
                    state: State::Read,
                    wanted: Some(now),
                    forwarded,
                };
                self.cells.insert(cell, entry);
            }
            Some(entry) => {
                entry.wanted.get_or_insert(now);
                entry.forwarded |= forwarded;
                self.serve_if_owned(&cell);
            }
        }
    }

    fn serve_if_owned(&mut self, cell: &CellId) {
        let Some(entry) = self.cells.get_mut(cell) else {
            return;
        };
        if let State::Own(register) = &entry.state
            && let Some(record) = register.known()
            && entry.wanted.take().is_some()
        {
            self.out
                .push_back(Effect::Serve(cell.clone(), record.epoch));
        }
    }

    fn fresh(&self, tokens: &mut Tokens, of: Option<&CellRecord>) -> CellRecord {
        CellRecord {
            token: tokens.fresh(),
            owner: Some(self.me),
            epoch: of.map(|record| record.epoch).unwrap_or_default(),
            inherits: Vec::new(),
        }
    }

    /// Begins to give a cell up; nothing when it isn't owned, or a write of its record is on its
    /// way (the shell asks again).
    pub(crate) fn release(
        &mut self,
        cell: &CellId,
        to: Option<NodeId>,
        tokens: &mut Tokens,
        now: MonoMs,
    ) -> bool {
        self.write(cell, tokens, now, |record| record.owner = None)
            && self.cells.get_mut(cell).is_some_and(|entry| {
                let State::Own(register) = &entry.state else {
                    return false;
                };
                entry.state = State::Release(register.clone(), to);
                true
            })
    }

    /// Begins to write an owned cell's record with a new snapshot.
    pub(crate) fn save(&mut self, cell: &CellId, tokens: &mut Tokens, now: MonoMs) -> bool {
        self.write(cell, tokens, now, |_| {})
    }

    fn write(
        &mut self,
        cell: &CellId,
        tokens: &mut Tokens,
        now: MonoMs,
        change: impl FnOnce(&mut CellRecord),
    ) -> bool {
        let known = match self.cells.get(cell).map(|entry| &entry.state) {
            Some(State::Own(register)) if register.pending().is_none() => register.known(),
            _ => return false,
        };
        let mut next = self.fresh(tokens, known);
        change(&mut next);
        match self.cells.get_mut(cell).map(|entry| &mut entry.state) {
            Some(State::Own(register)) => register.propose(next, now),
            _ => false,
        }
    }

    /// The next request for a record.
    pub(crate) fn poll_ask(&mut self) -> Option<(CellId, Ask<CellRecord>)> {
        let within_ms = self.config.request_ms;
        self.cells.iter_mut().find_map(|(cell, entry)| {
            let ask = match &mut entry.state {
                State::Read => {
                    entry.state = State::AwaitRead;
                    Some(Ask::Read { within_ms })
                }
                State::Claim(register) | State::Own(register) | State::Release(register, _) => {
                    register.poll(within_ms)
                }
                _ => None,
            };
            Some((cell.clone(), ask?))
        })
    }

    /// The answer to a write. False when the cell's record is another's although this session
    /// owns it: the session was fenced.
    pub(crate) fn wrote(&mut self, cell: &CellId, outcome: Written, now: MonoMs) -> bool {
        let config = self.config;
        let settled = self
            .register(cell)
            .and_then(|register| register.wrote(outcome, config.retry_ms, now, &config));
        self.settle(cell, settled)
    }

    /// The answer to a read, when it is part of a write; see [`Self::take_read`] for the other.
    pub(crate) fn read(&mut self, cell: &CellId, found: Found<CellRecord>, now: MonoMs) -> bool {
        let pause = self.config.retry_ms;
        let settled = self
            .register(cell)
            .and_then(|register| register.read(found, pause, now));
        self.settle(cell, settled)
    }

    /// True when the answer to the cell's read is about who owns it.
    pub(crate) fn awaits_read(&self, cell: &CellId) -> bool {
        self.cells
            .get(cell)
            .is_some_and(|entry| entry.state == State::AwaitRead)
    }

    fn register(&mut self, cell: &CellId) -> Option<&mut Register<CellRecord>> {
        match &mut self.cells.get_mut(cell)?.state {
            State::Claim(register) | State::Own(register) | State::Release(register, _) => {
                Some(register)
            }
            _ => None,
        }
    }

    fn settle(&mut self, cell: &CellId, settled: Option<Settled<CellRecord>>) -> bool {
        let Some(settled) = settled else {
            return true;
        };
        let Some(entry) = self.cells.get_mut(cell) else {
            return true;
        };
        let state = std::mem::replace(&mut entry.state, State::Read);
        match (state, settled) {
            (State::Claim(register), Settled::Won { .. }) => {
                entry.state = State::Own(register);
                entry.wanted.get_or_insert_default();
                self.serve_if_owned(cell);
            }
            // Someone else was faster: look again.
            (State::Claim(_), Settled::Lost(_)) => {}
            (State::Own(register), Settled::Won { .. }) => entry.state = State::Own(register),
            // Another's record after a release: the release was applied, its answer was lost, and
            // someone has claimed the cell since. If not, the session was fenced, and learns that
            // soon; the cell is not its own either way.
            (State::Release(_, to), _) => {
                let again = entry.wanted.is_some();
                if !again {
                    self.cells.remove(cell);
                }
                self.out.push_back(Effect::Released(cell.clone()));
                if let Some(node) = to {
                    let message = super::message::Message::Take { cell: cell.clone() };
                    self.out.push_back(Effect::Send(node, message));
                }
            }
            (_, Settled::Lost(_)) => return false,
            (other, _) => entry.state = other,
        }
        true
    }

    /// What a cell's record says, with what is known of its owner.
    pub(crate) fn found(
        &mut self,
        cell: &CellId,
        found: Found<CellRecord>,
        owner: impl FnOnce(SessionId) -> Owner,
        tokens: &mut Tokens,
        now: MonoMs,
    ) {
        match found {
            Found::Failed => {
                if let Some(entry) = self.cells.get_mut(cell) {
                    entry.state = State::Pause(now.plus(self.config.retry_ms));
                }
            }
            Found::Absent => self.claim(cell, None, tokens, now),
            Found::Here(record) => match record.owner {
                None => self.claim(cell, Some(record), tokens, now),
                Some((session, _)) => {
                    self.judge(cell, record, session, owner(session), tokens, now)
                }
            },
        }
    }

    fn judge(
        &mut self,
        cell: &CellId,
        record: CellRecord,
        session: SessionId,
        owner: Owner,
        tokens: &mut Tokens,
        now: MonoMs,
    ) {
        let Some(entry) = self.cells.get_mut(cell) else {
            return;
        };
        match owner {
            Owner::Me => {
                entry.state = State::Own(Register::new(Some(record)));
                entry.wanted.get_or_insert_default();
                self.serve_if_owned(cell);
            }
            Owner::At(node) => {
                self.cells.remove(cell);
                self.out.push_back(Effect::Forward(cell.clone(), node));
            }
            Owner::Unknown => self.refuse(cell, Unavailable::Damaged),
            Owner::Unsettled { .. } => entry.state = State::Blocked(record, session),
            Owner::Sealed => self.claim(cell, Some(record), tokens, now),
        }
    }

    fn claim(
        &mut self,
        cell: &CellId,
        record: Option<CellRecord>,
        tokens: &mut Tokens,
        now: MonoMs,
    ) {
        let forwarded = self.cells.get(cell).is_some_and(|entry| entry.forwarded);
        let place = if forwarded {
            self.place_forwarded
        } else {
            self.place
        };
        if let Place::Away(to) = place {
            self.send_away(cell, to);
            return;
        }
        let mut next = self.fresh(tokens, record.as_ref());
        if !self.config.plants(Fault::ReuseAnEpoch) || next.epoch == Epoch::default() {
            next.epoch = next.epoch.next();
        }
        if let Some(record) = &record {
            next.inherits.clone_from(&record.inherits);
            let inherits = !self.config.plants(Fault::DropATail);
            if let Some((session, _)) = record.owner.filter(|_| inherits) {
                next.inherits.push((session, record.epoch));
            }
        }
        let mut register = Register::new(record);
        register.propose(next, now);
        if let Some(entry) = self.cells.get_mut(cell) {
            entry.state = State::Claim(register);
        }
    }

    fn send_away(&mut self, cell: &CellId, to: Option<NodeId>) {
        match to {
            Some(node) => {
                self.cells.remove(cell);
                self.out.push_back(Effect::Forward(cell.clone(), node));
            }
            None => self.refuse(cell, Unavailable::NotHere),
        }
    }

    fn refuse(&mut self, cell: &CellId, why: Unavailable) {
        self.cells.remove(cell);
        self.out.push_back(Effect::Refuse(cell.clone(), why));
    }

    /// Sessions that cells wait for.
    pub(crate) fn blockers(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.cells.values().filter_map(|entry| match entry.state {
            State::Blocked(_, session) => Some(session),
            _ => None,
        })
    }

    /// Lets waits end. `owner` is asked for each session that a cell waits for.
    pub(crate) fn handle_time(
        &mut self,
        owner: impl Fn(SessionId) -> Owner,
        tokens: &mut Tokens,
        now: MonoMs,
    ) {
        let patience = self.config.takeover_wait_ms;
        let mut settled = Vec::new();
        let mut refused = Vec::new();
        for (cell, entry) in &mut self.cells {
            let late = entry
                .wanted
                .is_some_and(|since| since.plus(patience) <= now);
            match &mut entry.state {
                State::Pause(until) if late && *until <= now => {
                    refused.push((cell.clone(), Unavailable::Bucket));
                }
                State::Pause(until) if *until <= now => entry.state = State::Read,
                State::Blocked(record, session) => match owner(*session) {
                    Owner::Unsettled { lacks_witness } if late => {
                        let why = if lacks_witness {
                            Unavailable::NoWitness
                        } else {
                            Unavailable::TakingOver
                        };
                        refused.push((cell.clone(), why));
                    }
                    Owner::Unsettled { .. } => {}
                    known => settled.push((cell.clone(), record.clone(), *session, known)),
                },
                State::Claim(register) => {
                    register.handle_time(now);
                    if late {
                        // The claim goes on, as it may be applied at any time.
                        entry.wanted = None;
                        self.out
                            .push_back(Effect::Refuse(cell.clone(), Unavailable::Bucket));
                    }
                }
                State::Own(register) | State::Release(register, _) => register.handle_time(now),
                _ => {}
            }
        }
        for (cell, why) in refused {
            self.refuse(&cell, why);
        }
        for (cell, record, session, known) in settled {
            self.judge(&cell, record, session, known, tokens, now);
        }
    }

    /// When to call [`Self::handle_time`], and what for.
    pub(crate) fn deadline(&self) -> Option<(MonoMs, &'static str)> {
        let each = self.cells.values().filter_map(|entry| match &entry.state {
            State::Pause(until) => Some((*until, "cells: read again")),
            State::Blocked(..) => {
                let late = entry.wanted?.plus(self.config.takeover_wait_ms);
                Some((late, "cells: waited long enough"))
            }
            State::Claim(register) | State::Own(register) | State::Release(register, _) => {
                Some((register.deadline()?, "cells: write again"))
            }
            _ => None,
        });
        each.min()
    }
}
