//! What the shell tells the core.

use crate::{CellId, CellLimit, Generation, HostId, MonoMs, NamespaceKey, ScriptName, WallMs};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A deployment is at hand; `namespaces` are those of its Durable Object classes.
    Deployed {
        /// Which Worker.
        script: ScriptName,
        /// Its number in this process; must be greater than any before.
        generation: Generation,
        /// The namespaces that it owns from its adoption on.
        namespaces: Vec<NamespaceKey>,
    },
    /// A host has loaded its code.
    HostReady {
        /// Which host.
        host: HostId,
    },
    /// A host could not load its code.
    HostFailed {
        /// Which host.
        host: HostId,
    },
    /// A host died with everything in it.
    HostLost {
        /// Which host.
        host: HostId,
    },
    /// Events pile up in a host. Said once; from then on the core looks by itself
    /// ([`crate::Effect::CheckHost`]) until they are few again.
    HostLoad {
        /// Which host.
        host: HostId,
        /// How many wait.
        waiting: u32,
    },
    /// Answer to [`crate::Effect::CheckHost`].
    HostActivity {
        /// Which host.
        host: HostId,
        /// When it was last sent something, or last seen at work.
        last_used: MonoMs,
        /// Work may be in progress.
        busy: bool,
        /// Events that wait in it.
        waiting: u32,
    },
    /// An event waits for a cell that is not published. May be said more than once.
    Wanted {
        /// Which cell.
        cell: CellId,
    },
    /// Record and tail of a cell are in memory.
    ImageLoaded {
        /// Which cell.
        cell: CellId,
    },
    /// They could not be read; the shell knows why.
    ImageFailed {
        /// Which cell.
        cell: CellId,
    },
    /// Answer to [`crate::Effect::CheckCell`].
    CellActivity {
        /// Which cell.
        cell: CellId,
        /// What it is doing.
        activity: Activity,
    },
    /// A host reset a cell, or its constructor failed.
    CellLost {
        /// Which host.
        host: HostId,
        /// Which cell.
        cell: CellId,
    },
    /// A cell broke a limit, and was reset for it.
    LimitBroken {
        /// Which cell.
        cell: CellId,
        /// Which limit.
        limit: CellLimit,
    },
    /// A cell has left its host.
    Evicted {
        /// Which cell.
        cell: CellId,
        /// It has written something that its record lacks; the shell holds its snapshot.
        unsaved: bool,
    },
    /// A record was written: after [`crate::Effect::SaveRecord`], `Checkpoint` or `Compact`.
    Saved {
        /// Which cell.
        cell: CellId,
    },
    /// A record could not be written, or (checkpoint) nothing came to write. The log still holds the data.
    SaveFailed {
        /// Which cell.
        cell: CellId,
    },
    /// Size of the node log, those of dead sessions included.
    LogSize {
        /// Bytes in all files.
        bytes: u64,
        /// Cells that keep the oldest file, as many as the shell cares to name.
        oldest: Vec<CellId>,
    },
    /// A dead session's log holds commits of a cell that its record lacks.
    Recovered {
        /// Which cell.
        cell: CellId,
    },
    /// The alarm that a cell's latest commit leaves set.
    AlarmSet {
        /// Which cell.
        cell: CellId,
        /// When it is due; `None` for no alarm.
        at: Option<WallMs>,
    },
    /// A marker in the bucket: the cell's record may hold an alarm that is due then or later.
    AlarmHint {
        /// Which cell.
        cell: CellId,
        /// Not due before this.
        not_before: WallMs,
    },
    /// Answer to [`crate::Effect::ReadAlarm`].
    AlarmRead {
        /// Which cell.
        cell: CellId,
        /// What was found.
        found: AlarmFound,
    },
    /// An alarm handler ended.
    AlarmDone {
        /// Which cell.
        cell: CellId,
        /// How.
        outcome: AlarmEnd,
    },
    /// Every cell that is resident is to leave as soon as it has nothing to do, however short its
    /// idleness.
    EvictIdle,
    /// Every cell is to leave, then every host.
    Drain {
        /// How long events may go on.
        grace_ms: u64,
    },
}

/// What a resident cell is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Activity {
    /// When it was last sent an event, or had ended all of them.
    pub last_used: MonoMs,
    /// An event is in progress or on its way to it.
    pub busy: bool,
    /// Time that its events have taken in its isolate since it came there, in µs.
    pub spent_us: u64,
}

/// What a cell's record says about its alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmFound {
    /// It is set.
    At(WallMs),
    /// None is set: the marker is stale.
    Nothing,
    /// The record could not be read.
    Unreadable,
}

/// How an alarm handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlarmEnd {
    /// It returned; `next` is the alarm that the cell has set by now.
    Done {
        /// When it is due.
        next: Option<WallMs>,
    },
    /// It failed and is to run again.
    Failed {
        /// The handler itself failed; false for failures of the infrastructure, which may be
        /// repeated without end.
        counted: bool,
        /// 0 to 1,000: how much of a quarter of the delay is added to it, drawn by the shell.
        jitter_permille: u16,
    },
}
