//! The door: opening, appending, waiting, and asking for tails.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;

use bytes::Bytes;
use celld_core::{CellId, Lsn, SessionId, Txid};
use parking_lot::Mutex;

use crate::disk::{Disk, RealDisk};
use crate::error::{LogFailed, OpenError};
use crate::index::{CellTail, RecordRef};
use crate::lock::DirLock;
use crate::read::{self, ReadError, Recovery};
use crate::record::{Commit, Record};
use crate::shared::{Gate, OnFailed, Shared, Stats, Urgency};
use crate::writer::{Writer, WriterConfig};

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

/// The log of one session, and what dead sessions left. See the crate's page.
pub struct NodeLog {
    shared: Arc<Shared>,
    recovery: Recovery,
    thread: Mutex<Option<JoinHandle<()>>>,
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
        read::settle_logs(&dir, &*options.disk)?;
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
        let shared = Arc::new(Shared::new(logs.index, backlog_max_bytes, lock));
        let thread = writer
            .start(shared.clone(), on_failed)
            .map_err(OpenError::System)?;
        Ok(Self {
            shared,
            recovery: logs.recovery,
            thread: Mutex::new(Some(thread)),
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
    /// Commits of this session are in it once they are durable. Ask for the tail first and read the
    /// record then: whatever a checkpoint takes out of the tail is in a record that is read later,
    /// not in one that was read before. Where the record's txid is not older than the tail's, the
    /// record has the last word on name and alarm.
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
