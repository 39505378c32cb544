//! The V8 start-up snapshot that holds the whole Workers API layer.

/// The snapshot, for `celld_runtime::api::HostConfig`.
pub static SNAPSHOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/celld.snapshot"));
