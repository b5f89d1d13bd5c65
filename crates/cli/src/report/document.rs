//! The one JSON document that `ortscope run --json` prints. Described in `docs/JSON.md`.

use ortscope_analyze::batch_sweep::BatchSweep;
use ortscope_analyze::clock_cost::ClockCost;
use ortscope_analyze::recommend::Recommendation;
use ortscope_core::clock::WallAnchor;
use ortscope_sources::MachineFacts;
use serde::Serialize;

use super::result::RunResult;
use crate::exit::Failure;

/// Changes when a field changes its meaning or goes away; new fields do not change it.
pub const SCHEMA: &str = "ortscope.run/1";

#[derive(Debug, Serialize)]
pub struct RunDocument {
    pub schema: &'static str,
    pub ortscope_version: &'static str,
    pub started: WallAnchor,
    pub machine: MachineFacts,
    pub clock: ClockReport,
    pub results: Vec<RunResult>,
    pub batch_sweep: Option<BatchSweepReport>,
    pub sweep: Option<SweepReport>,
    /// Why the command failed, if it did; what was measured before stands in `results`.
    pub failure: Option<Failure>,
}

#[derive(Debug, Clone, Serialize)]
pub struct ClockReport {
    pub name: &'static str,
    /// Smallest step, cost of a reading, and the noise below which no digit is shown.
    pub cost: Option<ClockCost>,
}

#[derive(Debug, Serialize)]
pub struct BatchSweepReport {
    pub analysis: BatchSweep,
    /// Batch sizes that could not be measured, and why.
    pub failed: Vec<(u64, String)>,
}

#[derive(Debug, Serialize)]
pub struct SweepReport {
    pub analysis: Recommendation,
    /// The command that uses the recommended settings.
    pub command: Option<String>,
}
