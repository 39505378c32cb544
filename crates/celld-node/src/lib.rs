//! A node: listeners, the core's thread, isolates, bucket and log, put together.
//!
//! [`Node::start`] opens everything; [`NodeHandle`] is how the rest of the process speaks to it.
//! Decisions are `celld-core`'s; this crate carries them out.

pub mod assets;
mod cells;
mod clock;
mod config;
mod console;
pub mod front;
mod hosts;
mod internal;
mod node;
pub mod outbound;
mod refuse;
mod routes;
mod scratch;
mod shared;
mod shell;
mod workers;
mod world;

pub use cells::{CellError, RecordError};
pub use config::NodeConfig;
pub use console::{ConsoleSink, Notice, TracingSink};
pub use hosts::{HostFactory, IsolateHosts};
pub use node::{Drained, Node, NodeHandle, StartError};
