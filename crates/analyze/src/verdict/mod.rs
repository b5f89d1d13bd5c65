//! Verdicts between two measurements: pass, regression, improvement, or inconclusive.
//!
//! The unit of comparison is a process run, called a block, never a single inference: inferences of one process share
//! its memory layout and clocks, so a test over raw latencies mistakes chance for a difference of models (43 % false
//! alarms of Mann-Whitney on realistic latencies). One statistic per block is compared.
//!
//! - [`block_quantile`]: the statistic of a block,
//! - [`neighbors`]: the median of two blocks that ran in short turns,
//! - [`paired`]: blocks of two sides measured in turn (ABBA), which cancels slow drift; looks after 6, 10 and 20 rounds,
//! - [`two_sample`]: stored recordings, where nothing is paired,
//! - [`holm`]: several metrics at once without more false alarms,
//! - [`fingerprint`]: whether two measurements may be compared at all,
//! - [`sentence`]: a verdict as text,
//! - [`minimum_effect`]: the smallest change this machine can detect,
//! - [`change_points`]: where a history of runs has changed; for information, never for a verdict.

pub mod change_points;
pub mod fingerprint;
pub mod metric;
pub mod minimum_effect;
pub mod neighbors;
pub mod paired;
pub mod sentence;
pub mod two_sample;

use crate::order::quantile_sorted_f64;
use crate::percentile::runs_needed;

pub use metric::{Metric, MetricPlan, MetricVerdict, Verdict};
pub use neighbors::{TimedRun, neighbors_ratio};
pub use paired::{LOOKS, Look, PairedComparison, Step, looks_up_to};

/// Runs that a block needs for a quantile: p50 6, p90 36, p99 368. Fewer would compare the largest outlier of each block.
pub fn block_needs(p: f64) -> u64 {
    runs_needed(p, 1.0)
}

/// The quantile `p` of a block's latencies in nanoseconds; `None` when it has too few runs for it.
pub fn block_quantile(latencies: &[u64], p: f64) -> Option<f64> {
    if (latencies.len() as u64) < block_needs(p) {
        return None;
    }
    let mut sorted = latencies.to_vec();
    sorted.sort_unstable();
    quantile_sorted_f64(&sorted, p)
}

/// Which of the hypotheses with these p-values are rejected so that any false rejection has probability ≤ `alpha`.
/// `None` is a hypothesis without data: it counts in the family and is never rejected.
pub fn holm(p_values: &[Option<f64>], alpha: f64) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut rejected = vec![false; p_values.len()];
    for (step, (index, p)) in order.into_iter().enumerate() {
        let left = (p_values.len() - step) as f64;
        if p.is_nan() || p > alpha / left {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

#[cfg(test)]
mod block_tests {
    use super::*;

    #[test]
    fn a_short_block_has_no_tail() {
        let runs: Vec<u64> = (1..=101).collect();
        assert_eq!(block_quantile(&runs, 0.5), Some(51.0));
        assert_eq!(block_quantile(&runs, 0.9), Some(91.0));
        assert_eq!(block_quantile(&runs, 0.99), None);
        assert_eq!(block_quantile(&[], 0.5), None);
    }
}

#[cfg(test)]
mod holm_tests {
    use super::*;

    #[test]
    fn each_rejection_makes_the_next_easier() {
        // 0.01 ≤ 0.05 / 3, 0.02 ≤ 0.05 / 2, 0.04 ≤ 0.05.
        assert_eq!(holm(&[Some(0.04), Some(0.01), Some(0.02)], 0.05), [true, true, true]);
        // The first step fails, so the others are not tested.
        assert_eq!(holm(&[Some(0.04), Some(0.02), Some(0.02)], 0.05), [false, false, false]);
        assert_eq!(holm(&[Some(0.001), Some(0.03), Some(0.03)], 0.05), [true, false, false]);
    }

    #[test]
    fn unmeasured_metrics_still_count() {
        assert_eq!(holm(&[Some(0.04), None], 0.05), [false, false]);
        assert_eq!(holm(&[Some(0.02), None], 0.05), [true, false]);
        assert_eq!(holm(&[Some(f64::NAN)], 0.05), [false]);
        assert!(holm(&[], 0.05).is_empty());
    }
}
