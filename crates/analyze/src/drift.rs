//! Whether a series still moves after its warm-up: the second half against the first.
//!
//! Each half is cut into the same number of blocks; the differences of the block medians (of log latency, so that a
//! difference is a ratio) give a Hodges-Lehmann shift with exact signed-rank bounds. Block medians are robust against
//! outliers, and blocks longer than the correlation make the differences nearly independent.

use serde::{Deserialize, Serialize};

use crate::hodges_lehmann::signed_rank_bounds;
use crate::order::{ln_ns, median_in_place};

/// Blocks per half: ten differences allow bounds at 97.5 % and leave each block long.
const BLOCKS: usize = 10;
/// Error of each bound.
const ALPHA: f64 = 0.025;
/// Maximum runs used per block; a median needs no more, and a million runs stay cheap.
const MAX_RUNS_PER_BLOCK: usize = 4096;

/// The relative change from the first to the second half: 0.02 is 2 % slower.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    pub ratio: f64,
    /// Ends of the 95 % interval; `None` when there are too few runs for one.
    pub low: Option<f64>,
    pub high: Option<f64>,
}

impl Drift {
    /// Whether the whole interval lies beyond ±`limit`: the drift is proved, not only suspected.
    pub fn exceeds(&self, limit: f64) -> bool {
        self.low.is_some_and(|low| low > limit) || self.high.is_some_and(|high| high < -limit)
    }
}

/// The drift of a series in time order; `None` with fewer than four runs.
pub fn drift_between_halves(in_time_order: &[u64]) -> Option<Drift> {
    let half = in_time_order.len() / 2;
    let blocks = BLOCKS.min(half);
    if half < 2 {
        return None;
    }
    let block = half / blocks;
    // With an odd length the middle run is left out; with a remainder, the runs between the halves.
    let first = block_medians(&in_time_order[..block * blocks], block);
    let second = block_medians(&in_time_order[in_time_order.len() - block * blocks..], block);
    let differences: Vec<f64> = first.iter().zip(&second).map(|(before, after)| after - before).collect();
    let shift = signed_rank_bounds(&differences, ALPHA)?;
    Some(Drift {
        ratio: shift.estimate.exp_m1(),
        low: shift.low.map(f64::exp_m1),
        high: shift.high.map(f64::exp_m1),
    })
}

fn block_medians(runs: &[u64], block: usize) -> Vec<f64> {
    let step = block.div_ceil(MAX_RUNS_PER_BLOCK).max(1);
    let mut logs = Vec::with_capacity(block / step + 1);
    runs.chunks_exact(block)
        .filter_map(|runs| {
            logs.clear();
            logs.extend(runs.iter().step_by(step).map(|nanos| ln_ns(*nanos)));
            median_in_place(&mut logs)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_does_not_drift() {
        let drift = drift_between_halves(&[1000; 100]).unwrap();
        assert_eq!((drift.ratio, drift.low, drift.high), (0.0, Some(0.0), Some(0.0)));
        assert!(!drift.exceeds(0.02));
    }

    #[test]
    fn a_linear_rise_is_measured_between_the_halves() {
        // 0 to 10 % over the series: the halves differ by 5 %.
        let series: Vec<u64> = (0..2000).map(|run| 1_000_000 + run * 50).collect();
        let drift = drift_between_halves(&series).unwrap();
        assert!((drift.ratio - 0.0488).abs() < 0.001, "{drift:?}");
        assert!(drift.exceeds(0.02));
        let falling: Vec<u64> = series.into_iter().rev().collect();
        assert!(drift_between_halves(&falling).unwrap().exceeds(0.02));
    }

    #[test]
    fn few_runs_prove_nothing() {
        assert_eq!(drift_between_halves(&[1, 2, 3]), None);
        let drift = drift_between_halves(&[100, 100, 200, 200]).unwrap();
        assert_eq!((drift.low, drift.high), (None, None));
        assert!(!drift.exceeds(0.02));
    }
}
