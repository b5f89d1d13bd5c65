//! Percentiles and jitter of a latency series.

use ortscope_analyze::LatencySummary;
use schemars::JsonSchema;
use serde::Serialize;

/// Latency percentiles in milliseconds; `null` if there are too few inferences.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct Percentiles {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
}

impl Percentiles {
    pub(super) fn named(&self) -> [(&'static str, Option<f64>); 5] {
        [("p50", self.p50), ("p90", self.p90), ("p95", self.p95), ("p99", self.p99), ("p99_9", self.p99_9)]
    }
}

/// Percentiles and jitter of one latency series.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
pub struct LatencyFigures {
    pub percentiles: Percentiles,
    /// Interquartile range of the latencies, in milliseconds.
    pub jitter: Option<f64>,
    /// Number of runs that each missing percentile needs.
    #[serde(skip)]
    pub needs_runs: Vec<(&'static str, u64)>,
}

impl From<&LatencySummary> for LatencyFigures {
    fn from(summary: &LatencySummary) -> Self {
        let mut needs_runs = Vec::new();
        let mut value = |p: f64, name: &'static str| {
            let percentile = summary.percentile(p)?;
            if percentile.value_ns.is_none() {
                needs_runs.push((name, percentile.needs_runs));
            }
            percentile.value_ns.map(|nanos| nanos as f64 / 1e6)
        };
        let percentiles = Percentiles {
            p50: value(0.5, "p50"),
            p90: value(0.9, "p90"),
            p95: value(0.95, "p95"),
            p99: value(0.99, "p99"),
            p99_9: value(0.999, "p99_9"),
        };
        Self { percentiles, jitter: Some(summary.jitter.iqr_ms), needs_runs }
    }
}

impl LatencyFigures {
    pub(super) fn why(&self, name: &str) -> String {
        match self.needs_runs.iter().find(|(missing, _)| *missing == name) {
            Some((_, runs)) => format!("needs at least {runs} inferences"),
            None => "it was not computed".to_owned(),
        }
    }
}
