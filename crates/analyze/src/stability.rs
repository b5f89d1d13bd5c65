//! How far a measurement can be trusted, in one word and one line.
//!
//! The limits follow from what the numbers are used for: comparisons work with a margin of 2 % on p50, so a drift
//! above 2 % or a p50 known only to 5 % is poor, and half of that is fair.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drift::Drift;
use crate::outliers::Outliers;
use crate::percentile::Percentile;
use crate::warmup::{WarmUp, WarmUpVerdict};

/// Measured noise, and the verdict on it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stability {
    pub verdict: Verdict,
    /// Correlation of each run with the next, −1 to 1, with outliers clipped; `None` for fewer than three or equal runs.
    pub lag1_autocorrelation: Option<f64>,
    /// Change from the first to the second half after warm-up, 0.02 for 2 % slower.
    pub drift: Option<f64>,
    /// How many consecutive runs are worth one independent run for p50.
    pub noise_factor: f64,
    /// One line for people.
    pub reason: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Good,
    Fair,
    Poor,
    /// The latency still changes after any warm-up: no single number describes it.
    NoSteadyState,
    /// Fewer than 20 runs: not enough to judge.
    TooFewRuns,
}

/// The inputs of the verdict.
pub(crate) struct Evidence<'a> {
    pub warm_up: &'a WarmUp,
    pub drift: Option<Drift>,
    pub p50: Option<&'a Percentile>,
    pub lag1_autocorrelation: Option<f64>,
    pub outliers: &'a Outliers,
    /// Interquartile range over the median.
    pub relative_iqr: f64,
}

pub(crate) fn judge(evidence: &Evidence<'_>) -> Stability {
    let (verdict, reason) = verdict(evidence);
    Stability {
        verdict,
        lag1_autocorrelation: evidence.lag1_autocorrelation,
        drift: evidence.drift.map(|drift| drift.ratio),
        noise_factor: evidence.p50.map_or(1.0, |p50| p50.noise_factor),
        reason,
    }
}

fn verdict(evidence: &Evidence<'_>) -> (Verdict, String) {
    match evidence.warm_up.verdict {
        WarmUpVerdict::TooFewRuns => return (Verdict::TooFewRuns, "too few runs to judge".to_owned()),
        WarmUpVerdict::NoSteadyState { drift } => {
            let direction = if drift > 0.0 { "slower" } else { "faster" };
            let reason = format!("runs still get {direction}: {} between the halves", percent(drift.abs()));
            return (Verdict::NoSteadyState, reason);
        }
        WarmUpVerdict::None | WarmUpVerdict::Cut => {}
    }
    // The first exceeded limit is the reason: poor ones before fair ones, the most informative first.
    let complaints = complaints(evidence);
    let worst =
        |poor: bool| complaints.iter().find(|complaint| if poor { complaint.poor } else { complaint.fair });
    if let Some(complaint) = worst(true) {
        return (Verdict::Poor, complaint.text.clone());
    }
    if let Some(complaint) = worst(false) {
        return (Verdict::Fair, complaint.text.clone());
    }
    (Verdict::Good, "steady".to_owned())
}

struct Complaint {
    fair: bool,
    poor: bool,
    text: String,
}

fn complaints(evidence: &Evidence<'_>) -> Vec<Complaint> {
    let complaint = |value: f64, fair: f64, poor: f64, text: String| Complaint {
        fair: value > fair,
        poor: value > poor,
        text,
    };
    let drift = evidence.drift.map_or(0.0, |drift| drift.ratio);
    // Without a finite interval p50 is known to no precision at all.
    let half_width = evidence.p50.and_then(Percentile::relative_half_width).unwrap_or(1.0);
    let noise = evidence.p50.map_or(1.0, |p50| p50.noise_factor);
    let iqr = evidence.relative_iqr;
    let time = evidence.outliers.share_of_time;
    let mut complaints = vec![
        complaint(drift.abs(), 0.02, 0.05, format!("drift of {} between the halves", percent(drift))),
        complaint(half_width, 0.01, 0.05, format!("p50 known only to ± {}", percent(half_width))),
        complaint(time, 0.02, 0.05, format!("outliers take {} of the time", percent(time))),
        complaint(iqr, 0.1, 0.3, format!("half of the runs spread over {} of the median", percent(iqr))),
        complaint(
            noise,
            20.0,
            f64::INFINITY,
            format!("{noise:.0} runs in a row are worth one independent run"),
        ),
    ];
    if evidence.warm_up.at_limit {
        let text = "warm-up takes half of the runs: measure longer".to_owned();
        complaints.push(Complaint { fair: true, poor: false, text });
    }
    complaints
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Correlation of each run with the next. Runs are clipped at 4.5 MAD (three standard deviations) first: one outlier
/// in a thousand would otherwise hide the correlation of the rest.
pub(crate) fn lag1_autocorrelation(in_time_order: &[u64], median: f64, mad: f64) -> Option<f64> {
    if in_time_order.len() < 3 {
        return None;
    }
    let limit = 4.4478 * mad;
    let clipped = |nanos: &u64| (*nanos as f64 - median).clamp(-limit, limit);
    let mean = in_time_order.iter().map(clipped).sum::<f64>() / in_time_order.len() as f64;
    let (mut square, mut product, mut previous) = (0.0, 0.0, 0.0);
    for nanos in in_time_order {
        let value = clipped(nanos) - mean;
        square += value * value;
        product += value * previous;
        previous = value;
    }
    let correlation = product / square;
    correlation.is_finite().then_some(correlation)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn autocorrelation_of_known_series() {
        let alternating: Vec<u64> = (0..1000).map(|run| 100 + run % 2 * 10).collect();
        assert!((lag1_autocorrelation(&alternating, 105.0, 5.0).unwrap() + 1.0).abs() < 0.01);
        let slow: Vec<u64> = (0..1000).map(|run| 100 + run / 100).collect();
        assert!(lag1_autocorrelation(&slow, 104.5, 2.5).unwrap() > 0.95);
        assert_eq!(lag1_autocorrelation(&[5; 10], 5.0, 0.0), None);
        assert_eq!(lag1_autocorrelation(&[5, 6], 5.5, 0.5), None);
    }
}
