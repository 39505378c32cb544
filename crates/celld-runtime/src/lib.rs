//! Isolate hosts: V8 isolates on threads of their own, and the Workers API inside them.

pub mod api;
pub mod code_cache;
pub mod exchange;
pub mod host;
pub mod socket;
pub mod socket_pump;
