//! Hodges-Lehmann bounds against values of an independent implementation in Python.

use ortscope_analyze::hodges_lehmann::{Hl, signed_rank_bounds};

fn close(found: Hl, estimate: f64, low: f64, high: f64) {
    for (found, expected) in
        [(found.estimate, estimate), (found.low.unwrap(), low), (found.high.unwrap(), high)]
    {
        assert!((found - expected).abs() < 1e-12, "{found} is not {expected}");
    }
}

fn waves(n: i32) -> Vec<f64> {
    (0..n).map(|index| (f64::from(index) * 1.7).sin() * 0.03 + 0.01).collect()
}

#[test]
fn the_three_looks_of_the_gate() {
    let six = [0.011, -0.004, 0.02, 0.007, 0.013, 0.001];
    close(signed_rank_bounds(&six, 0.016).unwrap(), 0.008, -0.004, 0.02);
    let ten = [0.031, 0.012, -0.008, 0.022, 0.047, 0.018, 0.005, 0.029, 0.001, 0.036];
    close(signed_rank_bounds(&ten, 0.01).unwrap(), 0.0195, 0.003, 0.0345);
    close(signed_rank_bounds(&ten, 0.025).unwrap(), 0.0195, 0.0065, 0.0325);
    close(
        signed_rank_bounds(&waves(20), 0.02).unwrap(),
        0.01101982354687473,
        -0.000925411517473938,
        0.021977306689352355,
    );
    close(
        signed_rank_bounds(&waves(60), 0.025).unwrap(),
        0.010017832899793744,
        0.004537334538236388,
        0.0151167422144566,
    );
}

#[test]
fn the_normal_approximation_continues_the_exact_bounds() {
    // Exact for 61 differences: 0.010406 [0.005323, 0.015641].
    let found = signed_rank_bounds(&waves(61), 0.025).unwrap();
    assert!((found.estimate - 0.010405894089270604).abs() < 1e-12);
    assert!((found.low.unwrap() - 0.005323230547099662).abs() < 1e-4);
    assert!((found.high.unwrap() - 0.015641376474389398).abs() < 1e-4);
}

#[test]
fn counting_and_storing_agree() {
    // 512 differences are stored, 513 are counted: one more value in the middle moves nothing by more than a hair.
    let mut differences = waves(512);
    let stored = signed_rank_bounds(&differences, 0.025).unwrap();
    differences.push(stored.estimate);
    let counted = signed_rank_bounds(&differences, 0.025).unwrap();
    assert!((stored.estimate - counted.estimate).abs() < 1e-4);
    assert!((stored.low.unwrap() - counted.low.unwrap()).abs() < 1e-4);
    assert!((stored.high.unwrap() - counted.high.unwrap()).abs() < 1e-4);
    // Whole numbers 0..=1000 are symmetric around 500.
    let line: Vec<f64> = (0..=1000).map(f64::from).collect();
    assert_eq!(signed_rank_bounds(&line, 0.025).unwrap().estimate, 500.0);
}

#[test]
fn too_few_have_no_bound() {
    let two = signed_rank_bounds(&[1.0, 3.0], 0.025).unwrap();
    assert_eq!(two, Hl { estimate: 2.0, low: None, high: None });
    assert_eq!(signed_rank_bounds(&[], 0.025), None);
    assert_eq!(signed_rank_bounds(&[f64::NAN, f64::INFINITY], 0.025), None);
    // Five differences: P(W = 0) = 1/32 > 2.5 %, but ≤ 5 %.
    assert_eq!(signed_rank_bounds(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.025).unwrap().low, None);
    assert_eq!(signed_rank_bounds(&[1.0, 2.0, 3.0, 4.0, 5.0], 0.05).unwrap().low, Some(1.0));
}
