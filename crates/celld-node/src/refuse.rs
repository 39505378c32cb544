//! Answers for events that no isolate will handle.

use celld_core::{Leave, Refusal};
use celld_runtime::api::{CellEvent, WorkerEvent};
use celld_runtime::exchange::EventError;

/// Fails an event of a cell.
pub(crate) fn cell_event(event: CellEvent, why: EventError) {
    match event {
        CellEvent::Fetch { reply, .. } => reply.send(Err(why)),
        CellEvent::Rpc(call) => call.fail(why),
        // No handler ran, so whatever the reason is, the alarm stays due: code that can run it may
        // be deployed later.
        CellEvent::Alarm { reply, .. } => reply.send(Err(EventError {
            retryable: true,
            ..why
        })),
        // The other end learns of it from the connection.
        CellEvent::SocketMessage { .. } => {}
    }
}

/// Fails a stateless event.
pub(crate) fn worker_event(event: WorkerEvent, why: EventError) {
    match event {
        WorkerEvent::Fetch { reply, .. } => reply.send(Err(why)),
        WorkerEvent::Rpc { call, .. } => call.fail(why),
        WorkerEvent::Scheduled { reply, .. } => reply.send(Err(why)),
    }
}

/// What scripts are told when the core refuses a cell. `detail` says more where the shell knows.
pub(crate) fn refusal(why: Refusal, namespace: &str, detail: Option<&str>) -> EventError {
    match why {
        Refusal::NoClass => EventError::new(format!(
            "No deployed Worker has a Durable Object class for the namespace {namespace:?}: it was \
             never deployed, or a migration deleted it."
        )),
        Refusal::Unreadable => retryable(format!(
            "The Durable Object's stored data cannot be read: {}",
            detail.unwrap_or("see the node's log")
        )),
        Refusal::HostFailed => retryable(format!(
            "The Worker cannot be started for this Durable Object: {}",
            detail.unwrap_or("see the node's log")
        )),
        Refusal::Full => EventError {
            retryable: true,
            ..EventError::overloaded(
                "Durable Object is overloaded. The node holds as many objects as it may, and all are at work.",
            )
        },
        Refusal::Quarantined { remaining_ms } => EventError {
            overloaded: true,
            ..EventError::new(format!(
                "Durable Object is quarantined for another {} s: {} again and again. Other objects \
                 are not affected.",
                remaining_ms.div_ceil(1_000),
                detail.unwrap_or("it exceeded a limit"),
            ))
        },
        Refusal::ShuttingDown => retryable("The node is shutting down.".into()),
    }
}

/// What a cell's unfinished events are told when it leaves.
pub(crate) fn leaving(why: Leave) -> EventError {
    let error = EventError::reset(match why {
        Leave::Idle => "Durable Object was evicted; its unfinished work was ended.",
        Leave::NewCode => "Durable Object reset because its code was updated.",
        Leave::Busy => {
            "Durable Object was moved to another isolate; its unfinished work was ended."
        }
        Leave::Quarantined => {
            "Durable Object reset because it exceeded a limit again and again. It is quarantined for a while."
        }
        Leave::ClassRemoved => "Durable Object reset because its class is no longer deployed.",
        Leave::ShuttingDown => "Durable Object reset because the node is shutting down.",
    });
    EventError {
        retryable: !matches!(why, Leave::ClassRemoved | Leave::Quarantined),
        ..error
    }
}

/// A failure of the node, not of the script.
pub(crate) fn retryable(message: String) -> EventError {
    EventError {
        retryable: true,
        ..EventError::new(message)
    }
}
