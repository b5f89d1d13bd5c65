//! One module per command.

pub mod bench_overhead;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod inspect;
pub mod run;
