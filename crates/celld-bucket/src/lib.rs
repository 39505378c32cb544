//! celld-bucket.
