//! The core's limits and periods.

/// Limits and periods of one node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Cells that one isolate takes (default 32).
    pub cells_per_host_max: usize,
    /// Cells that are resident or on their way in or out (default 10,000).
    pub resident_max: usize,
    /// How long a new cell may wait for a place when the node is full, in ms (default 5,000).
    pub admission_wait_ms: u64,
    /// A cell without events leaves its isolate after this long, in ms (default 70,000).
    pub idle_after_ms: u64,
    /// A cell without events closes its database after this long, and drops its object when
    /// nothing holds it: no timer, no request under way, no socket of its own; in ms
    /// (default 10,000).
    pub hibernate_after_ms: u64,
    /// How long an idle cell that leaves may still finish work, in ms (default 30,000).
    pub idle_grace_ms: u64,
    /// How long events of replaced code may go on, in ms (default 30,000).
    pub adopt_grace_ms: u64,
    /// Stateless hosts of one script (default 2; the node sets the number of CPUs).
    pub stateless_hosts_max: usize,
    /// The stateless pool grows when each of its hosts has this many waiting events (default 2).
    pub stateless_grow_waiting: u32,
    /// A stateless host or an empty cell host beyond the first ends after this long without work,
    /// in ms (default 30,000).
    pub host_idle_ms: u64,
    /// New cells avoid a host with this many waiting events (default 8) while another has room.
    pub host_busy_waiting: u32,
    /// A cell whose events take this much of the time between two looks at it, in thousandths,
    /// keeps its isolate busy (default 400): it moves to an emptier one when it is idle for a
    /// moment.
    pub hot_permille: u64,
    /// Time over which the work of a cell is judged, at least, in ms (default 5,000).
    pub hot_window_ms: u64,
    /// The how many-th broken limit of CPU time or memory keeps a cell out (default 3).
    pub quarantine_strikes: u32,
    /// For how long that is at first, in ms (default 10,000); it doubles with each further time.
    pub quarantine_first_ms: u64,
    /// For how long at most, in ms (default 3,600,000).
    pub quarantine_max_ms: u64,
    /// A cell that breaks no limit for this long starts afresh, in ms (default 600,000).
    pub quarantine_forget_ms: u64,
    /// Cells that may be leaving at the same time when many must, until their records are written
    /// (default 64).
    pub evictions_max: usize,
    /// Bytes of node log kept before cells are checkpointed so that old files can go (default 64 MiB).
    pub log_budget_bytes: u64,
    /// Checkpoints under way at the same time (default 4).
    pub checkpoints_max: usize,
    /// Pause after a failed checkpoint, in ms (default 5,000).
    pub checkpoint_pause_ms: u64,
    /// Alarms under way at the same time (default 256).
    pub alarms_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            cells_per_host_max: 32,
            resident_max: 10_000,
            admission_wait_ms: 5_000,
            idle_after_ms: 70_000,
            hibernate_after_ms: 10_000,
            idle_grace_ms: 30_000,
            adopt_grace_ms: 30_000,
            stateless_hosts_max: 2,
            stateless_grow_waiting: 2,
            host_idle_ms: 30_000,
            host_busy_waiting: 8,
            hot_permille: 400,
            hot_window_ms: 5_000,
            quarantine_strikes: 3,
            quarantine_first_ms: 10_000,
            quarantine_max_ms: 3_600_000,
            quarantine_forget_ms: 600_000,
            evictions_max: 64,
            log_budget_bytes: 64 << 20,
            checkpoints_max: 4,
            checkpoint_pause_ms: 5_000,
            alarms_max: 256,
        }
    }
}
