//! Percentiles against values worked out by hand.

use ortscope_analyze::percentile::{Percentile, percentiles, runs_needed};

#[test]
fn runs_needed_match_published_values() {
    for (p, runs) in [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)] {
        assert_eq!(runs_needed(p, 1.0), runs);
        assert_eq!(runs_needed(p, 2.5), (runs as f64 * 2.5).ceil() as u64);
    }
    assert_eq!(runs_needed(0.0, 1.0), 1);
    assert_eq!(runs_needed(1.0, 1.0), u64::MAX);
}

/// A permutation of 0..n whose neighbors have nothing to do with each other.
fn shuffled(n: u64) -> Vec<u64> {
    (0..n).map(|index| index * 7919 % n).collect()
}

#[test]
fn ten_thousand_independent_runs() {
    // 50 batches of 200, t(49) = 2.009575; the sequence is more even than chance, so the noise factor is 1.
    // p50: half = 2.009575 · √(0.25 / 10000) = 0.010048 → indices floor(4899.5) and ceil(5100.5).
    // p99: half = 2.009575 · √(0.0099 / 10000) = 0.0019995 → indices floor(9880.005) and ceil(9919.995).
    let found = percentiles(&shuffled(10_000), &[0.5, 0.99]);
    let expected = |p, value_ns, low_ns, high_ns, needs_runs| Percentile {
        p,
        value_ns: Some(value_ns),
        low_ns: Some(low_ns),
        high_ns: Some(high_ns),
        noise_factor: 1.0,
        needs_runs,
    };
    assert_eq!(found[0], expected(0.5, 5000, 4899, 5101, 6));
    assert_eq!(found[1], expected(0.99, 9899, 9880, 9920, 368));
}

#[test]
fn a_long_swing_widens_the_interval() {
    // The same values, but the slow half first: batches are all below or all above the median.
    let sorted: Vec<u64> = (0..10_000).collect();
    let swing = &percentiles(&sorted, &[0.5])[0];
    // 50 batches, half of them 0 and half 1: variance 12.5/49, noise factor 200 · (12.5/49) / 0.25 = 204.1. The median
    // 4999.5 is rounded up, so that one batch is 0.995 and not 1.
    assert!((swing.noise_factor - 10_000.0 / 49.0).abs() < 0.1, "{}", swing.noise_factor);
    assert!((1224..=1226).contains(&swing.needs_runs));
    // Half width more than ten times that of independent runs.
    assert!(swing.relative_half_width().unwrap() > 0.19);
}

#[test]
fn too_few_runs_give_the_number_of_runs_needed() {
    let few = percentiles(&shuffled(100), &[0.5, 0.9, 0.99, 0.999]);
    assert!(few[0].value_ns.is_some() && few[1].value_ns.is_some());
    for (percentile, needs_runs) in few[2..].iter().zip([368, 3688]) {
        assert_eq!((percentile.value_ns, percentile.low_ns, percentile.high_ns), (None, None, None));
        assert!(percentile.needs_runs >= needs_runs);
    }
    assert_eq!(percentiles(&[], &[0.5])[0].value_ns, None);
    assert_eq!(percentiles(&[7], &[0.5])[0].needs_runs, 6);
}

#[test]
fn equal_runs_have_no_width() {
    let equal = &percentiles(&[42; 1000], &[0.5, 0.99])[1];
    assert_eq!((equal.value_ns, equal.low_ns, equal.high_ns), (Some(42), Some(42), Some(42)));
    assert_eq!(equal.relative_half_width(), Some(0.0));
}

#[test]
fn overlap_treats_an_unknown_end_as_open() {
    let interval = |low_ns, high_ns| Percentile {
        p: 0.5,
        value_ns: low_ns,
        low_ns,
        high_ns,
        noise_factor: 1.0,
        needs_runs: 6,
    };
    let a = interval(Some(10), Some(20));
    assert!(a.overlaps(&interval(Some(20), Some(30))));
    assert!(!a.overlaps(&interval(Some(21), Some(30))));
    assert!(!interval(Some(21), None).overlaps(&a));
    assert!(interval(Some(5), None).overlaps(&a));
}
