//! One-sample Hodges-Lehmann estimate with signed-rank bounds: the shift of paired differences for any distribution,
//! with an interval that does not assume normality.
//!
//! The estimate is the median of all Walsh averages (dᵢ + dⱼ) / 2, i ≤ j; the bounds are the Walsh averages that the
//! Wilcoxon signed-rank distribution cuts off (Hollander, Wolfe and Chicken, *Nonparametric Statistical Methods*,
//! 3.3). Exact up to 60 differences, normal approximation above.

use serde::{Deserialize, Serialize};

use crate::distribution::{normal_cumulative, normal_quantile};

/// Differences up to which the signed-rank distribution is computed exactly.
const EXACT_UP_TO: usize = 60;
/// Differences up to which all Walsh averages are stored (131 328 of them); above, they are counted, not stored.
const STORED_UP_TO: usize = 512;

/// A shift and its one-sided bounds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Hl {
    pub estimate: f64,
    /// Lower bound; `None` when there are too few differences for any bound.
    pub low: Option<f64>,
    /// Upper bound; `None` when there are too few differences for any bound.
    pub high: Option<f64>,
}

/// The Hodges-Lehmann shift of `d`. Each bound holds with probability 1 − `alpha`, both together with 1 − 2 `alpha`.
/// `None` if `d` contains no finite number; other numbers are ignored.
pub fn signed_rank_bounds(d: &[f64], alpha: f64) -> Option<Hl> {
    let mut sorted: Vec<f64> = d.iter().copied().filter(|value| value.is_finite()).collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    let pairs = n * (n + 1) / 2;
    let cut = if n <= EXACT_UP_TO { exact_cut(n, alpha) } else { normal_cut(n, alpha) };
    let walsh = Walsh::new(sorted);
    let estimate = f64::midpoint(walsh.at((pairs - 1) / 2), walsh.at(pairs / 2));
    // Ties and rounding must not put the estimate outside its own bounds.
    let low = cut.map(|cut| walsh.at((cut - 1).min(pairs - 1)).min(estimate));
    let high = cut.map(|cut| walsh.at(pairs.saturating_sub(cut)).max(estimate));
    Some(Hl { estimate, low, high })
}

/// The probability, if the shift is at most `theta`, of differences at least as far above it as these: a small value is
/// evidence of a shift above `theta`. `None` if `d` contains no finite number. Differences equal to `theta` are
/// ignored. Below `alpha` exactly when the lower bound of [`signed_rank_bounds`] at `alpha` is above `theta`.
pub fn signed_rank_p_greater(d: &[f64], theta: f64) -> Option<f64> {
    let mut sorted: Vec<f64> = d.iter().copied().filter(|value| value.is_finite()).collect();
    if sorted.is_empty() {
        return None;
    }
    sorted.sort_unstable_by(f64::total_cmp);
    let n = sorted.len();
    // By symmetry P(W ≥ number above) = P(W ≤ number not above).
    let not_above = averages_up_to(&sorted, theta);
    if n <= EXACT_UP_TO {
        return Some(signed_rank_distribution(n).iter().take(not_above + 1).sum::<f64>().min(1.0));
    }
    let (mean, deviation) = normal_moments(n);
    Some(normal_cumulative((not_above as f64 + 0.5 - mean) / deviation))
}

/// How many of the smallest Walsh averages lie below a bound: the largest c with P(W ≤ c − 1) ≤ `alpha`. `None` if
/// even the smallest average is not a bound.
fn exact_cut(n: usize, alpha: f64) -> Option<usize> {
    let mut cumulative = 0.0;
    let cut = signed_rank_distribution(n)
        .iter()
        .take_while(|share| {
            cumulative += **share;
            cumulative <= alpha
        })
        .count();
    (cut > 0).then_some(cut)
}

/// P(W = w) of the signed-rank statistic of `n` differences, for every w.
fn signed_rank_distribution(n: usize) -> Vec<f64> {
    let mut probability = vec![0.0; n * (n + 1) / 2 + 1];
    probability[0] = 1.0;
    let mut reached = 0;
    for rank in 1..=n {
        reached += rank;
        for sum in (0..=reached).rev() {
            let with_rank = if sum >= rank { probability[sum - rank] } else { 0.0 };
            probability[sum] = (probability[sum] + with_rank) / 2.0;
        }
    }
    probability
}

fn normal_moments(n: usize) -> (f64, f64) {
    let n = n as f64;
    (n * (n + 1.0) / 4.0, (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt())
}

fn normal_cut(n: usize, alpha: f64) -> Option<usize> {
    let (mean, deviation) = normal_moments(n);
    // W ≤ c − 1 with a continuity correction of one half.
    let cut = (mean + normal_quantile(alpha) * deviation + 0.5).floor();
    (cut >= 1.0).then_some(cut as usize)
}

/// The Walsh averages in ascending order.
enum Walsh {
    Stored(Vec<f64>),
    Counted(Vec<f64>),
}

impl Walsh {
    fn new(sorted: Vec<f64>) -> Self {
        if sorted.len() > STORED_UP_TO {
            return Self::Counted(sorted);
        }
        let mut averages: Vec<f64> = sorted
            .iter()
            .enumerate()
            .flat_map(|(index, a)| sorted[index..].iter().map(move |b| f64::midpoint(*a, *b)))
            .collect();
        averages.sort_unstable_by(f64::total_cmp);
        Self::Stored(averages)
    }

    fn at(&self, index: usize) -> f64 {
        match self {
            Self::Stored(averages) => averages[index.min(averages.len() - 1)],
            Self::Counted(sorted) => select_average(sorted, index),
        }
    }
}

/// The average at `index` by bisection on its value: each step counts in O(n) how many averages are not above it, so
/// ten thousand differences need no fifty million averages.
fn select_average(sorted: &[f64], index: usize) -> f64 {
    let (mut low, mut high) = (sorted[0], sorted[sorted.len() - 1]);
    for _ in 0..200 {
        let middle = f64::midpoint(low, high);
        if middle <= low || middle >= high {
            break;
        }
        if averages_up_to(sorted, middle) > index {
            high = middle;
        } else {
            low = middle;
        }
    }
    if averages_up_to(sorted, low) > index { low } else { high }
}

fn averages_up_to(sorted: &[f64], limit: f64) -> usize {
    let mut count = 0;
    let mut partners = sorted.len();
    for (index, a) in sorted.iter().enumerate() {
        while partners > index && f64::midpoint(*a, sorted[partners - 1]) > limit {
            partners -= 1;
        }
        if partners <= index {
            break;
        }
        count += partners - index;
    }
    count
}
