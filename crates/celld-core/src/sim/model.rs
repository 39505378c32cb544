//! What the simulated world knows of hosts and cells.

use std::collections::{BTreeMap, BTreeSet};

use crate::{CellId, HostId, WallMs};

#[derive(Default)]
pub(super) struct SimHost {
    pub(super) ready: bool,
    pub(super) stateless: bool,
    pub(super) cells: BTreeSet<CellId>,
}

/// The door of a cell and what lies behind it.
#[derive(Default)]
pub(super) struct SimCell {
    /// Where events go; `None` lets them wait.
    pub(super) route: Option<HostId>,
    pub(super) waiting: usize,
    pub(super) last_used: u64,
    /// How often it has committed.
    pub(super) version: u64,
    /// The version that was read, until a host takes it.
    pub(super) image: Option<u64>,
    pub(super) reading: bool,
    pub(super) writing: bool,
    /// Its alarm, as its last commit says.
    pub(super) alarm: Option<WallMs>,
    pub(super) firing: bool,
    /// The alarm that is running was moved meanwhile.
    pub(super) moved: bool,
    /// Limits that it broke, and when it did so last.
    pub(super) strikes: u32,
    pub(super) struck: u64,
    /// It is kept out until then.
    pub(super) kept_out: u64,
    /// The firing reached a host, and this one.
    pub(super) handler: Option<HostId>,
}

/// Something that the world owes the core.
#[derive(Clone, Debug)]
pub(super) enum Debt {
    Ready(HostId),
    Read(CellId, u64),
    Evicted(CellId, bool),
    Saved(CellId, bool),
    Handler(CellId),
    /// A host died; nobody has noticed.
    Death(HostId),
}

#[derive(Default)]
pub(super) struct Model {
    pub(super) hosts: BTreeMap<HostId, SimHost>,
    pub(super) cells: BTreeMap<CellId, SimCell>,
    pub(super) debts: Vec<Debt>,
}

impl Model {
    /// Live hosts that hold the cell.
    pub(super) fn homes(&self, cell: &CellId) -> usize {
        self.hosts
            .values()
            .filter(|host| host.cells.contains(cell))
            .count()
    }
}
