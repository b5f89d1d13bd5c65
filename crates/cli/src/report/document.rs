//! The one JSON document that `ortscope run --json` prints. Described in `docs/JSON.md`.

use ortscope_sources::MachineFacts;
use serde::Serialize;

use crate::exit::Failure;
use ortscope_observe::recording::Saved;
use ortscope_result::{BatchSweepReport, ClockReport, RunResult, SweepReport};

/// Changes when a field changes its meaning or goes away; new fields do not change it.
pub const SCHEMA: &str = "ortscope.run/1";

#[derive(Debug, Serialize)]
pub struct RunDocument {
    pub schema: &'static str,
    pub ortscope_version: &'static str,
    /// Wall time when the command started.
    pub started_unix_ns: u64,
    pub machine: MachineFacts,
    pub clock: ClockReport,
    pub results: Vec<RunResult>,
    pub batch_sweep: Option<BatchSweepReport>,
    pub sweep: Option<SweepReport>,
    /// Where all this is kept; absent with `--no-save`.
    pub recording: Option<Saved>,
    /// Why the command failed, if it did; what was measured before stands in `results`.
    pub failure: Option<Failure>,
}

/// What `--json` prints when a command fails before it has anything to show.
#[derive(Debug, Serialize)]
pub struct ErrorDocument<'a> {
    pub schema: &'static str,
    pub failure: &'a Failure,
}
