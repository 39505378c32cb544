//! Isolate hosts as the node sees them: mailbox, load, and how they are started.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use celld_core::{CellId, HostId, MonoMs};
use celld_runtime::api::{CellEvent, HostConfig, HostMessage, WorkerCode, WorkerEvent};
use celld_runtime::host::{HostHandle, OnReady};
use parking_lot::RwLock;

/// Starts isolate hosts. The product has one implementation; tests make hosts up.
pub trait HostFactory: Send + Sync + 'static {
    /// Starts a host. `ready` must be called once, from any thread.
    fn start(&self, config: HostConfig, ready: OnReady) -> HostHandle;
}

/// Hosts that run V8.
#[derive(Clone, Copy, Debug, Default)]
pub struct IsolateHosts;

impl HostFactory for IsolateHosts {
    fn start(&self, config: HostConfig, ready: OnReady) -> HostHandle {
        celld_runtime::host::start_host(config, ready)
    }
}

/// A host that was started and not stopped.
pub(crate) struct HostEntry {
    handle: HostHandle,
    code: Arc<WorkerCode>,
    /// The host said that it is lost: what is sent to it from here on would be lost too.
    dead: AtomicBool,
    /// Stateless events go in. Senders hold it for reading, `stop` for writing, so that nothing
    /// lies behind `Shutdown` in the mailbox.
    open: RwLock<bool>,
    /// Waiting events: what the host last reported, and what it was sent since.
    load: AtomicU32,
    /// When the host last reported that it is idle.
    idle_at: AtomicU64,
    /// When it was last sent an event.
    used_at: AtomicU64,
    /// The core was told that events pile up here, and looks by itself until they are few again.
    told: AtomicBool,
}

impl HostEntry {
    pub(crate) fn new(handle: HostHandle, code: Arc<WorkerCode>) -> Self {
        Self {
            handle,
            code,
            dead: AtomicBool::new(false),
            open: RwLock::new(true),
            load: AtomicU32::new(0),
            idle_at: AtomicU64::new(0),
            used_at: AtomicU64::new(0),
            told: AtomicBool::new(false),
        }
    }

    pub(crate) fn id(&self) -> HostId {
        self.handle.id()
    }

    pub(crate) fn code(&self) -> &Arc<WorkerCode> {
        &self.code
    }

    pub(crate) fn load(&self) -> u32 {
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn used_at(&self) -> MonoMs {
        MonoMs::new(self.used_at.load(Ordering::Relaxed))
    }

    /// True unless the host has been idle since `used`.
    pub(crate) fn busy_since(&self, used: MonoMs) -> bool {
        self.load() > 0 || self.idle_at.load(Ordering::Relaxed) < used.get()
    }

    /// Notes the host's loss.
    pub(crate) fn bury(&self) {
        self.dead.store(true, Ordering::Release);
    }

    #[expect(
        clippy::result_large_err,
        reason = "what was sent goes back to its sender, and only when a host dies"
    )]
    pub(crate) fn send(&self, message: HostMessage) -> Result<(), HostMessage> {
        if self.dead.load(Ordering::Acquire) {
            return Err(message);
        }
        self.handle.send(message)
    }

    /// Sends an event of a cell; gives it back when the host is dead.
    #[expect(
        clippy::result_large_err,
        reason = "what was sent goes back to its sender, and only when a host dies"
    )]
    pub(crate) fn send_event(
        &self,
        cell: &CellId,
        event: CellEvent,
        now: MonoMs,
    ) -> Result<(), CellEvent> {
        if self.dead.load(Ordering::Acquire) {
            return Err(event);
        }
        self.count(now);
        match self.handle.send(HostMessage::Cell(cell.clone(), event)) {
            Ok(()) => Ok(()),
            Err(HostMessage::Cell(_, event)) => Err(event),
            Err(_) => unreachable!("a mailbox gives back the message that it was sent"),
        }
    }

    /// Sends a stateless event; gives it back when the host is stopping or dead.
    #[expect(
        clippy::result_large_err,
        reason = "what was sent goes back to its sender, and only when a host dies"
    )]
    pub(crate) fn send_worker(&self, event: WorkerEvent, now: MonoMs) -> Result<(), WorkerEvent> {
        let open = self.open.read();
        if !*open || self.dead.load(Ordering::Acquire) {
            return Err(event);
        }
        self.count(now);
        match self.handle.send(HostMessage::Worker(event)) {
            Ok(()) => Ok(()),
            Err(HostMessage::Worker(event)) => Err(event),
            Err(_) => unreachable!("a mailbox gives back the message that it was sent"),
        }
    }

    fn count(&self, now: MonoMs) {
        self.used_at.store(now.get(), Ordering::Relaxed);
        self.load.fetch_add(1, Ordering::Relaxed);
    }

    /// Lets no further stateless event in, and ends the host.
    pub(crate) fn stop(&self, grace: std::time::Duration) {
        let mut open = self.open.write();
        *open = false;
        let _ = self.handle.send(HostMessage::Shutdown { grace });
    }

    /// Takes the host's own report. True when the core should be told.
    pub(crate) fn report(&self, waiting: u32, now: MonoMs, worth_telling: u32) -> bool {
        self.load.store(waiting, Ordering::Relaxed);
        if waiting == 0 {
            self.idle_at.store(now.get(), Ordering::Relaxed);
        }
        self.is_news(waiting, worth_telling)
    }

    /// True when the core should be told that events pile up. It is told once.
    pub(crate) fn is_news(&self, load: u32, worth_telling: u32) -> bool {
        load >= worth_telling
            && !self.told.load(Ordering::Relaxed)
            && !self.told.swap(true, Ordering::Relaxed)
    }

    /// The load, for the core's own look. When it is low, the next rise is news again.
    pub(crate) fn look(&self, worth_telling: u32) -> u32 {
        let load = self.load();
        if load < worth_telling {
            self.told.store(false, Ordering::Relaxed);
        }
        load
    }
}
