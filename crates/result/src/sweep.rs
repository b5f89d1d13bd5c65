//! Comparisons of several runs of one command, and the clock that measured them.

use std::collections::BTreeMap;

use ortscope_analyze::batch_sweep::{BatchPoint, BatchSweep, batch_sweep};
use ortscope_analyze::clock_cost::clock_cost;
use ortscope_analyze::recommend::{Goal, Recommendation, SettingsRow, recommend};
use ortscope_core::clock::{clock_name, now_ns};
use serde::{Deserialize, Serialize};

use crate::RunResult;

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

impl BatchSweepReport {
    /// The sweep over these batch sizes, one result each.
    pub fn new(batches: &[u64], results: &[RunResult]) -> Self {
        let (mut points, mut failed) = (Vec::new(), Vec::new());
        for (batch, result) in batches.iter().zip(results) {
            let p50 =
                result.latency.as_ref().and_then(|latency| latency.inference.percentile("p50")?.value_ns);
            match p50 {
                Some(p50_ns) => points.push(BatchPoint {
                    batch: *batch,
                    p50_ns,
                    memory_bytes: result.memory.peak_bytes,
                    runs: result.measured_runs(),
                }),
                None => {
                    let reason = result.failure.as_ref().map_or("too few runs", |failure| &failure.message);
                    failed.push(FailedBatch { batch: *batch, reason: reason.to_owned() });
                }
            }
        }
        Self { analysis: batch_sweep(&points), failed }
    }
}

impl SweepReport {
    /// The sweep over settings, one result for each, with whether they are the default ones.
    pub fn new(
        settings: impl Iterator<Item = (BTreeMap<String, String>, bool)>,
        results: &[RunResult],
        goal: Goal,
    ) -> Self {
        let row =
            |((settings, is_default), result): ((BTreeMap<String, String>, bool), &RunResult)| SettingsRow {
                label: result.label.clone().unwrap_or_default(),
                settings,
                is_default,
                p50: result.latency.as_ref().and_then(|latency| latency.inference.percentile("p50")),
                throughput_per_second: result.throughput.as_ref().map(|found| found.requests_per_second),
                peak_memory_bytes: result.memory.peak_bytes,
                failed: result.failure.as_ref().map(|failure| failure.message.clone()),
            };
        let rows: Vec<SettingsRow> = settings.zip(results).map(row).collect();
        Self { analysis: recommend(&rows, goal), command: None }
    }
}
