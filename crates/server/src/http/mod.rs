//! HTTP: connections, the checks that every request goes through, and answers.

pub mod gate;
mod linger;
pub mod listen;
pub mod respond;
