//! One series of latencies in full: what `ortscope run` prints and every report repeats.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drift::drift_between_halves;
use crate::order::{ms, quantile_sorted_f64};
use crate::outliers::{Outliers, find_outliers, interquartile_range, median_absolute_deviation};
use crate::percentile::{Percentile, percentiles_of_sorted};
use crate::stability::{Evidence, Stability, judge, lag1_autocorrelation};
use crate::warmup::{FEWEST_RUNS, WarmUp, WarmUpVerdict, detect_with_drift};

/// The percentiles every report shows.
pub const REPORTED_PERCENTILES: [f64; 5] = [0.5, 0.9, 0.95, 0.99, 0.999];

/// How to treat the start of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpChoice {
    /// Find the warm-up and leave it out.
    #[default]
    Detect,
    /// Discard this many runs, as requested by the user.
    Discard(usize),
    /// Keep every run.
    Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SummaryOptions {
    pub warm_up: WarmUpChoice,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LatencySummary {
    /// Runs the figures rest on, without the warm-up.
    pub n: usize,
    pub warm_up: WarmUp,
    pub mean_ms: f64,
    pub median_ms: f64,
    pub min_ms: f64,
    pub max_ms: f64,
    /// Standard deviation; `None` for a single run.
    pub std_ms: Option<f64>,
    /// p50, p90, p95, p99, p99.9.
    pub percentiles: Vec<Percentile>,
    pub jitter: Jitter,
    pub outliers: Outliers,
    pub stability: Stability,
}

impl LatencySummary {
    /// One of the reported percentiles, by its quantile: `percentile(0.99)`.
    pub fn percentile(&self, p: f64) -> Option<&Percentile> {
        self.percentiles.iter().find(|percentile| (percentile.p - p).abs() < 1e-9)
    }
}

/// How much the latency varies from run to run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Jitter {
    /// Interquartile range: the spread of the middle half of the runs.
    pub iqr_ms: f64,
    /// Mean |xᵢ − xᵢ₋₁|, the quantity that RFC 3550 averages for streams; `None` for a single run.
    pub successive_difference_ms: Option<f64>,
    /// `None` when p99 is unknown.
    pub p99_minus_p50_ms: Option<f64>,
    /// `None` when p99.9 is unknown.
    pub p99_9_over_p50: Option<f64>,
}

/// Summarises latencies given in the order in which they were measured; `None` when there are none left.
pub fn summarize(series: &[u64], options: SummaryOptions) -> Option<LatencySummary> {
    let (warm_up, drift) = match options.warm_up {
        WarmUpChoice::Detect => detect_with_drift(series),
        WarmUpChoice::Discard(runs) => chosen(series, runs),
        WarmUpChoice::Keep => chosen(series, 0),
    };
    let kept = series.get(warm_up.discarded..)?;
    let mut sorted = kept.to_vec();
    sorted.sort_unstable();
    let median = quantile_sorted_f64(&sorted, 0.5)?;
    let mad = median_absolute_deviation(&sorted, median);
    let percentiles = percentiles_of_sorted(kept, &sorted, &REPORTED_PERCENTILES);
    let outliers = find_outliers(kept, &sorted, median, mad);
    let iqr = interquartile_range(&sorted) as f64;
    let stability = judge(&Evidence {
        warm_up: &warm_up,
        drift,
        p50: percentiles.first(),
        lag1_autocorrelation: lag1_autocorrelation(kept, median, mad),
        outliers: &outliers,
        relative_iqr: if median > 0.0 { iqr / median } else { 0.0 },
    });
    let (mean, deviation) = mean_and_deviation(kept);
    Some(LatencySummary {
        n: kept.len(),
        mean_ms: ms(mean),
        median_ms: ms(median),
        min_ms: ms(*sorted.first()? as f64),
        max_ms: ms(*sorted.last()? as f64),
        std_ms: deviation.map(ms),
        jitter: jitter(kept, iqr, &percentiles),
        percentiles,
        outliers,
        stability,
        warm_up,
    })
}

/// The warm-up is the user's choice; whether the rest is steady is still judged.
fn chosen(series: &[u64], runs: usize) -> (WarmUp, Option<crate::drift::Drift>) {
    let discarded = runs.min(series.len());
    let rest = &series[discarded..];
    let drift = drift_between_halves(rest).filter(|_| rest.len() >= FEWEST_RUNS);
    let verdict = match drift {
        None => WarmUpVerdict::TooFewRuns,
        Some(drift) if drift.exceeds(crate::warmup::DRIFT_LIMIT) => {
            WarmUpVerdict::NoSteadyState { drift: drift.ratio }
        }
        Some(_) if discarded == 0 => WarmUpVerdict::None,
        Some(_) => WarmUpVerdict::Cut,
    };
    (WarmUp { discarded, at_limit: false, verdict }, drift)
}

fn mean_and_deviation(runs: &[u64]) -> (f64, Option<f64>) {
    let n = runs.len() as f64;
    let sum: u128 = runs.iter().map(|nanos| u128::from(*nanos)).sum();
    let mean = sum as f64 / n;
    let squares: f64 = runs.iter().map(|nanos| (*nanos as f64 - mean).powi(2)).sum();
    (mean, (runs.len() > 1).then(|| (squares / (n - 1.0)).sqrt()))
}

fn jitter(kept: &[u64], iqr: f64, percentiles: &[Percentile]) -> Jitter {
    let value = |p: f64| {
        let found = percentiles.iter().find(|percentile| (percentile.p - p).abs() < 1e-9);
        found.and_then(|percentile| percentile.value_ns).map(|nanos| nanos as f64)
    };
    let differences: f64 = kept.windows(2).map(|pair| pair[1].abs_diff(pair[0]) as f64).sum();
    let p50 = value(0.5);
    Jitter {
        iqr_ms: ms(iqr),
        successive_difference_ms: (kept.len() > 1).then(|| ms(differences / (kept.len() - 1) as f64)),
        p99_minus_p50_ms: value(0.99).zip(p50).map(|(p99, p50)| ms(p99 - p50)),
        p99_9_over_p50: value(0.999).zip(p50).filter(|(_, p50)| *p50 > 0.0).map(|(tail, p50)| tail / p50),
    }
}
