//! Whether so many events are more than chance.

/// Chance of `count` or more events where `expected` come on average.
pub(super) fn poisson_at_least(count: u64, expected: f64) -> f64 {
    if count == 0 {
        return 1.0;
    }
    if expected > 50.0 {
        // Far from zero the normal distribution is near enough: 2.33 deviations are 1 %.
        let score = (count as f64 - 0.5 - expected) / expected.sqrt();
        return if score > 2.33 { 0.0 } else { 1.0 };
    }
    let (mut term, mut below) = ((-expected).exp(), 0.0);
    for index in 0..count.min(1000) {
        below += term;
        term *= expected / (index + 1) as f64;
    }
    (1.0 - below).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_are_those_of_poisson() {
        assert_eq!(poisson_at_least(0, 0.1), 1.0);
        assert!((poisson_at_least(1, 0.1) - 0.095_162_58).abs() < 1e-6);
        assert!((poisson_at_least(3, 2.0) - 0.323_323_58).abs() < 1e-6);
        assert_eq!(poisson_at_least(100, 200.0), 1.0);
        assert_eq!(poisson_at_least(300, 200.0), 0.0);
    }
}
