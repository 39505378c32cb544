//! What the writer's thread and the log's handles share: the queue, the gates, the index.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use celld_core::Lsn;
use parking_lot::{Condvar, Mutex};

use crate::error::LogFailed;
use crate::gates::GateQueue;
use crate::index::Index;
use crate::lock::DirLock;
use crate::record::Record;

/// Marks of checkpoints that may gather without waking the writer. They go with the next commit;
/// one that is lost in a crash costs a look at a cell record, no data.
const LAZY_MAX: usize = 256;

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
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
    /// Held until the writer's thread, too, has let go.
    _lock: DirLock,
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
    pub fn new(index: Index, backlog_max_bytes: u64, lock: DirLock) -> Self {
        Self {
            queue: Mutex::default(),
            wake: Condvar::new(),
            durable: AtomicU64::new(0),
            backlog_bytes: AtomicU64::new(0),
            backlog_max_bytes,
            gates: Mutex::default(),
            index: Mutex::new(index),
            stats: Mutex::default(),
            _lock: lock,
        }
    }

    /// Queues a record and wakes the writer if it sleeps and need be.
    pub fn append(&self, record: Record, urgency: Urgency) -> Lsn {
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
    pub fn end(&self, closed: bool) {
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
