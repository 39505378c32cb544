//! Outcomes of events, and console lines.

use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;
use http::StatusCode;

use crate::api::{AlarmOutcome, ConsoleLine};
use crate::exchange::{EventError, HttpResponse};
use crate::state::{HostState, SocketState, Waiter};

/// Most failed attempts of an alarm that are retried.
pub const ALARM_RETRIES_MAX: u32 = 6;

/// Nothing of the event is left.
#[op2(fast)]
pub fn op_event_finish(state: &mut OpState, id: u32) {
    state.borrow_mut::<HostState>().finish_event(id);
}

/// Answers a request.
#[op2(fast)]
#[allow(clippy::too_many_arguments)]
pub fn op_event_respond(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    id: u32,
    status: u32,
    #[string] status_text: String,
    headers: v8::Local<v8::Array>,
    whole: v8::Local<v8::Value>,
    channel: u32,
    socket: u32,
    encoded: bool,
) -> Result<(), JsErrorBox> {
    let headers = super::headers_from_js(scope, headers)?;
    let state = state.borrow_mut::<HostState>();
    let body = super::body_from_js(scope, state, whole, channel);
    let websocket = match state.sockets.remove(&socket) {
        Some(SocketState::Plain {
            outgoing,
            incoming: Some(incoming),
            ..
        }) => Some(crate::socket::SocketEnd { outgoing, incoming }),
        Some(_) => {
            return Err(JsErrorBox::type_error(
                "This WebSocket is in use and cannot be returned.",
            ));
        }
        None => None,
    };
    let Some(event) = state.events.get_mut(&id) else {
        return Ok(());
    };
    let slot = event.slot;
    let Some(Waiter::Fetch(reply)) = event.waiter.take() else {
        return Ok(());
    };
    let response = HttpResponse {
        status: StatusCode::from_u16(status as u16).map_err(|_| {
            JsErrorBox::range_error(format!("{status} is not an HTTP status code."))
        })?,
        status_text: (!status_text.is_empty()).then_some(status_text),
        headers,
        body,
        websocket,
        body_is_encoded: encoded,
        url: None,
    };
    state.emit(
        slot,
        Box::new(move |gate| reply.send(gate.map(|()| response))),
    );
    Ok(())
}

/// Notes that an event has been answered: the result of a call has gone by its session, other
/// events have none.
#[op2(fast)]
pub fn op_event_return(state: &mut OpState, id: u32) {
    let state = state.borrow_mut::<HostState>();
    let Some(event) = state.events.get_mut(&id) else {
        return;
    };
    let slot = event.slot;
    match event.waiter.take() {
        // The answer went by the session.
        Some(Waiter::Rpc(_)) => {}
        Some(Waiter::Alarm(reply, _)) => {
            let next_ms = state.end_alarm(slot, true);
            state.emit(
                slot,
                Box::new(move |gate| reply.send(gate.map(|()| AlarmOutcome { next_ms }))),
            );
        }
        Some(Waiter::Scheduled(reply)) => reply.send(Ok(())),
        Some(Waiter::Nobody) | None => {}
        Some(Waiter::Fetch(reply)) => reply.send(Err(EventError::new(
            "a request was answered without a response",
        ))),
    }
}

/// Ends an event with an error. Errors wait at the output gate like any other answer.
#[op2(fast)]
pub fn op_event_fail(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    id: u32,
    error: v8::Local<v8::Value>,
) {
    let mut error = super::error_from_js(scope, error);
    error.by_script = true;
    let state = state.borrow_mut::<HostState>();
    let Some(event) = state.events.get_mut(&id) else {
        return;
    };
    let slot = event.slot;
    let Some(waiter) = event.waiter.take() else {
        return;
    };
    if let Waiter::Alarm(_, retry_count) = &waiter {
        state.end_alarm(slot, *retry_count >= ALARM_RETRIES_MAX);
    }
    state.emit(
        slot,
        Box::new(move |gate| waiter.fail(gate.err().unwrap_or(error))),
    );
}

const LEVELS: [&str; 6] = ["debug", "log", "info", "warn", "error", "exception"];

/// Longest console line that is passed on, in bytes.
const LINE_MAX_BYTES: usize = 64 * 1024;

/// Passes a console line on. `slot` is 0 outside of cells.
#[op2(fast)]
pub fn op_console(
    state: &mut OpState,
    level: u32,
    #[string] mut text: String,
    slot: u32,
    #[string] event: String,
) {
    if text.len() > LINE_MAX_BYTES {
        let end = (0..=LINE_MAX_BYTES)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
        text.push_str(" … (truncated)");
    }
    let text = crate::loader::without_addresses(&text);
    let state = state.borrow_mut::<HostState>();
    let cell = state.cell_of(slot).map(|cell| {
        let id = cell
            .image
            .name
            .clone()
            .unwrap_or_else(|| cell.image.cell.object.to_hex());
        (cell.image.class_name.clone(), id)
    });
    state.config.world.console(ConsoleLine {
        level: LEVELS[(level as usize).min(LEVELS.len() - 1)],
        text,
        worker: state.config.code.name.clone(),
        cell,
        event: (!event.is_empty()).then_some(event),
    });
}

/// An instance has ended by its own doing; the host cleans up at the end of the turn.
#[op2(fast)]
pub fn op_cell_reset(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    error: v8::Local<v8::Value>,
) {
    let mut error = super::error_from_js(scope, error);
    error.durable_object_reset = true;
    error.breaks_stub = true;
    error.by_script = true;
    let state = state.borrow_mut::<HostState>();
    state.resets.push((slot, error));
}

/// The alarm handler is about to run. False when the alarm has been deleted or moved meanwhile.
#[op2(fast)]
pub fn op_alarm_begin(
    state: &mut OpState,
    slot: u32,
    scheduled_ms: f64,
) -> Result<bool, JsErrorBox> {
    let set = super::storage::with_db(state, slot, celld_storage::CellDb::get_alarm)?;
    let due = set.filter(|set| *set <= scheduled_ms as i64);
    let Some(cell) = state.borrow_mut::<HostState>().cell_of(slot) else {
        return Ok(false);
    };
    if due.is_none() || cell.alarm_running.is_some() {
        return Ok(false);
    }
    cell.alarm_running = due;
    cell.alarm_changed = false;
    Ok(true)
}

/// What runs from here on does so on behalf of an instance, or (slot 0) of a stateless event.
#[op2(fast)]
pub fn op_run_for(state: &mut OpState, slot: u32, event: u32) {
    let event = if slot == 0 { event } else { 0 };
    state
        .borrow_mut::<HostState>()
        .run_for(crate::meter::Account { slot, event });
}

/// Events wait at a cell's input gate that has opened: the host lets them in, one a turn.
#[op2(fast)]
pub fn op_cell_wake(state: &mut OpState, slot: u32) {
    let state = state.borrow_mut::<HostState>();
    if !state.wakes.contains(&slot) {
        state.wakes.push_back(slot);
    }
}

impl HostState {
    /// Forgets an event.
    pub fn finish_event(&mut self, id: u32) {
        let Some(event) = self.events.remove(&id) else {
            return;
        };
        for id in event.sessions {
            if let Some(session) = self.sessions.remove(&id) {
                session.end.close(None);
                self.orphans.push(id);
            }
        }
        if let Some(cell) = event.cell.and_then(|cell| self.cells.get_mut(&cell)) {
            cell.events = cell.events.saturating_sub(1);
            cell.image.pulse.set_running(cell.events);
        }
    }

    /// Ends the run of an alarm handler. With `clear` the alarm goes, unless the handler set
    /// another one. Returns the alarm that is set now.
    fn end_alarm(&mut self, slot: u32, clear: bool) -> Option<i64> {
        self.touch(slot);
        let cell = self.cell_of(slot)?;
        let ran = cell.alarm_running.take();
        let changed = std::mem::take(&mut cell.alarm_changed);
        let db = cell.db.as_mut()?;
        // A change that was rolled back is none. (An alarm set anew is never in the past.)
        let stands = !changed || db.get_alarm().ok().flatten() == ran;
        if clear && ran.is_some() && stands {
            // A failure here fails the commit at the end of the turn as well.
            let _ = db.set_alarm(None);
        }
        db.get_alarm().ok().flatten()
    }
}
