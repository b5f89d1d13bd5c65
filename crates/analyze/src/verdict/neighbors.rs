//! Compares the medians of B and A that ran in short turns: each turn is compared with its neighbors.
//!
//! The speed of a machine varies: a virtual processor may be 50 % slower from one tenth of a second to the next. The
//! median of a whole block then jumps between the speeds by far more than the change of interest. Two consecutive
//! turns mostly see the same speed, so their ratio shows the difference of the sides.

use crate::order::{median_in_place, quantile_sorted_f64};

/// Fewer pairs of turns would be a guess.
const MIN_PAIRS: usize = 8;
/// Runs that make a turn: of fewer, the median is one of the odd ones.
const MIN_RUNS: usize = 3;

/// A run of a side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedRun {
    pub start_ns: u64,
    pub nanos: u64,
}

/// The median, over all turns that follow each other, of B's median run over A's. Both lists are sorted by their start.
/// `None` when there are too few turns.
pub fn neighbors_ratio(a: &[TimedRun], b: &[TimedRun]) -> Option<f64> {
    let turns = turns(a, b);
    // Every turn is compared with the one before and the one after it, so a steady slowdown cancels out.
    let mut logs: Vec<f64> = turns
        .windows(2)
        .filter_map(|pair| match pair {
            [(false, a), (true, b)] | [(true, b), (false, a)] => Some((b / a).ln()),
            _ => None,
        })
        .filter(|log| log.is_finite())
        .collect();
    if logs.len() < MIN_PAIRS {
        return None;
    }
    median_in_place(&mut logs).map(f64::exp)
}

/// The turns in the order of time: whether it is B's, and the median of its runs.
fn turns(a: &[TimedRun], b: &[TimedRun]) -> Vec<(bool, f64)> {
    let mut turns = Vec::new();
    let (mut a, mut b) = (a, b);
    while !a.is_empty() || !b.is_empty() {
        let first = |runs: &[TimedRun]| runs.first().map_or(u64::MAX, |run| run.start_ns);
        let is_b = first(b) < first(a);
        let (mine, until) = if is_b { (&mut b, first(a)) } else { (&mut a, first(b)) };
        // At least one, even if both began in the same nanosecond.
        let length = mine.partition_point(|run| run.start_ns < until).max(1);
        let (turn, rest) = mine.split_at(length);
        *mine = rest;
        if turn.len() >= MIN_RUNS {
            let mut nanos: Vec<u64> = turn.iter().map(|run| run.nanos).collect();
            nanos.sort_unstable();
            turns.extend(quantile_sorted_f64(&nanos, 0.5).map(|median| (is_b, median)));
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;
    use crate::verdict::block_quantile;

    /// Turns of 10 ms on a machine whose speed is one of two, each for some 50 ms; B takes `factor` times as long.
    fn two_speeds(seed: u64, factor: f64) -> [Vec<TimedRun>; 2] {
        let mut random = Random::new(seed);
        let mut sides = [Vec::new(), Vec::new()];
        let (mut now, mut slow_until, mut slow) = (0.0, 0.0, false);
        for turn in 0..100 {
            let of = turn % 2;
            let end = now + 1e7;
            while now < end {
                if now >= slow_until {
                    slow = !slow;
                    slow_until = now + random.exponential(5e7);
                }
                let base = if slow { 125_000.0 } else { 83_000.0 };
                let nanos = base * (1.0 + 0.02 * random.normal()) * if of == 1 { factor } else { 1.0 };
                sides[of].push(TimedRun { start_ns: now as u64, nanos: nanos as u64 });
                now += nanos;
            }
        }
        sides
    }

    #[test]
    fn two_speeds_do_not_hide_a_tenth() {
        let (mut worst, mut worst_of_medians) = (0.0f64, 0.0f64);
        for seed in 1..=50 {
            let [a, b] = two_speeds(seed, 1.1);
            let ratio = neighbors_ratio(&a, &b).expect("enough turns");
            worst = worst.max((ratio / 1.1 - 1.0).abs());
            let median = |side: &[TimedRun]| {
                block_quantile(&side.iter().map(|run| run.nanos).collect::<Vec<_>>(), 0.5).expect("runs")
            };
            worst_of_medians = worst_of_medians.max((median(&b) / median(&a) / 1.1 - 1.0).abs());
        }
        assert!(worst < 0.02, "{worst}");
        assert!(worst_of_medians > 0.1, "whole medians would do as well: {worst_of_medians}");
    }

    #[test]
    fn the_same_thing_has_no_ratio_but_one() {
        let mean: f64 = (1..=50)
            .map(|seed| {
                let [a, b] = two_speeds(seed, 1.0);
                neighbors_ratio(&a, &b).expect("enough turns").ln()
            })
            .sum::<f64>()
            / 50.0;
        assert!(mean.abs() < 0.003, "{mean}");
    }

    #[test]
    fn too_few_turns_say_nothing() {
        let [a, b] = two_speeds(1, 1.0);
        assert_eq!(neighbors_ratio(&a, &[]), None);
        assert_eq!(neighbors_ratio(&[], &[]), None);
        assert_eq!(neighbors_ratio(&a[..200], &b[..200]), None);
    }

    #[test]
    fn a_side_that_is_mostly_slow_is_slower() {
        let run = |at: u64, nanos| TimedRun { start_ns: at, nanos };
        let (mut a, mut b) = (Vec::new(), Vec::new());
        for turn in 0..40u64 {
            for at in 0..5 {
                a.push(run(turn * 100 + at, 10));
                b.push(run(turn * 100 + 50 + at, if turn % 5 < 3 { 20 } else { 10 }));
            }
        }
        assert_eq!(neighbors_ratio(&a, &b).map(|ratio| (ratio * 1e9).round()), Some(2e9));
    }
}
