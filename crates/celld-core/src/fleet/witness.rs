//! The witness's side: whose reads it grants, whose log it keeps, whom it refuses.
//!
//! A witness that was asked to seal a session refuses it for good: first it takes no more batches
//! and grants no more reads, then it notes that durably, and only then it answers. Batches that it
//! gave to its store before are part of the answer.
//!
//! Its grants are not on disk. After a restart it takes for granted that every session got one
//! just before.

use std::collections::{BTreeMap, BTreeSet};

use super::config::Config;
use super::ids::{Bundled, NodeId};
use super::message::{Message, StoreOp};
use super::sabotage::Fault;
use super::takeover::SealAnswer;
use crate::{Lsn, MonoMs, SessionId};

/// What a followed log is after a restart, as the store finds it on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Followed {
    /// The last flushed record; `None` when there is only the note that the session is refused.
    pub end: Option<Lsn>,
    /// What the leader's bucket had when it last said so.
    pub bundled: Bundled,
    /// The session is refused.
    pub sealed: bool,
}

/// All sessions that this node is or may be a witness of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Witness {
    config: Config,
    started: MonoMs,
    sessions: BTreeMap<SessionId, Seen>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Seen {
    /// Flushed.
    end: Option<Lsn>,
    /// Given to the store.
    given: Option<Lsn>,
    bundled: Bundled,
    /// The last grant ends then.
    granted_until: MonoMs,
    seal: Seal,
    /// Who waits for the seal's answer.
    asked: BTreeSet<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seal {
    Open,
    Storing,
    Sealed,
}

/// What a witness wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Say(NodeId, Message),
    Store(SessionId, StoreOp),
}

impl Witness {
    pub(crate) fn new(config: Config, found: &BTreeMap<SessionId, Followed>, now: MonoMs) -> Self {
        let mut witness = Self {
            config,
            started: now,
            sessions: BTreeMap::new(),
        };
        for (session, followed) in found {
            let floor = witness.floor();
            let forgets = config.plants(Fault::ForgetTheSealOnRestart);
            let sealed = followed.sealed && !forgets;
            let seen = Seen {
                end: followed.end,
                given: followed.end,
                bundled: followed.bundled,
                granted_until: floor,
                seal: if sealed { Seal::Sealed } else { Seal::Open },
                asked: BTreeSet::new(),
            };
            witness.sessions.insert(*session, seen);
        }
        witness
    }

    /// Until when a grant may last that was given before this process began.
    fn floor(&self) -> MonoMs {
        if self.config.plants(Fault::ForgetTheGrantsOnRestart) {
            return self.started;
        }
        self.started.plus(self.grant_ms())
    }

    fn grant_ms(&self) -> u64 {
        self.config.outlast_ms(self.config.grant_ms)
    }

    /// When this process began.
    pub(crate) fn started(&self) -> MonoMs {
        self.started
    }

    /// Sessions whose log is kept here.
    pub(crate) fn followed(&self) -> impl Iterator<Item = SessionId> + '_ {
        let kept = self.sessions.iter().filter(|(_, seen)| seen.end.is_some());
        kept.map(|(session, _)| *session)
    }

    fn seen(&mut self, session: SessionId) -> &mut Seen {
        let floor = self.floor();
        self.sessions.entry(session).or_insert(Seen {
            end: None,
            given: None,
            bundled: Bundled::default(),
            granted_until: floor,
            seal: Seal::Open,
            asked: BTreeSet::new(),
        })
    }

    /// A session asks to be granted reads.
    pub(crate) fn ping(
        &mut self,
        from: (NodeId, SessionId),
        sent: MonoMs,
        bundled: Bundled,
        now: MonoMs,
    ) -> Deed {
        let grant = self.grant_ms();
        let seen = self.seen(from.1);
        if seen.seal != Seal::Open {
            return Deed::Say(from.0, Message::Refused);
        }
        seen.bundled = seen.bundled.max(bundled);
        seen.granted_until = seen.granted_until.max(now.plus(grant));
        let pong = Message::Pong {
            sent,
            #[cfg(test)]
            theirs: now,
        };
        Deed::Say(from.0, pong)
    }

    /// A session asks for its log to be kept.
    pub(crate) fn join(&mut self, from: (NodeId, SessionId), base: Lsn) -> Deed {
        let resets = self.config.plants(Fault::JoiningEmptiesTheLog);
        let seen = self.seen(from.1);
        if seen.seal != Seal::Open {
            return Deed::Say(from.0, Message::Refused);
        }
        match seen.given {
            Some(given) if given >= base && !resets => match seen.end {
                Some(end) if seen.end == seen.given => {
                    Deed::Say(from.0, Message::Stored { lsn: end })
                }
                _ => Deed::Store(from.1, StoreOp::Append(given)),
            },
            _ => {
                seen.given = Some(base);
                Deed::Store(from.1, StoreOp::Begin(base))
            }
        }
    }

    /// Records of a session's log have come. Nothing is said where no log was begun: any answer
    /// would be taken for a follower's.
    pub(crate) fn append(
        &mut self,
        from: (NodeId, SessionId),
        first: Lsn,
        last: Lsn,
    ) -> Option<Deed> {
        let gaps = self.config.plants(Fault::AcceptAGap);
        let unsealed = self.config.plants(Fault::AppendAfterTheSeal);
        let seen = self.seen(from.1);
        if seen.seal != Seal::Open && !unsealed {
            return Some(Deed::Say(from.0, Message::Refused));
        }
        let given = seen.given?;
        if given < last && (first <= given.next() || gaps) {
            seen.given = Some(last);
            return Some(Deed::Store(from.1, StoreOp::Append(last)));
        }
        // It has all of it, or lacks what comes before: the leader sends from there again.
        let lsn = seen.end?;
        Some(Deed::Say(from.0, Message::Stored { lsn }))
    }

    /// A claimant asks to refuse a session.
    pub(crate) fn seal(
        &mut self,
        claimant: NodeId,
        session: SessionId,
        now: MonoMs,
    ) -> Option<Deed> {
        let seen = self.seen(session);
        match seen.seal {
            Seal::Sealed => return Some(self.answer(claimant, session, now)),
            Seal::Storing => {
                seen.asked.insert(claimant);
                return None;
            }
            Seal::Open => {}
        }
        seen.asked.insert(claimant);
        seen.seal = Seal::Storing;
        Some(Deed::Store(session, StoreOp::Seal))
    }

    /// The store has done something. `leader` is the node whose session it is, if it is linked.
    pub(crate) fn stored(
        &mut self,
        session: SessionId,
        op: StoreOp,
        leader: Option<NodeId>,
        now: MonoMs,
    ) -> Vec<Deed> {
        let seen = self.seen(session);
        match op {
            StoreOp::Begin(lsn) | StoreOp::Append(lsn) => {
                seen.end = Some(seen.end.map_or(lsn, |end| end.max(lsn)));
                let lsn = seen.end.unwrap_or_default();
                let say = |node| Deed::Say(node, Message::Stored { lsn });
                leader.map(say).into_iter().collect()
            }
            StoreOp::Seal => {
                seen.seal = Seal::Sealed;
                let asked = std::mem::take(&mut seen.asked);
                asked
                    .into_iter()
                    .map(|claimant| self.answer(claimant, session, now))
                    .collect()
            }
        }
    }

    fn answer(&mut self, claimant: NodeId, session: SessionId, now: MonoMs) -> Deed {
        let seen = self.seen(session);
        let answer = SealAnswer {
            end: seen.end,
            bundled: seen.bundled,
            grant_left_ms: seen.granted_until.get().saturating_sub(now.get()),
        };
        Deed::Say(claimant, Message::SealAnswer { session, answer })
    }

    /// A session's record says that it is sealed: nobody needs its log here any more.
    pub(crate) fn forget(&mut self, session: SessionId) {
        if let Some(seen) = self.sessions.get_mut(&session)
            && seen.seal != Seal::Storing
        {
            // Refused for as long as this process lives; a later one finds the record sealed.
            seen.seal = Seal::Sealed;
            seen.end = None;
            seen.given = None;
        }
    }
}
