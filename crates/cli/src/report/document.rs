//! The one JSON document that `ortscope run --json` prints. Described in `docs/JSON.md`.

use ortscope_analyze::batch_sweep::BatchSweep;
use ortscope_analyze::clock_cost::clock_cost;
use ortscope_analyze::recommend::Recommendation;
use ortscope_core::clock::{clock_name, now_ns};
use ortscope_sources::MachineFacts;
use serde::Serialize;

use super::result::RunResult;
use crate::exit::Failure;
use ortscope_observe::recording::Saved;

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

#[derive(Debug, Clone, Serialize)]
pub struct ClockReport {
    pub name: &'static str,
    /// Smallest step seen.
    pub resolution_ns: Option<u64>,
    /// What one reading costs.
    pub cost_ns: Option<f64>,
    /// Digits below twice this are not shown.
    pub noise_ns: Option<f64>,
}

impl ClockReport {
    /// Reads the clock many times, here and now.
    pub fn measure() -> Self {
        let mut last = now_ns();
        let deltas: Vec<u64> = (0..20_000)
            .map(|_| {
                let now = now_ns();
                let delta = now - last;
                last = now;
                delta
            })
            .collect();
        let cost = clock_cost(&deltas);
        Self {
            name: clock_name(),
            resolution_ns: cost.and_then(|cost| cost.resolution_ns),
            cost_ns: cost.map(|cost| cost.cost_ns),
            noise_ns: cost.map(|cost| cost.noise_ns),
        }
    }
}

#[derive(Debug, Serialize)]
pub struct BatchSweepReport {
    pub analysis: BatchSweep,
    /// Batch sizes that could not be measured, and why.
    pub failed: Vec<FailedBatch>,
}

#[derive(Debug, Serialize)]
pub struct FailedBatch {
    pub batch: u64,
    pub reason: String,
}

#[derive(Debug, Serialize)]
pub struct SweepReport {
    pub analysis: Recommendation,
    /// The command that uses the recommended settings; none when the defaults are best.
    pub command: Option<String>,
}
