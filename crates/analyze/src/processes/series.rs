//! Quantiles of many numbers in little memory: every second, fourth … one is kept when there are too many.

/// Numbers kept of one process.
const MAX_KEPT: usize = 4096;
/// Below these many a quantile of 95 or 99 % is a single number's luck.
const MIN_FOR_QUANTILE: usize = 20;

#[derive(Debug, Default)]
pub(super) struct Series {
    kept: Vec<f32>,
    every: u32,
    skipped: u32,
    max: f64,
}

impl Series {
    pub(super) fn push(&mut self, value: f64) {
        self.max = self.max.max(value);
        if self.skipped + 1 < self.every {
            self.skipped += 1;
            return;
        }
        self.skipped = 0;
        self.kept.push(value as f32);
        if self.kept.len() >= MAX_KEPT {
            let mut index = 0;
            self.kept.retain(|_| {
                index += 1;
                index % 2 == 0
            });
            self.every = self.every.max(1) * 2;
        }
    }

    pub(super) fn max(&self) -> f64 {
        self.max
    }

    pub(super) fn quantile(&self, q: f64) -> Option<f64> {
        if self.kept.len() < MIN_FOR_QUANTILE {
            return None;
        }
        let mut sorted = self.kept.clone();
        sorted.sort_unstable_by(f32::total_cmp);
        let rank = (q * (sorted.len() - 1) as f64).round() as usize;
        sorted.get(rank).map(|value| f64::from(*value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_shape() {
        let mut series = Series::default();
        assert_eq!(series.quantile(0.5), None);
        for value in 0..100_000 {
            series.push(f64::from(value % 100));
        }
        assert!(series.kept.len() < MAX_KEPT);
        assert!((series.quantile(0.95).unwrap() - 95.0).abs() < 3.0);
        assert!((series.max() - 99.0).abs() < 1e-9);
    }
}
