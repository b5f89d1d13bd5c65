//! Where a history of runs has changed: for information, never for a gate.
//!
//! Pettitt's test (Applied Statistics 28, 1979) finds the position that best splits a series by ranks, and the
//! probability of such a split by chance. Applied again to both parts it finds several changes. Ranks make it robust
//! against single outliers; a change must also be large enough to matter ([`MIN_CHANGE`]).

use serde::{Deserialize, Serialize};

use crate::order::median_in_place;

/// Minimum runs on each side of a change: fewer cannot be distinguished from chance.
pub const FEWEST_RUNS: usize = 5;
/// Error of each test.
const ALPHA: f64 = 0.01;
/// Changes of the median below this ratio are not worth a line.
pub const MIN_CHANGE: f64 = 0.01;
/// Maximum number of runs, the newest: the test takes quadratic time.
pub const MAX_RUNS: usize = 2000;

/// A step in a history.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// Index of the first run after the change.
    pub at: usize,
    /// Medians of the stretches before and after it.
    pub before: f64,
    pub after: f64,
    /// `after` over `before`, minus 1.
    pub change: f64,
    /// Of Pettitt's test.
    pub p: f64,
}

/// The changes in values given in the order of time, the first first. Values must be positive; others count as no change.
pub fn change_points(values: &[f64]) -> Vec<ChangePoint> {
    let offset = values.len().saturating_sub(MAX_RUNS);
    let values = &values[offset..];
    let mut cuts = Vec::new();
    part(values, 0, &mut cuts);
    cuts.sort_unstable_by_key(|(at, _)| *at);
    let mut points: Vec<ChangePoint> = Vec::new();
    for (index, (at, p)) in cuts.iter().enumerate() {
        let begin = index.checked_sub(1).and_then(|before| cuts.get(before)).map_or(0, |(at, _)| *at);
        let end = cuts.get(index + 1).map_or(values.len(), |(at, _)| *at);
        let median = |range: &[f64]| median_in_place(&mut range.to_vec()).unwrap_or(0.0);
        let (before, after) = (median(&values[begin..*at]), median(&values[*at..end]));
        let change = after / before - 1.0;
        if change.is_finite() && change.abs() >= MIN_CHANGE {
            points.push(ChangePoint { at: at + offset, before, after, change, p: *p });
        }
    }
    points
}

fn part(values: &[f64], offset: usize, cuts: &mut Vec<(usize, f64)>) {
    if values.len() < 2 * FEWEST_RUNS {
        return;
    }
    let Some((at, p)) = pettitt(values) else { return };
    if p > ALPHA {
        return;
    }
    cuts.push((offset + at, p));
    part(&values[..at], offset, cuts);
    part(&values[at..], offset + at, cuts);
}

/// The best parting that leaves [`FEWEST_RUNS`] on each side, and its p-value.
fn pettitt(values: &[f64]) -> Option<(usize, f64)> {
    let sign = |a: f64, b: f64| match a.partial_cmp(&b) {
        Some(std::cmp::Ordering::Greater) => 1.0,
        Some(std::cmp::Ordering::Less) => -1.0,
        _ => 0.0,
    };
    let n = values.len();
    let mut sum = 0.0;
    let mut best: Option<(usize, f64)> = None;
    for (index, value) in values.iter().enumerate() {
        sum += values.iter().map(|other| sign(*value, *other)).sum::<f64>();
        let at = index + 1;
        let allowed = (FEWEST_RUNS..=n - FEWEST_RUNS).contains(&at);
        if allowed && best.is_none_or(|(_, size)| sum.abs() > size) {
            best = Some((at, sum.abs()));
        }
    }
    let (at, size) = best?;
    let n = n as f64;
    let p = 2.0 * (-6.0 * size * size / (n * n * n + n * n)).exp();
    Some((at, p.min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn series(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        levels
            .iter()
            .flat_map(|(runs, level)| std::iter::repeat_n(*level, *runs))
            .map(|level| level * (0.01 * random.normal()).exp())
            .collect()
    }

    #[test]
    fn steps_are_located_correctly() {
        let found = change_points(&series(&[(30, 1.0), (25, 1.1), (40, 0.95)], 5));
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].at.abs_diff(30) <= 1 && found[1].at.abs_diff(55) <= 1, "{found:?}");
        assert!((found[0].change - 0.1).abs() < 0.02 && (found[1].change + 0.136).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn a_steady_history_has_none() {
        let false_ones: usize = (0..100).map(|seed| change_points(&series(&[(60, 1.0)], seed)).len()).sum();
        assert!(false_ones <= 3, "{false_ones} of 100 steady histories");
    }

    #[test]
    fn outliers_and_short_histories_are_not_changes() {
        let mut steady = vec![1.0; 40];
        steady[20] = 50.0;
        assert!(change_points(&steady).is_empty());
        assert!(change_points(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]).is_empty());
        assert!(change_points(&[]).is_empty());
        assert!(change_points(&[0.0; 20]).is_empty());
        assert!(change_points(&[f64::NAN; 20]).is_empty());
    }
}
