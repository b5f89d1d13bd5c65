//! Holm's step-down procedure: several hypotheses tested together, with the error of one.

/// Which of the hypotheses with these p-values are rejected so that any false rejection has probability ≤ `alpha`.
/// `None` is a hypothesis without data: it counts in the family and is never rejected.
pub fn holm(p_values: &[Option<f64>], alpha: f64) -> Vec<bool> {
    let mut order: Vec<(usize, f64)> =
        p_values.iter().enumerate().filter_map(|(index, p)| Some((index, (*p)?))).collect();
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let mut rejected = vec![false; p_values.len()];
    for (step, (index, p)) in order.into_iter().enumerate() {
        let left = (p_values.len() - step) as f64;
        if p.is_nan() || p > alpha / left {
            break;
        }
        rejected[index] = true;
    }
    rejected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rejection_makes_the_next_easier() {
        // 0.01 ≤ 0.05 / 3, 0.02 ≤ 0.05 / 2, 0.04 ≤ 0.05.
        assert_eq!(holm(&[Some(0.04), Some(0.01), Some(0.02)], 0.05), [true, true, true]);
        // The first step fails, so the others are not looked at.
        assert_eq!(holm(&[Some(0.04), Some(0.02), Some(0.02)], 0.05), [false, false, false]);
        assert_eq!(holm(&[Some(0.001), Some(0.03), Some(0.03)], 0.05), [true, false, false]);
    }

    #[test]
    fn what_was_not_measured_still_counts() {
        assert_eq!(holm(&[Some(0.04), None], 0.05), [false, false]);
        assert_eq!(holm(&[Some(0.02), None], 0.05), [true, false]);
        assert_eq!(holm(&[Some(f64::NAN)], 0.05), [false]);
        assert!(holm(&[], 0.05).is_empty());
    }
}
