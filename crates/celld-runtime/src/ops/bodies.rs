//! Body channels.

use std::cell::RefCell;
use std::rc::Rc;

use bytes::Bytes;
use deno_core::{JsBuffer, OpState, ToV8, op2, v8};
use tokio::sync::oneshot;

use crate::exchange::{BODY_CHUNK_MAX_BYTES, BodyError, EventError, body_channel};
use crate::state::HostState;

/// One piece of a body, its end, or its failure.
pub enum Piece {
    /// Bytes.
    Chunk(Bytes),
    /// The end.
    End,
    /// It broke off.
    Failed(EventError),
}

impl<'a> ToV8<'a> for Piece {
    type Error = std::convert::Infallible;

    fn to_v8<'i>(
        self,
        scope: &mut v8::PinScope<'a, 'i>,
    ) -> Result<v8::Local<'a, v8::Value>, Self::Error> {
        Ok(match self {
            Piece::Chunk(chunk) => super::bytes(scope, &chunk),
            Piece::End => v8::null(scope).into(),
            Piece::Failed(error) => super::error_to_js(scope, &error, false),
        })
    }
}

/// Opens a channel for a body that JavaScript writes. `length` is -1 when unknown.
#[op2(fast)]
pub fn op_body_open(state: &mut OpState, length: f64) -> u32 {
    let state = state.borrow_mut::<HostState>();
    let (sender, stream) = body_channel((length >= 0.0).then_some(length as u64));
    let id = state.fresh_id();
    state.sinks.insert(id, sender);
    state.unsent.insert(id, stream);
    id
}

/// The next piece of a body.
#[op2]
pub async fn op_body_read(state: Rc<RefCell<OpState>>, id: u32) -> Piece {
    let Some(mut stream) = state
        .borrow_mut()
        .borrow_mut::<HostState>()
        .bodies
        .remove(&id)
    else {
        return Piece::End;
    };
    match stream.chunks.recv().await {
        Some(Ok(chunk)) => {
            let mut state = state.borrow_mut();
            state.borrow_mut::<HostState>().bodies.insert(id, stream);
            Piece::Chunk(chunk)
        }
        Some(Err(error)) => Piece::Failed(super::body_error(&error)),
        None => Piece::End,
    }
}

/// Writes a chunk once the cell's output gate is open and the reader has room.
/// False when nobody reads any more.
#[op2]
pub async fn op_body_write(
    state: Rc<RefCell<OpState>>,
    id: u32,
    #[buffer] chunk: JsBuffer,
    slot: u32,
) -> bool {
    let chunk = Bytes::copy_from_slice(&chunk);
    let (gate, opened) = oneshot::channel();
    let sink = {
        let mut state = state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        let Some(sink) = state.sinks.get(&id).cloned() else {
            return false;
        };
        state.emit(
            slot,
            Box::new(move |outcome| {
                let _ = gate.send(outcome);
            }),
        );
        sink
    };
    match opened.await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            let _ = sink.send(Err(BodyError::Failed(error.message))).await;
            return false;
        }
        Err(_) => return false,
    }
    let mut rest = chunk;
    while !rest.is_empty() {
        let piece = rest.split_to(rest.len().min(BODY_CHUNK_MAX_BYTES));
        if sink.send(Ok(piece)).await.is_err() {
            return false;
        }
    }
    true
}

/// Ends a body.
#[op2(fast)]
pub fn op_body_end(state: &mut OpState, id: u32) {
    let state = state.borrow_mut::<HostState>();
    state.sinks.remove(&id);
    state.unsent.remove(&id);
}

/// Breaks a body off.
#[op2(fast)]
pub fn op_body_fail(state: &mut OpState, id: u32, #[string] reason: String) {
    let state = state.borrow_mut::<HostState>();
    state.unsent.remove(&id);
    if let Some(sink) = state.sinks.remove(&id) {
        state.config.tokio.spawn(async move {
            let _ = sink.send(Err(BodyError::Failed(reason))).await;
        });
    }
}

/// Tells the sender of a body that nobody will read it.
#[op2(fast)]
pub fn op_body_cancel(state: &mut OpState, id: u32) {
    state.borrow_mut::<HostState>().bodies.remove(&id);
}
