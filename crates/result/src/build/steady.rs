//! The statistics of a session's measured loop, from the latencies that were kept.

use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::{LatencySummary, SummaryOptions, summarize};

use super::inferences::Kept;
use crate::latency::ms;
use crate::{Histogram, LatencyReport, OverTime, OverTimePoint};

/// Bins of a histogram at most.
const MAX_BINS: usize = 120;
/// Points of the latency over time at most.
const MAX_TIME_POINTS: usize = 2000;
/// Inferences near the median that tell what is usual.
const MAX_USUAL: usize = 40;

/// What a session's kept latencies say.
#[derive(Debug)]
pub(super) struct Steady {
    pub inference: LatencySummary,
    pub end_to_end: LatencySummary,
    /// Start of the first inference after the warm-up.
    pub cut_ns: u64,
    pub histogram: Histogram,
    pub over_time: TimeBuckets,
    /// Start and end of inferences near the median.
    pub usual: Vec<(u64, u64)>,
    /// An inference above this, end to end, is slow.
    pub slow_above_ns: u64,
}

impl Steady {
    /// `None` when nothing is left after the warm-up. `discarded` is what the run itself left out: a user may have
    /// chosen it, and then the report agrees.
    pub fn of(kept: &[Kept], discarded: Option<usize>) -> Option<Self> {
        let runs: Vec<u64> = kept.iter().map(|kept| kept.run_ns).collect();
        let options = |warm_up| SummaryOptions { warm_up };
        let mut inference = summarize(&runs, options(WarmUpChoice::Detect))?;
        if let Some(discarded) = discarded.filter(|runs| *runs != inference.warm_up.discarded) {
            inference = summarize(&runs, options(WarmUpChoice::Discard(discarded))).unwrap_or(inference);
        }
        drop(runs);
        let after = kept.get(inference.warm_up.discarded..)?;
        let whole: Vec<u64> = after.iter().map(|kept| kept.end_to_end_ns).collect();
        let end_to_end = summarize(&whole, options(WarmUpChoice::Keep))?;
        let slow_above_ms = end_to_end.median_ms + end_to_end.outliers.limit_ms;
        let cut_ns = after.first()?.start_ns;
        Some(Self {
            cut_ns,
            histogram: histogram(after, &inference),
            over_time: TimeBuckets::of(kept),
            usual: usual(after, &end_to_end),
            slow_above_ns: (slow_above_ms * 1e6) as u64,
            inference,
            end_to_end,
        })
    }

    pub fn reports(&self) -> (LatencyReport, LatencyReport) {
        (LatencyReport::from_summary(&self.inference), LatencyReport::from_summary(&self.end_to_end))
    }
}

/// Outliers would squeeze all others into a few bins; those above go into one bin of their own.
fn histogram(after: &[Kept], inference: &LatencySummary) -> Histogram {
    // A coarse clock can read zero, which has no logarithm.
    let values = || after.iter().map(|kept| kept.run_ns.max(1));
    let (low, highest) = (values().min().unwrap_or(1) as f64, values().max().unwrap_or(1) as f64);
    let limit = (inference.median_ms + inference.outliers.limit_ms) * 1e6;
    let largest_usual = values().filter(|value| *value as f64 <= limit).max();
    let high = largest_usual.map_or(highest, |value| value as f64);
    let tail = highest > high;
    let range = (high / low).ln();
    let bins = if range > 0.0 { (2 * after.len().isqrt()).clamp(8, MAX_BINS - 1) } else { 1 };
    let mut counts = vec![0_u64; bins + usize::from(tail)];
    for value in values() {
        let share = if range > 0.0 { (value as f64 / low).ln() / range } else { 0.0 };
        let bin = match value as f64 > high {
            true => bins,
            false => ((share * bins as f64) as usize).min(bins - 1),
        };
        counts[bin] += 1;
    }
    let edge = |bin: usize| if bin == bins { high } else { low * (range * bin as f64 / bins as f64).exp() };
    let edges = (0..=bins).map(edge).chain(tail.then_some(highest));
    Histogram { edges_ms: edges.map(|edge| edge / 1e6).collect(), counts, tail }
}

/// Inferences in the middle half, spread over the whole time.
fn usual(after: &[Kept], end_to_end: &LatencySummary) -> Vec<(u64, u64)> {
    let (median, iqr) = (end_to_end.median_ms * 1e6, end_to_end.jitter.iqr_ms * 1e6);
    let near = |kept: &&Kept| (kept.end_to_end_ns as f64 - median).abs() <= iqr / 2.0 + 0.5;
    let step = after.len().div_ceil(MAX_USUAL).max(1);
    after
        .chunks(step)
        .filter_map(|part| part.iter().find(near))
        .map(|kept| (kept.start_ns, kept.start_ns.saturating_add(kept.end_to_end_ns)))
        .collect()
}

/// The latency over time, in intervals of equal length.
#[derive(Debug, Default)]
pub(super) struct TimeBuckets {
    first_ns: u64,
    /// 0: one point per inference.
    width_ns: u64,
    points: Vec<Bucket>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    start_ns: u64,
    n: u64,
    min_ns: u64,
    median_ns: u64,
    p99_ns: u64,
    max_ns: u64,
}

impl TimeBuckets {
    /// `kept` is in the order of time.
    fn of(kept: &[Kept]) -> Self {
        let first_ns = kept.first().map_or(0, |kept| kept.start_ns);
        let last_ns = kept.last().map_or(0, |kept| kept.start_ns);
        let width_ns = match kept.len() {
            ..=MAX_TIME_POINTS => 0,
            _ => ((last_ns - first_ns) / MAX_TIME_POINTS as u64 + 1).max(1),
        };
        let number = |kept: &Kept| (kept.start_ns - first_ns).checked_div(width_ns);
        let mut points = Vec::new();
        let mut values = Vec::new();
        for part in kept.chunk_by(|one, next| width_ns > 0 && number(one) == number(next)) {
            values.clear();
            values.extend(part.iter().map(|kept| kept.run_ns));
            values.sort_unstable();
            let n = values.len();
            let at = |rank: usize| values.get(rank).copied().unwrap_or(0);
            points.push(Bucket {
                start_ns: match part.first().map(number) {
                    Some(Some(number)) => first_ns + number * width_ns,
                    _ => part.first().map_or(0, |kept| kept.start_ns),
                },
                n: n as u64,
                min_ns: at(0),
                median_ns: at((n - 1) / 2),
                p99_ns: at((n * 99).div_ceil(100) - 1),
                max_ns: at(n - 1),
            });
        }
        Self { first_ns, width_ns, points }
    }

    /// Takes the extremes of inferences that were not kept into account.
    pub fn extremes(&mut self, start_ns: u64, run_ns: u64) {
        if self.width_ns == 0 || start_ns < self.first_ns {
            return;
        }
        let bucket_start = start_ns - (start_ns - self.first_ns) % self.width_ns;
        if let Ok(index) = self.points.binary_search_by_key(&bucket_start, |point| point.start_ns) {
            let point = &mut self.points[index];
            point.min_ns = point.min_ns.min(run_ns);
            point.max_ns = point.max_ns.max(run_ns);
        }
    }

    pub fn report(&self, warm_up_ends_seconds: Option<f64>, seconds: impl Fn(u64) -> f64) -> OverTime {
        OverTime {
            bucket_seconds: self.width_ns as f64 / 1e9,
            warm_up_ends_seconds,
            points: self
                .points
                .iter()
                .map(|point| OverTimePoint {
                    offset_seconds: seconds(point.start_ns),
                    n: point.n,
                    min_ms: ms(point.min_ns),
                    median_ms: ms(point.median_ns),
                    p99_ms: ms(point.p99_ns),
                    max_ms: ms(point.max_ns),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(n: u64, run_ns: impl Fn(u64) -> u64) -> Vec<Kept> {
        (0..n)
            .map(|index| {
                let run_ns = run_ns(index);
                Kept { start_ns: 1000 + index * 2_000_000, run_ns, end_to_end_ns: run_ns + 10 }
            })
            .collect()
    }

    #[test]
    fn histograms_count_every_value_once() {
        let of = |series: &[Kept]| Steady::of(series, Some(0)).expect("there are runs").histogram;
        let plain = of(&kept(5000, |index| 1_000_000 + index * 7919 % 500_000));
        assert_eq!((plain.n(), plain.edges_ms.len(), plain.tail), (5000, plain.counts.len() + 1, false));
        assert!(plain.counts.len() <= MAX_BINS && plain.edges_ms.is_sorted());
        let tailed =
            of(&kept(5000, |index| if index % 1000 == 7 { 90_000_000 } else { 1_000_000 + index % 100 }));
        assert_eq!((tailed.n(), tailed.counts.last(), tailed.tail), (5000, Some(&5), true));
        assert_eq!((tailed.edges_ms.len(), tailed.edges_ms.last()), (tailed.counts.len() + 1, Some(&90.0)));
        let none = of(&kept(10, |_| 0));
        assert_eq!((none.counts.as_slice(), none.n()), (&[10][..], 10));
    }

    #[test]
    fn short_series_are_drawn_in_full_and_long_ones_in_buckets() {
        let short = TimeBuckets::of(&kept(100, |index| 1000 + index)).report(None, |time| time as f64);
        assert_eq!((short.points.len(), short.bucket_seconds), (100, 0.0));
        let series = kept(50_000, |index| if index == 33_333 { 9_000_000 } else { 1_000_000 });
        let long = TimeBuckets::of(&series).report(None, |time| time as f64);
        assert!(long.points.len() <= MAX_TIME_POINTS && long.points.len() > 1900);
        assert_eq!(long.points.iter().map(|point| point.n).sum::<u64>(), 50_000);
        assert!(long.points.iter().any(|point| point.max_ms == 9.0 && point.median_ms == 1.0));
    }

    #[test]
    fn the_choice_of_the_user_wins() {
        let series = kept(1000, |index| 1_000_000 + index * 7919 % 1000);
        let detected = Steady::of(&series, None).expect("there are runs");
        assert_eq!((detected.inference.warm_up.discarded, detected.inference.n), (0, 1000));
        let chosen = Steady::of(&series, Some(100)).expect("there are runs");
        assert_eq!((chosen.inference.n, chosen.cut_ns), (900, series[100].start_ns));
        assert!(!detected.usual.is_empty() && detected.usual.len() <= MAX_USUAL);
    }
}
