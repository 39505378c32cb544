//! WebSockets.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;
use deno_core::{JsBuffer, OpState, ToV8, op2, v8};
use deno_error::JsErrorBox;
use parking_lot::Mutex;

use crate::socket::{
    ABNORMAL, CellSocket, CellSockets, CloseFrame, SENT_CLOSE, SocketMessage, next_socket_id,
    socket_pair,
};
use crate::state::{HostState, SocketState};

/// Code that a close frame without a code is reported as.
pub const NO_STATUS: u16 = 1005;

/// What arrives at a socket: a message, a close frame, or `null` for a lost connection.
pub struct Arrival(pub Option<SocketMessage>);

impl<'a> ToV8<'a> for Arrival {
    type Error = std::convert::Infallible;

    fn to_v8<'i>(
        self,
        scope: &mut v8::PinScope<'a, 'i>,
    ) -> Result<v8::Local<'a, v8::Value>, Self::Error> {
        Ok(match self.0 {
            None => v8::null(scope).into(),
            Some(SocketMessage::Text(text)) => super::text(scope, &text),
            Some(SocketMessage::Binary(bytes)) => super::bytes(scope, &bytes),
            Some(SocketMessage::Close(frame)) => close_to_js(scope, frame.as_ref(), true),
            Some(SocketMessage::Failure(why)) => failure_to_js(scope, &why),
        })
    }
}

/// What a lost connection is told as, in place of a close frame's reason.
const LOST: &str = "WebSocket disconnected without sending Close frame.";

/// `{ failure }`.
pub fn failure_to_js<'s>(scope: &mut v8::PinScope<'s, '_>, why: &str) -> v8::Local<'s, v8::Value> {
    let object = v8::Object::new(scope);
    let why = super::text(scope, why);
    super::set(scope, object, "failure", why);
    object.into()
}

/// `{ code, reason, clean }`. Without `clean` the connection was lost.
pub fn close_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    frame: Option<&CloseFrame>,
    clean: bool,
) -> v8::Local<'s, v8::Value> {
    let object = v8::Object::new(scope);
    let code = frame.map_or(if clean { NO_STATUS } else { 1006 }, |frame| frame.code);
    let code = v8::Number::new(scope, f64::from(code)).into();
    super::set(scope, object, "code", code);
    let lost = if clean { "" } else { LOST };
    let reason = super::text(scope, frame.map_or(lost, |frame| &frame.reason));
    super::set(scope, object, "reason", reason);
    let clean = v8::Boolean::new(scope, clean).into();
    super::set(scope, object, "clean", clean);
    object.into()
}

/// Makes a pair of connected sockets.
#[op2]
pub fn op_socket_pair(state: &mut OpState) -> (u32, u32) {
    let state = state.borrow_mut::<HostState>();
    let (a, b) = socket_pair();
    let ids = (state.fresh_id(), state.fresh_id());
    state.sockets.insert(ids.0, a.into());
    state.sockets.insert(ids.1, b.into());
    ids
}

/// The next arrival at a socket that JavaScript reads itself.
#[op2]
pub async fn op_socket_next(state: Rc<RefCell<OpState>>, id: u32) -> Arrival {
    let taken = {
        let mut state = state.borrow_mut();
        match state.borrow_mut::<HostState>().sockets.get_mut(&id) {
            Some(SocketState::Plain { incoming, .. }) => incoming.take(),
            _ => None,
        }
    };
    let Some(mut channel) = taken else {
        return Arrival(None);
    };
    let message = SocketMessage::arrived(channel.recv().await);
    let mut state = state.borrow_mut();
    let sockets = &mut state.borrow_mut::<HostState>().sockets;
    if message.is_none() {
        sockets.remove(&id);
    } else if let Some(SocketState::Plain { incoming, .. }) = sockets.get_mut(&id) {
        *incoming = Some(channel);
    }
    Arrival(message)
}

fn transmit(state: &mut HostState, id: u32, slot: u32, message: SocketMessage) {
    let (outgoing, spill) = match state.sockets.get(&id) {
        Some(SocketState::Plain {
            outgoing, spill, ..
        }) => (outgoing.clone(), spill.clone()),
        Some(SocketState::Hibernatable(socket)) => (socket.outgoing.clone(), socket.spill.clone()),
        None => return,
    };
    let tokio = state.config.tokio.clone();
    state.emit(
        slot,
        Box::new(move |gate| {
            if gate.is_ok() {
                spill.send(&outgoing, message, &tokio);
            }
        }),
    );
}

/// Sends a string or bytes.
#[op2(fast)]
pub fn op_socket_send(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    id: u32,
    data: v8::Local<v8::Value>,
    slot: u32,
) {
    let message = if data.is_string() {
        SocketMessage::Text(super::to_text(scope, data))
    } else {
        SocketMessage::Binary(super::payload(scope, data).unwrap_or_default())
    };
    transmit(state.borrow_mut::<HostState>(), id, slot, message);
}

/// Sends a close frame; code 0 sends one without a code.
#[op2(fast)]
pub fn op_socket_close(
    state: &mut OpState,
    id: u32,
    code: u32,
    #[string] reason: String,
    slot: u32,
) {
    let state = state.borrow_mut::<HostState>();
    if code != u32::from(ABNORMAL)
        && let Some(SocketState::Hibernatable(socket)) = state.sockets.get(&id)
    {
        socket.closing.fetch_or(SENT_CLOSE, Ordering::Relaxed);
    }
    let frame = (code != 0).then_some(CloseFrame {
        code: code as u16,
        reason,
    });
    transmit(state, id, slot, SocketMessage::Close(frame));
}

/// Forgets a socket that no script can reach.
#[op2(fast)]
pub fn op_socket_drop(state: &mut OpState, id: u32) {
    let state = state.borrow_mut::<HostState>();
    if matches!(state.sockets.get(&id), Some(SocketState::Plain { .. })) {
        state.sockets.remove(&id);
    }
}

/// Takes a hibernatable socket off its cell's list: its handler has heard of the end.
#[op2(fast)]
pub fn op_socket_unlist(state: &mut OpState, id: u32) {
    if let Some(socket) = hibernatable(state.borrow::<HostState>(), id) {
        socket.unlist();
    }
}

/// Forgets a hibernatable socket that has ended and that no script can reach.
#[op2(fast)]
pub fn op_socket_forget(state: &mut OpState, id: u32) {
    let state = state.borrow_mut::<HostState>();
    if let Some(SocketState::Hibernatable(socket)) = state.sockets.remove(&id) {
        state.socket_numbers.remove(&socket.id);
    }
}

/// Most hibernatable sockets of one cell.
const CELL_SOCKETS_MAX: usize = 32_768;

/// Makes a socket one that outlives its cell's residence.
#[op2]
pub fn op_socket_accept(
    state: &mut OpState,
    id: u32,
    #[scoped] tags: Vec<String>,
    slot: u32,
) -> Result<(), JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let world = state.config.world.clone();
    let Some(cell) = state.cell_of(slot) else {
        return Err(JsErrorBox::generic(
            "This Durable Object instance has ended.",
        ));
    };
    let (cell_id, sockets) = (cell.image.cell.clone(), cell.image.sockets.clone());
    if sockets.sockets.lock().len() >= CELL_SOCKETS_MAX {
        return Err(JsErrorBox::generic(format!(
            "only {CELL_SOCKETS_MAX} websockets can be accepted on a single Durable Object instance"
        )));
    }
    let Some(SocketState::Plain {
        outgoing,
        spill,
        incoming: Some(incoming),
    }) = state.sockets.remove(&id)
    else {
        return Err(JsErrorBox::type_error(
            "This WebSocket cannot be accepted for hibernation.",
        ));
    };
    let socket = Arc::new(CellSocket {
        id: next_socket_id(),
        tags,
        attachment: Mutex::new(None),
        outgoing,
        spill,
        auto_response_ms: AtomicU64::new(0),
        closing: AtomicU8::new(0),
        home: Arc::downgrade(&sockets),
    });
    sockets.sockets.lock().insert(socket.id, socket.clone());
    state.socket_numbers.insert(socket.id, id);
    state
        .sockets
        .insert(id, SocketState::Hibernatable(socket.clone()));
    world.adopt_socket(&cell_id, socket, incoming);
    Ok(())
}

fn hibernatable(state: &HostState, id: u32) -> Option<&Arc<CellSocket>> {
    match state.sockets.get(&id) {
        Some(SocketState::Hibernatable(socket)) => Some(socket),
        _ => None,
    }
}

/// Stores an attachment.
#[op2]
pub fn op_socket_attach(state: &mut OpState, id: u32, #[buffer] value: JsBuffer) {
    if let Some(socket) = hibernatable(state.borrow::<HostState>(), id) {
        *socket.attachment.lock() = Some(Bytes::copy_from_slice(&value));
    }
}

/// The attachment, if any.
#[op2]
#[buffer]
pub fn op_socket_attachment(state: &mut OpState, id: u32) -> Option<Vec<u8>> {
    hibernatable(state.borrow::<HostState>(), id)?
        .attachment
        .lock()
        .as_ref()
        .map(|bytes| bytes.to_vec())
}

/// The tags of a hibernatable socket; `null` for other sockets.
#[op2]
#[serde]
pub fn op_socket_tags(state: &mut OpState, id: u32) -> Option<Vec<String>> {
    hibernatable(state.borrow::<HostState>(), id).map(|socket| socket.tags.clone())
}

fn cell_sockets(state: &mut OpState, slot: u32) -> Option<Arc<CellSockets>> {
    let state = state.borrow_mut::<HostState>();
    state.cell_of(slot).map(|cell| cell.image.sockets.clone())
}

/// Numbers and closing handshakes of a cell's sockets, in turn; with a tag, of those that carry it.
#[op2]
#[serde]
pub fn op_cell_sockets(state: &mut OpState, slot: u32, #[string] tag: Option<String>) -> Vec<u32> {
    let Some(sockets) = cell_sockets(state, slot) else {
        return Vec::new();
    };
    let chosen: Vec<_> = sockets
        .sockets
        .lock()
        .values()
        .filter(|socket| tag.as_ref().is_none_or(|tag| socket.tags.contains(tag)))
        .cloned()
        .collect();
    let state = state.borrow_mut::<HostState>();
    chosen
        .iter()
        .flat_map(|socket| [state.socket_number(socket), socket.handshake()])
        .collect()
}

/// Sets or clears the auto-response.
#[op2]
pub fn op_auto_response_set(
    state: &mut OpState,
    slot: u32,
    #[string] request: Option<String>,
    #[string] response: Option<String>,
) {
    if let Some(sockets) = cell_sockets(state, slot) {
        *sockets.auto_response.lock() = request.zip(response);
    }
}

/// The auto-response's request and response.
#[op2]
#[serde]
pub fn op_auto_response_get(state: &mut OpState, slot: u32) -> Option<(String, String)> {
    cell_sockets(state, slot)?.auto_response.lock().clone()
}

/// When an auto-response was last sent on a socket, in ms since the epoch; 0 for never.
#[op2(fast)]
pub fn op_auto_response_time(state: &mut OpState, id: u32) -> f64 {
    hibernatable(state.borrow::<HostState>(), id).map_or(0.0, |socket| {
        socket.auto_response_ms.load(Ordering::Relaxed) as f64
    })
}

/// The event timeout of a cell's sockets, in ms; 0 for none.
#[op2(fast)]
pub fn op_event_timeout_get(state: &mut OpState, slot: u32) -> u32 {
    cell_sockets(state, slot).map_or(0, |sockets| {
        sockets.event_timeout_ms.load(Ordering::Relaxed)
    })
}

/// Sets it.
#[op2(fast)]
pub fn op_event_timeout_set(state: &mut OpState, slot: u32, milliseconds: u32) {
    if let Some(sockets) = cell_sockets(state, slot) {
        sockets
            .event_timeout_ms
            .store(milliseconds, Ordering::Relaxed);
    }
}
