//! The public listener over real TCP, with real HTTP and WebSocket clients.

mod errors;
mod http1;
mod http2;
mod lifetime;
mod streams;
mod support;
mod websocket;
