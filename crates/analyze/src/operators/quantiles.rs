//! Quantiles of many series at once, in bounded memory.
//!
//! A series is exact up to [`EXACT`] values. Beyond that it becomes a histogram whose buckets are at most 1/64 of their
//! value wide and remember the sum of what fell into them, so that a quantile is off by less than
//! [`RELATIVE_ERROR`], and by nothing when a bucket holds equal values (profiles in whole microseconds mostly do). Only
//! buckets in use take memory.

use serde::{Deserialize, Serialize};

use crate::order::quantile_sorted;

/// Values kept as they are; longer series are put into buckets this many at a time.
const EXACT: usize = 64;
/// Buckets per power of two, as a power of two.
const SUB_BUCKET_BITS: u32 = 6;
/// How far a quantile from the histogram can be from the true one.
pub const RELATIVE_ERROR: f64 = 1.0 / (1 << SUB_BUCKET_BITS) as f64;

/// A series of durations, summed up.
#[derive(Debug, Clone, Default)]
pub(super) struct Series {
    count: u64,
    total_ns: u64,
    min_ns: u64,
    max_ns: u64,
    /// Not in the buckets yet.
    recent: Vec<u64>,
    /// In the order of their values.
    buckets: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    index: u16,
    count: u32,
    sum_ns: u64,
}

/// Summary of a series of durations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    pub count: u64,
    /// Saturates at the largest number.
    pub total_ns: u64,
    pub mean_ns: u64,
    pub median_ns: u64,
    pub p90_ns: u64,
    pub min_ns: u64,
    pub max_ns: u64,
    /// Quantiles may be off by this share of themselves; 0 if they are exact.
    pub relative_error: f64,
}

impl Series {
    pub(super) fn push(&mut self, value_ns: u64) {
        self.min_ns = if self.count == 0 { value_ns } else { self.min_ns.min(value_ns) };
        self.max_ns = self.max_ns.max(value_ns);
        self.count += 1;
        self.total_ns = self.total_ns.saturating_add(value_ns);
        if self.recent.len() == EXACT {
            self.put_away();
        }
        self.recent.push(value_ns);
    }

    /// Moves the exact values to the buckets. Moving many at once touches the buckets once.
    fn put_away(&mut self) {
        self.recent.sort_unstable();
        let mut merged: Vec<Bucket> = Vec::with_capacity(self.buckets.len() + 8);
        let mut old = self.buckets.iter().copied().peekable();
        for value_ns in self.recent.drain(..) {
            let index = bucket_of(value_ns);
            while let Some(bucket) = old.next_if(|bucket| bucket.index <= index) {
                merged.push(bucket);
            }
            match merged.last_mut() {
                Some(last) if last.index == index => {
                    last.count = last.count.saturating_add(1);
                    last.sum_ns = last.sum_ns.saturating_add(value_ns);
                }
                _ => merged.push(Bucket { index, count: 1, sum_ns: value_ns }),
            }
        }
        merged.extend(old);
        self.buckets = merged;
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn total_ns(&self) -> u64 {
        self.total_ns
    }

    pub(super) fn distribution(&self) -> Distribution {
        if !self.buckets.is_empty() && !self.recent.is_empty() {
            let mut complete = self.clone();
            complete.put_away();
            return complete.distribution();
        }
        let mut sorted = self.recent.clone();
        sorted.sort_unstable();
        let quantile = |q: f64| {
            let value = quantile_sorted(&sorted, q).unwrap_or_else(|| self.bucket_quantile(q));
            value.clamp(self.min_ns, self.max_ns)
        };
        Distribution {
            count: self.count,
            total_ns: self.total_ns,
            mean_ns: self.total_ns.checked_div(self.count).unwrap_or(0),
            median_ns: quantile(0.5),
            p90_ns: quantile(0.9),
            min_ns: self.min_ns,
            max_ns: self.max_ns,
            relative_error: if self.buckets.is_empty() { 0.0 } else { RELATIVE_ERROR },
        }
    }

    /// Interpolates between neighbors, as for exact values.
    fn bucket_quantile(&self, q: f64) -> u64 {
        let position = q * self.count.saturating_sub(1) as f64;
        let (below, above) = (self.ranked(position.floor() as u64), self.ranked(position.ceil() as u64));
        below + (above.saturating_sub(below) as f64 * position.fract()).round() as u64
    }

    /// The value of a rank, counted from 0: the mean of its bucket.
    fn ranked(&self, rank: u64) -> u64 {
        let mut before = 0u64;
        for bucket in &self.buckets {
            before += u64::from(bucket.count);
            if rank < before {
                return bucket.sum_ns / u64::from(bucket.count.max(1));
            }
        }
        self.max_ns
    }
}

/// Small values have a bucket each; from 64 on every power of two has 64.
fn bucket_of(value: u64) -> u16 {
    let bits = u64::BITS - value.leading_zeros();
    let shift = bits.saturating_sub(SUB_BUCKET_BITS + 1);
    // At most 57 · 64 + 127, which fits.
    ((u64::from(shift) << SUB_BUCKET_BITS) + (value >> shift)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_narrow_and_in_order() {
        let mut values: Vec<u64> =
            (0..5000).chain((6..64).flat_map(|bit| [(1 << bit) - 1, 1 << bit])).collect();
        values.push(u64::MAX);
        values.sort_unstable();
        for pair in values.windows(2) {
            assert!(bucket_of(pair[0]) <= bucket_of(pair[1]));
            if bucket_of(pair[0]) == bucket_of(pair[1]) {
                assert!((pair[1] - pair[0]) as f64 <= pair[0] as f64 * RELATIVE_ERROR);
            }
        }
        assert!(bucket_of(u64::MAX) > bucket_of(u64::MAX / 2));
    }

    #[test]
    fn short_series_are_exact() {
        let mut series = Series::default();
        (1..=4).for_each(|value| series.push(value * 10));
        let seen = series.distribution();
        assert_eq!((seen.median_ns, seen.mean_ns, seen.min_ns, seen.max_ns), (25, 25, 10, 40));
        assert_eq!(seen.relative_error, 0.0);
        assert_eq!(Series::default().distribution(), Distribution::default());
    }

    #[test]
    fn long_series_stay_within_the_stated_error() {
        let mut series = Series::default();
        let mut values: Vec<u64> = (0..20_000u64).map(|i| 1_000 + (i * 7_919) % 1_000_003).collect();
        values.iter().for_each(|value| series.push(*value));
        values.sort_unstable();
        let seen = series.distribution();
        for (q, value) in [(0.5, seen.median_ns), (0.9, seen.p90_ns)] {
            let exact = quantile_sorted(&values, q).unwrap() as f64;
            assert!((value as f64 - exact).abs() <= exact * RELATIVE_ERROR, "{q}: {value} against {exact}");
        }
        assert!(series.buckets.len() < 800);
        assert_eq!(seen.total_ns, values.iter().sum::<u64>());
    }

    /// Whole microseconds get a bucket each, so that quantiles are exact where profiles are coarse.
    #[test]
    fn equal_values_stay_exact() {
        let mut series = Series::default();
        (0..1000).for_each(|i| series.push(if i % 10 == 0 { 3000 } else { 2000 }));
        let seen = series.distribution();
        // 900 of one value and 100 of the other: the quantile lies a tenth of the way between them.
        assert_eq!((seen.median_ns, seen.p90_ns), (2000, 2100));
    }
}
