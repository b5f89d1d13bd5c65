//! The metrics that can be judged, the changes that matter, and the decisions.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A figure of a block that a verdict can be about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    P50,
    P90,
    P99,
    /// Requests per second.
    Throughput,
    /// Peak of the process.
    Memory,
    /// Joules per inference.
    Energy,
    /// Wall time of a whole command.
    Time,
}

/// Every metric, in the order of reports.
pub const METRICS: [Metric; 7] =
    [Metric::P50, Metric::P90, Metric::P99, Metric::Throughput, Metric::Memory, Metric::Energy, Metric::Time];

impl Metric {
    pub fn name(self) -> &'static str {
        match self {
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Throughput => "throughput",
            Self::Memory => "memory",
            Self::Energy => "energy",
            Self::Time => "time",
        }
    }

    /// The default change that matters, as a ratio. Tails vary more, so their margin is larger.
    pub fn default_margin(self) -> f64 {
        match self {
            Self::P50 | Self::Time => 0.02,
            Self::P90 | Self::Throughput | Self::Energy => 0.05,
            Self::P99 => 0.10,
            Self::Memory => 0.01,
        }
    }

    pub fn higher_is_better(self) -> bool {
        self == Self::Throughput
    }

    /// The quantile of latency that it is.
    pub fn quantile(self) -> Option<f64> {
        match self {
            Self::P50 => Some(0.5),
            Self::P90 => Some(0.9),
            Self::P99 => Some(0.99),
            _ => None,
        }
    }

    /// How much worse `b` is than `a`, as a logarithm: positive is worse for every metric. `None` unless both are
    /// positive numbers.
    pub fn log_cost_ratio(self, a: f64, b: f64) -> Option<f64> {
        let ratio = if self.higher_is_better() { (a / b).ln() } else { (b / a).ln() };
        (a > 0.0 && b > 0.0 && ratio.is_finite()).then_some(ratio)
    }

    /// The change of the metric itself for a log cost ratio: −0.05 for a throughput that dropped by 5 %.
    pub fn change_of(self, log_cost_ratio: f64) -> f64 {
        if self.higher_is_better() { (-log_cost_ratio).exp_m1() } else { log_cost_ratio.exp_m1() }
    }

    /// The log cost ratio of a change for the worse by `margin`.
    pub fn log_margin(self, margin: f64) -> f64 {
        if self.higher_is_better() { -(-margin).ln_1p() } else { margin.ln_1p() }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let name = text.trim().to_ascii_lowercase();
        if name == "p99.9" || name == "p99_9" {
            return Err("p99.9 is never judged: it takes thousands of runs per block to say anything".into());
        }
        METRICS.into_iter().find(|metric| metric.name() == name).ok_or_else(|| {
            let known: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
            format!("'{text}' is no metric: use {}", known.join(", "))
        })
    }
}

/// A metric that is to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct MetricPlan {
    pub metric: Metric,
    /// The change that matters; a ratio above 0 and below 1.
    pub margin: f64,
}

impl MetricPlan {
    pub fn usual(metric: Metric) -> Self {
        Self { metric, margin: metric.default_margin() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Not worse by the margin or more.
    Pass,
    /// Worse by more than the margin.
    Regression,
    /// Better by more than the margin.
    Improvement,
    /// The bounds lie on both sides of the margin: more rounds, or a quieter machine, could decide.
    Inconclusive,
}

impl Verdict {
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Regression => "regression",
            Self::Improvement => "improvement",
            Self::Inconclusive => "inconclusive",
        }
    }

    /// The verdict over several metrics: the worst counts; an improvement only when nothing is unknown.
    pub fn of_all(verdicts: impl IntoIterator<Item = Self>) -> Option<Self> {
        let severity = |verdict: &Self| match verdict {
            Self::Pass => 0,
            Self::Improvement => 1,
            Self::Inconclusive => 2,
            Self::Regression => 3,
        };
        verdicts.into_iter().max_by_key(severity)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Result for one metric. Changes are of the metric itself: 0.05 is 5 % more of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricVerdict {
    pub metric: Metric,
    pub margin: f64,
    pub verdict: Verdict,
    /// Rounds, or recordings of the smaller side, behind it.
    pub rounds: usize,
    /// Median of the blocks of each side, in the unit of the metric.
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// Hodges-Lehmann estimate.
    pub change: Option<f64>,
    /// Ends of the interval; each end is wrong with the probability `alpha`.
    pub low: Option<f64>,
    pub high: Option<f64>,
    pub alpha: f64,
    /// Of "not worse than the margin"; small speaks for a regression. Not corrected for other metrics.
    pub p_regression: Option<f64>,
    /// Why there is no verdict, if the cause is not noise.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_unknown_ones_are_rejected() {
        for metric in METRICS {
            assert_eq!(metric.name().parse(), Ok(metric));
        }
        assert!("p99.9".parse::<Metric>().unwrap_err().contains("never judged"));
        assert!("speed".parse::<Metric>().unwrap_err().contains("p50, p90"));
    }

    #[test]
    fn worse_is_positive_for_every_metric() {
        for metric in METRICS {
            let (a, b) = if metric.higher_is_better() { (100.0, 90.0) } else { (90.0, 100.0) };
            let worse = metric.log_cost_ratio(a, b).unwrap();
            assert!(worse > 0.0, "{metric}");
            assert!((metric.change_of(worse) - (b / a - 1.0)).abs() < 1e-12, "{metric}");
        }
        // A throughput that dropped by exactly its margin is at the margin.
        let lost = Metric::Throughput.log_cost_ratio(100.0, 95.0).unwrap();
        assert!((lost - Metric::Throughput.log_margin(0.05)).abs() < 1e-12);
        assert_eq!(Metric::P50.log_cost_ratio(0.0, 1.0), None);
        assert_eq!(Metric::P50.log_cost_ratio(1.0, f64::NAN), None);
    }

    #[test]
    fn the_worst_verdict_counts() {
        use Verdict::{Improvement, Inconclusive, Pass, Regression};
        assert_eq!(Verdict::of_all([Pass, Improvement]), Some(Improvement));
        assert_eq!(Verdict::of_all([Improvement, Inconclusive]), Some(Inconclusive));
        assert_eq!(Verdict::of_all([Inconclusive, Regression, Pass]), Some(Regression));
        assert_eq!(Verdict::of_all([]), None);
    }
}
