//! The decision core of a node: no I/O, no clock, no randomness, no threads, no locks.
//!
//! Events go in ([`Core::handle_event`], [`Core::handle_time`]), effects come out
//! ([`Core::poll_effect`]), and [`Core::poll_deadline`] says when to come back and why. The node's
//! shell carries effects out and reports what came of them. The same inputs always give the same
//! outputs, so every decision can be simulated.
#![forbid(unsafe_code)]

mod alarms;
mod checkpoints;
mod config;
#[cfg(test)]
mod dice;
mod effect;
mod event;
pub mod fleet;
mod hosts;
mod ids;
mod machine;
mod quarantine;
mod residency;
mod sabotage;
mod scripts;
#[cfg(test)]
mod sim;
#[cfg(test)]
mod tests;
mod time;

pub use alarms::ALARM_RETRIES_MAX;
pub use config::Config;
pub use effect::{Effect, HostRole, Leave, Refusal};
pub use event::{Activity, AlarmEnd, AlarmFound, Event};
pub use ids::*;
pub use machine::{Core, Counts};
pub use quarantine::CellLimit;
pub use time::{MonoMs, Now, WallMs};
