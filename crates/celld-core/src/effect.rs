//! What the core asks of its shell.

use std::collections::VecDeque;

use crate::{CellId, CellLimit, Generation, HostId, ScriptName, WallMs};

/// Something to do. Effects are carried out in order; none of them may block the core's thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Start an isolate host; answer `HostReady` or `HostFailed`.
    StartHost {
        /// Its number.
        host: HostId,
        /// Which Worker.
        script: ScriptName,
        /// Which deployment of it.
        generation: Generation,
        /// What for.
        role: HostRole,
    },
    /// Let no new event reach the host, and end it once its events are done. It is forgotten here.
    StopHost {
        /// Which host.
        host: HostId,
        /// How long its events may go on.
        grace_ms: u64,
    },
    /// Stateless events of the script go to these hosts from here on.
    PublishWorkers {
        /// Which Worker.
        script: ScriptName,
        /// Which deployment.
        generation: Generation,
        /// In order of start; empty while the last one is lost and the next one starts.
        hosts: Vec<HostId>,
    },
    /// The script's last host could not be started: fail the stateless events that wait. It is
    /// tried again in a while.
    RefuseWorkers {
        /// Which Worker.
        script: ScriptName,
        /// Which deployment.
        generation: Generation,
    },
    /// The deployment serves. Events of `replaced` may go on for the grace that `StopHost` gave.
    Adopted {
        /// Which Worker.
        script: ScriptName,
        /// Which deployment.
        generation: Generation,
        /// The one before.
        replaced: Option<Generation>,
    },
    /// The deployment could not be loaded; what served before goes on serving.
    DeploymentRefused {
        /// Which Worker.
        script: ScriptName,
        /// Which deployment.
        generation: Generation,
    },
    /// Read a cell's record and tail, keep them; answer `ImageLoaded` or `ImageFailed`.
    LoadImage {
        /// Which cell.
        cell: CellId,
    },
    /// Hand the loaded image to the host, then the events that wait, then publish the route:
    /// in one step, so that no event can overtake another.
    Activate {
        /// Which cell.
        cell: CellId,
        /// Where it is to live.
        host: HostId,
    },
    /// Fail the events that wait for the cell. It is cold.
    Refuse {
        /// Which cell.
        cell: CellId,
        /// Why.
        why: Refusal,
    },
    /// Answer `CellActivity` at once.
    CheckCell {
        /// Which cell.
        cell: CellId,
    },
    /// Answer `HostActivity` at once.
    CheckHost {
        /// Which host.
        host: HostId,
    },
    /// A resident cell has had no event for a while: its host closes its database, and drops its
    /// object unless something else holds it (a timer, a request that it made). The route stays.
    /// No answer.
    Rest {
        /// Which cell.
        cell: CellId,
        /// Where it lives.
        host: HostId,
    },
    /// Unpublish the route and ask the host to let the cell go, in one step; answer `Evicted`.
    Evict {
        /// Which cell.
        cell: CellId,
        /// Where it lives.
        host: HostId,
        /// How long its events may go on.
        grace_ms: u64,
        /// Why.
        why: Leave,
    },
    /// Write the record of a cell that was evicted unsaved; answer `Saved` or `SaveFailed`.
    SaveRecord {
        /// Which cell.
        cell: CellId,
    },
    /// The cell is cold: no route, no image. Say `Wanted` again if events wait.
    Release {
        /// Which cell.
        cell: CellId,
    },
    /// Take a resident cell's snapshot and write its record; answer `Saved` or `SaveFailed`.
    Checkpoint {
        /// Which cell.
        cell: CellId,
        /// Where it lives.
        host: HostId,
    },
    /// Build a cold cell's database from record and tail, and write its record;
    /// answer `Saved` or `SaveFailed`.
    Compact {
        /// Which cell.
        cell: CellId,
    },
    /// Run a cell's alarm; answer `AlarmDone`.
    FireAlarm {
        /// Which cell.
        cell: CellId,
        /// When it was to fire.
        scheduled: WallMs,
        /// Failed attempts before this one.
        retry_count: u32,
    },
    /// Read the alarm from a cell's record; answer `AlarmRead`.
    ReadAlarm {
        /// Which cell.
        cell: CellId,
        /// When the marker said that it would be due.
        hinted: WallMs,
    },
    /// The alarm failed too often and is given up.
    DropAlarm {
        /// Which cell.
        cell: CellId,
        /// When it was to fire.
        scheduled: WallMs,
    },
    /// A cell is kept out, because it has broken limits again and again.
    Quarantined {
        /// Which cell.
        cell: CellId,
        /// The limit that it broke last.
        limit: CellLimit,
        /// How often it has broken limits.
        strikes: u32,
        /// When it is let in again.
        until: WallMs,
    },
    /// Every cell and every host is gone.
    Drained,
}

/// What a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostRole {
    /// Stateless events.
    Stateless,
    /// Cells.
    Cells,
}

/// Why events for a cell cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// No deployed Worker has a class for the cell's namespace.
    NoClass,
    /// The record or its tail could not be read.
    Unreadable,
    /// The isolate could not be started.
    HostFailed,
    /// The node is full of cells that are at work.
    Full,
    /// The cell has broken limits again and again.
    Quarantined {
        /// How much longer it is kept out, in ms.
        remaining_ms: u64,
    },
    /// The node is shutting down.
    ShuttingDown,
}

/// Why a cell leaves its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// It has been idle, or its place is needed.
    Idle,
    /// It keeps its isolate busy and moves to another.
    Busy,
    /// It has broken limits again and again.
    Quarantined,
    /// Newer code has been adopted.
    NewCode,
    /// Its class is no longer deployed.
    ClassRemoved,
    /// The node is shutting down.
    ShuttingDown,
}

/// The side of the effect queue that handlers see: it only takes.
#[derive(Debug, Default)]
pub(crate) struct Effects(VecDeque<Effect>);

impl Effects {
    pub(crate) fn push(&mut self, effect: Effect) {
        self.0.push_back(effect);
    }

    pub(crate) fn pop(&mut self) -> Option<Effect> {
        self.0.pop_front()
    }
}
