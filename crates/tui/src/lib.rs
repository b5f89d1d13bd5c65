//! The view behind `ortscope top`: the machine, its processes and the inference sessions that are observed, in a
//! terminal, over the live memory ([`ortscope_core::live::LiveView`]) that somebody else feeds.
//!
//! One direction again: `model` makes a snapshot of the memory, `state` holds what the user chose by `keys`,
//! `draw` makes a frame of both. Only `run.rs` and `terminal.rs` know that there is a terminal, so everything
//! else is tested without one. The view reads; it never paces what is observed.
//!
//! What the memory does not hold (names, parents, own cost) the program answers through [`ProcessFacts`] and
//! [`OwnFigures`].

mod app;
mod draw;
mod facts;
mod glyphs;
mod keys;
mod model;
mod once;
mod options;
mod run;
mod state;
mod terminal;
#[cfg(test)]
mod tests;
mod text;

pub use facts::{NoFacts, OwnCost, OwnFigures, ProcessFacts, TerminalWatch, ThreadFacts};
pub use glyphs::Glyphs;
pub use model::{Column, Filter};
pub use once::{SCHEMA, once, once_text};
pub use options::TopOptions;
pub use run::run;
