//! The public listener over real TCP, with real HTTP and WebSocket clients.
// Clippy lets only the test functions themselves unwrap, not their helpers.
#![allow(clippy::unwrap_used)]

mod errors;
mod frames;
mod hostile;
mod http1;
mod http2;
mod internal;
mod lifetime;
mod streams;
mod support;
mod websocket;
