//! Inferences of one model on one provider: sums since the beginning, and the newest latencies.

use std::collections::VecDeque;

use ortscope_analyze::percentiles;

use super::families::{Histogram, Summary};

/// Upper bounds of the buckets in nanoseconds: 100 µs to 10 s, three to a decade.
pub(crate) const BOUNDS_NS: [u64; 16] = [
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];
/// Percentiles that are told.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

/// What percentiles are of: the newest latencies, so many at most and so old at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub most: usize,
    pub age_ns: u64,
}

impl Window {
    /// The last minute, as a scrape wants it.
    pub const MINUTE: Self = Self { most: 100_000, age_ns: 60_000_000_000 };
    /// A whole recording; of one with more inferences than this, the newest.
    pub const RECORDING: Self = Self { most: 1_000_000, age_ns: u64::MAX };
}

impl Default for Window {
    fn default() -> Self {
        Self::MINUTE
    }
}

#[derive(Debug, Default)]
pub(super) struct Inferences {
    pub(super) errors: u64,
    pub(super) run_ns: u128,
    counts: [u64; BOUNDS_NS.len() + 1],
    nanos: u128,
    count: u64,
    newest: VecDeque<(u64, u64)>,
}

impl Inferences {
    pub(super) fn add(&mut self, time_ns: u64, latency_ns: u64, run_ns: u64, ok: bool, window: Window) {
        self.errors += u64::from(!ok);
        self.count += 1;
        self.nanos += u128::from(latency_ns);
        self.run_ns += u128::from(run_ns);
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < latency_ns);
        self.counts[bucket] += 1;
        self.newest.push_back((time_ns, latency_ns));
        let oldest = time_ns.saturating_sub(window.age_ns);
        while self.newest.len() > window.most || self.newest.front().is_some_and(|(time, _)| *time < oldest) {
            self.newest.pop_front();
        }
    }

    pub(super) fn begin_window(&mut self) {
        self.newest.clear();
    }

    pub(super) fn histogram(&self) -> Histogram {
        let bounds = BOUNDS_NS.iter().map(|nanos| *nanos as f64 / 1e9).collect();
        Histogram { bounds, counts: self.counts.to_vec(), sum: self.nanos as f64 / 1e9, count: self.count }
    }

    /// Percentiles that the window is long enough for; the sums are of everything, as in every summary.
    pub(super) fn summary(&self) -> Summary {
        let latencies: Vec<u64> = self.newest.iter().map(|(_, latency)| *latency).collect();
        let quantiles = percentiles(&latencies, &QUANTILES)
            .iter()
            .filter_map(|percentile| Some((percentile.p, percentile.value_ns? as f64 / 1e9)))
            .collect();
        Summary { quantiles, sum: self.nanos as f64 / 1e9, count: self.count }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_falls_into_the_bucket_that_ends_at_it() {
        let mut sums = Inferences::default();
        for latency in [100_000, 100_001, 10_000_000_000, 10_000_000_001] {
            sums.add(0, latency, 1, true, Window::MINUTE);
        }
        let histogram = sums.histogram();
        assert_eq!(
            (histogram.counts[0], histogram.counts[1], histogram.counts[15], histogram.counts[16]),
            (1, 1, 1, 1)
        );
        assert_eq!(histogram.count, 4);
    }

    #[test]
    fn a_window_forgets_by_age_and_by_number_and_tells_only_what_it_can_bear() {
        let mut sums = Inferences::default();
        let window = Window { most: 100, age_ns: 1_000 };
        (0..500).for_each(|time| sums.add(time, 7, 1, true, window));
        assert_eq!(sums.newest.len(), 100);
        // p99 would need 368 runs.
        assert_eq!(sums.summary().quantiles, [(0.5, 7e-9), (0.9, 7e-9)]);
        sums.add(10_000, 9, 1, false, window);
        assert_eq!((sums.newest.len(), sums.errors, sums.summary().quantiles.len()), (1, 1, 0));
    }
}
