//! RPC sessions, as the API layer speaks on them.
//!
//! Capabilities are arrays there: `[0, export]`, `[1, import]`, `[2, namespace, id, name]`,
//! `[3, worker, entrypoint, props]`.

use std::sync::Arc;

use bytes::Bytes;
use celld_core::NamespaceKey;
use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;

use crate::api::{CellEvent, RpcCall, WorkerEvent, World};
use crate::rpc::frame::{CAPS_MAX, Cap, Frame, PATH_MAX, Payload, Target};
use crate::rpc::session::session;
use crate::state::{HostState, Namespace};

/// Most sessions that one isolate takes part in.
const SESSIONS_MAX: usize = 65_536;
/// Most namespaces that an isolate knows by number.
const NAMESPACES_MAX: usize = 10_000;

fn malformed() -> JsErrorBox {
    JsErrorBox::type_error("malformed RPC message")
}

fn path_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    path: v8::Local<v8::Array>,
) -> Result<Vec<String>, JsErrorBox> {
    if path.length() as usize > PATH_MAX {
        return Err(JsErrorBox::range_error(format!(
            "An RPC property path is limited to {PATH_MAX} names."
        )));
    }
    (0..path.length())
        .map(|index| {
            let name = path.get_index(scope, index).ok_or_else(malformed)?;
            Ok(super::to_text(scope, name))
        })
        .collect()
}

fn payload_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    state: &HostState,
    value: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<Payload, JsErrorBox> {
    let value = super::payload(scope, value).unwrap_or_default();
    let Ok(list) = v8::Local::<v8::Array>::try_from(caps) else {
        return Ok(Payload {
            value,
            caps: Vec::new(),
        });
    };
    if list.length() as usize > CAPS_MAX {
        return Err(JsErrorBox::range_error(format!(
            "One RPC message is limited to {CAPS_MAX} stubs, functions and streams."
        )));
    }
    let caps = (0..list.length())
        .map(|index| {
            let cap = list.get_index(scope, index).ok_or_else(malformed)?;
            let cap = v8::Local::<v8::Array>::try_from(cap).map_err(|_| malformed())?;
            cap_from_js(scope, state, cap)
        })
        .collect::<Result<_, _>>()?;
    Ok(Payload { value, caps })
}

fn cap_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    state: &HostState,
    cap: v8::Local<v8::Array>,
) -> Result<Cap, JsErrorBox> {
    let at = |index: u32| cap.get_index(scope, index).ok_or_else(malformed);
    let (tag, a, b, c) = (at(0)?, at(1)?, at(2)?, at(3)?);
    let number = |value: v8::Local<v8::Value>| value.uint32_value(scope).ok_or_else(malformed);
    Ok(match number(tag)? {
        0 => Cap::Export(number(a)?),
        1 => Cap::Import(number(a)?),
        2 => {
            let namespace = number(a)?;
            let hex = super::to_text(scope, b);
            let id = super::calls::cell_id(state, namespace, &hex)?;
            Cap::Cell {
                namespace: id.namespace.as_str().to_owned(),
                object: *id.object.as_bytes(),
                name: optional_text(scope, c),
            }
        }
        3 => Cap::Worker {
            worker: optional_text(scope, a).unwrap_or_else(|| state.config.code.name.clone()),
            entrypoint: optional_text(scope, b),
            props: optional_text(scope, c),
        },
        _ => return Err(malformed()),
    })
}

fn optional_text(scope: &mut v8::PinScope<'_, '_>, value: v8::Local<v8::Value>) -> Option<String> {
    value.is_string().then(|| super::to_text(scope, value))
}

/// Value and capabilities, as arguments of an entry; `null` for no payload.
pub(crate) fn payload_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    payload: Option<&Payload>,
) -> [v8::Local<'s, v8::Value>; 2] {
    let none = v8::null(scope).into();
    let Some(Payload { value, caps }) = payload else {
        return [none, none];
    };
    let value = super::bytes(scope, value);
    if caps.is_empty() {
        return [value, none];
    }
    let caps: Vec<_> = caps
        .iter()
        .map(|cap| cap_to_js(scope, state, cap))
        .collect();
    [value, v8::Array::new_with_elements(scope, &caps).into()]
}

fn cap_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    cap: &Cap,
) -> v8::Local<'s, v8::Value> {
    let number = |scope: &mut v8::PinScope<'s, '_>, number: u32| {
        v8::Integer::new_from_unsigned(scope, number).into()
    };
    let optional = |scope: &mut v8::PinScope<'s, '_>, text: Option<&str>| match text {
        Some(text) => super::text(scope, text),
        None => v8::null(scope).into(),
    };
    let parts: Vec<v8::Local<v8::Value>> = match cap {
        Cap::Export(id) => vec![number(scope, 0), number(scope, *id)],
        Cap::Import(id) => vec![number(scope, 1), number(scope, *id)],
        Cap::Cell {
            namespace,
            object,
            name,
        } => {
            let index = match state.namespace_number(namespace) {
                Some(index) => number(scope, index),
                None => v8::null(scope).into(),
            };
            vec![
                number(scope, 2),
                index,
                super::text(scope, &hex::encode(object)),
                optional(scope, name.as_deref()),
            ]
        }
        Cap::Worker {
            worker,
            entrypoint,
            props,
        } => vec![
            number(scope, 3),
            super::text(scope, worker),
            optional(scope, entrypoint.as_deref()),
            optional(scope, props.as_deref()),
        ],
    };
    v8::Array::new_with_elements(scope, &parts).into()
}

impl HostState {
    /// The number of a namespace that a stub from elsewhere names; `None` when there are
    /// too many, or it cannot be one.
    fn namespace_number(&mut self, key: &str) -> Option<u32> {
        let known = self.namespaces.iter().position(|n| n.key.as_str() == key);
        let index = match known {
            Some(index) => index,
            None if self.namespaces.len() >= NAMESPACES_MAX => return None,
            None => {
                let key = NamespaceKey::new(key).ok()?;
                self.namespaces.push(Namespace::new(key));
                self.namespaces.len() - 1
            }
        };
        u32::try_from(index).ok()
    }

    /// Opens a session with its first call. Returns the session's number.
    fn open_session(
        &mut self,
        slot: u32,
        event: u32,
        path: Vec<String>,
        arguments: Option<Payload>,
        send: impl FnOnce(&dyn World, RpcCall) + Send + 'static,
    ) -> Result<u32, JsErrorBox> {
        if self.sessions.len() >= SESSIONS_MAX {
            return Err(JsErrorBox::generic(format!(
                "Too many RPC sessions: more than {SESSIONS_MAX} calls are under way, or have \
                 results with stubs that were not disposed."
            )));
        }
        let (near, far) = session();
        let id = self.join_session(Arc::new(near), slot, event);
        let frame = Frame::Call {
            question: 0,
            target: Target::Export(0),
            path,
            arguments,
        };
        let first = self.note_first(id, &frame);
        let call = RpcCall {
            first,
            session: far,
        };
        self.send_out(slot, call, send, RpcCall::fail);
        Ok(id)
    }

    fn note_first(&mut self, id: u32, frame: &Frame) -> Bytes {
        if let Some(session) = self.sessions.get_mut(&id) {
            session.note_sent(frame);
        }
        frame.encode()
    }
}

/// Calls a method of a cell, or reads a property (`arguments` is null). Returns the number of the
/// session that this opens; the call is its question 0.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_rpc_open_cell(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    event: u32,
    namespace: u32,
    #[string] hex: String,
    #[string] name: Option<String>,
    path: v8::Local<v8::Array>,
    arguments: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<u32, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let path = path_from_js(scope, path)?;
    let arguments = arguments_from_js(scope, state, arguments, caps)?;
    let cell = super::calls::cell_id(state, namespace, &hex)?;
    state.open_session(slot, event, path, arguments, move |world, call| {
        world.send_to_cell(&cell, name.as_deref(), CellEvent::Rpc(call));
    })
}

/// The same on an entrypoint.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_rpc_open_worker(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    event: u32,
    #[string] worker: Option<String>,
    #[string] entrypoint: Option<String>,
    #[string] props: Option<String>,
    path: v8::Local<v8::Array>,
    arguments: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<u32, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let path = path_from_js(scope, path)?;
    let arguments = arguments_from_js(scope, state, arguments, caps)?;
    let code = state.config.code.clone();
    state.open_session(slot, event, path, arguments, move |world, call| {
        let event = WorkerEvent::Rpc {
            entrypoint,
            props,
            call,
        };
        world.send_to_worker(&code, worker.as_deref(), event);
    })
}

fn arguments_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    state: &HostState,
    arguments: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<Option<Payload>, JsErrorBox> {
    if arguments.is_null() {
        return Ok(None);
    }
    payload_from_js(scope, state, arguments, caps).map(Some)
}

/// Makes a call within a session: on an export of the other side, or (`on_answer`) on the result
/// of the question `target`.
#[op2(fast)]
#[allow(clippy::too_many_arguments)]
pub fn op_rpc_call(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    session: u32,
    question: u32,
    on_answer: bool,
    target: u32,
    path: v8::Local<v8::Array>,
    arguments: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<(), JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let path = path_from_js(scope, path)?;
    let arguments = arguments_from_js(scope, state, arguments, caps)?;
    let target = if on_answer {
        Target::Answer(target)
    } else {
        Target::Export(target)
    };
    let frame = Frame::Call {
        question,
        target,
        path,
        arguments,
    };
    state.say(session, &frame);
    Ok(())
}

/// Answers a call. With `last` nothing else is left of the session, and it ends.
#[op2(fast)]
pub fn op_rpc_return(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    session: u32,
    question: u32,
    last: bool,
    value: v8::Local<v8::Value>,
    caps: v8::Local<v8::Value>,
) -> Result<(), JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let frame = Frame::Return {
        question,
        last,
        payload: payload_from_js(scope, state, value, caps)?,
    };
    state.say(session, &frame);
    Ok(())
}

/// Answers a call with an error.
#[op2(fast)]
pub fn op_rpc_throw(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    session: u32,
    question: u32,
    last: bool,
    error: v8::Local<v8::Value>,
) {
    let error = super::error_from_js(scope, error);
    let frame = Frame::Throw {
        question,
        last,
        error,
    };
    state.borrow_mut::<HostState>().say(session, &frame);
}

/// Gives references to an export of the other side back.
#[op2(fast)]
pub fn op_rpc_release(state: &mut OpState, session: u32, export: u32, count: u32) {
    let frame = Frame::Release { export, count };
    state.borrow_mut::<HostState>().say(session, &frame);
}

/// Promises to make no more calls on the result of a question.
#[op2(fast)]
pub fn op_rpc_finish(state: &mut OpState, session: u32, question: u32) {
    let frame = Frame::Finish { question };
    state.borrow_mut::<HostState>().say(session, &frame);
}

/// Ends a session.
#[op2(fast)]
pub fn op_rpc_close(state: &mut OpState, session: u32) {
    state.borrow_mut::<HostState>().hang_up(session);
}
