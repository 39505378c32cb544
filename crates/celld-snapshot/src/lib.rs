//! The V8 start-up snapshot that holds the whole Workers API layer.
