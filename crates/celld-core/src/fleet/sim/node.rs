//! A simulated node: its disk, its clock, and the shell of its running process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::bucket::{Bucket, Commit, Commits};
use super::ledger::Writes;
use crate::fleet::ids::{Bundled, NodeId, Token};
use crate::fleet::message::StoreOp;
use crate::fleet::{CellRecord, Fleet, Followed};
use crate::{Epoch, Lsn, MonoMs, SessionId};

/// A followed log on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct DiskLog {
    pub(in crate::fleet) end: Option<Lsn>,
    pub(in crate::fleet) commits: Vec<Commit>,
    pub(in crate::fleet) sealed: bool,
}

impl DiskLog {
    pub(in crate::fleet) fn apply(&mut self, op: StoreOp, commits: &[Commit]) {
        match op {
            StoreOp::Begin(base) => {
                self.end = Some(base);
                self.commits.clear();
            }
            StoreOp::Append(last) => {
                let end = self.end.unwrap_or_default();
                let fresh = commits
                    .iter()
                    .filter(|commit| commit.lsn > end && commit.lsn <= last);
                self.commits.extend(fresh);
                self.end = Some(end.max(last));
            }
            StoreOp::Seal => self.sealed = true,
        }
    }
}

/// What outlives a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Disk {
    pub(in crate::fleet) logs: BTreeMap<SessionId, DiskLog>,
    pub(in crate::fleet) last_session: Option<SessionId>,
}

impl Disk {
    pub(in crate::fleet) fn found(&self) -> BTreeMap<SessionId, Followed> {
        let each = self.logs.iter().map(|(session, log)| {
            let followed = Followed {
                end: log.end,
                bundled: Bundled::default(),
                sealed: log.sealed,
            };
            (*session, followed)
        });
        each.collect()
    }

    /// All that is kept of a followed log.
    pub(in crate::fleet) fn tail(&self, session: SessionId) -> Commits {
        let log = self.logs.get(&session);
        Arc::new(log.map(|log| log.commits.clone()).unwrap_or_default())
    }
}

/// A request of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Request {
    pub(in crate::fleet) cell: usize,
    pub(in crate::fleet) writes: bool,
    /// What had been acknowledged when it was made.
    pub(in crate::fleet) before: Writes,
    pub(in crate::fleet) until: u64,
}

/// An answer that waits at the output gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Output {
    pub(in crate::fleet) request: Request,
    pub(in crate::fleet) epoch: Epoch,
    pub(in crate::fleet) lsn: Lsn,
    pub(in crate::fleet) write: Option<Writes>,
    pub(in crate::fleet) content: Writes,
}

/// A resident cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Resident {
    pub(in crate::fleet) epoch: Epoch,
    pub(in crate::fleet) content: Writes,
    pub(in crate::fleet) last: Lsn,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Life {
    pub(in crate::fleet) session: SessionId,
    pub(in crate::fleet) fleet: Fleet,
    pub(in crate::fleet) links: BTreeMap<NodeId, SessionId>,
    pub(in crate::fleet) log: Vec<Commit>,
    pub(in crate::fleet) resident: BTreeMap<usize, Resident>,
    /// Cells that are given up, and to whom.
    pub(in crate::fleet) leaving: BTreeMap<usize, (Resident, Option<NodeId>)>,
    pub(in crate::fleet) waiting: BTreeMap<usize, Vec<Request>>,
    pub(in crate::fleet) outputs: Vec<Output>,
    /// A cell's object as it was read, and as it was last written.
    pub(in crate::fleet) read: BTreeMap<usize, (CellRecord, Writes)>,
    pub(in crate::fleet) written: BTreeMap<usize, (CellRecord, Writes)>,
    /// What witnesses have handed over.
    pub(in crate::fleet) tails: BTreeMap<(SessionId, NodeId), Commits>,
    /// Records that came with the message that is being handled.
    pub(in crate::fleet) luggage: Commits,
    pub(in crate::fleet) store_free_at: u64,
    pub(in crate::fleet) broken_logs: BTreeSet<SessionId>,
    pub(in crate::fleet) wake_at: Option<u64>,
}

impl Life {
    pub(in crate::fleet) fn new(session: SessionId, fleet: Fleet) -> Self {
        Self {
            session,
            fleet,
            links: BTreeMap::new(),
            log: Vec::new(),
            resident: BTreeMap::new(),
            leaving: BTreeMap::new(),
            waiting: BTreeMap::new(),
            outputs: Vec::new(),
            read: BTreeMap::new(),
            written: BTreeMap::new(),
            tails: BTreeMap::new(),
            luggage: Arc::default(),
            store_free_at: 0,
            broken_logs: BTreeSet::new(),
            wake_at: None,
        }
    }

    /// The log after a position and up to another.
    pub(in crate::fleet) fn slice(&self, after: Lsn, end: Lsn) -> Commits {
        let inside = |commit: &&Commit| commit.lsn > after && commit.lsn <= end;
        Arc::new(self.log.iter().filter(inside).copied().collect())
    }

    /// Takes the answers that may leave from those that wait.
    pub(in crate::fleet) fn open_gates(&mut self, now: MonoMs) -> Vec<Output> {
        if self.outputs.is_empty() {
            return Vec::new();
        }
        let (durable, may_read) = (self.fleet.durable(), self.fleet.may_read(now));
        let open = |output: &Output| output.lsn <= durable && (output.write.is_some() || may_read);
        self.outputs.extract_if(.., |output| open(output)).collect()
    }

    /// What the write of a cell's record puts beside it: a claim keeps what was read, everything
    /// else takes the snapshot; the same token always the same.
    pub(in crate::fleet) fn beside(
        &mut self,
        me: NodeId,
        cell: usize,
        expect: Option<Token>,
        next: &CellRecord,
    ) -> Writes {
        let known = self.written.get(&cell);
        if let Some((record, content)) = known
            && record.token == next.token
        {
            return *content;
        }
        let as_expected = |object: &&(CellRecord, Writes)| Some(object.0.token) == expect;
        let read = self.read.get(&cell).filter(as_expected);
        let before = known.filter(as_expected).or(read);
        let mine = before.is_some_and(|(record, _)| record.owner == Some((self.session, me)));
        let held = self.resident.get(&cell);
        let held = held.or(self.leaving.get(&cell).map(|(held, _)| held));
        let content = match held {
            Some(held) if mine => held.content,
            _ => before.map(|(_, content)| *content).unwrap_or_default(),
        };
        self.written.insert(cell, (next.clone(), content));
        content
    }

    /// What a cell that is served from here on begins with: its record, the logs that it
    /// inherits, and what this session has written in that epoch.
    pub(in crate::fleet) fn begins_with(
        &self,
        me: NodeId,
        cell: usize,
        epoch: Epoch,
        bucket: &Bucket,
    ) -> Result<Writes, String> {
        let owner = Some((self.session, me));
        let objects = [self.written.get(&cell), self.read.get(&cell)];
        let (record, content) = objects
            .into_iter()
            .flatten()
            .find(|(record, _)| record.owner == owner && record.epoch == epoch)
            .ok_or_else(|| format!("cell {cell} is served without its record"))?;
        let inherited = record
            .inherits
            .iter()
            .map(|(session, epoch)| bucket.writes(*session, cell, *epoch));
        Ok(
            inherited.fold(content | self.own_writes(cell, epoch), |all, more| {
                all | more
            }),
        )
    }

    /// The rest of a dead session's log as the seal takes it.
    pub(in crate::fleet) fn tail(tail: &[Commit], after: Lsn, end: Lsn) -> Result<Commits, String> {
        let inside = |commit: &&Commit| commit.lsn > after && commit.lsn <= end;
        let tail: Vec<Commit> = tail.iter().filter(inside).copied().collect();
        let whole = end.get() - after.get();
        if tail.len() as u64 != whole {
            return Err(format!(
                "lost: a seal holds {} of {whole} records",
                tail.len()
            ));
        }
        Ok(Arc::new(tail))
    }

    pub(in crate::fleet) fn own_writes(&self, cell: usize, epoch: Epoch) -> Writes {
        let own = self
            .log
            .iter()
            .filter(|commit| commit.cell == cell && commit.epoch == epoch);
        own.fold(0, |all, commit| all | commit.write)
    }
}

/// A machine.
pub(in crate::fleet) struct Node {
    pub(in crate::fleet) id: NodeId,
    pub(in crate::fleet) disk: Disk,
    pub(in crate::fleet) life: Option<Life>,
    pub(in crate::fleet) paused: bool,
    offset: u64,
    /// Milliseconds that its clock counts in a thousand.
    rate: u64,
}

impl Node {
    pub(in crate::fleet) fn new(id: NodeId, offset: u64, rate: u64) -> Self {
        Self {
            id,
            disk: Disk::default(),
            life: None,
            paused: false,
            offset,
            rate,
        }
    }

    /// What its clock shows at a moment of real time.
    pub(in crate::fleet) fn local(&self, now: u64) -> MonoMs {
        MonoMs::new(self.offset + now * self.rate / 1_000)
    }

    /// The first moment of real time when its clock shows at least that.
    pub(in crate::fleet) fn real(&self, local: MonoMs) -> u64 {
        (local.get().saturating_sub(self.offset) * 1_000).div_ceil(self.rate)
    }
}
