//! The server as a stranger sees it: real HTTP and WebSockets over loopback, against a real recording.

mod answers;
mod bad_input;
mod matrix;
mod support;
mod websocket;
