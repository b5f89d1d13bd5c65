//! The server from the outside: real HTTP and WebSockets over loopback, with a real recording.

mod answers;
mod bad_input;
mod listening;
mod matrix;
mod schema;
mod second_origin;
mod support;
mod typescript;
mod websocket;
