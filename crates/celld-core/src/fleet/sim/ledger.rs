//! What clients were told, and what that obliges every later owner to.

use std::collections::BTreeMap;

use crate::{Epoch, SessionId};

/// A set of writes to one cell: each write of a run is a bit.
pub(in crate::fleet) type Writes = u128;

/// The token ledger: every write attempt is a token of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(in crate::fleet) struct Ledger {
    cells: Vec<Cell>,
    owners: BTreeMap<(usize, Epoch), SessionId>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Cell {
    attempts: u32,
    acknowledged: Writes,
    /// The latest owner, and what it began with.
    latest: (Epoch, Writes),
}

impl Ledger {
    pub(in crate::fleet) fn new(cells: usize) -> Self {
        Self {
            cells: vec![Cell::default(); cells],
            owners: BTreeMap::new(),
        }
    }

    /// A write that was not tried before; `None` when the run has no more.
    pub(in crate::fleet) fn attempt(&mut self, cell: usize) -> Option<Writes> {
        let attempts = &mut self.cells[cell].attempts;
        let write = 1u128.checked_shl(*attempts)?;
        *attempts += 1;
        Some(write)
    }

    pub(in crate::fleet) fn acknowledged(&self, cell: usize) -> Writes {
        self.cells[cell].acknowledged
    }

    /// I2, I3: one session an epoch, and it begins with everything that was acknowledged.
    pub(in crate::fleet) fn activated(
        &mut self,
        cell: usize,
        epoch: Epoch,
        session: SessionId,
        content: Writes,
    ) -> Result<(), String> {
        let owner = *self.owners.entry((cell, epoch)).or_insert(session);
        if owner != session {
            return Err(format!(
                "two writers: cell {cell} has {owner} and {session} in epoch {epoch}"
            ));
        }
        let held = &mut self.cells[cell];
        if epoch < held.latest.0 {
            // It was frozen with its claim, and has been replaced: what it answers is checked.
            return Ok(());
        }
        let lost = held.acknowledged & !content;
        if lost != 0 {
            return Err(format!(
                "lost: cell {cell} begins epoch {epoch} without acknowledged writes {lost:b}"
            ));
        }
        held.latest = (epoch, content);
        Ok(())
    }

    /// I1, I3: what is acknowledged is in whatever a later owner began with.
    pub(in crate::fleet) fn acknowledge(
        &mut self,
        cell: usize,
        epoch: Epoch,
        write: Writes,
    ) -> Result<(), String> {
        let held = &mut self.cells[cell];
        if held.latest.0 > epoch && held.latest.1 & write == 0 {
            return Err(format!(
                "lost: a write of epoch {epoch} to cell {cell} is acknowledged, and epoch {} began without it",
                held.latest.0
            ));
        }
        held.acknowledged |= write;
        Ok(())
    }

    /// I4: a read shows everything that was acknowledged before it was asked for.
    pub(in crate::fleet) fn answered(
        &self,
        cell: usize,
        before: Writes,
        content: Writes,
    ) -> Result<(), String> {
        let missing = before & !content;
        if missing != 0 {
            return Err(format!("stale: a read of cell {cell} lacks {missing:b}"));
        }
        Ok(())
    }
}
