//! When an adaptive measurement may stop.
//!
//! The default rule stops when p50 is known to ±1 % and the tail is either bounded or has had ten seconds; the limit
//! is sixty seconds unless the user asks for more. A fixed number of runs or a fixed time replaces the precision
//! rule.
//!
//! The check runs five times a second next to the measurement, so it must be cheap. Above 32,768 runs it uses evenly
//! spaced batches of √n consecutive runs, 32,768 runs in all: the same estimator as [`crate::percentile`], with fewer
//! batches and the matching t quantile.

use serde::{Deserialize, Serialize};

use crate::percentile::{Noise, percentiles_of_sorted, runs_needed};

/// Maximum runs per check.
const MAX_RUNS: usize = 32_768;
/// Minimum batches behind a noise factor; at a billion runs this bounds the cost.
const FEWEST_BATCHES: usize = 16;
/// Runs before the first check: the noise factor of fewer runs is unreliable.
const FEWEST_RUNS: usize = 100;

/// When to stop. `Default` is the rule of `ortscope run` without arguments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct StopRule {
    /// Stop when the 95 % interval of p50 is within ± this share of p50 and the tail is bounded; `None`: never.
    pub precision: Option<f64>,
    /// Never stop for precision before this.
    pub min_seconds: f64,
    /// Time after which the tail (p99) need not be bounded any more.
    pub tail_seconds: f64,
    /// Stop after this time, as requested by the user.
    pub duration_seconds: Option<f64>,
    /// Stop after this many runs, as requested by the user.
    pub max_runs: Option<u64>,
    /// Stop after this time in any case; `None`: no limit.
    pub max_seconds: Option<f64>,
}

impl Default for StopRule {
    fn default() -> Self {
        Self {
            precision: Some(0.01),
            min_seconds: 1.0,
            tail_seconds: 10.0,
            duration_seconds: None,
            max_runs: None,
            max_seconds: Some(60.0),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// Requested precision of p50 reached, and the tail is bounded or had its time.
    PrecisionReached,
    /// The requested time has passed.
    DurationReached,
    /// The requested runs are done.
    RunsReached,
    /// The limit was reached before the precision.
    Cap,
}

impl StopRule {
    /// Exactly `runs` runs, however long they take.
    pub fn for_runs(runs: u64) -> Self {
        Self { precision: None, max_runs: Some(runs), max_seconds: None, ..Self::default() }
    }

    /// Exactly this time.
    pub fn for_duration(seconds: f64) -> Self {
        Self { precision: None, duration_seconds: Some(seconds), max_seconds: None, ..Self::default() }
    }

    /// Until p50 is known to ± `precision` (0.01 for 1 %).
    pub fn for_precision(precision: f64) -> Self {
        Self { precision: Some(precision), ..Self::default() }
    }

    /// Whether to stop now. `latencies_in_time_order` are the runs after the warm-up, `elapsed_ns` the time since
    /// the first of them began.
    pub fn check(&self, latencies_in_time_order: &[u64], elapsed_ns: u64) -> Option<StopReason> {
        let elapsed_seconds = elapsed_ns as f64 / 1e9;
        if self.max_runs.is_some_and(|most| latencies_in_time_order.len() as u64 >= most) {
            return Some(StopReason::RunsReached);
        }
        if self.duration_seconds.is_some_and(|duration| elapsed_seconds >= duration) {
            return Some(StopReason::DurationReached);
        }
        if elapsed_seconds >= self.min_seconds
            && self
                .precision
                .is_some_and(|precision| self.is_precise(latencies_in_time_order, precision, elapsed_seconds))
        {
            return Some(StopReason::PrecisionReached);
        }
        self.max_seconds.is_some_and(|most| elapsed_seconds >= most).then_some(StopReason::Cap)
    }

    fn is_precise(&self, runs: &[u64], precision: f64, elapsed_seconds: f64) -> bool {
        let Some(known) = Known::new(runs) else {
            return false;
        };
        known.p50_half_width.is_some_and(|half_width| half_width <= precision)
            && (elapsed_seconds >= self.tail_seconds || known.p99_bounded)
    }
}

/// Estimates of a series so far.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Known {
    p50_half_width: Option<f64>,
    p99_bounded: bool,
}

impl Known {
    fn new(runs: &[u64]) -> Option<Self> {
        if runs.len() < FEWEST_RUNS {
            return None;
        }
        if runs.len() <= MAX_RUNS {
            let mut sorted = runs.to_vec();
            sorted.sort_unstable();
            let percentiles = percentiles_of_sorted(runs, &sorted, &[0.5, 0.99]);
            return Some(Self {
                p50_half_width: percentiles[0].relative_half_width(),
                p99_bounded: percentiles[1].high_ns.is_some(),
            });
        }
        Some(Self::from_part(runs))
    }

    fn from_part(runs: &[u64]) -> Self {
        let n = runs.len();
        let batch = n.isqrt();
        let batches = (MAX_RUNS / batch).max(FEWEST_BATCHES);
        let starts = || (0..batches).map(|index| index * (n - batch) / (batches - 1));
        let part = || starts().map(|start| &runs[start..start + batch]);
        let mut sample: Vec<u64> = part().flatten().copied().collect();
        let middle = sample.len() / 2;
        let last = sample.len() - 1;
        let rank = |q: f64| (q.clamp(0.0, 1.0) * last as f64).round() as usize;
        // Each selection leaves smaller values on its left and larger ones on its right: the next ones search a half.
        let (below, p50, above) = sample.select_nth_unstable(middle);
        let p50 = *p50;
        let p99 = select(above, rank(0.99) - middle - 1);
        let tail = Noise::of_batches(part(), batch, p99, 0.99);
        let noise = Noise::of_batches(part(), batch, p50, 0.5);
        let half = noise.half_width(n, 0.5);
        let low = select(below, rank(0.5 - half));
        let high = select(above, rank(0.5 + half).saturating_sub(middle + 1));
        let half_width = (high - low) as f64 / 2.0 / p50.max(1) as f64;
        Self { p50_half_width: Some(half_width), p99_bounded: n as u64 >= runs_needed(0.99, tail.factor) }
    }
}

/// The value at `index` in ascending order, or the last; 0 of none.
fn select(values: &mut [u64], index: usize) -> u64 {
    let Some(last) = values.len().checked_sub(1) else {
        return 0;
    };
    *values.select_nth_unstable(index.min(last)).1
}
