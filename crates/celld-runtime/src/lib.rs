//! Isolate hosts: V8 isolates on threads of their own, and the Workers API inside them.

pub mod api;
pub mod code_cache;
mod compat;
pub mod exchange;
mod extension;
mod gates;
pub mod host;
mod isolate;
mod loader;
mod memory;
mod meter;
mod ops;
pub mod pulse;
pub mod rpc;
pub mod socket;
pub mod socket_channel;
pub mod socket_pump;
mod state;
mod watch;

pub use extension::{SnapshotError, create_snapshot};

/// Starts V8 for the whole process. To be called once, on the main thread, before any other
/// thread exists: V8 protects its memory with keys that threads inherit.
pub fn initialize() {
    deno_core::JsRuntime::init_platform(None);
}
