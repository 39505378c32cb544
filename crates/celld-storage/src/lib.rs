//! celld-storage.
