//! Calls that leave the isolate.

use celld_core::CellId;
use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;
use http::Method;

use crate::api::{CellEvent, RpcCall, WorkerEvent};
use crate::exchange::{HttpRequest, Redirect, reply};
use crate::state::{CallAnswer, HostState};

/// Reads `[method, url, headers, whole, channel, length, cf, websocket, manual]`.
fn request_from_js(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut HostState,
    wire: v8::Local<v8::Array>,
) -> Result<HttpRequest, JsErrorBox> {
    let broken = || JsErrorBox::type_error("malformed request");
    let at = |index: u32| wire.get_index(scope, index).ok_or_else(broken);
    let (method, url, headers) = (at(0)?, at(1)?, at(2)?);
    let (whole, channel, cf, websocket, manual) = (at(3)?, at(4)?, at(6)?, at(7)?, at(8)?);
    let method = super::to_text(scope, method);
    let method = Method::from_bytes(method.as_bytes())
        .map_err(|_| JsErrorBox::type_error(format!("Invalid HTTP method string: {method}")))?;
    let headers = v8::Local::<v8::Array>::try_from(headers).map_err(|_| broken())?;
    let headers = super::headers_from_js(scope, headers)?;
    let channel = channel.uint32_value(scope).unwrap_or(0);
    Ok(HttpRequest {
        method,
        url: super::to_text(scope, url),
        headers,
        body: super::body_from_js(scope, state, whole, channel),
        cf: cf.is_string().then(|| super::to_text(scope, cf)),
        websocket: websocket.is_true(),
        redirect: if manual.is_true() {
            Redirect::Manual
        } else {
            Redirect::Follow
        },
    })
}

fn path_from_js(scope: &mut v8::PinScope<'_, '_>, path: v8::Local<v8::Array>) -> Vec<String> {
    (0..path.length())
        .filter_map(|index| {
            let name = path.get_index(scope, index)?;
            Some(super::to_text(scope, name))
        })
        .collect()
}

fn cell_id(state: &HostState, namespace: u32, hex: &str) -> Result<CellId, JsErrorBox> {
    let namespace = state
        .namespaces
        .get(namespace as usize)
        .ok_or_else(|| JsErrorBox::type_error("unknown Durable Object namespace"))?;
    Ok(CellId {
        namespace: namespace.key.clone(),
        object: celld_core::ObjectId::from_hex(hex)
            .map_err(|error| JsErrorBox::type_error(error.to_string()))?,
    })
}

/// Gives up on a call.
#[op2(fast)]
pub fn op_call_cancel(state: &mut OpState, id: u32) {
    if let Some(abort) = state.borrow_mut::<HostState>().cancels.remove(&id) {
        abort.abort();
    }
}

/// Sends a request into the network. Returns the number of the call.
#[op2(fast)]
pub fn op_call_fetch(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    wire: v8::Local<v8::Array>,
) -> Result<u32, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let request = request_from_js(scope, state, wire)?;
    let (reply, answer) = reply();
    let world = state.config.world.clone();
    state.emit(
        slot,
        Box::new(move |gate| match gate {
            Ok(()) => world.fetch(request, reply),
            Err(error) => reply.send(Err(error)),
        }),
    );
    Ok(state.wait_for(answer, |response| CallAnswer::Response(Box::new(response))))
}

/// `fetch()` on the stub of a cell.
#[op2]
pub fn op_call_cell_fetch(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    namespace: u32,
    #[string] hex: String,
    #[string] name: Option<String>,
    wire: v8::Local<v8::Array>,
) -> Result<u32, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let cell = cell_id(state, namespace, &hex)?;
    let request = request_from_js(scope, state, wire)?;
    let (reply, answer) = reply();
    let world = state.config.world.clone();
    state.emit(
        slot,
        Box::new(move |gate| match gate {
            Ok(()) => {
                world.send_to_cell(&cell, name.as_deref(), CellEvent::Fetch { request, reply })
            }
            Err(error) => reply.send(Err(error)),
        }),
    );
    Ok(state.wait_for(answer, |response| CallAnswer::Response(Box::new(response))))
}

/// A method call on the stub of a cell.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_call_cell_rpc(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    namespace: u32,
    #[string] hex: String,
    #[string] name: Option<String>,
    path: v8::Local<v8::Array>,
    arguments: v8::Local<v8::Value>,
) -> Result<u32, JsErrorBox> {
    let path = path_from_js(scope, path);
    let arguments = super::payload(scope, arguments);
    let state = state.borrow_mut::<HostState>();
    let cell = cell_id(state, namespace, &hex)?;
    let (reply, answer) = reply();
    let world = state.config.world.clone();
    state.emit(
        slot,
        Box::new(move |gate| match gate {
            Ok(()) => world.send_to_cell(
                &cell,
                name.as_deref(),
                CellEvent::Rpc(RpcCall {
                    path,
                    arguments,
                    reply,
                }),
            ),
            Err(error) => reply.send(Err(error)),
        }),
    );
    Ok(state.wait_for(answer, CallAnswer::Bytes))
}

/// `fetch()` on the stub of an entrypoint.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_call_worker_fetch(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    #[string] worker: Option<String>,
    #[string] entrypoint: Option<String>,
    #[string] props: Option<String>,
    wire: v8::Local<v8::Array>,
) -> Result<u32, JsErrorBox> {
    let state = state.borrow_mut::<HostState>();
    let request = request_from_js(scope, state, wire)?;
    let (reply, answer) = reply();
    let (world, code) = (state.config.world.clone(), state.config.code.clone());
    state.emit(
        slot,
        Box::new(move |gate| match gate {
            Ok(()) => world.send_to_worker(
                &code,
                worker.as_deref(),
                WorkerEvent::Fetch {
                    entrypoint,
                    props,
                    request,
                    reply,
                },
            ),
            Err(error) => reply.send(Err(error)),
        }),
    );
    Ok(state.wait_for(answer, |response| CallAnswer::Response(Box::new(response))))
}

/// A method call on the stub of an entrypoint.
#[op2]
#[allow(clippy::too_many_arguments)]
pub fn op_call_worker_rpc(
    scope: &mut v8::PinScope<'_, '_>,
    state: &mut OpState,
    slot: u32,
    #[string] worker: Option<String>,
    #[string] entrypoint: Option<String>,
    #[string] props: Option<String>,
    path: v8::Local<v8::Array>,
    arguments: v8::Local<v8::Value>,
) -> Result<u32, JsErrorBox> {
    let path = path_from_js(scope, path);
    let arguments = super::payload(scope, arguments);
    let state = state.borrow_mut::<HostState>();
    let (reply, answer) = reply();
    let (world, code) = (state.config.world.clone(), state.config.code.clone());
    let call = RpcCall {
        path,
        arguments,
        reply,
    };
    state.emit(
        slot,
        Box::new(move |gate| match gate {
            Ok(()) => world.send_to_worker(
                &code,
                worker.as_deref(),
                WorkerEvent::Rpc {
                    entrypoint,
                    props,
                    call,
                },
            ),
            Err(error) => call.reply.send(Err(error)),
        }),
    );
    Ok(state.wait_for(answer, CallAnswer::Bytes))
}
