//! Recordings of two sides made at different times: nothing is paired, so every recording is one value of its side.
//!
//! The shift is the median of all differences b − a (Hodges and Lehmann) with bounds from the Mann-Whitney
//! distribution, exact up to 50 recordings a side. The spread between recordings is in the data itself, so a machine
//! that changes from hour to hour gives wide bounds instead of false alarms. With fewer than [`FEWEST`] recordings a
//! side the verdict is always inconclusive.

use super::metric::{MetricPlan, MetricVerdict, Verdict};
use crate::distribution::normal_quantile;
use crate::order::median_in_place;

/// With fewer recordings on either side there is no verdict.
pub const FEWEST: usize = 5;
/// Error of each bound.
pub const ALPHA: f64 = 0.025;
/// Sizes up to which the distribution is computed exactly.
const EXACT_UP_TO: usize = 50;
/// Maximum values per side: 250,000 differences.
const MOST: usize = 500;

/// The verdict on one metric, from one value per recording. `share_of_error` is 1 for one metric, 1/m for m of them
/// (Bonferroni: recordings are few, and Holm's later steps would rarely be reached).
pub fn compare(plan: MetricPlan, a: &[f64], b: &[f64], share_of_error: f64) -> MetricVerdict {
    let metric = plan.metric;
    let usable = |values: &[f64]| -> Vec<f64> {
        values.iter().copied().filter(|value| value.is_finite() && *value > 0.0).take(MOST).collect()
    };
    let (mut a, mut b) = (usable(a), usable(b));
    let rounds = a.len().min(b.len());
    let alpha = ALPHA * share_of_error;
    let (estimate, low, high) = shift(
        &a.iter().map(|value| value.ln()).collect::<Vec<_>>(),
        &b.iter().map(|value| value.ln()).collect::<Vec<_>>(),
        alpha,
    );
    let margin = metric.log_margin(plan.margin);
    // As costs: positive is worse.
    let (cost_low, cost_high) =
        if metric.higher_is_better() { (high.map(|high| -high), low.map(|low| -low)) } else { (low, high) };
    let enough = rounds >= FEWEST;
    let verdict = match (cost_low, cost_high) {
        (Some(low), _) if enough && low > margin => Verdict::Regression,
        (_, Some(high)) if enough && high < -margin => Verdict::Improvement,
        (Some(_), Some(high)) if enough && high < margin => Verdict::Pass,
        _ => Verdict::Inconclusive,
    };
    let reason = (!enough).then(|| {
        format!("a verdict needs at least {FEWEST} recordings a side, there are {} and {}", a.len(), b.len())
    });
    MetricVerdict {
        metric,
        margin: plan.margin,
        verdict,
        rounds,
        change: estimate.map(f64::exp_m1).filter(|ratio| ratio.is_finite()),
        low: low.map(f64::exp_m1).filter(|ratio| ratio.is_finite()),
        high: high.map(f64::exp_m1).filter(|ratio| ratio.is_finite()),
        a: median_in_place(&mut a),
        b: median_in_place(&mut b),
        alpha,
        p_regression: None,
        reason,
    }
}

/// Shift from `a` to `b` with its bounds.
fn shift(a: &[f64], b: &[f64], alpha: f64) -> (Option<f64>, Option<f64>, Option<f64>) {
    let mut differences: Vec<f64> = b.iter().flat_map(|b| a.iter().map(move |a| b - a)).collect();
    differences.sort_unstable_by(f64::total_cmp);
    let Some(estimate) = median_in_place(&mut differences.clone()) else {
        return (None, None, None);
    };
    let cut = cut(a.len(), b.len(), alpha).filter(|cut| *cut <= differences.len());
    let low = cut.map(|cut| differences[cut - 1].min(estimate));
    let high = cut.map(|cut| differences[differences.len() - cut].max(estimate));
    (Some(estimate), low, high)
}

/// The largest c with P(U ≤ c − 1) ≤ `alpha`; `None` if even the smallest difference is not a bound.
fn cut(n: usize, m: usize, alpha: f64) -> Option<usize> {
    if n > EXACT_UP_TO || m > EXACT_UP_TO {
        let (n, m) = (n as f64, m as f64);
        let deviation = (n * m * (n + m + 1.0) / 12.0).sqrt();
        let cut = (n * m / 2.0 + normal_quantile(alpha) * deviation + 0.5).floor();
        return (cut >= 1.0).then_some(cut as usize);
    }
    let mut cumulative = 0.0;
    let cut = mann_whitney_distribution(n, m)
        .into_iter()
        .take_while(|share| {
            cumulative += share;
            cumulative <= alpha
        })
        .count();
    (cut > 0).then_some(cut)
}

/// P(U = u) for every u. With the last value of i + j being of the second side with probability j / (i + j), which then
/// lies above i values of the first: P(i, j) = j/(i+j) · P(i, j−1) shifted by i + i/(i+j) · P(i−1, j).
fn mann_whitney_distribution(n: usize, m: usize) -> Vec<f64> {
    let mut previous: Vec<Vec<f64>> = vec![vec![1.0]; m + 1];
    for i in 1..=n {
        let mut row: Vec<Vec<f64>> = vec![vec![1.0]];
        for (j, without) in previous.iter().enumerate().skip(1) {
            let mut probability = vec![0.0; i * j + 1];
            let share = j as f64 / (i + j) as f64;
            for (u, value) in row[j - 1].iter().enumerate() {
                probability[u + i] += share * value;
            }
            for (u, value) in without.iter().enumerate() {
                probability[u] += (1.0 - share) * value;
            }
            row.push(probability);
        }
        previous = row;
    }
    previous.pop().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::metric::Metric;

    #[test]
    fn the_distribution_matches_published_tables() {
        // 3 and 3: 20 orders, U = 0, 1, 2, 3, 4 have 1, 1, 2, 3, 3 of them.
        let found = mann_whitney_distribution(3, 3);
        for (u, orders) in [1.0, 1.0, 2.0, 3.0, 3.0].into_iter().enumerate() {
            assert!((found[u] - orders / 20.0).abs() < 1e-12, "{u}");
        }
        assert!((found.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        // Tables of Mann and Whitney: critical value 2 for 5 and 5 at 2.5 %, 23 for 10 and 10.
        assert_eq!((cut(5, 5, 0.025), cut(10, 10, 0.025)), (Some(3), Some(24)));
        assert_eq!(cut(3, 3, 0.025), None);
        // The approximation continues the exact one.
        let exact = cut(50, 50, 0.025).unwrap() as f64;
        let near = cut(51, 51, 0.025).unwrap() as f64;
        assert!((near / exact - 1.0).abs() < 0.06, "{exact} {near}");
    }

    #[test]
    fn clear_cases() {
        let spread = |level: f64| (0..6).map(|i| level * (1.0 + 0.001 * f64::from(i))).collect::<Vec<_>>();
        let plan = MetricPlan::usual(Metric::P50);
        for (level, verdict) in
            [(1.0, Verdict::Pass), (1.1, Verdict::Regression), (0.9, Verdict::Improvement)]
        {
            let found = compare(plan, &spread(1.0), &spread(level), 1.0);
            assert_eq!(found.verdict, verdict, "{level}");
            assert!((found.change.unwrap() - (level - 1.0)).abs() < 0.01);
        }
        let throughput = compare(MetricPlan::usual(Metric::Throughput), &spread(1.0), &spread(0.9), 1.0);
        assert_eq!(throughput.verdict, Verdict::Regression);
        assert!(throughput.low.unwrap() <= throughput.change.unwrap());
    }

    #[test]
    fn one_recording_a_side_gives_no_verdict() {
        let found = compare(MetricPlan::usual(Metric::P50), &[1.0], &[9.0], 1.0);
        assert_eq!((found.verdict, found.low, found.high), (Verdict::Inconclusive, None, None));
        assert!((found.change.unwrap() - 8.0).abs() < 1e-9);
        assert!(found.reason.unwrap().contains("at least 5"));
        let none = compare(MetricPlan::usual(Metric::P50), &[], &[f64::NAN, 0.0], 1.0);
        assert_eq!((none.verdict, none.change), (Verdict::Inconclusive, None));
    }
}
