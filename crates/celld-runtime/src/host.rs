//! Isolate hosts: one OS thread that owns one V8 isolate.

use celld_core::HostId;
use tokio::sync::mpsc;

use crate::api::{HostConfig, HostMessage};
use crate::exchange::EventError;
use crate::isolate::Isolate;

/// Stack of a host's thread, in bytes. V8 allows scripts about 1 MiB of it.
const STACK_BYTES: usize = 4 << 20;

/// Sends to a host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HostHandle {
    id: HostId,
    sender: mpsc::UnboundedSender<HostMessage>,
}

impl HostHandle {
    /// The host's number.
    pub fn id(&self) -> HostId {
        self.id
    }

    #[expect(
        clippy::result_large_err,
        reason = "a refused message goes back to its sender whole"
    )]
    /// Puts a message into the host's mailbox; gives it back when the host has ended.
    pub fn send(&self, message: HostMessage) -> Result<(), HostMessage> {
        self.sender.send(message).map_err(|refused| refused.0)
    }

    /// A handle and the mailbox behind it, for hosts that tests make up.
    pub fn new(id: HostId) -> (Self, mpsc::UnboundedReceiver<HostMessage>) {
        let (sender, mailbox) = mpsc::unbounded_channel();
        (Self { id, sender }, mailbox)
    }
}

/// Called with what the Worker offers, or with why it cannot be loaded.
pub type OnReady = Box<dyn FnOnce(Result<WorkerSurface, EventError>) + Send>;

/// Starts a host's thread. `ready` is told when the isolate has loaded the code, or why it could not.
pub fn start_host(config: HostConfig, ready: OnReady) -> HostHandle {
    let (handle, mailbox) = HostHandle::new(config.id);
    let id = config.id;
    let world = config.world.clone();
    let started = std::thread::Builder::new()
        .name(format!("celld-host-{id}"))
        .stack_size(STACK_BYTES)
        .spawn(move || {
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run(config, mailbox, ready)
            }));
            if outcome.is_err() {
                world.host_lost(
                    id,
                    EventError::reset("An isolate host failed. Its objects were reset."),
                );
            }
        });
    if let Err(error) = started {
        tracing::error!(%error, "cannot start a thread for an isolate: raise the limit on threads");
    }
    handle
}

fn run(config: HostConfig, mailbox: mpsc::UnboundedReceiver<HostMessage>, ready: OnReady) {
    let local = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = match local {
        Ok(runtime) => runtime,
        Err(error) => {
            ready(Err(EventError::new(format!(
                "cannot start an isolate: {error}"
            ))));
            return;
        }
    };
    let set = tokio::task::LocalSet::new();
    set.block_on(&runtime, async move {
        match Isolate::load(config).await {
            Ok((isolate, surface)) => {
                ready(Ok(surface));
                isolate.serve(mailbox).await;
            }
            Err(error) => ready(Err(error)),
        }
    });
}

/// What a Worker's main module offers; known once an isolate has loaded it.
#[derive(Clone, Debug, Default)]
pub struct WorkerSurface {
    /// Handler names of the default export (`fetch`, `scheduled`, …).
    pub handlers: Vec<String>,
    /// Exported classes that extend `DurableObject`, or are named by a binding.
    pub durable_classes: Vec<String>,
    /// Exported entrypoints other than the default one.
    pub entrypoints: Vec<String>,
}
