//! Calls that leave the isolate.

use celld_core::CellId;
use deno_core::{OpState, op2, v8};
use deno_error::JsErrorBox;
use http::Method;

use crate::api::{CellEvent, WorkerEvent, World};
use crate::exchange::{EventError, HttpRequest, HttpResponse, Redirect, Reply, reply};
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

/// The cell that a script names by the number of a namespace and an id.
pub(super) fn cell_id(state: &HostState, namespace: u32, hex: &str) -> Result<CellId, JsErrorBox> {
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

impl HostState {
    /// Sends something into the world when the output gate of `slot` opens. When the writes
    /// before it are lost it is failed instead.
    pub(super) fn send_out<T: Send + 'static>(
        &mut self,
        slot: u32,
        message: T,
        send: impl FnOnce(&dyn World, T) + Send + 'static,
        fail: impl FnOnce(T, EventError) + Send + 'static,
    ) {
        let world = self.config.world.clone();
        self.emit(
            slot,
            Box::new(move |gate| match gate {
                Ok(()) => send(&*world, message),
                Err(error) => fail(message, error),
            }),
        );
    }

    /// Sends a request the same way. Returns the number of the call.
    fn send_request(
        &mut self,
        slot: u32,
        send: impl FnOnce(&dyn World, Reply<HttpResponse>) + Send + 'static,
    ) -> u32 {
        let (reply, answer) = reply();
        self.send_out(slot, reply, send, |reply, error| reply.send(Err(error)));
        self.wait_for(answer, |response| CallAnswer::Response(Box::new(response)))
    }
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
    Ok(state.send_request(slot, move |world, reply| world.fetch(request, reply)))
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
    Ok(state.send_request(slot, move |world, reply| {
        world.send_to_cell(&cell, name.as_deref(), CellEvent::Fetch { request, reply });
    }))
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
    let code = state.config.code.clone();
    Ok(state.send_request(slot, move |world, reply| {
        let event = WorkerEvent::Fetch {
            entrypoint,
            props,
            request,
            reply,
        };
        world.send_to_worker(&code, worker.as_deref(), event);
    }))
}
