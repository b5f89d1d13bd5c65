//! Long series in bounded memory: every k-th value, or intervals that grow.

use crate::{MAX_POINTS, Series, SeriesPoint, SeriesUnit};

/// Keeps every value, and when told to thin out every second one, every fourth, and so on.
#[derive(Debug)]
pub(super) struct Decimated<T> {
    pub kept: Vec<T>,
    /// One of so many is kept.
    pub every: u64,
    pub seen: u64,
}

impl<T> Default for Decimated<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), every: 1, seen: 0 }
    }
}

impl<T> Decimated<T> {
    pub fn push(&mut self, value: T, most: usize) {
        let wanted = self.seen.is_multiple_of(self.every);
        self.seen += 1;
        if !wanted {
            return;
        }
        if self.kept.len() >= most.max(2) {
            self.halve();
            // Positions that are kept changed: the one at hand may now be between them.
            if !(self.seen - 1).is_multiple_of(self.every) {
                return;
            }
        }
        self.kept.push(value);
    }

    /// Keeps the values at even positions.
    pub fn halve(&mut self) {
        let mut position = 0_usize;
        self.kept.retain(|_| {
            position += 1;
            position % 2 == 1
        });
        self.every = self.every.saturating_mul(2);
    }
}

/// A series of readings in at most [`MAX_POINTS`] intervals that keep the smallest and the largest reading. The
/// intervals begin at one nanosecond and double when there are too many of them, so the length need not be known.
#[derive(Debug)]
pub(super) struct Intervals {
    width_ns: u64,
    intervals: Vec<Interval>,
    n: u64,
    last: Option<(u64, f64)>,
}

#[derive(Debug, Clone, Copy)]
struct Interval {
    /// Its start over the width.
    number: u64,
    min: f64,
    max: f64,
    sum: f64,
    weight: f64,
}

impl Interval {
    fn take(&mut self, other: &Self) {
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.weight += other.weight;
    }
}

impl Default for Intervals {
    fn default() -> Self {
        Self { width_ns: 1, intervals: Vec::new(), n: 0, last: None }
    }
}

impl Intervals {
    /// `lasted_ns` is how long the reading stands for; it weighs that much in means.
    pub fn add(&mut self, time_ns: u64, value: f64, lasted_ns: u64) {
        if !value.is_finite() {
            return;
        }
        self.n += 1;
        if self.last.is_none_or(|(last, _)| time_ns >= last) {
            self.last = Some((time_ns, value));
        }
        let weight = lasted_ns.max(1) as f64;
        let one =
            Interval { number: time_ns / self.width_ns, min: value, max: value, sum: value * weight, weight };
        match self.intervals.last_mut() {
            Some(last) if last.number == one.number => last.take(&one),
            Some(last) if last.number > one.number => {
                match self.intervals.binary_search_by_key(&one.number, |interval| interval.number) {
                    Ok(index) => self.intervals[index].take(&one),
                    Err(index) => self.intervals.insert(index, one),
                }
            }
            _ => self.intervals.push(one),
        }
        while self.intervals.len() > MAX_POINTS {
            self.double();
        }
    }

    fn double(&mut self) {
        self.width_ns = self.width_ns.saturating_mul(2);
        for interval in &mut self.intervals {
            interval.number /= 2;
        }
        self.intervals.dedup_by(|later, earlier| {
            let merge = later.number == earlier.number;
            if merge {
                earlier.take(later);
            }
            merge
        });
    }

    /// `None` without a reading.
    pub fn series(self, name: SeriesName, seconds: impl Fn(u64) -> f64) -> Option<Series> {
        let (_, last) = self.last?;
        let all = self.intervals.iter().copied().reduce(|mut all, interval| {
            all.take(&interval);
            all
        })?;
        let points = self
            .intervals
            .iter()
            .map(|interval| SeriesPoint {
                offset_seconds: seconds(interval.number.saturating_mul(self.width_ns)),
                min: interval.min,
                mean: mean_of(interval),
                max: interval.max,
            })
            .collect();
        Some(Series {
            of: name.of,
            metric: name.metric,
            unit: name.unit,
            source: name.source,
            method: name.method,
            n: self.n,
            min: all.min,
            mean: mean_of(&all),
            max: all.max,
            last,
            points,
        })
    }
}

/// Rounding, or a sum beyond all numbers, must not put the mean outside of what was read.
fn mean_of(interval: &Interval) -> f64 {
    let mean = interval.sum / interval.weight;
    if mean.is_finite() { mean.clamp(interval.min, interval.max) } else { interval.min }
}

/// What a series is called.
pub(super) struct SeriesName {
    pub of: String,
    pub metric: String,
    pub unit: SeriesUnit,
    pub source: String,
    pub method: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimation_keeps_every_kth() {
        let mut values = Decimated::default();
        for value in 0..1000_u64 {
            values.push(value, 100);
        }
        assert_eq!((values.seen, values.every), (1000, 16));
        let expected: Vec<u64> = (0..1000).step_by(16).collect();
        assert_eq!(values.kept, expected);
    }

    #[test]
    fn few_readings_stay_exact() {
        let mut intervals = Intervals::default();
        for index in 0..MAX_POINTS as u64 {
            intervals.add(index * 1000, index as f64, 1000);
        }
        assert_eq!((intervals.width_ns, intervals.intervals.len()), (1, MAX_POINTS));
    }

    #[test]
    fn many_readings_keep_their_extremes_and_mean() {
        let mut intervals = Intervals::default();
        for index in 0..100_000_u64 {
            let value = if index == 77_777 { 500.0 } else { (index % 10) as f64 };
            intervals.add(5_000_000_000 + index * 1_000_000, value, 1_000_000);
        }
        let name = SeriesName {
            of: String::new(),
            metric: "m".into(),
            unit: SeriesUnit::Other,
            source: String::new(),
            method: String::new(),
        };
        let series = intervals.series(name, |time| time as f64 / 1e9).expect("there are readings");
        assert!(series.points.len() <= MAX_POINTS && series.points.len() > MAX_POINTS / 2 - 1);
        assert_eq!((series.n, series.min, series.max, series.last), (100_000, 0.0, 500.0, 9.0));
        assert!((series.mean - 4.5).abs() < 0.01, "{}", series.mean);
        assert!(series.points.iter().any(|point| point.max == 500.0));
        assert!(series.points.is_sorted_by(|one, next| one.offset_seconds < next.offset_seconds));
    }

    #[test]
    fn readings_out_of_order_and_at_the_end_of_time_are_taken() {
        let mut intervals = Intervals::default();
        for index in (0..5000_u64).rev() {
            intervals.add(index, 1.0, 1);
        }
        intervals.add(u64::MAX, 2.0, u64::MAX);
        intervals.add(7, f64::NAN, 1);
        assert_eq!((intervals.n, intervals.last), (5001, Some((u64::MAX, 2.0))));
        assert!(intervals.intervals.len() <= MAX_POINTS);
    }
}
