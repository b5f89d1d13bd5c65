//! The statistic of one block: a process run whose warm-up is cut.

use crate::order::quantile_sorted_f64;
use crate::percentile::runs_needed;

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

#[cfg(test)]
mod tests {
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
