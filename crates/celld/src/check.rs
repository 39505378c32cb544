//! Starts a program once, so that code that cannot run is found before it is deployed.

use std::sync::Arc;
use std::time::Duration;

use celld_core::{CellId, HostId, Lsn};
use celld_runtime::api::{
    Binding, CellEvent, Commit, ConsoleLine, HostConfig, HostMessage, Limits, OnDurable,
    WorkerCode, WorkerEvent, World,
};
use celld_runtime::exchange::{EventError, HttpRequest, HttpResponse, Reply};
use celld_runtime::host::{WorkerSurface, start_host};
use celld_runtime::socket::CellSocket;
use celld_runtime::socket_channel::SocketReceiver;
use tokio::sync::oneshot;

use crate::errors::{self, Failure};
use crate::excerpt::without_own_frames;

/// Time for a program to load its modules. Cloudflare allows a second of CPU time.
const START_UP_MAX: Duration = Duration::from_secs(30);

/// Loads the code into an isolate of its own, and checks that it exports what it is bound to.
pub async fn starts(code: WorkerCode) -> Result<WorkerSurface, Failure> {
    let code = Arc::new(code);
    let (ready, loaded) = oneshot::channel();
    let config = HostConfig {
        id: HostId::new(0),
        code: code.clone(),
        limits: Limits::default(),
        snapshot: celld_snapshot::SNAPSHOT,
        world: Arc::new(Nowhere),
        tokio: tokio::runtime::Handle::current(),
    };
    let host = start_host(
        config,
        Box::new(move |surface| {
            // Nobody waits any more when it took too long.
            let _ = ready.send(surface);
        }),
    );
    let outcome = tokio::time::timeout(START_UP_MAX, loaded).await;
    // An isolate that has ended already needs no telling.
    let _ = host.send(HostMessage::Shutdown {
        grace: Duration::ZERO,
    });
    let surface = match outcome {
        Ok(Ok(Ok(surface))) => surface,
        Ok(Ok(Err(error))) => return Err(Failure::new(errors::START_UP, describe(&error))),
        Ok(Err(_)) => {
            return Err(Failure::new(
                errors::START_UP,
                "the isolate ended while it loaded the program",
            ));
        }
        Err(_) => {
            let message = format!(
                "the program does not finish loading within {} s",
                START_UP_MAX.as_secs()
            );
            return Err(Failure::new(errors::START_UP, message));
        }
    };
    exports_what_is_bound(&code, &surface)?;
    Ok(surface)
}

/// A start-up error with its stack.
fn describe(error: &EventError) -> String {
    let text = match &error.stack {
        Some(stack) if stack.contains(&error.message) => stack.clone(),
        Some(stack) => format!("{error}\n{stack}"),
        None => error.to_string(),
    };
    without_own_frames(&text)
}

fn exports_what_is_bound(code: &WorkerCode, surface: &WorkerSurface) -> Result<(), Failure> {
    for class in &code.classes {
        if !surface.durable_classes.contains(&class.class_name) {
            let message = format!(
                "the main module {} does not export the Durable Object class {}: write `export class {} extends DurableObject`, or delete the class by a migration",
                code.main_module, class.class_name, class.class_name
            );
            return Err(Failure::new(errors::START_UP, message));
        }
    }
    for (name, binding) in &code.bindings {
        if let Binding::Service {
            worker: None,
            entrypoint: Some(entrypoint),
            ..
        } = binding
            && !surface.entrypoints.contains(entrypoint)
        {
            let message = format!(
                "the main module {} does not export the entrypoint {entrypoint}, which the binding {name} names",
                code.main_module
            );
            return Err(Failure::new(errors::START_UP, message));
        }
    }
    Ok(())
}

/// An outside with nothing in it: a program that is only checked reaches nobody.
struct Nowhere;

fn nobody() -> EventError {
    EventError::new("The program is only being checked; nothing outside of it can be reached.")
}

impl World for Nowhere {
    fn send_to_cell(&self, _cell: &CellId, _name: Option<&str>, event: CellEvent) {
        // Dropping a reply tells the caller that nobody is there.
        drop(event);
    }

    fn send_to_worker(&self, _from: &Arc<WorkerCode>, _worker: Option<&str>, event: WorkerEvent) {
        drop(event);
    }

    fn fetch(&self, _request: HttpRequest, reply: Reply<HttpResponse>) {
        reply.send(Err(nobody()));
    }

    fn append(&self, _commit: Commit) -> Lsn {
        Lsn::new(1)
    }

    fn durable(&self) -> Lsn {
        Lsn::new(0)
    }

    fn when_durable(&self, _lsn: Lsn, then: OnDurable) {
        then(Err(nobody()));
    }

    fn adopt_socket(&self, _cell: &CellId, _socket: Arc<CellSocket>, _incoming: SocketReceiver) {}

    fn console(&self, line: ConsoleLine) {
        tracing::info!(level = line.level, worker = line.worker, "{}", line.text);
    }

    fn host_lost(&self, _host: HostId, why: EventError) {
        tracing::debug!(%why, "the isolate of the check ended");
    }

    fn cell_lost(&self, _host: HostId, _cell: &CellId) {}

    fn limit_broken(&self, _cell: &CellId, _limit: celld_core::CellLimit) {}
    fn host_load(&self, _host: HostId, _waiting_events: usize) {}
}
