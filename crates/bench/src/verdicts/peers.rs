//! Common methods that the benchmark compares with ours: tests on raw latencies, thresholds on means.

use ortscope_analyze::distribution::normal_cumulative;

/// Returns the p-value of the Mann-Whitney test that `b` is larger than `a`, with mean ranks for ties and the normal
/// approximation that is usual at such sizes. `None` if a side is empty or all values are equal.
pub fn mann_whitney_p_greater(a: &[u64], b: &[u64]) -> Option<f64> {
    let mut all: Vec<(u64, bool)> =
        a.iter().map(|value| (*value, false)).chain(b.iter().map(|value| (*value, true))).collect();
    all.sort_unstable();
    let (n, m) = (a.len() as f64, b.len() as f64);
    if a.is_empty() || b.is_empty() {
        return None;
    }
    let (mut rank_sum, mut ties, mut begin) = (0.0, 0.0, 0);
    while begin < all.len() {
        let value = all[begin].0;
        let end =
            all[begin..].iter().position(|(other, _)| *other != value).map_or(all.len(), |at| begin + at);
        let rank = (begin + 1 + end) as f64 / 2.0;
        rank_sum += rank * all[begin..end].iter().filter(|(_, is_b)| *is_b).count() as f64;
        let tied = (end - begin) as f64;
        ties += tied * tied * tied - tied;
        begin = end;
    }
    let u = rank_sum - m * (m + 1.0) / 2.0;
    let total = n + m;
    let variance = n * m / 12.0 * (total + 1.0 - ties / (total * (total - 1.0)));
    (variance > 0.0).then(|| normal_cumulative((n * m / 2.0 - u + 0.5) / variance.sqrt()))
}

/// Returns the mean of `b` over the mean of `a`, minus 1.
pub fn mean_change(a: &[u64], b: &[u64]) -> Option<f64> {
    let mean = |values: &[u64]| {
        (!values.is_empty())
            .then(|| values.iter().map(|value| *value as f64).sum::<f64>() / values.len() as f64)
            .filter(|mean| *mean > 0.0)
    };
    Some(mean(b)? / mean(a)? - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mann_whitney_by_hand() {
        // U = 20.5, mean 12.5, three ties of two: variance 25/12 · (11 − 18/90) = 22.5, z = (8 − 0.5) / √22.5.
        let p = mann_whitney_p_greater(&[1, 2, 3, 4, 5], &[3, 4, 5, 6, 7]).unwrap();
        assert!((p - 0.056_92).abs() < 1e-4, "{p}");
        // U = mean = 4.5, variance 0.75 · (7 − 18/30) = 4.8, z = −0.5 / √4.8.
        let equal = mann_whitney_p_greater(&[1, 2, 3], &[1, 2, 3]).unwrap();
        assert!((equal - 0.590_26).abs() < 1e-4, "{equal}");
        assert_eq!(mann_whitney_p_greater(&[], &[1]), None);
        assert_eq!(mann_whitney_p_greater(&[1, 1], &[1, 1]), None);
    }

    #[test]
    fn means() {
        assert_eq!(mean_change(&[10, 20], &[30]), Some(1.0));
        assert_eq!(mean_change(&[0], &[30]), None);
    }
}
