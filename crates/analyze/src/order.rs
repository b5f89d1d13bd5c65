//! Order statistics shared by the modules: quantiles of sorted values, medians, and the milliseconds of a report.

/// Milliseconds of a duration in nanoseconds, the unit reports use.
pub(crate) fn ms(nanos: f64) -> f64 {
    nanos / 1e6
}

/// The `q` quantile (0 to 1) of ascending values by linear interpolation (Hyndman and Fan's type 7, the default of
/// numpy and R). `None` when there are none.
pub(crate) fn quantile_sorted(sorted: &[u64], q: f64) -> Option<u64> {
    let (below, above, fraction) = neighbors(sorted, q)?;
    // The difference, not the values, goes through f64: at most 0.5 ns off below 2^53 ns (104 days).
    Some(below + (((above - below) as f64 * fraction).round() as u64).min(above - below))
}

/// The same quantile, kept as `f64` so that the mean of two integers is not rounded.
pub(crate) fn quantile_sorted_f64(sorted: &[u64], q: f64) -> Option<f64> {
    let (below, above, fraction) = neighbors(sorted, q)?;
    Some(below as f64 + (above - below) as f64 * fraction)
}

fn neighbors(sorted: &[u64], q: f64) -> Option<(u64, u64, f64)> {
    let last = sorted.len().checked_sub(1)?;
    let position = q.clamp(0.0, 1.0) * last as f64;
    let index = (position.floor() as usize).min(last);
    Some((sorted[index], sorted[(index + 1).min(last)], position - index as f64))
}

/// The median, reordering `values`. `None` when there are none. Values must not be NaN (they then sort last).
pub(crate) fn median_in_place(values: &mut [f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (lower, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if !even {
        return Some(upper);
    }
    let below = lower.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    Some(below + (upper - below) / 2.0)
}

/// The median of durations; for an even number the mean of the two middle ones. `None` for an empty list.
pub fn median_ns(values: impl IntoIterator<Item = u64>) -> Option<f64> {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    quantile_sorted_f64(&values, 0.5)
}

/// Natural logarithm of a latency. Zero, which a coarse clock can produce, counts as one nanosecond.
pub(crate) fn ln_ns(nanos: u64) -> f64 {
    (nanos.max(1) as f64).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate_like_numpy() {
        let sorted = [10, 20, 30, 40];
        assert_eq!(quantile_sorted(&sorted, 0.0), Some(10));
        assert_eq!(quantile_sorted(&sorted, 0.5), Some(25));
        assert_eq!(quantile_sorted(&sorted, 0.99), Some(40));
        assert_eq!(quantile_sorted(&sorted, 1.0), Some(40));
        assert_eq!(quantile_sorted_f64(&[1, 2], 0.5), Some(1.5));
        assert_eq!(quantile_sorted(&[], 0.5), None);
        assert_eq!(quantile_sorted(&[0, u64::MAX], 1.0), Some(u64::MAX));
    }

    #[test]
    fn median_of_odd_even_and_none() {
        assert_eq!(median_in_place(&mut [3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_in_place(&mut [4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median_in_place(&mut []), None);
        assert_eq!(median_ns([]), None);
        assert_eq!(median_ns([7]), Some(7.0));
        assert_eq!(median_ns([8, 3]), Some(5.5));
        assert_eq!(median_ns([9, 1, 4]), Some(4.0));
    }
}
