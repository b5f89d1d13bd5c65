//! The view behind `ortscope top`: the machine, its processes and the observed inference sessions, in a terminal,
//! over a live memory ([`ortscope_core::live::LiveView`]).
//!
//! Data flows one way: `model` takes a snapshot of the memory, `state` holds the user's choices made by `keys`,
//! `draw` makes a frame of both. Only `run.rs` and `terminal.rs` depend on a terminal, so everything else is tested
//! without one. The view only reads; it never paces the observation.
//!
//! Facts that the memory does not hold (names, parents, own cost) come through [`ProcessFacts`] and [`OwnFigures`].
//! [`KnownProcesses`] collects them from rows; [`Remote`] fills both from the API of another machine's `ortscope
//! serve`.

mod app;
mod draw;
mod facts;
mod glyphs;
mod keys;
mod known_processes;
mod model;
mod once;
mod options;
mod remote;
mod run;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod text;

pub use facts::{NoFacts, OwnCost, OwnFigures, ProcessFacts, TerminalWatch, ThreadFacts};
pub use glyphs::Glyphs;
pub use known_processes::KnownProcesses;
pub use model::{Column, Filter};
pub use once::{SCHEMA, once, once_text};
pub use options::TopOptions;
pub use remote::{Remote, RemoteError, RemoteErrorKind, RemoteOptions};
pub use run::run;
