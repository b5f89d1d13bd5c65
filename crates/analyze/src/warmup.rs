//! Where the warm-up ends: MSER-5 (White 1997) on batch medians of log latency.
//!
//! MSER cuts where the standard error of the rest is smallest: cutting more loses data, cutting less keeps the
//! transient. Medians of five instead of means make it robust against single outliers; logarithms make a factor of
//! two count the same at any latency. The cut is limited to the first half, where the statistic is still stable.
//! Measured (`tests/it/warmup.rs`): cuts 0, 30, 135 and 120 where 0, 38, 130 and 120 are right, bias of p50 at most
//! 0.16 %; the rule "last five within x %" stops at 36 to 52 in all cases.
//!
//! A cut does not guarantee a steady state. If the halves of the rest still differ significantly by more than 2 %,
//! the result is that there is none (Barrett et al., OOPSLA 2017: fewer than half of the programs reach one
//! reliably).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::drift::{Drift, drift_between_halves};
use crate::order::ln_ns;

/// Runs per batch: the 5 of MSER-5.
const BATCH: usize = 5;
/// With fewer runs neither a warm-up nor a drift can be distinguished from noise.
pub const FEWEST_RUNS: usize = 20;
/// Change between the halves above which a series has no steady state.
pub const DRIFT_LIMIT: f64 = 0.02;

/// How many runs to leave out, and why.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WarmUp {
    /// Runs at the start that are warm-up.
    pub discarded: usize,
    /// The cut is at its limit, half the series: the warm-up may not be over.
    pub at_limit: bool,
    pub verdict: WarmUpVerdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WarmUpVerdict {
    /// The series is steady from its first run.
    None,
    /// The series is steady after `discarded` runs.
    Cut,
    /// The rest still changes by `drift` (0.05 is 5 % slower) from its first to its second half.
    NoSteadyState { drift: f64 },
    /// Fewer than [`FEWEST_RUNS`] runs: not enough to judge, nothing is discarded.
    TooFewRuns,
}

/// Finds the warm-up of latencies given in the order in which they were measured, in O(n).
pub fn detect_warm_up(in_time_order: &[u64]) -> WarmUp {
    detect_with_drift(in_time_order).0
}

/// As [`detect_warm_up`], with the drift after the cut, which the summary shows as well.
pub(crate) fn detect_with_drift(in_time_order: &[u64]) -> (WarmUp, Option<Drift>) {
    if in_time_order.len() < FEWEST_RUNS {
        return (WarmUp { discarded: 0, at_limit: false, verdict: WarmUpVerdict::TooFewRuns }, None);
    }
    let batches = batch_medians(in_time_order);
    let cut = mser_cut(&batches);
    let discarded = cut * BATCH;
    let drift = drift_between_halves(&in_time_order[discarded..]);
    let verdict = match drift {
        Some(drift) if drift.exceeds(DRIFT_LIMIT) => WarmUpVerdict::NoSteadyState { drift: drift.ratio },
        _ if discarded == 0 => WarmUpVerdict::None,
        _ => WarmUpVerdict::Cut,
    };
    (WarmUp { discarded, at_limit: cut > 0 && cut + 1 >= batches.len() / 2, verdict }, drift)
}

fn batch_medians(in_time_order: &[u64]) -> Vec<f64> {
    // The median of five commutes with the logarithm, so only one logarithm per batch is taken.
    in_time_order
        .chunks_exact(BATCH)
        .filter_map(|runs| {
            let mut batch = [0; BATCH];
            batch.copy_from_slice(runs);
            batch.sort_unstable();
            batch.get(BATCH / 2).map(|nanos| ln_ns(*nanos))
        })
        .collect()
}

/// The number of batches to cut, below half of them. Walking backwards, mean and squares of the suffix are kept up to
/// date (Welford), so no difference of large sums loses digits.
fn mser_cut(batches: &[f64]) -> usize {
    let limit = batches.len() / 2;
    let (mut mean, mut squares) = (0.0, 0.0);
    let (mut best, mut cut) = (f64::INFINITY, 0);
    for (index, value) in batches.iter().enumerate().rev() {
        let count = (batches.len() - index) as f64;
        let delta = value - mean;
        mean += delta / count;
        squares += delta * (value - mean);
        let statistic = squares / (count * count);
        // On a tie the earlier cut wins: nothing is discarded without a reason.
        if index < limit && statistic <= best {
            (best, cut) = (statistic, index);
        }
    }
    cut
}
