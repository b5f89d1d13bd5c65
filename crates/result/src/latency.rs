//! Latency figures under the names and units of the wire: milliseconds, `p50` … `p99_9`.

use std::collections::BTreeMap;

use ortscope_analyze::outliers::Outliers;
use ortscope_analyze::stability::Stability;
use ortscope_analyze::summary::Jitter;
use ortscope_analyze::{LatencySummary, Percentile};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One series of latencies, as in `ortscope.run/1`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyReport {
    /// After the warm-up.
    pub runs: u64,
    pub mean_ms: f64,
    pub median_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub std_ms: Option<f64>,
    /// `null` where too few runs were made; `needs_runs` says how many it takes.
    pub percentiles: BTreeMap<String, Option<f64>>,
    /// 95 % intervals; an upper end of `null` is unknown.
    pub intervals: BTreeMap<String, [Option<f64>; 2]>,
    pub needs_runs: BTreeMap<String, u64>,
    pub noise_factor: f64,
    pub jitter: Jitter,
    pub outliers: Outliers,
    pub stability: Stability,
}

/// The wire names of the reported percentiles.
pub(super) const NAMES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99_9")];

impl LatencyReport {
    pub fn from_summary(summary: &LatencySummary) -> Self {
        let mut report = Self {
            runs: summary.n as u64,
            mean_ms: summary.mean_ms,
            median_ms: summary.median_ms,
            min_ms: summary.min_ms,
            max_ms: summary.max_ms,
            std_ms: summary.std_ms,
            percentiles: by_name(&summary.percentiles),
            intervals: BTreeMap::new(),
            needs_runs: BTreeMap::new(),
            noise_factor: summary.percentile(0.5).map_or(1.0, |p50| p50.noise_factor),
            jitter: summary.jitter,
            outliers: summary.outliers.clone(),
            stability: summary.stability.clone(),
        };
        for (p, name) in NAMES {
            let Some(percentile) = summary.percentile(p) else { continue };
            if percentile.value_ns.is_some() {
                let ends = [percentile.low_ns.map(ms), percentile.high_ns.map(ms)];
                report.intervals.insert(name.to_owned(), ends);
            } else {
                report.needs_runs.insert(name.to_owned(), percentile.needs_runs);
            }
        }
        report
    }

    /// One of the reported percentiles by its wire name; `None` when it is not known.
    pub fn percentile_ms(&self, name: &str) -> Option<f64> {
        self.percentiles.get(name).copied().flatten()
    }

    /// One of the reported percentiles with its interval, in nanoseconds.
    pub fn percentile(&self, name: &str) -> Option<Percentile> {
        let (p, _) = NAMES.iter().find(|(_, wire)| *wire == name)?;
        let [low_ms, high_ms] = self.interval_ms(name);
        Some(Percentile {
            p: *p,
            value_ns: self.percentiles.get(name)?.map(ns),
            low_ns: low_ms.map(ns),
            high_ns: high_ms.map(ns),
            noise_factor: self.noise_factor,
            needs_runs: self.needs_runs.get(name).copied().unwrap_or(0),
        })
    }

    /// Both ends of the 95 % interval of a percentile, where they are known.
    pub fn interval_ms(&self, name: &str) -> [Option<f64>; 2] {
        self.intervals.get(name).copied().unwrap_or_default()
    }
}

/// Percentiles alone, for series that get no full report.
pub(super) fn by_name(percentiles: &[Percentile]) -> BTreeMap<String, Option<f64>> {
    NAMES
        .iter()
        .filter_map(|(p, name)| {
            let percentile = percentiles.iter().find(|percentile| (percentile.p - p).abs() < 1e-9)?;
            Some(((*name).to_owned(), percentile.value_ns.map(ms)))
        })
        .collect()
}

pub(super) fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}

/// The inverse of [`ms`], exact for durations below 100 days.
fn ns(ms: f64) -> u64 {
    (ms * 1e6).round() as u64
}
