//! The server as a stranger sees it: real HTTP and WebSockets over loopback, against a real recording.

mod answers;
mod bad_input;
mod listening;
mod matrix;
mod schema;
mod second_origin;
mod support;
mod typescript;
mod websocket;
