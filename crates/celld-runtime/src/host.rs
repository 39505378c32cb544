//! Isolate hosts: one OS thread that owns one V8 isolate.

use celld_core::HostId;

use crate::api::{HostConfig, HostMessage};

/// Sends to a host. Cheap to clone.
#[derive(Clone, Debug)]
pub struct HostHandle {
    id: HostId,
    sender: tokio::sync::mpsc::UnboundedSender<HostMessage>,
}

impl HostHandle {
    /// The host's number.
    pub fn id(&self) -> HostId {
        self.id
    }

    /// Puts a message into the host's mailbox; gives it back when the host has ended.
    pub fn send(&self, message: HostMessage) -> Result<(), HostMessage> {
        self.sender.send(message).map_err(|refused| refused.0)
    }
}

/// Starts a host's thread. `ready` is told when the isolate has loaded the code, or why it could not.
pub fn start_host(
    config: HostConfig,
    ready: Box<dyn FnOnce(Result<WorkerSurface, crate::exchange::EventError>) + Send>,
) -> HostHandle {
    let _ = (config, ready);
    unimplemented!("isolate hosts are being written")
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
