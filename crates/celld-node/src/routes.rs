//! The way of an event to its cell.
//!
//! Each cell that is not cold has a [`Port`]. Its state is either *hot* (events go straight into
//! the host's mailbox) or *waiting* (events queue here until the core has found a host).
//!
//! **Why no event is lost or overtaken.** A sender holds the port's lock for reading while it puts
//! its event into the mailbox; every change of state holds it for writing and sends its own
//! message into the same mailbox before it lets go:
//! - *waiting → hot* sends `Activate`, then the queued events in their order. A caller's later
//!   event comes after that.
//! - *hot → waiting* sends `Evict`. An event that was sent before lies before `Evict` in the
//!   mailbox, and the host handles it; a later one finds the port waiting. So none ever reaches
//!   the host behind `Evict`.
//!
//! A port that is taken off the map is marked *gone* under the write lock, so that a sender who
//! found it just before looks again instead of queueing where nobody will look.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use celld_core::{CellId, HostId, Lsn, MonoMs};
use celld_runtime::api::{CellEvent, HostMessage};
use celld_runtime::exchange::EventError;
use celld_runtime::pulse::Pulse;
use parking_lot::{Mutex, RwLock};

use crate::hosts::HostEntry;
use crate::refuse;

/// What a send led to, for the core to know.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// On its way, or refused.
    Done,
    /// It is the first that waits: the core must find a host.
    Wanted,
    /// The host is dead, and the event waits.
    HostDead(HostId),
}

enum State {
    Waiting(Vec<CellEvent>),
    Hot(Arc<HostEntry>, Arc<Pulse>),
    Gone,
}

/// One cell's door.
pub(crate) struct Port {
    state: RwLock<State>,
    last_lsn: AtomicU64,
    /// The alarm after the last commit, in ms since the epoch; `None` until anything is known.
    alarm: Mutex<Option<Option<i64>>>,
    name: OnceLock<Arc<str>>,
}

impl Port {
    fn new() -> Self {
        Self {
            state: RwLock::new(State::Waiting(Vec::new())),
            last_lsn: AtomicU64::new(0),
            alarm: Mutex::new(None),
            name: OnceLock::new(),
        }
    }

    /// The cell's last commit in this session; 0 for none.
    pub(crate) fn last_lsn(&self) -> Lsn {
        Lsn::new(self.last_lsn.load(Ordering::Acquire))
    }

    /// The name that the cell's id was made from, if a caller knew it.
    pub(crate) fn name(&self) -> Option<Arc<str>> {
        self.name.get().cloned()
    }

    /// Records the alarm that an image holds.
    pub(crate) fn know_alarm(&self, alarm_ms: Option<i64>) {
        *self.alarm.lock() = Some(alarm_ms);
    }

    /// Records what a commit says about the alarm. A change to an earlier time is told by `tell`
    /// before the commit is on its way, any other one must be told by [`Port::confirm_alarm`] once
    /// the commit is proven, of which the result reminds: what the scheduler knows may be too
    /// early, never too late.
    #[must_use]
    pub(crate) fn note_alarm(&self, alarm_ms: Option<i64>, tell: impl FnOnce()) -> bool {
        let mut alarm = self.alarm.lock();
        let before = alarm.replace(alarm_ms);
        if before == Some(alarm_ms) {
            return false;
        }
        let sooner = match (alarm_ms, before.flatten()) {
            (Some(at), Some(known)) => at < known,
            (at, _) => at.is_some(),
        };
        if sooner {
            // Under the lock, so that two changes are told in the order in which they were made.
            tell();
        }
        !sooner
    }

    /// Tells of a proven change, unless another one came meanwhile.
    pub(crate) fn confirm_alarm(&self, alarm_ms: Option<i64>, tell: impl FnOnce()) {
        let alarm = self.alarm.lock();
        if *alarm == Some(alarm_ms) {
            tell();
        }
    }

    /// Records a commit.
    pub(crate) fn note_lsn(&self, lsn: Lsn) {
        self.last_lsn.fetch_max(lsn.get(), Ordering::AcqRel);
    }

    /// What the cell is doing, while events go straight to its host.
    pub(crate) fn pulse(&self) -> Option<Arc<Pulse>> {
        match &*self.state.read() {
            State::Hot(_, pulse) => Some(pulse.clone()),
            State::Waiting(_) | State::Gone => None,
        }
    }
}

/// Puts an event into a host's mailbox; gives it back when the host is dead.
#[expect(
    clippy::result_large_err,
    reason = "what was sent goes back to its sender, and only when a host dies"
)]
fn put(
    host: &HostEntry,
    pulse: &Pulse,
    cell: &CellId,
    event: CellEvent,
    now: MonoMs,
) -> Result<(), CellEvent> {
    pulse.send(now);
    host.send_event(cell, event, now)
        .inspect_err(|_| pulse.send_failed())
}

/// All ports of a node.
pub(crate) struct Routes {
    ports: papaya::HashMap<CellId, Arc<Port>>,
    /// Events in all queues.
    waiting: AtomicUsize,
    /// Most events that may wait for one cell.
    cell_waiting_max: usize,
    /// Most events that may wait for all cells together.
    waiting_max: usize,
}

impl Routes {
    pub(crate) fn new(cell_waiting_max: usize, waiting_max: usize) -> Self {
        Self {
            ports: papaya::HashMap::new(),
            waiting: AtomicUsize::new(0),
            cell_waiting_max,
            waiting_max,
        }
    }

    /// Events that wait for a host.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// The cell's port, if it is not cold.
    pub(crate) fn port(&self, cell: &CellId) -> Option<Arc<Port>> {
        self.ports.pin().get(cell).cloned()
    }

    /// The cell's port, made if need be.
    pub(crate) fn port_or_new(&self, cell: &CellId) -> Arc<Port> {
        let ports = self.ports.pin();
        match ports.get(cell) {
            Some(port) => port.clone(),
            None => ports
                .get_or_insert_with(cell.clone(), || Arc::new(Port::new()))
                .clone(),
        }
    }

    /// Delivers an event, or lets it wait.
    pub(crate) fn send(
        &self,
        cell: &CellId,
        name: Option<&str>,
        event: CellEvent,
        now: MonoMs,
    ) -> Sent {
        let mut event = event;
        loop {
            let port = self.port_or_new(cell);
            if let Some(name) = name {
                port.name.get_or_init(|| name.into());
            }
            if let State::Hot(host, pulse) = &*port.state.read() {
                match put(host, pulse, cell, event, now) {
                    Ok(()) => return Sent::Done,
                    Err(back) => event = back,
                }
            }
            let mut state = port.state.write();
            match &mut *state {
                State::Gone => {
                    drop(state);
                    self.forget(cell, &port);
                }
                State::Waiting(queue) => return self.queue(queue, event),
                State::Hot(host, pulse) => match put(host, pulse, cell, event, now) {
                    Ok(()) => return Sent::Done,
                    Err(back) => {
                        let dead = host.id();
                        self.waiting.fetch_add(1, Ordering::Relaxed);
                        *state = State::Waiting(vec![back]);
                        return Sent::HostDead(dead);
                    }
                },
            }
        }
    }

    fn queue(&self, queue: &mut Vec<CellEvent>, event: CellEvent) -> Sent {
        let full = queue.len() >= self.cell_waiting_max;
        if full || self.waiting.load(Ordering::Relaxed) >= self.waiting_max {
            refuse::cell_event(
                event,
                EventError::overloaded("Durable Object is overloaded. Too many requests queued."),
            );
            return Sent::Done;
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        queue.push(event);
        if queue.len() == 1 {
            Sent::Wanted
        } else {
            Sent::Done
        }
    }

    /// *waiting → hot*: hands the cell over with `activate`, then what waits.
    ///
    /// When the host is dead, everything goes on waiting; the host's loss starts the next try.
    pub(crate) fn open(
        &self,
        cell: &CellId,
        host: Arc<HostEntry>,
        activate: HostMessage,
        pulse: Arc<Pulse>,
        now: MonoMs,
    ) {
        let port = self.port_or_new(cell);
        let mut state = port.state.write();
        if matches!(&*state, State::Hot(..)) {
            // The cell's last host died, and nobody has sent an event since.
            *state = State::Waiting(Vec::new());
        }
        let State::Waiting(queue) = &mut *state else {
            return;
        };
        if host.send(activate).is_err() {
            return;
        }
        let mut events = std::mem::take(queue).into_iter();
        self.waiting.fetch_sub(events.len(), Ordering::Relaxed);
        let refused = events
            .by_ref()
            .find_map(|event| put(&host, &pulse, cell, event, now).err());
        let Some(first) = refused else {
            *state = State::Hot(host, pulse);
            return;
        };
        let rest: Vec<CellEvent> = std::iter::once(first).chain(events).collect();
        self.waiting.fetch_add(rest.len(), Ordering::Relaxed);
        *queue = rest;
    }

    /// *hot → waiting*, with `evict` behind the last event. A host that is dead drops the reply in
    /// `evict`, which answers it.
    pub(crate) fn close(&self, cell: &CellId, host: &HostEntry, evict: HostMessage) {
        let port = self.port_or_new(cell);
        let mut state = port.state.write();
        if matches!(&*state, State::Hot(current, _) if current.id() == host.id()) {
            *state = State::Waiting(Vec::new());
        }
        // A refused message is dropped here, reply included.
        let _ = host.send(evict);
    }

    /// *hot → waiting* after the host said that the cell is gone.
    pub(crate) fn lost(&self, cell: &CellId, host: HostId) {
        let Some(port) = self.port(cell) else { return };
        let mut state = port.state.write();
        if matches!(&*state, State::Hot(current, _) if current.id() == host) {
            *state = State::Waiting(Vec::new());
        }
    }

    /// The cell is cold: takes its port off the map. False when events wait, which keeps it.
    pub(crate) fn release(&self, cell: &CellId) -> bool {
        let Some(port) = self.port(cell) else {
            return true;
        };
        let mut state = port.state.write();
        if matches!(&*state, State::Waiting(queue) if !queue.is_empty()) {
            return false;
        }
        *state = State::Gone;
        drop(state);
        self.forget(cell, &port);
        true
    }

    /// Takes a cold cell's port off the map once its commits are in the log: if nothing has
    /// happened to it since.
    pub(crate) fn release_settled(&self, cell: &CellId, lsn: Lsn) {
        let Some(port) = self.port(cell).filter(|port| port.last_lsn() <= lsn) else {
            return;
        };
        let mut state = port.state.write();
        if matches!(&*state, State::Waiting(queue) if queue.is_empty()) {
            *state = State::Gone;
            drop(state);
            self.forget(cell, &port);
        }
    }

    /// True when events wait for the cell.
    pub(crate) fn has_waiting(&self, cell: &CellId) -> bool {
        let Some(port) = self.port(cell) else {
            return false;
        };
        let state = port.state.read();
        matches!(&*state, State::Waiting(queue) if !queue.is_empty())
    }

    /// Fails what waits for the cell.
    pub(crate) fn refuse(&self, cell: &CellId, why: &EventError) {
        let Some(port) = self.port(cell) else { return };
        let events = match &mut *port.state.write() {
            State::Waiting(queue) => std::mem::take(queue),
            State::Hot(..) | State::Gone => return,
        };
        self.waiting.fetch_sub(events.len(), Ordering::Relaxed);
        for event in events {
            refuse::cell_event(event, why.clone());
        }
    }

    fn forget(&self, cell: &CellId, port: &Arc<Port>) {
        let _ = self
            .ports
            .pin()
            .remove_if(cell, |_, current| Arc::ptr_eq(current, port));
    }
}

#[cfg(test)]
mod tests {
    use celld_core::{NamespaceKey, ObjectId};
    use celld_runtime::api::WorkerCode;
    use celld_runtime::exchange::reply;
    use celld_runtime::host::HostHandle;
    use tokio::sync::mpsc::UnboundedReceiver;

    use super::*;

    fn host(id: u64) -> (Arc<HostEntry>, UnboundedReceiver<HostMessage>) {
        let code = WorkerCode {
            name: "worker".into(),
            version: "one".into(),
            main_module: "index.js".into(),
            modules: Vec::new(),
            compatibility_date: "2026-01-01".into(),
            compatibility_flags: Vec::new(),
            bindings: Vec::new(),
            classes: Vec::new(),
            code_cache: Default::default(),
        };
        let (handle, mailbox) = HostHandle::new(HostId::new(id));
        (Arc::new(HostEntry::new(handle, Arc::new(code))), mailbox)
    }

    fn event(scheduled_ms: i64) -> CellEvent {
        let (reply, _) = reply();
        CellEvent::Alarm {
            scheduled_ms,
            retry_count: 0,
            reply,
        }
    }

    fn pulse() -> Arc<Pulse> {
        Arc::new(Pulse::new(std::time::Instant::now()))
    }

    fn checkpoint(cell: &CellId) -> HostMessage {
        let (reply, _) = reply();
        HostMessage::Checkpoint {
            cell: cell.clone(),
            reply,
        }
    }

    #[test]
    fn a_cell_moves_to_a_new_host_although_nobody_has_noticed_the_death_of_the_old_one() {
        let cell = CellId {
            namespace: NamespaceKey::new("n").unwrap(),
            object: ObjectId::from_bytes([1; 32]),
        };
        let (routes, now) = (Routes::new(10, 10), MonoMs::new(1));
        assert_eq!(routes.send(&cell, None, event(1), now), Sent::Wanted);
        let (old, mut old_mailbox) = host(1);
        // What hands a cell over is up to the caller; any message will do.
        routes.open(&cell, old, checkpoint(&cell), pulse(), now);
        assert!(matches!(
            old_mailbox.try_recv(),
            Ok(HostMessage::Checkpoint { .. })
        ));
        drop(old_mailbox);

        let (new, mut new_mailbox) = host(2);
        routes.open(&cell, new, checkpoint(&cell), pulse(), now);
        assert!(matches!(
            new_mailbox.try_recv(),
            Ok(HostMessage::Checkpoint { .. })
        ));
        assert_eq!(routes.send(&cell, None, event(2), now), Sent::Done);
        assert!(matches!(
            new_mailbox.try_recv(),
            Ok(HostMessage::Cell(
                _,
                CellEvent::Alarm {
                    scheduled_ms: 2,
                    ..
                }
            ))
        ));
        assert_eq!(routes.waiting(), 0);
    }
}
