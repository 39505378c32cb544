//! One isolate: loading a Worker, and the loop that serves its mailbox.

mod cells;
mod events;
mod load;
mod mail;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use deno_core::{JsRuntime, OpState, PollEventLoopOptions, v8};
use futures::StreamExt;
use tokio::sync::mpsc;

use crate::api::HostMessage;
use crate::exchange::{EventError, Limit};
use crate::meter::Account;
use crate::ops;
use crate::state::{CallAnswer, CallDone, HostState, RpcSession, Waiter};
use crate::watch::{Culprit, Watched};

/// Messages handled before the event loop gets its turn.
const MESSAGES_PER_ROUND: usize = 64;

/// Functions of `entry.js` that the host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Entry {
    CompleteCall,
    WorkerFetch,
    WorkerRpc,
    WorkerScheduled,
    Construct,
    Admit,
    MayRest,
    Dispose,
    CellFetch,
    CellRpc,
    CellAlarm,
    CellSocket,
    RpcFrame,
    RpcEnded,
}

impl Entry {
    const ALL: [(Entry, &'static str); 14] = [
        (Entry::CompleteCall, "completeCall"),
        (Entry::WorkerFetch, "workerFetch"),
        (Entry::WorkerRpc, "workerRpc"),
        (Entry::WorkerScheduled, "workerScheduled"),
        (Entry::Construct, "construct"),
        (Entry::Admit, "admit"),
        (Entry::MayRest, "mayRest"),
        (Entry::Dispose, "dispose"),
        (Entry::CellFetch, "cellFetch"),
        (Entry::CellRpc, "cellRpc"),
        (Entry::CellAlarm, "cellAlarm"),
        (Entry::CellSocket, "cellSocket"),
        (Entry::RpcFrame, "rpcFrame"),
        (Entry::RpcEnded, "rpcEnded"),
    ];
}

/// Why a call into JavaScript has no result.
enum Failed {
    /// It threw.
    Threw(EventError),
    /// It was ended from outside.
    Terminated,
}

/// An isolate with a loaded Worker.
pub struct Isolate {
    js: JsRuntime,
    state: Rc<RefCell<OpState>>,
    entries: Vec<v8::Global<v8::Function>>,
    watched: Arc<Watched>,
    heap_exhausted: Arc<AtomicBool>,
    /// Set by `Shutdown`: when patience with unfinished events ends.
    stopping: Option<Instant>,
    /// The isolate can no longer be trusted to run.
    doomed: bool,
    /// Something was handled since the node was last told that the host is idle.
    has_worked: bool,
    /// Events in progress, as the node was last told.
    reported: usize,
    wake_up: Option<std::pin::Pin<Box<tokio::time::Sleep>>>,
}

impl Isolate {
    /// Serves the mailbox until it is closed or the host is told to stop.
    pub async fn serve(mut self, mut mailbox: mpsc::UnboundedReceiver<HostMessage>) {
        std::future::poll_fn(|cx| self.poll(cx, &mut mailbox)).await;
        let (world, code) = {
            let state = self.state.borrow();
            let config = &state.borrow::<HostState>().config;
            (config.world.clone(), config.code.clone())
        };
        // What was never started can start elsewhere; the node no longer sends here.
        mailbox.close();
        while let Ok(message) = mailbox.try_recv() {
            match message {
                HostMessage::Worker(event) => world.send_to_worker(&code, None, event),
                HostMessage::Cell(cell, event) => world.send_to_cell(&cell, None, event),
                // The node learns from the dropped reply, or from the loss of the host.
                HostMessage::Activate(_)
                | HostMessage::Evict { .. }
                | HostMessage::Rest { .. }
                | HostMessage::Checkpoint { .. }
                | HostMessage::Shutdown { .. } => {}
            }
        }
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        mailbox: &mut mpsc::UnboundedReceiver<HostMessage>,
    ) -> Poll<()> {
        loop {
            let mut progressed = false;
            for _ in 0..MESSAGES_PER_ROUND {
                match mailbox.poll_recv(cx) {
                    Poll::Ready(Some(message)) => {
                        progressed = true;
                        self.message(message);
                        if self.doomed {
                            return Poll::Ready(());
                        }
                    }
                    Poll::Ready(None) => return Poll::Ready(()),
                    Poll::Pending => break,
                }
            }
            progressed |= self.complete_calls(cx);
            progressed |= self.deliver_mail(cx);
            if self.doomed {
                return Poll::Ready(());
            }
            progressed |= self.admit_waiting();
            let idle = self.run_event_loop(cx);
            self.end_turn(None);
            progressed |= self.has_new_calls() | self.admit_waiting();
            if self.doomed || self.check_deadlines(cx) {
                return Poll::Ready(());
            }
            self.has_worked |= progressed;
            if !progressed {
                if idle {
                    self.end_hung_events();
                }
                self.report_load();
                return Poll::Pending;
            }
        }
    }

    fn enter_script(&self) {
        let mut state = self.state.borrow_mut();
        state.borrow_mut::<HostState>().stretch_begins();
        self.watched.enter();
    }

    fn leave_script(&self) {
        self.watched.leave();
        let mut state = self.state.borrow_mut();
        state.borrow_mut::<HostState>().stretch_ends();
    }

    /// What follows is done on behalf of `account`.
    fn run_for(&self, account: Account) {
        let mut state = self.state.borrow_mut();
        state.borrow_mut::<HostState>().run_for(account);
    }

    fn account(&self) -> Account {
        self.state.borrow().borrow::<HostState>().meter.account()
    }

    /// Lets timers and asynchronous operations proceed. True when none are left.
    fn run_event_loop(&mut self, cx: &mut Context<'_>) -> bool {
        self.run_for(Account::default());
        self.enter_script();
        let outcome = self.js.poll_event_loop(cx, PollEventLoopOptions::default());
        self.leave_script();
        match outcome {
            Poll::Ready(Ok(())) => true,
            Poll::Pending => false,
            Poll::Ready(Err(error)) => {
                // An exception from a timer or a listener, which belongs to no event's promise.
                if !self.js.v8_isolate().is_execution_terminating() {
                    self.log_exception(&error.to_string());
                }
                false
            }
        }
    }

    fn tokio(&self) -> tokio::runtime::Handle {
        self.state
            .borrow()
            .borrow::<HostState>()
            .config
            .tokio
            .clone()
    }

    fn log_exception(&mut self, text: &str) {
        let mut state = self.state.borrow_mut();
        let config = &state.borrow_mut::<HostState>().config;
        config.world.console(crate::api::ConsoleLine {
            level: "exception",
            text: crate::loader::without_addresses(text),
            worker: config.code.name.clone(),
            cell: None,
            event: None,
        });
    }

    /// Calls a function of the API layer, and runs the microtasks that follow from it.
    fn call<R>(
        &mut self,
        entry: Entry,
        arguments: impl for<'s, 'i> FnOnce(
            &mut v8::PinScope<'s, 'i>,
            &mut HostState,
        ) -> Vec<v8::Local<'s, v8::Value>>,
        result: impl for<'s, 'i> FnOnce(&mut v8::PinScope<'s, 'i>, v8::Local<'s, v8::Value>) -> R,
    ) -> Result<R, Failed> {
        let function = self.entries[entry as usize].clone();
        let state = self.state.clone();
        self.enter_script();
        let outcome = {
            deno_core::scope!(scope, &mut self.js);
            let list = {
                let mut state = state.borrow_mut();
                arguments(scope, state.borrow_mut::<HostState>())
            };
            let function = v8::Local::new(scope, function);
            let this = v8::undefined(scope).into();
            v8::tc_scope!(let scope, scope);
            let returned = function.call(scope, this, &list);
            let outcome = match returned {
                Some(value) => Ok(result(scope, value)),
                None if scope.has_terminated() => Err(Failed::Terminated),
                None => Err(Failed::Threw(thrown(scope))),
            };
            if !scope.has_terminated() {
                scope.perform_microtask_checkpoint();
            }
            outcome
        };
        self.leave_script();
        outcome
    }

    /// Hands the answers of calls to JavaScript.
    fn complete_calls(&mut self, cx: &mut Context<'_>) -> bool {
        let mut any = false;
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                state.borrow_mut::<HostState>().calls.poll_next_unpin(cx)
            };
            match next {
                Poll::Ready(Some(Some(done))) => {
                    any = true;
                    self.complete_call(done);
                    self.end_turn(None);
                    if self.doomed {
                        return true;
                    }
                }
                // A cancelled call has nobody to tell.
                Poll::Ready(Some(None)) => any = true,
                Poll::Ready(None) | Poll::Pending => return any,
            }
        }
    }

    /// Lets events in that wait at input gates which have opened: one, then its turn's end.
    fn admit_waiting(&mut self) -> bool {
        let mut any = false;
        loop {
            let next = {
                let mut state = self.state.borrow_mut();
                state.borrow_mut::<HostState>().wakes.pop_front()
            };
            let Some(slot) = next else { return any };
            any = true;
            self.run_for(Account { slot, event: 0 });
            let _ = self.call(
                Entry::Admit,
                |scope, _| vec![v8::Integer::new_from_unsigned(scope, slot).into()],
                |_, _| (),
            );
            self.end_turn(None);
            if self.doomed {
                return true;
            }
        }
    }

    fn complete_call(&mut self, (id, answer): CallDone) {
        // JavaScript knows on whose behalf, and says so.
        self.run_for(Account::default());
        let outcome = self.call(
            Entry::CompleteCall,
            |scope, state| {
                state.cancels.remove(&id);
                let id = v8::Integer::new_from_unsigned(scope, id).into();
                let answer = match answer {
                    Ok(CallAnswer::Response(response)) => {
                        events::response_to_js(scope, state, *response)
                    }
                    Ok(CallAnswer::Done) => v8::null(scope).into(),
                    Err(error) => ops::error_to_js(scope, &error, true),
                };
                vec![id, answer]
            },
            |_, _| (),
        );
        if let Err(Failed::Threw(error)) = outcome {
            self.log_exception(&error.message);
        }
    }

    fn has_new_calls(&mut self) -> bool {
        // A future that was pushed since the last poll has not seen this task's waker yet.
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        std::mem::take(&mut state.calls_added)
    }

    /// What follows every stretch of JavaScript: commits, resets, evictions, and dealing with an
    /// execution that was ended. `event` is the one just started, if any.
    fn end_turn(&mut self, event: Option<u32>) {
        let was_ended = self.js.v8_isolate().is_execution_terminating() || self.watched.was_ended();
        if was_ended {
            self.js.v8_isolate().cancel_terminate_execution();
        }
        if self.heap_exhausted.load(Ordering::Relaxed) {
            let why = EventError {
                limit: Some(Limit::Memory),
                ..EventError::reset("Worker exceeded its memory limit: the isolate was reset.")
            };
            let culprit = self.watched.take_culprit().unwrap_or_default();
            let slot = match culprit.slot {
                0 => self.account().slot,
                slot => slot,
            };
            self.report_limit(slot, &why);
            self.doom(why);
            return;
        }
        if was_ended {
            self.blame(event);
        }
        // Instances that ended first: what they wrote in this turn is undone, not committed.
        self.apply_resets();
        self.state
            .borrow_mut()
            .borrow_mut::<HostState>()
            .commit_touched();
        self.apply_resets();
        self.finish_evictions();
    }

    /// Fails whoever used too much CPU time.
    fn blame(&mut self, event: Option<u32>) {
        let culprit = self.watched.take_culprit().unwrap_or_default();
        let Culprit {
            slot,
            event: running,
        } = culprit;
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        if slot != 0 {
            state.resets.push((slot, crate::meter::cell_over_limit()));
            return;
        }
        let running = if running != 0 { Some(running) } else { event };
        let guilty: Vec<u32> = match running {
            Some(id) => vec![id],
            // Nobody is named: whatever ran outside of cells is ended.
            None => state
                .events
                .iter()
                .filter(|(_, event)| event.slot == 0)
                .map(|(id, _)| *id)
                .collect(),
        };
        for id in guilty {
            state.end_event(id, crate::meter::event_over_limit());
        }
    }

    /// Gives the isolate up: everything in it fails with `why`.
    fn doom(&mut self, why: EventError) {
        self.doomed = true;
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        // First, so that a client that tries again at once finds another host.
        state.config.world.host_lost(state.config.id, why.clone());
        for (_, event) in state.events.drain() {
            if let Some(waiter) = event.waiter {
                waiter.fail(why.clone());
            }
        }
        for (_, session) in state.sessions.drain() {
            session.end.close(Some(why.clone()));
        }
        for (_, cell) in state.cells.drain() {
            for output in cell.staged {
                output(Err(why.clone()));
            }
        }
    }

    /// Ends stateless events that nothing can complete any more.
    fn end_hung_events(&mut self) {
        let mut state = self.state.borrow_mut();
        let state = state.borrow_mut::<HostState>();
        if !state.calls.is_empty() || self.heap_exhausted.load(Ordering::Relaxed) {
            return;
        }
        let sessions = &state.sessions;
        let is_live = |id: &u32| sessions.get(id).is_some_and(RpcSession::is_live);
        let hung: Vec<u32> = state
            .events
            .iter()
            .filter(|(_, event)| event.slot == 0 && !event.sessions.iter().any(is_live))
            .map(|(id, _)| *id)
            .collect();
        for id in hung {
            if let Some(waiter) = state
                .events
                .get_mut(&id)
                .and_then(|event| event.waiter.take())
            {
                waiter.fail(EventError::new(
                    "The Workers runtime canceled this request because it detected that your Worker's code had hung and would never generate a response. Refer to: https://developers.cloudflare.com/workers/observability/errors/",
                ));
            }
            state.finish_event(id);
        }
    }

    fn report_load(&mut self) {
        let state = self.state.borrow();
        let state = state.borrow::<HostState>();
        let waiting = state.events.len();
        if waiting != self.reported || (self.has_worked && waiting == 0) {
            self.reported = waiting;
            self.has_worked = waiting > 0;
            state.config.world.host_load(state.config.id, waiting);
        }
    }
}

/// The exception that a try-catch scope holds.
fn thrown(scope: &mut v8::PinnedRef<'_, v8::TryCatch<'_, '_, v8::HandleScope<'_>>>) -> EventError {
    let Some(exception) = scope.exception() else {
        return EventError::new("unknown exception");
    };
    let error = deno_core::error::JsError::from_v8_exception(scope, exception);
    from_js_error(&error)
}

/// An exception as an event's error.
fn from_js_error(error: &deno_core::error::JsError) -> EventError {
    EventError {
        name: error.name.clone().unwrap_or_else(|| "Error".into()),
        message: error
            .message
            .clone()
            .unwrap_or_else(|| error.exception_message.clone()),
        stack: error.stack.as_deref().map(crate::loader::without_addresses),
        ..EventError::default()
    }
}

impl HostState {
    /// Events of an instance that somebody still waits for.
    fn unanswered(&self, slot: u32) -> usize {
        let of_slot = |event: &&crate::state::Event| event.slot == slot && event.waiter.is_some();
        self.events.values().filter(of_slot).count()
    }

    /// Starts an event.
    pub fn begin_event(&mut self, waiter: Waiter, slot: u32) -> u32 {
        let id = self.fresh_id();
        let cell = self.slots.get(&slot).cloned();
        if let Some(cell) = cell.as_ref().and_then(|cell| self.cells.get_mut(cell)) {
            cell.events += 1;
            cell.spent = Duration::ZERO;
            cell.image.pulse.set_running(cell.events);
        }
        self.events.insert(
            id,
            crate::state::Event {
                waiter: Some(waiter),
                cell,
                slot,
                sessions: Default::default(),
                spent: Duration::ZERO,
            },
        );
        id
    }
}
