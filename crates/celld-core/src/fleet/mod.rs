//! What a fleet decides: who may write what, and what is proven.
//!
//! Pure like the rest of this crate: events and answers go in, requests come out, times are
//! arguments. One file per machine:
//!
//! - [`register`]: one bucket object under conditional writes, driven to a definite end;
//! - [`lease`]: a session's hold on its own record;
//! - [`takeover`]: fencing off a session that is dead or seems so.
//!
//! Nothing here compares the clocks of two machines. An owner counts from before it asked, on its
//! own clock; who must outlast the owner counts from after it answered, on its own clock, and adds
//! what the two may drift apart.

pub mod config;
pub mod ids;
pub mod lease;
pub mod register;
mod sabotage;
pub mod session;
pub mod stop;
pub mod takeover;

#[cfg(test)]
mod lease_tests;
