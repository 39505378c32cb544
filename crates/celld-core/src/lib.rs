//! The decision core of a node: no I/O, no clock, no randomness, no threads, no locks.
//!
//! Events go in, effects come out; the node's shell carries effects out.
#![forbid(unsafe_code)]

mod ids;

pub use ids::*;
