//! Resident cells: taking them in, constructing and resetting instances, letting them go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Context;
use std::time::{Duration, Instant};

use celld_core::{CellId, CellLimit, Lsn};
use deno_core::v8;

use super::events::not_here;
use super::{Entry, Failed, Isolate};
use crate::api::{CellImage, CellRemains};
use crate::exchange::{EventError, Limit, Reply};
use crate::gates::Outbox;
use crate::ops;
use crate::socket::HEARD;
use crate::state::{Cell, Eviction, HostState, RpcSession};

impl Isolate {
    /// Takes a cell in. Nothing is constructed or opened before its first event.
    pub(super) fn activate(&mut self, image: CellImage) {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let cell = Cell {
            db: None,
            slot: 0,
            outbox: Arc::new(Outbox::default()),
            staged: Vec::new(),
            last_lsn: Lsn::default(),
            wrote: false,
            events: 0,
            spent: Duration::ZERO,
            spanning: false,
            alarm_running: None,
            alarm_changed: false,
            not_constructed: None,
            eviction: None,
            image,
        };
        state.cells.insert(cell.image.cell.clone(), cell);
    }

    /// The instance of a cell, constructed if need be, with room for one more event.
    /// With `limited`, a cell that has too many is overloaded.
    pub(super) fn ready_slot(&mut self, id: &CellId, limited: bool) -> Result<u32, EventError> {
        let (slot, class_name, name) = {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            let events_max = state.config.limits.cell_events_max;
            let Some((slot, events)) = state.cells.get(id).map(|cell| (cell.slot, cell.events))
            else {
                return Err(not_here());
            };
            // Events that are answered, and only held by a socket or a stream, do not count.
            if limited && events >= events_max && state.unanswered(slot) >= events_max {
                return Err(EventError::overloaded(
                    "Durable Object is overloaded. Too many requests queued.",
                ));
            }
            if slot != 0 {
                return Ok(slot);
            }
            if let Some(error) = state.cells.get_mut(id).and_then(Cell::same_failure) {
                return Err(error);
            }
            let fresh = state.fresh_id();
            let Some(cell) = state.cells.get_mut(id) else {
                return Err(not_here());
            };
            cell.slot = fresh;
            let identity = (
                fresh,
                cell.image.class_name.clone(),
                cell.image.name.clone(),
            );
            state.slots.insert(fresh, id.clone());
            identity
        };
        let thrown = self.construct(id, slot, &class_name, name.as_deref());
        let failure = thrown.clone().or_else(|| self.reset_of(slot));
        if let Some(error) = &failure {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            if thrown.is_some() {
                state.resets.push((slot, error.clone()));
            }
            if let Some(cell) = state.cells.get_mut(id) {
                let sent = cell.image.pulse.sent_count();
                cell.not_constructed = Some((sent, error.clone()));
            }
        }
        self.end_turn(None);
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        match (failure, state.cells.get(id)) {
            (Some(error), _) => Err(error),
            (None, Some(cell)) if cell.slot == slot => Ok(slot),
            (None, _) => Err(EventError::reset(
                "The Durable Object was reset while it was constructed.",
            )),
        }
    }

    /// The error of an instance that has ended in this turn.
    fn reset_of(&self, slot: u32) -> Option<EventError> {
        let state = self.state.borrow();
        let resets = &state.borrow::<HostState>().resets;
        let found = resets.iter().find(|(at, _)| *at == slot);
        found.map(|(_, error)| error.clone())
    }

    /// Runs a class's constructor; says why it failed.
    fn construct(
        &mut self,
        id: &CellId,
        slot: u32,
        class_name: &str,
        name: Option<&str>,
    ) -> Option<EventError> {
        let hex = id.object.to_hex();
        let outcome = self.call(
            Entry::Construct,
            |scope, _| {
                vec![
                    v8::Integer::new_from_unsigned(scope, slot).into(),
                    ops::text(scope, class_name),
                    ops::text(scope, &hex),
                    match name {
                        Some(name) => ops::text(scope, name),
                        None => v8::null(scope).into(),
                    },
                ]
            },
            |scope, value| (!value.is_null()).then(|| ops::error_from_js(scope, value)),
        );
        match outcome {
            Ok(None) => None,
            Ok(Some(error)) | Err(Failed::Threw(error)) => Some(EventError {
                durable_object_reset: true,
                breaks_stub: true,
                by_script: true,
                ..error
            }),
            Err(Failed::Terminated) => Some(crate::meter::cell_over_limit()),
        }
    }

    /// False when the alarm is not due any more: it was deleted or moved after the scheduler
    /// decided to fire it, or its handler runs already.
    pub(super) fn alarm_is_due(
        &mut self,
        id: &CellId,
        scheduled_ms: i64,
    ) -> Result<bool, EventError> {
        let set = self.alarm_of(id)?;
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let cell = state.cells.get_mut(id).ok_or_else(not_here)?;
        Ok(cell.alarm_running.is_none() && set.is_some_and(|set| set <= scheduled_ms))
    }

    /// The alarm that is set, in ms since the epoch. A database that cannot be opened is a
    /// failure of the infrastructure, after which the alarm is tried again; never "no alarm".
    pub(super) fn alarm_of(&mut self, id: &CellId) -> Result<Option<i64>, EventError> {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let code = state.config.code.clone();
        let cell = state.cells.get_mut(id).ok_or_else(not_here)?;
        ops::storage::open(cell, &code)
            .and_then(celld_storage::CellDb::get_alarm)
            .map_err(|error| EventError::reset(format!("the alarm cannot be read: {error}")))
    }

    /// Ends instances that were reset: their events fail, what they did not commit is undone, and
    /// the next event constructs anew.
    pub(super) fn apply_resets(&mut self) {
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                state.borrow_mut::<HostState>().resets.pop()
            };
            let Some((slot, error)) = next else { return };
            self.report_limit(slot, &error);
            self.close_sockets(slot);
            if self.end_instance(slot, &error) {
                self.dispose(slot);
            }
        }
    }

    /// Tells the node of a cell that was reset because it broke a limit.
    pub(super) fn report_limit(&self, slot: u32, error: &EventError) {
        let limit = match error.limit {
            Some(Limit::Cpu) => CellLimit::Cpu,
            Some(Limit::Memory) => CellLimit::Memory,
            _ => return,
        };
        let state = self.state.borrow();
        let state = state.borrow::<HostState>();
        if let Some(cell) = state.slots.get(&slot) {
            state.config.world.limit_broken(cell, limit);
        }
    }

    /// A reset object loses its sockets. One that is only let go keeps them: that is hibernation.
    fn close_sockets(&mut self, slot: u32) {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let tokio = state.config.tokio.clone();
        if let Some(cell) = state.cell_of(slot) {
            cell.image.sockets.close_all(&tokio);
        }
    }

    /// Ends an instance, whatever the reason. False when it had ended already.
    fn end_instance(&mut self, slot: u32, error: &EventError) -> bool {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let Some(id) = state.slots.remove(&slot) else {
            return false;
        };
        let world = state.config.world.clone();
        let failed: Vec<u32> = state
            .events
            .iter()
            .filter(|(_, event)| event.slot == slot)
            .map(|(id, _)| *id)
            .collect();
        let waiters: Vec<_> = failed
            .iter()
            .filter_map(|id| state.events.remove(id))
            .filter_map(|event| event.waiter)
            .collect();
        let sessions: Vec<_> = state
            .sessions
            .extract_if(|_, session| session.slot == slot)
            .map(|(_, session)| session.end)
            .collect();
        let Some(cell) = state.cells.get_mut(&id) else {
            return true;
        };
        cell.slot = 0;
        cell.events = 0;
        cell.image.pulse.set_running(0);
        cell.alarm_running = None;
        cell.spanning = false;
        for output in std::mem::take(&mut cell.staged) {
            output(Err(error.clone()));
        }
        // Even an error may tell of writes: it waits for what was committed before.
        for waiter in waiters {
            let error = error.clone();
            cell.outbox.send(
                cell.last_lsn,
                Box::new(move |gate| waiter.fail(gate.err().unwrap_or(error))),
                &*world,
            );
        }
        for end in sessions {
            let error = error.clone();
            cell.outbox.send(
                cell.last_lsn,
                Box::new(move |gate| end.close(Some(gate.err().unwrap_or(error)))),
                &*world,
            );
        }
        let undone = cell.db.as_mut().is_none_or(|db| db.rollback().is_ok());
        if !undone {
            // The working file is in doubt. The log has all that was committed: start from there.
            state.cells.remove(&id);
            world.cell_lost(state.config.id, &id);
        }
        true
    }

    /// Remembers that the node wants a cell back.
    pub(super) fn evict(
        &mut self,
        id: CellId,
        reason: EventError,
        grace: Duration,
        reply: Reply<CellRemains>,
    ) {
        {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            let Some(cell) = state.cells.get_mut(&id) else {
                reply.send(Err(not_here()));
                return;
            };
            cell.eviction = Some(Eviction {
                reply,
                reason,
                deadline: Instant::now() + grace,
            });
            state.evicting.push(id);
        }
        self.end_turn(None);
    }

    /// Lets cells go whose events are done, or whose time is up.
    pub(super) fn finish_evictions(&mut self) {
        let ready: Vec<CellId> = {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            if state.evicting.is_empty() {
                return;
            }
            let now = Instant::now();
            let cells = &state.cells;
            let is_ready = |id: &CellId| {
                cells.get(id).is_none_or(|cell| {
                    cell.events == 0
                        || cell
                            .eviction
                            .as_ref()
                            .is_none_or(|eviction| eviction.deadline <= now)
                })
            };
            let (ready, waiting) = std::mem::take(&mut state.evicting)
                .into_iter()
                .partition(is_ready);
            state.evicting = waiting;
            ready
        };
        for id in ready {
            self.let_go(&id);
        }
    }

    fn let_go(&mut self, id: &CellId) {
        let slot_and_reason = {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            state.cells.get(id).and_then(|cell| {
                cell.eviction
                    .as_ref()
                    .map(|eviction| (cell.slot, eviction.reason.clone()))
            })
        };
        let Some((slot, reason)) = slot_and_reason else {
            return;
        };
        if slot != 0 && self.end_instance(slot, &reason) {
            self.dispose(slot);
        }
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let Some(mut cell) = state.cells.remove(id) else {
            return;
        };
        let remains = remains(&mut cell);
        if let Some(db) = cell.db.take()
            && let Err(error) = db.destroy()
        {
            tracing::warn!(cell = %id, %error, "cannot remove the working file of a cell");
        }
        if let Some(eviction) = cell.eviction.take() {
            eviction.reply.send(remains);
        }
        let mut sockets = cell.image.sockets.sockets.lock();
        // Whoever heard of its end is gone; the next instance shall not.
        sockets.retain(|_, socket| socket.closing.load(Ordering::Relaxed) & HEARD == 0);
        for socket in sockets.values() {
            if let Some(number) = state.socket_numbers.remove(&socket.id) {
                state.sockets.remove(&number);
            }
        }
    }

    /// Notes that an event of the cell has left the mailbox.
    pub(super) fn note_taken(&self, id: &CellId) {
        let state = self.state.borrow();
        if let Some(cell) = state.borrow::<HostState>().cells.get(id) {
            cell.image.pulse.take();
        }
    }

    /// Closes an idle cell's database, and drops its object when nothing holds it. What an event
    /// needs comes back with it; what is in the mailbox already keeps everything as it is.
    pub(super) fn rest(&mut self, id: &CellId) {
        let is_idle = |cell: &Cell| {
            cell.events == 0 && cell.eviction.is_none() && !cell.image.pulse.is_expecting()
        };
        let slot = {
            let state = self.state.borrow();
            let cell = state.borrow::<HostState>().cells.get(id);
            match cell.filter(|cell| is_idle(cell)) {
                Some(cell) => cell.slot,
                None => return,
            }
        };
        if slot != 0 && self.may_rest(slot) {
            let ended = EventError::reset("The Durable Object hibernated.");
            if self.end_instance(slot, &ended) {
                self.dispose(slot);
            }
        }
        self.end_turn(None);
        let mut state = self.state.borrow_mut();
        let cell = state.borrow_mut::<HostState>().cells.get_mut(id);
        // A transaction that is open goes on; it holds the object, too.
        if let Some(db) = cell.and_then(|cell| cell.db.as_mut())
            && db.depth() == 0
            && !db.is_dirty()
            && let Err(error) = db.park()
        {
            tracing::warn!(cell = %id, %error, "cannot close the database of an idle cell");
        }
    }

    /// True when nothing but its events holds an instance.
    fn may_rest(&mut self, slot: u32) -> bool {
        let has_sessions = {
            let state = self.state.borrow();
            let sessions = &state.borrow::<HostState>().sessions;
            let holds = |session: &RpcSession| session.slot == slot && session.is_live();
            sessions.values().any(holds)
        };
        if has_sessions {
            return false;
        }
        let outcome = self.call(
            Entry::MayRest,
            |scope, _| vec![v8::Integer::new_from_unsigned(scope, slot).into()],
            |_, value| value.is_true(),
        );
        outcome.unwrap_or(false)
    }

    /// Ends timers of an instance that has ended, and refuses its further use.
    fn dispose(&mut self, slot: u32) {
        let disposed = self.call(
            Entry::Dispose,
            |scope, _| vec![v8::Integer::new_from_unsigned(scope, slot).into()],
            |_, _| (),
        );
        if matches!(disposed, Err(Failed::Terminated)) {
            self.js.v8_isolate().cancel_terminate_execution();
        }
    }

    /// Takes a snapshot without disturbing the cell.
    pub(super) fn checkpoint(&mut self, id: CellId, reply: Reply<CellRemains>) {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        match state.cells.get_mut(&id) {
            // The alarm of an open transaction may be rolled back; the log has what is committed.
            Some(cell) if cell.db.as_ref().is_some_and(|db| db.depth() > 0) => {
                reply.send(Err(EventError::new("a transaction is open")));
            }
            Some(cell) => reply.send(remains(cell)),
            None => reply.send(Err(not_here())),
        }
    }

    /// Sees to deadlines of evictions and of the host itself. True when the host is to end.
    pub(super) fn check_deadlines(&mut self, cx: &mut Context<'_>) -> bool {
        let next = {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            if self
                .stopping
                .is_some_and(|deadline| state.events.is_empty() || deadline <= Instant::now())
            {
                return true;
            }
            let evictions = state
                .evicting
                .iter()
                .filter_map(|id| state.cells.get(id)?.eviction.as_ref());
            evictions
                .map(|eviction| eviction.deadline)
                .chain(self.stopping)
                .min()
        };
        let Some(at) = next else {
            self.wake_up = None;
            return false;
        };
        let mut sleep = Box::pin(tokio::time::sleep_until(at.into()));
        if sleep.as_mut().poll(cx).is_ready() {
            cx.waker().wake_by_ref();
        }
        self.wake_up = Some(sleep);
        false
    }
}

impl Cell {
    /// The error of the constructor that failed, for events that waited for it; later ones try
    /// again.
    fn same_failure(&mut self) -> Option<EventError> {
        let (sent, error) = self.not_constructed.as_ref()?;
        if self.image.pulse.was_sent_before(*sent) {
            return Some(error.clone());
        }
        self.not_constructed = None;
        None
    }
}

/// A cell's state, with a snapshot when this residence wrote anything that no snapshot holds.
fn remains(cell: &mut Cell) -> Result<CellRemains, EventError> {
    let mut remains = CellRemains {
        txid: cell.image.txid,
        lsn: cell.last_lsn,
        snapshot: None,
        alarm_ms: None,
    };
    let failed = |error: celld_storage::StorageError| {
        EventError::new(format!("cannot take a snapshot: {error}"))
    };
    if let Some(db) = cell.db.as_mut().filter(|_| cell.wrote) {
        let was_parked = !db.is_open();
        remains.alarm_ms = db.get_alarm().map_err(failed)?;
        let (txid, snapshot) = db.snapshot().map_err(failed)?;
        if was_parked {
            db.park().map_err(failed)?;
        }
        remains.txid = txid;
        remains.snapshot = Some(snapshot);
        cell.wrote = false;
    }
    Ok(remains)
}
