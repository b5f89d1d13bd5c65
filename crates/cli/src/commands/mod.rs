//! One module per command.

pub mod attach;
pub mod audit;
pub mod bench;
pub mod compare;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod etl;
pub mod export;
pub mod gate;
pub mod import;
pub mod inspect;
pub mod key;
pub mod record;
pub mod report;
pub mod run;
pub mod runs;
pub mod runs_trend;
pub mod serve;
pub mod token;
pub mod top;
