//! RPC sessions: what the two ends of a remote call say to each other, and the mailboxes between.

pub mod frame;
pub mod session;
