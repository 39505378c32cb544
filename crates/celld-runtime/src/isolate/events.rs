//! Starting events.

use std::sync::atomic::Ordering;

use deno_core::v8;

use super::mail::First;
use super::{Entry, Failed, Isolate};
use crate::api::{CellEvent, HostMessage, WorkerEvent};
use crate::exchange::{Body, EventError, HttpRequest, HttpResponse};
use crate::meter::Account;
use crate::ops;
use crate::socket::SocketMessage;
use crate::state::{HostState, Waiter};

type Values<'s> = Vec<v8::Local<'s, v8::Value>>;

/// Whole body, number of the channel, and declared length.
fn body_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    body: Body,
) -> [v8::Local<'s, v8::Value>; 3] {
    let (whole, channel, length) = match body {
        Body::Empty => (v8::null(scope).into(), 0, -1.0),
        Body::Bytes(bytes) => (ops::bytes(scope, &bytes), 0, bytes.len() as f64),
        Body::Stream(stream) => {
            let (channel, length) = state.register_body(stream);
            (v8::null(scope).into(), channel, length)
        }
    };
    [
        whole,
        v8::Integer::new_from_unsigned(scope, channel).into(),
        v8::Number::new(scope, length).into(),
    ]
}

/// Method, URL, headers, body in three parts, `cf`: the tail of the arguments of fetch entries.
fn push_request<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    request: HttpRequest,
    list: &mut Values<'s>,
) {
    list.push(ops::one_byte(scope, request.method.as_str().as_bytes()));
    list.push(ops::text(scope, &request.url));
    list.push(ops::headers_to_js(scope, &request.headers).into());
    list.extend(body_to_js(scope, state, request.body));
    list.push(optional(scope, request.cf.as_deref()));
}

/// An answer in the form that `http.js` reads.
pub(super) fn response_to_js<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    response: HttpResponse,
) -> v8::Local<'s, v8::Value> {
    let socket = response.websocket.map_or(0, |end| {
        let id = state.fresh_id();
        state.sockets.insert(id, end.into());
        id
    });
    let [whole, channel, length] = body_to_js(scope, state, response.body);
    let parts = [
        v8::Integer::new_from_unsigned(scope, u32::from(response.status.as_u16())).into(),
        ops::headers_to_js(scope, &response.headers).into(),
        whole,
        channel,
        length,
        v8::Integer::new_from_unsigned(scope, socket).into(),
        optional(scope, response.url.as_deref()),
        optional(scope, response.status_text.as_deref()),
    ];
    v8::Array::new_with_elements(scope, &parts).into()
}

fn optional<'s>(scope: &mut v8::PinScope<'s, '_>, text: Option<&str>) -> v8::Local<'s, v8::Value> {
    match text {
        Some(text) => ops::text(scope, text),
        None => v8::null(scope).into(),
    }
}

pub(super) fn number<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    number: u32,
) -> v8::Local<'s, v8::Value> {
    v8::Integer::new_from_unsigned(scope, number).into()
}

pub(super) fn flag<'s>(scope: &mut v8::PinScope<'s, '_>, flag: bool) -> v8::Local<'s, v8::Value> {
    v8::Boolean::new(scope, flag).into()
}

impl Isolate {
    /// Handles one message of the mailbox.
    pub(super) fn message(&mut self, message: HostMessage) {
        match message {
            HostMessage::Worker(event) => self.worker_event(event),
            HostMessage::Activate(image) => self.activate(*image),
            HostMessage::Cell(cell, event) => self.cell_event(cell, event),
            HostMessage::Evict {
                cell,
                reason,
                grace,
                reply,
            } => self.evict(cell, reason, grace, reply),
            HostMessage::Rest { cell } => self.rest(&cell),
            HostMessage::Checkpoint { cell, reply } => self.checkpoint(cell, reply),
            HostMessage::Shutdown { grace } => {
                self.stopping = Some(std::time::Instant::now() + grace)
            }
        }
    }

    fn begin(&mut self, waiter: Waiter, slot: u32) -> u32 {
        let id = {
            let mut state = self.state.borrow_mut();
            state.borrow_mut::<HostState>().begin_event(waiter, slot)
        };
        let event = if slot == 0 { id } else { 0 };
        self.run_for(Account { slot, event });
        id
    }

    /// Ends the turn of an event that was just started.
    fn started(&mut self, id: u32, outcome: Result<(), Failed>) {
        if let Err(Failed::Threw(error)) = outcome {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            if let Some(waiter) = state
                .events
                .get_mut(&id)
                .and_then(|event| event.waiter.take())
            {
                waiter.fail(error);
            }
            state.finish_event(id);
        }
        self.end_turn(Some(id));
    }

    fn worker_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Fetch {
                entrypoint,
                props,
                request,
                reply,
            } => {
                let id = self.begin(Waiter::Fetch(reply), 0);
                let outcome = self.call(
                    Entry::WorkerFetch,
                    |scope, state| {
                        let mut list = vec![
                            number(scope, id),
                            optional(scope, entrypoint.as_deref()),
                            optional(scope, props.as_deref()),
                        ];
                        push_request(scope, state, request, &mut list);
                        list
                    },
                    |_, _| (),
                );
                self.started(id, outcome);
            }
            WorkerEvent::Rpc {
                entrypoint,
                props,
                call,
            } => {
                let Some(first) = First::read(call) else {
                    return;
                };
                let id = self.begin(Waiter::Rpc(first.session.clone()), 0);
                let outcome = self.call(
                    Entry::WorkerRpc,
                    |scope, state| {
                        let mut list = vec![
                            number(scope, id),
                            optional(scope, entrypoint.as_deref()),
                            optional(scope, props.as_deref()),
                        ];
                        first.join(scope, state, 0, id, &mut list);
                        list
                    },
                    |_, _| (),
                );
                self.started(id, outcome);
            }
            WorkerEvent::Scheduled {
                cron,
                scheduled_ms,
                reply,
            } => {
                self.scheduled(&cron, scheduled_ms, reply);
            }
        }
    }

    fn scheduled(&mut self, cron: &str, scheduled_ms: i64, reply: crate::exchange::Reply<()>) {
        let id = self.begin(Waiter::Scheduled(reply), 0);
        let outcome = self.call(
            Entry::WorkerScheduled,
            |scope, _| {
                vec![
                    number(scope, id),
                    ops::text(scope, cron),
                    v8::Number::new(scope, scheduled_ms as f64).into(),
                ]
            },
            |_, _| (),
        );
        self.started(id, outcome);
    }

    fn cell_event(&mut self, cell: celld_core::CellId, event: CellEvent) {
        // The end of a socket is always told: refusing it would free nothing.
        let is_end = matches!(
            &event,
            CellEvent::SocketMessage {
                ending: Some(_),
                ..
            }
        );
        self.note_taken(&cell);
        self.run_for(Account::default());
        let slot = match self.ready_slot(&cell, !is_end) {
            Ok(slot) => slot,
            Err(error) => {
                if let CellEvent::SocketMessage { socket, .. } = &event {
                    // A message that cannot be handled must not vanish from a conversation.
                    socket.cut(&self.tokio());
                }
                waiter_of(event).fail(error);
                return;
            }
        };
        match event {
            CellEvent::Fetch { request, reply } => {
                let id = self.begin(Waiter::Fetch(reply), slot);
                let outcome = self.call(
                    Entry::CellFetch,
                    |scope, state| {
                        let mut list = vec![number(scope, id), number(scope, slot)];
                        push_request(scope, state, request, &mut list);
                        list
                    },
                    |_, _| (),
                );
                self.started(id, outcome);
            }
            CellEvent::Rpc(call) => {
                let Some(first) = First::read(call) else {
                    return;
                };
                let id = self.begin(Waiter::Rpc(first.session.clone()), slot);
                let outcome = self.call(
                    Entry::CellRpc,
                    |scope, state| {
                        let mut list = vec![number(scope, id), number(scope, slot)];
                        first.join(scope, state, slot, id, &mut list);
                        list
                    },
                    |_, _| (),
                );
                self.started(id, outcome);
            }
            CellEvent::Alarm {
                scheduled_ms,
                retry_count,
                reply,
            } => self.alarm(&cell, slot, scheduled_ms, retry_count, reply),
            CellEvent::SocketMessage {
                socket,
                message,
                ending,
            } => {
                if let Some(ending) = ending {
                    ending.heard();
                }
                self.socket_event(&cell, slot, &socket, message);
            }
        }
    }

    fn alarm(
        &mut self,
        cell: &celld_core::CellId,
        slot: u32,
        scheduled_ms: i64,
        retry_count: u32,
        reply: crate::exchange::Reply<crate::api::AlarmOutcome>,
    ) {
        match self.alarm_is_due(cell, scheduled_ms) {
            Ok(true) => {}
            Ok(false) => {
                let next_ms = self.alarm_of(cell);
                reply.send(next_ms.map(|next_ms| crate::api::AlarmOutcome { next_ms }));
                return;
            }
            Err(error) => {
                reply.send(Err(error));
                return;
            }
        }
        let id = self.begin(Waiter::Alarm(reply, retry_count), slot);
        let outcome = self.call(
            Entry::CellAlarm,
            |scope, _| {
                vec![
                    number(scope, id),
                    number(scope, slot),
                    v8::Number::new(scope, scheduled_ms as f64).into(),
                    number(scope, retry_count),
                ]
            },
            |_, _| (),
        );
        self.started(id, outcome);
    }

    fn socket_event(
        &mut self,
        cell: &celld_core::CellId,
        slot: u32,
        socket: &std::sync::Arc<crate::socket::CellSocket>,
        message: Option<SocketMessage>,
    ) {
        let id = self.begin(Waiter::Nobody, slot);
        let outcome = self.call(
            Entry::CellSocket,
            |scope, state| {
                let timeout_ms = state.cells.get(cell).map_or(0, |cell| {
                    cell.image.sockets.event_timeout_ms.load(Ordering::Relaxed)
                });
                let rid = state.socket_number(socket);
                let closing = socket.handshake();
                let what = match message {
                    Some(SocketMessage::Text(text)) => ops::text(scope, &text),
                    Some(SocketMessage::Binary(bytes)) => ops::bytes(scope, &bytes),
                    Some(SocketMessage::Close(frame)) => {
                        ops::sockets::close_to_js(scope, frame.as_ref(), true)
                    }
                    Some(SocketMessage::Failure(why)) => ops::sockets::failure_to_js(scope, &why),
                    None => ops::sockets::close_to_js(scope, None, false),
                };
                vec![
                    number(scope, id),
                    number(scope, slot),
                    number(scope, rid),
                    number(scope, closing),
                    what,
                    number(scope, timeout_ms),
                ]
            },
            |_, _| (),
        );
        self.started(id, outcome);
    }
}

/// Who waits for an event that could not be started.
fn waiter_of(event: CellEvent) -> Waiter {
    match event {
        CellEvent::Fetch { reply, .. } => Waiter::Fetch(reply),
        CellEvent::Rpc(call) => Waiter::Rpc(std::sync::Arc::new(call.session)),
        CellEvent::Alarm {
            reply, retry_count, ..
        } => Waiter::Alarm(reply, retry_count),
        CellEvent::SocketMessage { .. } => Waiter::Nobody,
    }
}

/// An error for events of cells that are not here.
pub(super) fn not_here() -> EventError {
    EventError::disconnected()
}
