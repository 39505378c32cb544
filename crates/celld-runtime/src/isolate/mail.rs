//! RPC sessions: what arrives on them, and their end.

use std::sync::Arc;
use std::task::Context;

use deno_core::v8;

use super::events::{flag, number};
use super::{Entry, Failed, Isolate};
use crate::api::RpcCall;
use crate::exchange::EventError;
use crate::meter::Account;
use crate::ops;
use crate::rpc::frame::{Frame, Payload, Target};
use crate::rpc::session::{Mail, SessionEnd};
use crate::state::HostState;

/// Frames handled before others get their turn.
const FRAMES_PER_ROUND: usize = 64;

/// What a frame is to the API layer.
#[derive(Clone, Copy)]
enum Kind {
    Call = 1,
    Return,
    Throw,
    Release,
    Finish,
}

/// The call that opened a session.
pub(super) struct First {
    pub(super) session: Arc<SessionEnd>,
    question: u32,
    path: Vec<String>,
    arguments: Option<Payload>,
}

impl First {
    /// Reads the first frame. One that is none ends the session.
    pub(super) fn read(call: RpcCall) -> Option<Self> {
        let RpcCall { first, session } = call;
        match Frame::decode(first) {
            Ok(Frame::Call {
                question,
                target: Target::Export(0),
                path,
                arguments,
            }) => Some(Self {
                session: Arc::new(session),
                question,
                path,
                arguments,
            }),
            Ok(_) => {
                session.close(Some(EventError::new("an RPC session began without a call")));
                None
            }
            Err(error) => {
                session.close(Some(EventError::new(error.to_string())));
                None
            }
        }
    }

    /// Joins the session on behalf of an event, and pushes the arguments of its entry.
    pub(super) fn join<'s>(
        self,
        scope: &mut v8::PinScope<'s, '_>,
        state: &mut HostState,
        slot: u32,
        event: u32,
        list: &mut Vec<v8::Local<'s, v8::Value>>,
    ) {
        let id = state.join_session(self.session, slot, event);
        list.push(number(scope, id));
        list.push(number(scope, self.question));
        push_call(scope, state, &self.path, self.arguments.as_ref(), list);
    }
}

fn push_call<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    path: &[String],
    arguments: Option<&Payload>,
    list: &mut Vec<v8::Local<'s, v8::Value>>,
) {
    let names: Vec<_> = path.iter().map(|name| ops::text(scope, name)).collect();
    list.push(v8::Array::new_with_elements(scope, &names).into());
    list.extend(ops::rpc::payload_to_js(scope, state, arguments));
}

impl Isolate {
    /// Takes what has arrived on sessions. True when something had.
    pub(super) fn deliver_mail(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = self.tell_orphans();
        for _ in 0..FRAMES_PER_ROUND {
            let (id, mail) = {
                let mut state = self.state.borrow_mut();
                let state = state.borrow_mut::<HostState>();
                let Some(id) = state.ready.next(cx.waker()) else {
                    return any;
                };
                let mail = state.sessions.get(&id).map(|session| session.end.take());
                (id, mail)
            };
            any = true;
            match mail {
                None | Some(Mail::Nothing) => continue,
                Some(Mail::Frame(bytes, more)) => {
                    if more {
                        let state = self.state.borrow();
                        state.borrow::<HostState>().ready.push(id);
                    }
                    match Frame::decode(bytes) {
                        Ok(frame) => self.frame(id, frame),
                        Err(error) => self.refuse(id, &error.to_string()),
                    }
                }
                Some(Mail::Closed(why)) => {
                    self.leave(id);
                    self.session_ended(id, why.as_ref());
                }
            }
            self.end_turn(None);
            self.tell_orphans();
            if self.doomed {
                return true;
            }
        }
        any
    }

    fn leave(&mut self, id: u32) -> Option<crate::state::RpcSession> {
        let mut state = self.state.borrow_mut();
        state.borrow_mut::<HostState>().leave_session(id)
    }

    /// Ends a session whose other side does not keep to the protocol.
    fn refuse(&mut self, id: u32, why: &str) {
        let error = EventError::new(format!("RPC session ended by a protocol error: {why}"));
        if let Some(session) = self.leave(id) {
            session.end.close(Some(error.clone()));
        }
        self.session_ended(id, Some(&error));
    }

    /// Tells JavaScript of sessions whose events were ended by the host.
    fn tell_orphans(&mut self) -> bool {
        let orphans = {
            let mut state = self.state.borrow_mut();
            std::mem::take(&mut state.borrow_mut::<HostState>().orphans)
        };
        let any = !orphans.is_empty();
        for id in orphans {
            self.session_ended(id, None);
        }
        any
    }

    fn session_ended(&mut self, id: u32, why: Option<&EventError>) {
        let outcome = self.call(
            Entry::RpcEnded,
            |scope, _| {
                let why = match why {
                    Some(error) => ops::error_to_js(scope, error, true),
                    None => v8::null(scope).into(),
                };
                vec![number(scope, id), why]
            },
            |_, _| (),
        );
        self.log_failure(outcome);
    }

    fn log_failure(&mut self, outcome: Result<(), Failed>) {
        if let Err(Failed::Threw(error)) = outcome {
            self.log_exception(&error.message);
        }
    }

    fn frame(&mut self, id: u32, frame: Frame) {
        {
            let mut state = self.state.borrow_mut();
            let state = state.borrow_mut::<HostState>();
            let Some(session) = state.sessions.get_mut(&id) else {
                return;
            };
            session.note_taken(&frame);
            let account = Account {
                slot: session.slot,
                event: session.event,
            };
            state.run_for(account);
            // The other side has ended the session: there is nobody to say anything to.
            if let Frame::Return { last: true, .. } | Frame::Throw { last: true, .. } = &frame {
                state.leave_session(id);
            }
        }
        let outcome = self.call(
            Entry::RpcFrame,
            |scope, state| {
                let mut list = vec![number(scope, id)];
                push_frame(scope, state, frame, &mut list);
                list
            },
            |_, _| (),
        );
        self.log_failure(outcome);
    }
}

fn push_frame<'s>(
    scope: &mut v8::PinScope<'s, '_>,
    state: &mut HostState,
    frame: Frame,
    list: &mut Vec<v8::Local<'s, v8::Value>>,
) {
    match frame {
        Frame::Call {
            question,
            target,
            path,
            arguments,
        } => {
            let (on_answer, target) = match target {
                Target::Export(id) => (false, id),
                Target::Answer(id) => (true, id),
            };
            list.push(number(scope, Kind::Call as u32));
            list.push(number(scope, question));
            list.push(flag(scope, on_answer));
            list.push(number(scope, target));
            push_call(scope, state, &path, arguments.as_ref(), list);
        }
        Frame::Return {
            question,
            last,
            payload,
        } => {
            list.push(number(scope, Kind::Return as u32));
            list.push(number(scope, question));
            list.push(flag(scope, last));
            list.extend(ops::rpc::payload_to_js(scope, state, Some(&payload)));
        }
        Frame::Throw {
            question,
            last,
            error,
        } => {
            list.push(number(scope, Kind::Throw as u32));
            list.push(number(scope, question));
            list.push(flag(scope, last));
            list.push(ops::error_to_js(scope, &error, true));
        }
        Frame::Release { export, count } => {
            list.push(number(scope, Kind::Release as u32));
            list.push(number(scope, export));
            list.push(number(scope, count));
        }
        Frame::Finish { question } => {
            list.push(number(scope, Kind::Finish as u32));
            list.push(number(scope, question));
        }
    }
}
