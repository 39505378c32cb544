//! What follows from what a session has been told, and from the time: pings, suspicion, takeovers,
//! proofs, ownership, and the requests that all of this needs.

use std::collections::{BTreeMap, BTreeSet};

use super::cells::{Owner, Place};
use super::config::Durability;
use super::ids::NodeId;
use super::machine::Fleet;
use super::message::{Effect, Load, Message};
use super::register::Ask;
use super::sabotage::Fault;
use super::session::{Phase, SessionRecord};
use super::takeover::{Progress, Takeover, TakeoverAsk};
use crate::{CellId, Lsn, MonoMs, SessionId};

impl Fleet {
    /// Everything that follows from what was taken in and from the time.
    pub(super) fn go_on(&mut self, now: MonoMs) {
        self.lease.handle_time(now);
        self.log.handle_time(now);
        self.suspect(now);
        self.keep_witnesses(now);
        self.ping(now);
        self.go_on_with_takeovers(now);
        self.prove();
        self.go_on_with_cells(now);
        self.go_on_with_bucket(now);
        if let Some(why) = self.lease.stopped() {
            self.stop(why);
        }
        if self.stopped.is_some() {
            self.effects
                .retain(|effect| matches!(effect, Effect::Stop(_)));
        }
    }

    pub(super) fn suspect(&mut self, now: MonoMs) {
        let mut suspects: BTreeSet<SessionId> = self.peers.suspects(now).collect();
        if self.witness.started().plus(self.config.suspect_ms) <= now {
            let absent = self.witness.followed();
            suspects.extend(absent.filter(|session| self.peers.node_of(*session).is_none()));
        }
        for session in suspects {
            self.begin_takeover(session);
        }
    }

    pub(super) fn ping(&mut self, now: MonoMs) {
        let bundled = self.log.bundled();
        let load = Load {
            cells: u32::try_from(self.cells.len()).unwrap_or(u32::MAX),
            cells_max: self.cells_max,
            draining: self.draining,
        };
        for node in self.peers.pings(now) {
            let ping = Message::Ping {
                sent: now,
                bundled,
                load,
            };
            self.effects.push_back(Effect::Send(node, ping));
        }
        while let Some((node, message)) = self.log.poll_message() {
            self.effects.push_back(Effect::Send(node, message));
        }
    }

    pub(super) fn prove(&mut self) {
        self.lease.set_bundled(self.log.bundled());
        let pending_only =
            self.config.plants(Fault::DropBeforeRecorded) && !self.lease.is_settled();
        let skip = usize::from(pending_only);
        if self.log.prove(self.lease.possible().skip(skip)) {
            self.effects.push_back(Effect::Durable(self.log.durable()));
        }
    }

    pub(super) fn go_on_with_takeovers(&mut self, now: MonoMs) {
        let sessions: Vec<SessionId> = self.takeovers.keys().copied().collect();
        for session in sessions {
            if let Some(takeover) = self.takeovers.get_mut(&session) {
                takeover.handle_time(&mut self.tokens, now);
            }
            self.poll_takeover(session, now);
            let progress = self.takeovers.get(&session).map(Takeover::progress);
            match progress {
                Some(Progress::Sealed { seq }) => {
                    self.takeovers.remove(&session);
                    self.sealed.insert(session);
                    self.peers.forget(session);
                    self.witness.forget(session);
                    self.effects.push_back(Effect::Sealed(session, seq));
                }
                Some(Progress::Unknown) => {
                    self.takeovers.remove(&session);
                    self.unknown.insert(session);
                }
                Some(Progress::Working) | None => {}
            }
        }
    }

    pub(super) fn poll_takeover(&mut self, session: SessionId, now: MonoMs) {
        loop {
            let Some(takeover) = self.takeovers.get_mut(&session) else {
                return;
            };
            let Some(ask) = takeover.poll_ask(&mut self.tokens, now) else {
                return;
            };
            match ask {
                TakeoverAsk::Record(ask) => {
                    self.effects.push_back(Effect::Record(session, ask));
                }
                TakeoverAsk::Doubt { witness } if witness == self.node => {
                    let silent = self.hears_nothing_of(session, now);
                    self.told(witness, Message::Doubted { session, silent }, now);
                }
                TakeoverAsk::Doubt { witness } => {
                    let doubt = Message::Doubt { session };
                    self.effects.push_back(Effect::Send(witness, doubt));
                }
                TakeoverAsk::Seal { witness } if witness == self.node => {
                    if let Some(deed) = self.witness.seal(witness, session, now) {
                        self.carry_out(deed, now);
                    }
                }
                TakeoverAsk::Seal { witness } => {
                    let seal = Message::Seal { session };
                    self.effects.push_back(Effect::Send(witness, seal));
                }
                TakeoverAsk::ReadLog { seq, within_ms } => {
                    self.effects.push_back(Effect::Log {
                        session,
                        seq,
                        ask: Ask::Read { within_ms },
                        after: Lsn::default(),
                        source: None,
                    });
                }
                TakeoverAsk::WriteSeal {
                    seq,
                    object,
                    after,
                    source,
                    within_ms,
                } => {
                    let ask = Ask::Write {
                        expect: None,
                        next: object,
                        within_ms,
                    };
                    self.effects.push_back(Effect::Log {
                        session,
                        seq,
                        ask,
                        after,
                        source,
                    });
                }
            }
        }
    }

    pub(super) fn go_on_with_cells(&mut self, now: MonoMs) {
        let (place, forwarded) = self.places(now);
        self.cells.set_place(place, forwarded);
        let blockers: BTreeSet<SessionId> = self.cells.blockers().collect();
        let owners: BTreeMap<SessionId, Owner> = blockers
            .into_iter()
            .map(|session| {
                let owner = self.owner_of(session, now);
                if matches!(owner, Owner::Unsettled { .. }) {
                    self.begin_takeover(session);
                }
                (session, owner)
            })
            .collect();
        let owner = |session| {
            let missing = Owner::Unsettled {
                lacks_witness: false,
            };
            owners.get(&session).copied().unwrap_or(missing)
        };
        self.cells.handle_time(owner, &mut self.tokens, now);
        while let Some(effect) = self.cells.poll_effect() {
            self.effects.push_back(effect);
        }
        // After what says that a cell is served here: it is to be yielded after that.
        if self.draining {
            self.drain(now);
        }
    }

    pub(super) fn go_on_with_bucket(&mut self, now: MonoMs) {
        // Without followers, or with a record that may be without, the bucket is the proof.
        let soon = self.hurry
            || !self
                .lease
                .possible()
                .all(SessionRecord::relies_on_followers);
        if self.lease.record().is_some() {
            self.log.cut(soon, &mut self.tokens, now);
        }
        let session = self.session;
        while let Some(ask) = self.lease.poll_ask(now) {
            self.effects.push_back(Effect::Record(session, ask));
        }
        while let Some((seq, ask, after)) = self.log.poll_ask() {
            self.effects.push_back(Effect::Log {
                session,
                seq,
                ask,
                after,
                source: None,
            });
        }
        while let Some((cell, ask)) = self.cells.poll_ask() {
            self.effects.push_back(Effect::Cell(cell, ask));
        }
    }

    /// Where cells go that nobody owns: here, or where there is most room when here is none.
    pub(super) fn places(&self, now: MonoMs) -> (Place, Place) {
        let recorded =
            self.lease.record().is_some() || self.config.plants(Fault::ClaimWithoutARecord);
        let full = self.cells.owned().count() >= self.cells_max as usize;
        let room = |load: &Load| load.cells_max.saturating_sub(load.cells);
        let best = self
            .peers
            .alive(now)
            .filter(|(_, peer)| !peer.load.draining && room(&peer.load) > 0)
            .max_by_key(|(node, peer)| (room(&peer.load), *node))
            .map(|(node, _)| node);
        if self.draining || !recorded {
            return (Place::Away(best), Place::Away(None));
        }
        match best {
            Some(node) if full => (Place::Away(Some(node)), Place::Here),
            _ => (Place::Here, Place::Here),
        }
    }

    pub(super) fn drain(&mut self, now: MonoMs) {
        let (place, _) = self.places(now);
        let to = match place {
            Place::Away(to) => to,
            Place::Here => None,
        };
        let owned: Vec<CellId> = self.cells.owned().cloned().collect();
        for cell in owned {
            if self.yielded.insert(cell.clone()) {
                self.effects.push_back(Effect::Yield(cell, to));
            }
        }
        let closed = self
            .lease
            .record()
            .is_some_and(|record| record.phase != Phase::Open);
        if closed && !self.closed {
            self.closed = true;
            self.effects.push_back(Effect::Drained);
        } else if self.cells.is_empty() && !closed {
            self.lease.close(now);
        }
    }

    /// Drops witnesses that are silent or slow, and records others that have caught up.
    pub(super) fn keep_witnesses(&mut self, now: MonoMs) {
        let Some(record) = self
            .lease
            .record()
            .filter(|record| record.phase == Phase::Open)
        else {
            return;
        };
        if !self.lease.is_settled() || self.draining {
            return;
        }
        self.hurry = false;
        let followed = self.config.durability == Durability::Fleet;
        let mut wanted = record.witnesses.clone();
        wanted.retain(|node| {
            let slow = followed && self.log.is_slow(*node, now);
            !slow && !self.peers.is_silent(*node, now)
        });
        let spare: Vec<NodeId> = self.log.followers().collect();
        for node in spare {
            let of_use = !self.peers.is_silent(node, now) && !self.log.is_slow(node, now);
            if !record.witnesses.contains(&node) && !of_use {
                self.log.unfollow(node);
            }
        }
        let alive: Vec<NodeId> = self.peers.alive(now).map(|(node, _)| node).collect();
        for node in alive {
            if wanted.len() >= self.config.witnesses || wanted.contains(&node) {
                continue;
            }
            if !followed || self.log.has_caught_up(node) && !self.log.is_slow(node, now) {
                wanted.insert(node);
            } else if !self.log.follows(node)
                && self.log.followers().count() < self.config.witnesses
            {
                self.log.follow(node, now);
            }
        }
        if wanted == record.witnesses {
            return;
        }
        if !followed || self.log.would_be_found(&wanted) {
            self.lease.set_witnesses(wanted, now);
        } else {
            self.hurry = true;
        }
    }
}
