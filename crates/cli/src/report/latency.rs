//! Latency figures under the names and units of the wire: milliseconds, `p50` … `p99_9`.

use std::collections::BTreeMap;

use ortscope_analyze::outliers::Outliers;
use ortscope_analyze::stability::Stability;
use ortscope_analyze::summary::{Jitter, WarmUpChoice};
use ortscope_analyze::{LatencySummary, Percentile, SummaryOptions, summarize};
use serde::Serialize;

/// One series of latencies.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyReport {
    pub runs: usize,
    pub mean_ms: f64,
    pub median_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    pub std_ms: Option<f64>,
    /// `null` where too few runs were made; `needs_runs` says how many it takes.
    pub percentiles: BTreeMap<&'static str, Option<f64>>,
    /// 95 % intervals; an upper end of `null` is unknown.
    pub intervals: BTreeMap<&'static str, [Option<f64>; 2]>,
    pub needs_runs: BTreeMap<&'static str, u64>,
    pub noise_factor: f64,
    pub jitter: Jitter,
    pub outliers: Outliers,
    pub stability: Stability,
    /// For the text report.
    #[serde(skip)]
    pub raw: Vec<Percentile>,
}

/// The wire names of the reported percentiles.
pub const NAMES: [(f64, &str); 5] =
    [(0.5, "p50"), (0.9, "p90"), (0.95, "p95"), (0.99, "p99"), (0.999, "p99_9")];

impl LatencyReport {
    /// `None` when there are no runs.
    pub fn of(series: &[u64], warm_up: WarmUpChoice) -> Option<(Self, LatencySummary)> {
        let summary = summarize(series, SummaryOptions { warm_up })?;
        Some((Self::from_summary(&summary), summary))
    }

    fn from_summary(summary: &LatencySummary) -> Self {
        let mut report = Self {
            runs: summary.n,
            mean_ms: summary.mean_ms,
            median_ms: summary.median_ms,
            min_ms: summary.min_ms,
            max_ms: summary.max_ms,
            std_ms: summary.std_ms,
            percentiles: BTreeMap::new(),
            intervals: BTreeMap::new(),
            needs_runs: BTreeMap::new(),
            noise_factor: 1.0,
            jitter: summary.jitter,
            outliers: summary.outliers.clone(),
            stability: summary.stability.clone(),
            raw: summary.percentiles.clone(),
        };
        for (p, name) in NAMES {
            let Some(percentile) = summary.percentile(p) else {
                continue;
            };
            report.percentiles.insert(name, percentile.value_ns.map(ms));
            match percentile.value_ns {
                Some(_) => {
                    let ends = [percentile.low_ns.map(ms), percentile.high_ns.map(ms)];
                    report.intervals.insert(name, ends);
                }
                None => {
                    report.needs_runs.insert(name, percentile.needs_runs);
                }
            }
            if name == "p50" {
                report.noise_factor = percentile.noise_factor;
            }
        }
        report
    }

    pub fn percentile(&self, p: f64) -> Option<&Percentile> {
        self.raw.iter().find(|percentile| (percentile.p - p).abs() < 1e-9)
    }
}

/// Percentiles alone, for series that get no full report.
pub fn by_name(percentiles: &[Percentile]) -> BTreeMap<&'static str, Option<f64>> {
    NAMES
        .iter()
        .filter_map(|(p, name)| {
            let percentile = percentiles.iter().find(|percentile| (percentile.p - p).abs() < 1e-9)?;
            Some((*name, percentile.value_ns.map(ms)))
        })
        .collect()
}

pub fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
