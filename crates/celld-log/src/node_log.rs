//! The door: opening, appending, waiting, and asking for tails.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use celld_core::{CellId, Lsn, SessionId, Txid};
use parking_lot::{Condvar, Mutex};

use crate::disk::{Disk, RealDisk};
use crate::gates::GateQueue;
use crate::index::{CellTail, Index, RecordRef};
use crate::lock::{DirLock, LockError};
use crate::read::{self, ReadError, Recovery};
use crate::record::{Commit, Record};
use crate::writer::{Writer, WriterConfig};

/// Marks of checkpoints that may gather without waking the writer. They go with the next commit;
/// one that is lost in a crash costs a look at a cell record, no data.
const LAZY_MAX: usize = 256;

/// How a log is written.
#[derive(Clone)]
pub struct Options {
    /// Size of a log file, in bytes; reserved when the file is made (default 16 MiB, at least
    /// 8 KiB). A record that is longer gets a file of its own.
    pub file_bytes: u64,
    /// Most bytes of one write, in bytes; a longer record goes alone (default 4 MiB).
    pub batch_max_bytes: u64,
    /// Zeros written behind a small batch, in bytes (default 256 KiB; 0: none). The file system
    /// then has no metadata to flush with the batches that follow.
    pub zero_ahead_bytes: u64,
    /// Bytes waiting to be durable from which [`NodeLog::overloaded`] is true (default 64 MiB).
    pub backlog_max_bytes: u64,
    /// Where files go.
    pub disk: Arc<dyn Disk>,
    #[cfg(test)]
    pub(crate) sabotage: crate::writer::Sabotage,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            file_bytes: 16 << 20,
            batch_max_bytes: 4 << 20,
            zero_ahead_bytes: 256 << 10,
            backlog_max_bytes: 64 << 20,
            disk: Arc::new(RealDisk),
            #[cfg(test)]
            sabotage: crate::writer::Sabotage::None,
        }
    }
}

/// The log cannot be written any more. What was not durable before never will be in this session.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LogFailed {
    /// The disk is full.
    #[error(
        "the disk is full: the node log {} cannot be {doing}; free space there and start celld again (no unproven answer has left)",
        file.display()
    )]
    DiskFull {
        /// The file.
        file: PathBuf,
        /// `written`, `flushed` or `created`.
        doing: &'static str,
    },
    /// The disk refused.
    #[error(
        "the node log {} cannot be {doing}: {source}; check the disk and start celld again (no unproven answer has left)",
        file.display()
    )]
    Disk {
        /// The file.
        file: PathBuf,
        /// `written`, `flushed` or `created`.
        doing: &'static str,
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// A record is too long for the log's format.
    #[error("a commit of {bytes} bytes is too long for the node log (limit 4 GiB)")]
    TooLong {
        /// Its length.
        bytes: usize,
    },
    /// The log was closed.
    #[error("the node log is closed: this session has ended")]
    Closed,
}

impl LogFailed {
    pub(crate) fn disk(file: &Path, doing: &'static str, source: io::Error) -> Self {
        let file = file.to_owned();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { file, doing }
            }
            _ => Self::Disk {
                file,
                doing,
                source: Arc::new(source),
            },
        }
    }
}

/// The log cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The directory cannot be had.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// What is in it cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// No new file can be made in it.
    #[error(transparent)]
    Write(#[from] LogFailed),
    /// The writer's thread cannot be started, or there is no randomness.
    #[error("cannot start the node log: {0}")]
    System(io::Error),
}

/// Runs when its position is durable, or when it is known that it never will be: on the writer's
/// thread right after the flush, so it must be short and must not block.
pub type Gate = Box<dyn FnOnce(Result<(), LogFailed>) + Send>;

/// Told once, on the writer's thread, when the log fails.
pub type OnFailed = Box<dyn FnOnce(LogFailed) + Send>;

/// Counters since the log was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Records that are durable.
    pub records: u64,
    /// Their bytes in the file.
    pub bytes: u64,
    /// Batches written; each is one write and one flush.
    pub batches: u64,
    /// Time in those writes and flushes.
    pub flush_total: Duration,
    /// Log files on disk, those of dead sessions included.
    pub files: usize,
    /// Bytes of commits that no cell record holds yet.
    pub live_bytes: u64,
}

/// The log of one session, and what dead sessions left. See the crate's page.
pub struct NodeLog {
    shared: Arc<Shared>,
    recovery: Recovery,
    thread: Mutex<Option<JoinHandle<()>>>,
    _lock: DirLock,
}

impl NodeLog {
    /// Takes the directory for this process, reads what dead sessions left, and begins a log.
    ///
    /// `dir` is the `log` directory of a local bucket; `session` must be fresh. Blocks on I/O.
    pub fn open(
        dir: &Path,
        session: SessionId,
        options: Options,
        on_failed: OnFailed,
    ) -> Result<Self, OpenError> {
        let dir = std::path::absolute(dir).map_err(OpenError::System)?;
        let lock = DirLock::take(&dir, session)?;
        let mut logs = read::read_logs(&dir)?;
        logs.clear_unwritten(&*options.disk);
        let backlog_max_bytes = options.backlog_max_bytes;
        let config = WriterConfig {
            dir,
            session,
            generation: logs.last_generation + 1,
            options,
        };
        let writer = Writer::begin(config, &mut logs.index)?;
        let shared = Arc::new(Shared::new(logs.index, backlog_max_bytes));
        let thread = writer
            .start(shared.clone(), on_failed)
            .map_err(OpenError::System)?;
        Ok(Self {
            shared,
            recovery: logs.recovery,
            thread: Mutex::new(Some(thread)),
            _lock: lock,
        })
    }

    /// What was found of dead sessions.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Appends a commit; never waits for the disk. After a failure the position is one that will
    /// never be durable.
    pub fn append(&self, commit: Commit) -> Lsn {
        self.shared.append(Record::Commit(commit), Urgency::Now)
    }

    /// Appends the deletion of a cell: from here on its commits so far, and its cell record, are
    /// void. Say [`NodeLog::checkpointed`] with the cell's last txid when the record is gone.
    pub fn delete(&self, cell: CellId) -> Lsn {
        self.shared.append(Record::Deleted { cell }, Urgency::Now)
    }

    /// Says that the cell record, durably in the bucket, holds the cell's commits up to `txid`.
    ///
    /// Their records are dropped, and files that hold nothing else are removed before long.
    /// Checkpoints and deletions of one cell must be said in the order in which they were done.
    pub fn checkpointed(&self, cell: &CellId, txid: Txid) {
        self.shared.index.lock().checkpointed(cell, txid);
        self.shared.append(
            Record::Checkpointed {
                cell: cell.clone(),
                txid,
            },
            Urgency::Lazy,
        );
    }

    /// Everything up to here is durable, and the gates that waited for it have run. A plain atomic
    /// load.
    pub fn durable(&self) -> Lsn {
        Lsn::new(self.shared.durable.load(Ordering::Acquire))
    }

    /// Runs `then` when `lsn` is durable: at once and on this thread if it is already, else on the
    /// writer's thread. Gates run in LSN order, and those of one LSN in the order of their calls.
    pub fn when_durable(&self, lsn: Lsn, then: Gate) {
        if lsn <= self.durable() {
            return then(Ok(()));
        }
        let mut gates = self.shared.gates.lock();
        let (then, result) = match (gates.queue.wait_for(lsn, then), &gates.failed) {
            (Some(open), _) => (open, Ok(())),
            (None, None) => return,
            (None, Some(failed)) => {
                let failed = failed.clone();
                let Some(shut) = gates.queue.give_up().next() else {
                    return;
                };
                (shut, Err(failed))
            }
        };
        drop(gates);
        then(result);
    }

    /// Bytes that were appended and are not durable yet.
    pub fn backlog_bytes(&self) -> u64 {
        self.shared.backlog_bytes.load(Ordering::Relaxed)
    }

    /// The disk does not keep up: take no new events that may write.
    pub fn overloaded(&self) -> bool {
        self.backlog_bytes() >= self.shared.backlog_max_bytes
    }

    /// Why the log can't be written any more, if so.
    pub fn failure(&self) -> Option<LogFailed> {
        self.shared.gates.lock().failed.clone()
    }

    /// A cell's commits since its cell record was written, of dead sessions and of this one;
    /// `None` when the record holds them all.
    ///
    /// Commits of this session are in it once they are durable. Where the record's txid is not
    /// older than the tail's, the record has the last word on name and alarm.
    pub fn tail(&self, cell: &CellId) -> Option<CellTail> {
        self.shared.index.lock().tail(cell)
    }

    /// Reads a commit's segment and checks it. Blocks on I/O.
    pub fn read_segment(&self, record: &RecordRef) -> Result<Bytes, ReadError> {
        let found = self
            .shared
            .index
            .lock()
            .file(record.file)
            .map(|(path, salt)| (path.to_owned(), salt));
        let (path, salt) = found.ok_or(ReadError::Gone { lsn: record.lsn })?;
        read::read_segment(&path, salt, record)
    }

    /// All cells with a tail: after a start, those that a dead session left.
    pub fn cells(&self) -> Vec<CellId> {
        self.shared.index.lock().cells().cloned().collect()
    }

    /// The alarms that tails say, with `None` where a tail says that there is none.
    pub fn alarms(&self) -> Vec<(CellId, Option<i64>)> {
        self.shared
            .index
            .lock()
            .alarms()
            .map(|(cell, alarm)| (cell.clone(), alarm))
            .collect()
    }

    /// Up to `limit` cells that keep the oldest file from being removed: checkpoint these first.
    pub fn oldest_cells(&self, limit: usize) -> Vec<CellId> {
        self.shared.index.lock().holders(limit)
    }

    /// Counters.
    pub fn stats(&self) -> Stats {
        let mut stats = *self.shared.stats.lock();
        let index = self.shared.index.lock();
        stats.files = index.file_count();
        stats.live_bytes = index.live_bytes();
        stats
    }

    /// Writes what waits, marks the log as closed, and ends the writer. Blocks on I/O.
    ///
    /// When no cell has a tail, all files are removed: nothing is left to recover.
    pub fn close(&self) -> Result<(), LogFailed> {
        self.shared.end(true);
        self.join();
        match self.failure() {
            None | Some(LogFailed::Closed) => Ok(()),
            Some(failed) => Err(failed),
        }
    }

    fn join(&self) {
        let Some(thread) = self.thread.lock().take() else {
            return;
        };
        // The last handle may be dropped by a gate, which runs on that thread.
        if thread.thread().id() != std::thread::current().id() && thread.join().is_err() {
            tracing::error!("the node log's writer panicked");
        }
    }
}

impl Drop for NodeLog {
    /// Writes what waits, and leaves the log without its mark. What cells need is recovered from it.
    fn drop(&mut self) {
        self.shared.end(false);
        self.join();
    }
}

impl std::fmt::Debug for NodeLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeLog")
            .field("durable", &self.durable())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    Now,
    Lazy,
}

/// A record that waits to be written.
pub(crate) struct Queued {
    pub record: Record,
    pub head: Vec<u8>,
    pub payload_crc: u32,
    pub payload_length: u32,
}

/// What the writer and the handles share.
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    pub durable: AtomicU64,
    pub backlog_bytes: AtomicU64,
    pub backlog_max_bytes: u64,
    pub gates: Mutex<Gates>,
    pub index: Mutex<Index>,
    pub stats: Mutex<Stats>,
}

#[derive(Default)]
struct Queue {
    waiting: Vec<Queued>,
    last_lsn: u64,
    /// The writer sleeps; whoever makes it `urgent` wakes it.
    sleeping: bool,
    urgent: bool,
    lazy: usize,
    /// No further record is taken.
    ended: bool,
}

#[derive(Default)]
pub(crate) struct Gates {
    pub queue: GateQueue<Gate>,
    pub failed: Option<LogFailed>,
}

impl Shared {
    fn new(index: Index, backlog_max_bytes: u64) -> Self {
        Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            durable: AtomicU64::new(0),
            backlog_bytes: AtomicU64::new(0),
            backlog_max_bytes,
            gates: Mutex::default(),
            index: Mutex::new(index),
            stats: Mutex::default(),
        }
    }

    fn append(&self, record: Record, urgency: Urgency) -> Lsn {
        let head = record.encode_head();
        let length = head.len() + record.segment().len();
        let Ok(payload_length) = u32::try_from(length) else {
            self.fail(LogFailed::TooLong { bytes: length });
            return self.next_lsn();
        };
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head);
        hasher.update(record.segment());
        let queued = Queued {
            record,
            head,
            payload_crc: hasher.finalize(),
            payload_length,
        };

        let mut queue = self.queue.lock();
        queue.last_lsn += 1;
        let lsn = Lsn::new(queue.last_lsn);
        if queue.ended {
            return lsn;
        }
        self.backlog_bytes
            .fetch_add(length as u64, Ordering::Relaxed);
        queue.waiting.push(queued);
        queue.lazy += usize::from(urgency == Urgency::Lazy);
        queue.urgent |= urgency == Urgency::Now || queue.lazy >= LAZY_MAX;
        let wake = queue.urgent && std::mem::take(&mut queue.sleeping);
        drop(queue);
        if wake {
            self.wake.notify_one();
        }
        lsn
    }

    fn next_lsn(&self) -> Lsn {
        let mut queue = self.queue.lock();
        queue.last_lsn += 1;
        Lsn::new(queue.last_lsn)
    }

    /// Takes no further record. What waits is still written, with a mark behind it if `closed`.
    fn end(&self, closed: bool) {
        if closed {
            self.append(Record::Closed, Urgency::Lazy);
        }
        let mut queue = self.queue.lock();
        queue.ended = true;
        queue.urgent = true;
        queue.sleeping = false;
        drop(queue);
        self.wake.notify_one();
    }

    /// Waits for records and swaps them into `taken`, which is empty. False when there are none
    /// and none will come.
    pub fn take_waiting(&self, taken: &mut Vec<Queued>) -> bool {
        let mut queue = self.queue.lock();
        loop {
            if queue.urgent && !queue.waiting.is_empty() {
                std::mem::swap(&mut queue.waiting, taken);
                queue.urgent = queue.ended;
                queue.lazy = 0;
                return true;
            }
            if queue.ended {
                return false;
            }
            queue.sleeping = true;
            self.wake.wait(&mut queue);
            queue.sleeping = false;
        }
    }

    /// Ends the session: every gate that waits gets `why`; later ones get the first reason.
    pub fn fail(&self, why: LogFailed) {
        let mut queue = self.queue.lock();
        queue.ended = true;
        queue.urgent = true;
        queue.waiting = Vec::new();
        queue.sleeping = false;
        drop(queue);
        self.wake.notify_one();
        let mut gates = self.gates.lock();
        gates.failed.get_or_insert_with(|| why.clone());
        let shut: Vec<Gate> = gates.queue.give_up().collect();
        drop(gates);
        for gate in shut {
            run_gate(gate, Err(why.clone()));
        }
    }
}

/// Runs a gate. One that panics must not take the others with it.
pub(crate) fn run_gate(gate: Gate, result: Result<(), LogFailed>) {
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| gate(result))).is_err() {
        tracing::error!("an output gate of the node log panicked");
    }
}
