//! What a fleet decides: who may write what, and what is proven.
//!
//! Pure like the rest of this crate: events and answers go in, requests come out, times are
//! arguments. One file per machine:
//!
//! - [`register`]: one bucket object under conditional writes, driven to a definite end;
//! - [`lease`]: a session's hold on its own record;
//! - [`takeover`]: fencing off a session that is dead or seems so;
//! - `log`: the leader's log, its followers, its bundles, and what is proven by them;
//! - `witness`: grants, followed logs and seals, on the other side;
//! - `peers`: who was heard when, and whose grants are held;
//! - `cells`: claims and releases;
//! - [`Fleet`]: all of it together, as one session of a node has it.
//!
//! Nothing here compares the clocks of two machines. An owner counts from before it asked, on its
//! own clock; who must outlast the owner counts from after it answered, on its own clock, and adds
//! what the two may drift apart.

mod cells;
pub mod config;
pub mod ids;
pub mod lease;
mod log;
mod machine;
pub mod message;
mod peers;
pub mod register;
mod sabotage;
pub mod session;
mod steps;
pub mod stop;
pub mod takeover;
mod witness;

pub use cells::CellRecord;
pub use machine::{Fleet, Start};
pub use witness::Followed;

#[cfg(test)]
mod grant_tests;
#[cfg(test)]
mod lease_tests;
#[cfg(test)]
mod model;
#[cfg(test)]
mod sim;
