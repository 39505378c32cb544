//! What every part of a node holds on to.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};

use celld_core::{CellId, CellLimit, Counts, Event, HostId, ScriptName, WallMs};
use celld_runtime::api::{Limits, WorkerCode, WorkerEvent};
use celld_runtime::exchange::EventError;
use celld_runtime::socket::CellSockets;
use parking_lot::Mutex;

use crate::assets::BlobCache;
use crate::cells::Store;
use crate::clock::Clock;
use crate::console::ConsoleSink;
use crate::hosts::{HostEntry, HostFactory};
use crate::outbound::Outbound;
use crate::refuse;
use crate::routes::{Routes, Sent};
use crate::shell::Command;
use crate::workers::{Dispatched, Pool};

/// What a commit takes in the log beside its segment, in bytes.
const COMMIT_HEAD_BYTES: u64 = 128;
/// Cells that are named to the core when the log is too large.
const OLDEST_CELLS_MAX: usize = 256;

/// The node's state outside the core. Everything here is shared between threads.
pub(crate) struct Shared {
    pub(crate) clock: Clock,
    pub(crate) store: Store,
    pub(crate) log_file_bytes: u64,
    pub(crate) routes: Routes,
    pub(crate) hosts: papaya::HashMap<HostId, Arc<HostEntry>>,
    pub(crate) pools: papaya::HashMap<ScriptName, Arc<Pool>>,
    pub(crate) sockets: papaya::HashMap<CellId, Arc<CellSockets>>,
    pub(crate) outbound: Outbound,
    pub(crate) console: Arc<dyn ConsoleSink>,
    pub(crate) factory: Arc<dyn HostFactory>,
    pub(crate) snapshot: &'static [u8],
    pub(crate) limits: Limits,
    pub(crate) core_config: celld_core::Config,
    pub(crate) tokio: tokio::runtime::Handle,
    /// To the core's thread.
    pub(crate) core: mpsc::Sender<Command>,
    /// Static files that were read lately.
    pub(crate) blobs: BlobCache,
    pub(crate) draining: AtomicBool,
    /// Cells that are kept out, and some that were; the core decides.
    pub(crate) quarantined: Mutex<BTreeMap<CellId, Quarantined>>,
    pub(crate) counts: Mutex<Counts>,
    pub(crate) counters: Counters,
}

/// Why a cell is kept out, and until when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quarantined {
    pub(crate) limit: CellLimit,
    /// How often it broke limits.
    pub(crate) strikes: u32,
    pub(crate) until: WallMs,
}

impl Quarantined {
    /// The limit that the cell broke last, in words.
    pub(crate) fn reason(&self) -> &'static str {
        match self.limit {
            CellLimit::Cpu => "it exceeded the limit of CPU time",
            CellLimit::Memory => "it exceeded the limit of memory",
        }
    }
}

/// Totals since the node's start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) cell_events: AtomicU64,
    pub(crate) worker_events: AtomicU64,
    pub(crate) commits: AtomicU64,
    pub(crate) commit_bytes: AtomicU64,
    /// About as many bytes as commits take in the log.
    log_bytes: AtomicU64,
    pub(crate) activations: AtomicU64,
    pub(crate) evictions: AtomicU64,
    pub(crate) saves: AtomicU64,
    pub(crate) alarms: AtomicU64,
    /// Set while the size of the log is being looked at.
    pub(crate) looking: AtomicBool,
}

impl Counters {
    pub(crate) fn one(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Tells the core something. After the core's end it is of no interest to anybody.
    pub(crate) fn tell(&self, event: Event) {
        self.command(Command::Core(event));
    }

    pub(crate) fn command(&self, command: Command) {
        let _ = self.core.send(command);
    }

    /// Delivers an event to a cell.
    pub(crate) fn send_to_cell(
        &self,
        cell: &CellId,
        name: Option<&str>,
        event: celld_runtime::api::CellEvent,
    ) {
        Counters::one(&self.counters.cell_events);
        match self.routes.send(cell, name, event, self.clock.mono()) {
            Sent::Done => {}
            Sent::Wanted => self.tell(Event::Wanted { cell: cell.clone() }),
            Sent::HostDead(host) => {
                self.tell(Event::HostLost { host });
                self.tell(Event::Wanted { cell: cell.clone() });
            }
        }
    }

    /// Delivers a stateless event.
    pub(crate) fn send_to_script(&self, script: &str, event: WorkerEvent) {
        Counters::one(&self.counters.worker_events);
        let pool = self.pools.pin().get(&ScriptName::new(script)).cloned();
        let Some(pool) = pool.filter(|pool| pool.is_adopted()) else {
            refuse::worker_event(
                event,
                EventError::new(format!("No Worker named {script:?} is deployed here.")),
            );
            return;
        };
        if self.draining.load(Ordering::Relaxed) && pool.hosts() == 0 {
            refuse::worker_event(
                event,
                refuse::retryable("The node is shutting down.".into()),
            );
            return;
        }
        if let Dispatched::To(id, load) = pool.send(event, self.clock.mono()) {
            let entry = self.hosts.pin().get(&id).cloned();
            let worth_telling = self.core_config.stateless_grow_waiting;
            if entry.is_some_and(|entry| entry.is_news(load, worth_telling)) {
                let waiting = load;
                self.tell(Event::HostLoad { host: id, waiting });
            }
        }
    }

    /// The pool of a script, made if need be.
    pub(crate) fn pool(&self, script: &ScriptName) -> Arc<Pool> {
        let pools = self.pools.pin();
        let waiting_max = self.limits.cell_events_max;
        pools
            .get_or_insert_with(script.clone(), || Arc::new(Pool::new(waiting_max)))
            .clone()
    }

    /// The sockets that a cell keeps, made if need be.
    pub(crate) fn cell_sockets(&self, cell: &CellId) -> Arc<CellSockets> {
        let sockets = self.sockets.pin();
        match sockets.get(cell) {
            Some(known) => known.clone(),
            None => sockets
                .get_or_insert_with(cell.clone(), Arc::default)
                .clone(),
        }
    }

    /// Notes a commit, and looks at the log's size every quarter of a file.
    pub(crate) fn note_commit(self: &Arc<Self>, bytes: u64) {
        Counters::one(&self.counters.commits);
        self.counters
            .commit_bytes
            .fetch_add(bytes, Ordering::Relaxed);
        let bytes = bytes + COMMIT_HEAD_BYTES;
        let before = self.counters.log_bytes.fetch_add(bytes, Ordering::Relaxed);
        let every = (self.log_file_bytes / 4).max(1);
        if before / every != (before + bytes) / every {
            self.look_at_log();
        }
    }

    /// Tells the core how large the log is and which cells keep its oldest file.
    pub(crate) fn look_at_log(self: &Arc<Self>) {
        if self.counters.looking.swap(true, Ordering::AcqRel) {
            return;
        }
        let shared = self.clone();
        self.tokio.spawn_blocking(move || {
            shared.counters.looking.store(false, Ordering::Release);
            let log = &shared.store.log;
            let bytes = log.stats().files as u64 * shared.log_file_bytes;
            let oldest = match bytes > shared.core_config.log_budget_bytes {
                true => log.oldest_cells(OLDEST_CELLS_MAX),
                false => Vec::new(),
            };
            shared.tell(Event::LogSize { bytes, oldest });
        });
    }

    /// The class that a Worker has for a cell.
    pub(crate) fn class_name(code: &WorkerCode, cell: &CellId) -> String {
        let class = code
            .classes
            .iter()
            .find(|class| class.namespace == cell.namespace);
        class
            .map(|class| class.class_name.clone())
            .unwrap_or_default()
    }
}
