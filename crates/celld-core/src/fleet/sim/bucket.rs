//! The scripted bucket: objects under conditional writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::ledger::Writes;
use crate::fleet::CellRecord;
use crate::fleet::ids::Token;
use crate::fleet::register::{Tokened, Written};
use crate::fleet::session::SessionRecord;
use crate::fleet::takeover::LogObject;
use crate::{Epoch, Lsn, SessionId};

/// One commit in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::fleet) struct Commit {
    pub(in crate::fleet) lsn: Lsn,
    pub(in crate::fleet) cell: usize,
    pub(in crate::fleet) epoch: Epoch,
    pub(in crate::fleet) write: Writes,
}

pub(in crate::fleet) type Commits = Arc<Vec<Commit>>;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(in crate::fleet) enum Key {
    Session(SessionId),
    Log(SessionId, u64),
    Cell(usize),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) enum Object {
    Session(SessionRecord),
    Log(LogObject, Commits),
    Cell(CellRecord, Writes),
}

impl Object {
    fn token(&self) -> Token {
        match self {
            Self::Session(record) => record.token,
            Self::Log(object, _) => object.token,
            Self::Cell(record, _) => record.token(),
        }
    }
}

/// A request as it travels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) enum Request {
    Put(Option<Token>, Box<Object>),
    Get,
}

/// What the node learns.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) enum Answer {
    Written(Written),
    Found(Option<Object>),
    Failed,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Bucket {
    pub(in crate::fleet) objects: BTreeMap<Key, Object>,
}

impl Bucket {
    pub(in crate::fleet) fn apply(&mut self, key: Key, request: &Request) -> Answer {
        match request {
            Request::Get => Answer::Found(self.objects.get(&key).cloned()),
            Request::Put(expect, object) => {
                if self.objects.get(&key).map(Object::token) != *expect {
                    return Answer::Written(Written::Refused);
                }
                self.objects.insert(key, (**object).clone());
                Answer::Written(Written::Done)
            }
        }
    }

    pub(in crate::fleet) fn session(&self, session: SessionId) -> Option<&SessionRecord> {
        match self.objects.get(&Key::Session(session)) {
            Some(Object::Session(record)) => Some(record),
            _ => None,
        }
    }

    pub(in crate::fleet) fn is_sealed(&self, session: SessionId) -> bool {
        let from = Key::Log(session, 0);
        let to = Key::Log(session, u64::MAX);
        let mut objects = self.objects.range(from..=to);
        objects.any(|(_, object)| matches!(object, Object::Log(log, _) if log.seal))
    }

    /// Writes to a cell in a session's log under an epoch: bundles as far as they are contiguous,
    /// and the seal.
    pub(in crate::fleet) fn writes(&self, session: SessionId, cell: usize, epoch: Epoch) -> Writes {
        let mut writes = 0;
        for seq in 1.. {
            let Some(Object::Log(object, commits)) = self.objects.get(&Key::Log(session, seq))
            else {
                break;
            };
            let of_cell = commits
                .iter()
                .filter(|commit| commit.cell == cell && commit.epoch == epoch);
            writes |= of_cell.fold(0, |all, commit| all | commit.write);
            if object.seal {
                break;
            }
        }
        writes
    }
}
