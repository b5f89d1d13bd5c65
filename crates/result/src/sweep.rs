//! Comparisons of several runs of one command, and the clock that measured them.

use ortscope_analyze::batch_sweep::BatchSweep;
use ortscope_analyze::clock_cost::clock_cost;
use ortscope_analyze::recommend::Recommendation;
use ortscope_core::clock::{clock_name, now_ns};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClockReport {
    pub name: String,
    /// The smallest step seen.
    pub resolution_ns: Option<u64>,
    /// The cost of one reading.
    pub cost_ns: Option<f64>,
    /// Digits below twice this are not shown.
    pub noise_ns: Option<f64>,
}

impl ClockReport {
    /// Reads the clock many times.
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
            name: clock_name().to_owned(),
            resolution_ns: cost.and_then(|cost| cost.resolution_ns),
            cost_ns: cost.map(|cost| cost.cost_ns),
            noise_ns: cost.map(|cost| cost.noise_ns),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
pub struct BatchSweepReport {
    pub analysis: BatchSweep,
    /// Batch sizes that could not be measured, and why.
    pub failed: Vec<FailedBatch>,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct FailedBatch {
    pub batch: u64,
    pub reason: String,
}

#[derive(Debug, Serialize, Deserialize)]
pub struct SweepReport {
    pub analysis: Recommendation,
    /// The command that uses the recommended settings; none when the defaults are best.
    pub command: Option<String>,
}
