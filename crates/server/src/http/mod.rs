//! HTTP: connections, the checks that every request goes through, and answers.

mod gate;
mod handle;
mod linger;
pub mod listen;
pub mod page;
mod pages;
pub mod respond;
pub mod who;

pub use gate::router;
