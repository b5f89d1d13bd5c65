//! One module per command.

pub mod attach;
pub mod bench_etl;
pub mod bench_overhead;
pub mod bench_profile_json;
pub mod bench_sampler;
pub mod bench_store;
pub mod bench_trust;
pub mod completions;
pub mod config;
pub mod doctor;
pub mod etl;
pub mod export;
pub mod import;
pub mod inspect;
pub mod record;
pub mod report;
pub mod run;
pub mod runs;
pub mod top;
