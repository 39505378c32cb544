//! The `celld` binary.
fn main() {}
