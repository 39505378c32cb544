//! celld-log.
