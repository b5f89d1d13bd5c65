//! Outliers: counted, grouped into bursts and explained, never removed.
//!
//! Rule: a run is an outlier when it is more than ten scaled median absolute deviations from the median, |x − median| >
//! 14.826 · MAD, as in hyperfine (Iglewicz and Hoaglin's modified z-score with a wider limit). Tukey's fences were the
//! alternative; they flag a few percent of every skewed series. A deviation below 1 % is never an outlier: a coarse
//! clock makes the MAD of a quiet series zero.
//!
//! Outliers that come together point to the system (scheduling, clocks, another process), scattered ones to the model
//! or its inputs. Two outliers belong to one burst when they are closer than one in ten independent neighbors would be;
//! more such neighbors than chance allows (1 %) make the outliers clustered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::distribution::normal_quantile;
use crate::order::{ms, quantile_sorted, quantile_sorted_f64};

/// Ten deviations of a normal distribution, in units of its MAD.
const LIMIT_IN_MAD: f64 = 14.826;
/// Deviation, relative to the median, below which nothing is an outlier.
const MIN_RELATIVE: f64 = 0.01;
/// Share of independent neighbors that may look like a burst.
const CHANCE_NEIGHBOURS: f64 = 0.1;
/// Longest distance, in runs, between two outliers of one burst.
const MAX_GAP: f64 = 100.0;
/// Outliers change the result when they take this share of the time ...
const TIME_LIMIT: f64 = 0.05;
/// ... or move p50 by this much.
const MEDIAN_LIMIT: f64 = 0.01;

/// The rule as text, for reports.
pub const RULE: &str = "|x - median| > 14.826 MAD and > 1 % of the median";

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outliers {
    pub count: usize,
    /// Share of the runs, 0 to 1.
    pub share: f64,
    /// Share of the time of all runs, 0 to 1.
    pub share_of_time: f64,
    /// Groups of at least two outliers close to each other.
    pub bursts: usize,
    /// Outliers inside such groups.
    pub in_bursts: usize,
    /// Whether they come together more often than chance explains.
    pub clustered: bool,
    /// Whether they change the result: more than 5 % of the time, or p50 without them differs by more than 1 %.
    /// Only then is a warning due.
    pub change_result: bool,
    /// Distance from the median above which a run is an outlier.
    pub limit_ms: f64,
    /// [`RULE`].
    pub rule: String,
    /// For people: "all in 2 bursts: looks like the system, not the model".
    pub note: String,
}

/// Median absolute deviation of ascending values around `median`. Deviations grow outwards on both sides, so merging
/// them outside in finds the middle one without another sort.
pub(crate) fn median_absolute_deviation(sorted: &[u64], median: f64) -> f64 {
    let split = sorted.partition_point(|nanos| (*nanos as f64) < median);
    let (mut left, mut right) = (split, split);
    let mut next = || {
        let below = left.checked_sub(1).map(|index| median - sorted[index] as f64);
        let above = sorted.get(right).map(|nanos| *nanos as f64 - median);
        match (below, above) {
            (Some(below), Some(above)) if below <= above => {
                left -= 1;
                below
            }
            (Some(below), None) => {
                left -= 1;
                below
            }
            (_, Some(above)) => {
                right += 1;
                above
            }
            (None, None) => 0.0,
        }
    };
    let n = sorted.len();
    let mut previous = 0.0;
    let mut current = 0.0;
    for _ in 0..=n / 2 {
        previous = current;
        current = next();
    }
    if n.is_multiple_of(2) { f64::midpoint(previous, current) } else { current }
}

/// Finds the outliers of a series; `sorted` holds the same runs in ascending order.
pub(crate) fn find_outliers(in_time_order: &[u64], sorted: &[u64], median: f64, mad: f64) -> Outliers {
    let limit = (LIMIT_IN_MAD * mad).max(MIN_RELATIVE * median);
    let is_outlier = |nanos: u64| (nanos as f64 - median).abs() > limit;
    let indices: Vec<usize> = in_time_order
        .iter()
        .enumerate()
        .filter(|(_, nanos)| is_outlier(**nanos))
        .map(|(index, _)| index)
        .collect();
    let count = indices.len();
    let share = share_of(count as f64, in_time_order.len() as f64);
    let total: f64 = in_time_order.iter().map(|nanos| *nanos as f64).sum();
    let share_of_time = share_of(indices.iter().map(|index| in_time_order[*index] as f64).sum(), total);
    let bursts = Bursts::new(&indices, share);
    Outliers {
        count,
        share,
        share_of_time,
        bursts: bursts.groups,
        in_bursts: bursts.members,
        clustered: bursts.clustered,
        change_result: share_of_time > TIME_LIMIT || median_moves(sorted, median, is_outlier),
        limit_ms: ms(limit),
        rule: RULE.to_owned(),
        note: bursts.note(count),
    }
}

fn share_of(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// Outliers are at both ends of the sorted values, so the median without them is a quantile of the values in between.
fn median_moves(sorted: &[u64], median: f64, is_outlier: impl Fn(u64) -> bool) -> bool {
    let first = sorted.partition_point(|nanos| (*nanos as f64) < median && is_outlier(*nanos));
    let last = sorted.partition_point(|nanos| (*nanos as f64) <= median || !is_outlier(*nanos));
    let trimmed = sorted.get(first..last).and_then(|rest| quantile_sorted_f64(rest, 0.5));
    trimmed.is_some_and(|trimmed| (trimmed - median).abs() > MEDIAN_LIMIT * median)
}

struct Bursts {
    groups: usize,
    members: usize,
    clustered: bool,
}

impl Bursts {
    fn new(indices: &[usize], share: f64) -> Self {
        if indices.len() < 2 {
            return Self { groups: 0, members: 0, clustered: false };
        }
        let longest = (CHANCE_NEIGHBOURS / share).floor().clamp(1.0, MAX_GAP);
        let close: Vec<bool> = indices.windows(2).map(|pair| (pair[1] - pair[0]) as f64 <= longest).collect();
        let sizes = close.split(|close| !close).map(|group| group.len() + 1).filter(|size| *size > 1);
        let (groups, members) = sizes.fold((0, 0), |(groups, members), size| (groups + 1, members + size));
        // Under independence each neighbor is close with this probability, regardless of the others.
        let chance = 1.0 - (1.0 - share).powf(longest);
        let expected = chance * close.len() as f64;
        let deviation = (expected * (1.0 - chance)).sqrt();
        let observed = close.iter().filter(|close| **close).count() as f64;
        let clustered = observed - 0.5 - expected > normal_quantile(0.99) * deviation;
        Self { groups, members, clustered }
    }

    fn note(&self, count: usize) -> String {
        let Self { groups, members, clustered } = *self;
        let bursts = if groups == 1 { "1 burst".to_owned() } else { format!("{groups} bursts") };
        match (count, clustered) {
            (0, _) => "none".to_owned(),
            (1, _) => "a single run".to_owned(),
            (_, true) if members == count => format!("all in {bursts}: looks like the system, not the model"),
            (_, true) => format!("{members} of {count} in {bursts}: looks like the system, not the model"),
            _ => "scattered".to_owned(),
        }
    }
}

/// Interquartile range of ascending values.
pub(crate) fn interquartile_range(sorted: &[u64]) -> u64 {
    let quartile = |q| quantile_sorted(sorted, q).unwrap_or(0);
    quartile(0.75) - quartile(0.25)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outliers_of(series: &[u64]) -> Outliers {
        let mut sorted = series.to_vec();
        sorted.sort_unstable();
        let median = quantile_sorted_f64(&sorted, 0.5).unwrap();
        find_outliers(series, &sorted, median, median_absolute_deviation(&sorted, median))
    }

    fn quiet(n: usize) -> Vec<u64> {
        (0..n as u64).map(|run| 1_000_000 + run * 7919 % 1000).collect()
    }

    #[test]
    fn mad_of_known_values() {
        assert_eq!(median_absolute_deviation(&[1, 1, 2, 2, 4, 6, 9], 2.0), 1.0);
        assert_eq!(median_absolute_deviation(&[1, 2, 3, 4], 2.5), 1.0);
        assert_eq!(median_absolute_deviation(&[5], 5.0), 0.0);
        assert_eq!(median_absolute_deviation(&[], 0.0), 0.0);
    }

    #[test]
    fn bursts_are_grouped_and_named() {
        let mut series = quiet(4000);
        for index in (500..507).chain(2000..2007) {
            series[index] = 3_000_000;
        }
        let outliers = outliers_of(&series);
        assert_eq!((outliers.count, outliers.bursts, outliers.in_bursts), (14, 2, 14));
        assert!(outliers.clustered && !outliers.change_result);
        assert_eq!(outliers.note, "all in 2 bursts: looks like the system, not the model");
        assert!((outliers.share_of_time - 14.0 * 3.0 / (14.0 * 3.0 + 3986.0 * 1.0005)).abs() < 1e-4);
    }

    #[test]
    fn regular_outliers_are_scattered() {
        let mut series = quiet(4000);
        for index in (100..4000).step_by(300) {
            series[index] = 3_000_000;
        }
        let outliers = outliers_of(&series);
        assert_eq!((outliers.count, outliers.bursts, outliers.note.as_str()), (13, 0, "scattered"));
    }

    #[test]
    fn expensive_outliers_change_the_result() {
        let mut series = quiet(1000);
        series[77] = 100_000_000;
        let outliers = outliers_of(&series);
        assert_eq!((outliers.count, outliers.note.as_str()), (1, "a single run"));
        assert!(outliers.change_result);
    }

    #[test]
    fn a_coarse_clock_makes_no_outliers() {
        let series: Vec<u64> = (0..1000).map(|run| 1_000_000 + u64::from(run % 10 == 0) * 100).collect();
        assert_eq!(outliers_of(&series).note, "none");
    }
}
