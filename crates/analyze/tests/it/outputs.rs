//! Comparison of outputs: figures by hand, and the awkward values.

use ortscope_analyze::outputs::{
    OutputComparison, OutputVerdict, Tensor, Tolerance, Values, compare_outputs,
};
use ortscope_core::tensor::ElementType;

fn floats(reference: &[f32], candidate: &[f32], tolerance: Tolerance) -> OutputComparison {
    let shape = [reference.len() as i64];
    compare_outputs(
        &Tensor { shape: &shape, values: Values::Float32(reference) },
        &Tensor { shape: &shape, values: Values::Float32(candidate) },
        tolerance,
    )
}

#[test]
fn figures_by_hand() {
    let result = floats(&[3.0, 4.0, 0.0], &[3.0, 4.5, 0.0], Tolerance::for_element(ElementType::Float32));
    assert_eq!(
        (result.verdict, result.mismatches, result.first_mismatch),
        (OutputVerdict::Different, 1, Some(1))
    );
    assert_eq!((result.max_absolute, result.max_relative), (Some(0.5), Some(0.125)));
    assert!((result.rms.unwrap() - (0.25_f64 / 3.0).sqrt()).abs() < 1e-15);
    let cosine = (9.0 + 18.0) / (5.0 * (9.0_f64 + 20.25).sqrt());
    assert!((result.cosine_similarity.unwrap() - cosine).abs() < 1e-15);
    assert_eq!(
        result.sentence,
        "different: 1 of 3 values beyond tolerance, largest difference 5.0e-1 (12.50 %)"
    );
}

#[test]
fn the_tolerance_depends_on_the_element_type() {
    let near = floats(&[1.0], &[1.005], Tolerance::for_element(ElementType::Float16));
    assert_eq!(near.verdict, OutputVerdict::Close);
    assert_eq!(
        floats(&[1.0], &[1.005], Tolerance::for_element(ElementType::Float32)).verdict,
        OutputVerdict::Different
    );
    let shape = [2];
    let int = |values| Tensor { shape: &shape, values: Values::Int(values) };
    let quantized = Tolerance::for_element(ElementType::Int8);
    assert_eq!(compare_outputs(&int(&[5, -7]), &int(&[6, -7]), quantized).verdict, OutputVerdict::Close);
    assert_eq!(compare_outputs(&int(&[5, -7]), &int(&[7, -7]), quantized).verdict, OutputVerdict::Different);
    let index = Tolerance::for_element(ElementType::Int64);
    assert_eq!(compare_outputs(&int(&[5, -7]), &int(&[6, -7]), index).verdict, OutputVerdict::Different);
    // Beyond 2^53 two neighbors are one double; they still differ.
    let large = [i64::MAX, 0];
    assert_eq!(
        compare_outputs(&int(&large), &int(&[i64::MAX - 1, 0]), index).verdict,
        OutputVerdict::Different
    );
    assert_eq!(compare_outputs(&int(&large), &int(&[i64::MIN, 0]), index).mismatches, 1);
}

#[test]
fn not_a_number_and_infinity() {
    let tolerance = Tolerance::for_element(ElementType::Float32);
    let both = floats(&[f32::NAN, 1.0], &[f32::NAN, 1.0], tolerance);
    assert_eq!((both.verdict, both.nan_in_reference, both.nan_in_candidate), (OutputVerdict::Same, 1, 1));
    let one = floats(&[2.0, 1.0], &[f32::NAN, 1.0], tolerance);
    assert_eq!((one.verdict, one.mismatches), (OutputVerdict::Different, 1));
    assert!(one.sentence.ends_with("1 NaN against 0 in the reference"), "{}", one.sentence);
    assert_eq!(floats(&[f32::INFINITY], &[f32::INFINITY], tolerance).verdict, OutputVerdict::Same);
    let opposite = floats(&[f32::INFINITY], &[f32::NEG_INFINITY], tolerance);
    assert_eq!((opposite.verdict, opposite.max_absolute), (OutputVerdict::Different, None));
}

#[test]
fn shapes_text_and_nothing() {
    let exact = Tolerance::EXACT;
    let values = Values::Float32(&[1.0, 2.0]);
    let shapes = compare_outputs(&Tensor { shape: &[2], values }, &Tensor { shape: &[1, 2], values }, exact);
    assert_eq!(shapes.verdict, OutputVerdict::Different);
    assert_eq!(shapes.sentence, "different: shape [2] with 2 values against [1, 2] with 2");
    let (a, b) = (["x".to_owned(), "y".to_owned()], ["x".to_owned(), "z".to_owned()]);
    let text = |values| Tensor { shape: &[2], values: Values::Text(values) };
    assert_eq!(compare_outputs(&text(&a), &text(&a), exact).verdict, OutputVerdict::Same);
    let different = compare_outputs(&text(&a), &text(&b), exact);
    assert_eq!((different.mismatches, different.max_absolute), (1, None));
    assert_eq!(compare_outputs(&text(&a), &Tensor { shape: &[2], values }, exact).mismatches, 2);
    assert_eq!(floats(&[], &[], exact).verdict, OutputVerdict::Same);
}
