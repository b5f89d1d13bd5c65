//! Recordings for people and for other tools.
pub mod report;
