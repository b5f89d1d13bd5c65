//! Whether two runs of a model compute the same result: two providers, two precisions, before and after optimization.
//!
//! A value is a mismatch when |a − b| > absolute + relative · |reference|, numpy's `allclose` rule. The tolerance
//! follows the element type: a difference acceptable for float16 is a bug in float32. NaN equals NaN here: the
//! question is whether two runs agree, and the count of NaN is reported separately.

use ortscope_core::tensor::ElementType;
use serde::{Deserialize, Serialize};

/// Elements of an output. Types without a Rust counterpart arrive widened: float16 as `Float32`, int8 as `Int`.
#[derive(Debug, Clone, Copy)]
pub enum Values<'a> {
    Float32(&'a [f32]),
    Float64(&'a [f64]),
    Int(&'a [i64]),
    Uint(&'a [u64]),
    Text(&'a [String]),
}

impl Values<'_> {
    pub fn len(&self) -> usize {
        match self {
            Self::Float32(values) => values.len(),
            Self::Float64(values) => values.len(),
            Self::Int(values) => values.len(),
            Self::Uint(values) => values.len(),
            Self::Text(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn number(&self, index: usize) -> Option<f64> {
        match self {
            Self::Float32(values) => values.get(index).map(|value| f64::from(*value)),
            Self::Float64(values) => values.get(index).copied(),
            Self::Int(values) => values.get(index).map(|value| *value as f64),
            Self::Uint(values) => values.get(index).map(|value| *value as f64),
            Self::Text(_) => None,
        }
    }

    /// Whole numbers compare exactly, also beyond 2^53.
    fn whole(&self, index: usize) -> Option<i128> {
        match self {
            Self::Int(values) => values.get(index).map(|value| i128::from(*value)),
            Self::Uint(values) => values.get(index).map(|value| i128::from(*value)),
            _ => None,
        }
    }
}

/// An output tensor.
#[derive(Debug, Clone, Copy)]
pub struct Tensor<'a> {
    pub shape: &'a [i64],
    pub values: Values<'a>,
}

/// How far two values may differ: absolute + relative · |reference|.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Tolerance {
    pub relative: f64,
    pub absolute: f64,
}

impl Tolerance {
    pub const EXACT: Self = Self { relative: 0.0, absolute: 0.0 };

    /// The default for an element type. Small integers are assumed to be quantized, where one step is a rounding.
    pub fn for_element(element: ElementType) -> Self {
        let (relative, absolute) = match element {
            ElementType::Float64 | ElementType::Complex128 => (1e-6, 1e-9),
            ElementType::Float32 | ElementType::Complex64 => (1e-3, 1e-4),
            ElementType::Float16 => (1e-2, 1e-3),
            ElementType::BFloat16 => (3e-2, 1e-2),
            ElementType::Float8E4M3Fn
            | ElementType::Float8E4M3Fnuz
            | ElementType::Float8E5M2
            | ElementType::Float8E5M2Fnuz
            | ElementType::Float8E8M0
            | ElementType::Float4E2M1 => (0.25, 0.1),
            ElementType::Int8
            | ElementType::Uint8
            | ElementType::Int4
            | ElementType::Uint4
            | ElementType::Int2
            | ElementType::Uint2 => (0.0, 1.0),
            ElementType::Int16
            | ElementType::Uint16
            | ElementType::Int32
            | ElementType::Uint32
            | ElementType::Int64
            | ElementType::Uint64
            | ElementType::Bool
            | ElementType::String => (0.0, 0.0),
        };
        Self { relative, absolute }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutputVerdict {
    /// Every value is equal.
    Same,
    /// Every value is within the tolerance.
    Close,
    Different,
}

/// An output of a model and how it compares with the reference.
#[derive(Debug, Clone, Serialize, Deserialize, PartialEq)]
pub struct CheckedOutput {
    pub name: String,
    pub comparison: OutputComparison,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputComparison {
    pub verdict: OutputVerdict,
    pub elements: usize,
    /// Values beyond the tolerance, NaN against a number included.
    pub mismatches: usize,
    /// Index of the first of them, in row-major order.
    pub first_mismatch: Option<usize>,
    /// Figures over the pairs of finite numbers; `None` when there are none (text, other shapes).
    pub max_absolute: Option<f64>,
    /// Over the pairs whose reference is above the absolute tolerance: near zero a ratio is meaningless.
    pub max_relative: Option<f64>,
    pub rms: Option<f64>,
    /// Also `None` if an output is all zeros.
    pub cosine_similarity: Option<f64>,
    pub nan_in_reference: usize,
    pub nan_in_candidate: usize,
    pub tolerance: Tolerance,
    /// One sentence for people.
    pub sentence: String,
}

/// Compares an output with the reference output.
pub fn compare_outputs(
    reference: &Tensor<'_>,
    candidate: &Tensor<'_>,
    tolerance: Tolerance,
) -> OutputComparison {
    let elements = reference.values.len();
    let mut sums = Sums::default();
    if reference.shape != candidate.shape || elements != candidate.values.len() {
        let sentence = format!(
            "different: shape {:?} with {elements} values against {:?} with {}",
            reference.shape,
            candidate.shape,
            candidate.values.len()
        );
        return sums.into_comparison(OutputVerdict::Different, elements, tolerance, sentence);
    }
    if let (Values::Text(a), Values::Text(b)) = (reference.values, candidate.values) {
        for (index, (a, b)) in a.iter().zip(b).enumerate() {
            sums.add_verdict(index, a == b, a == b);
        }
    } else {
        for index in 0..elements {
            sums.add_pair(index, &reference.values, &candidate.values, tolerance);
        }
    }
    let verdict = if sums.mismatches > 0 {
        OutputVerdict::Different
    } else if sums.unequal > 0 {
        OutputVerdict::Close
    } else {
        OutputVerdict::Same
    };
    let sentence = sums.sentence(verdict, elements);
    sums.into_comparison(verdict, elements, tolerance, sentence)
}

#[derive(Default)]
struct Sums {
    unequal: usize,
    mismatches: usize,
    first_mismatch: Option<usize>,
    finite: usize,
    max_absolute: f64,
    max_relative: Option<f64>,
    squares: f64,
    product: f64,
    norm_a: f64,
    norm_b: f64,
    nan_a: usize,
    nan_b: usize,
}

impl Sums {
    fn add_verdict(&mut self, index: usize, equal: bool, within: bool) {
        self.unequal += usize::from(!equal);
        if !within {
            self.mismatches += 1;
            self.first_mismatch.get_or_insert(index);
        }
    }

    fn add_pair(&mut self, index: usize, a: &Values<'_>, b: &Values<'_>, tolerance: Tolerance) {
        let (Some(x), Some(y)) = (a.number(index), b.number(index)) else {
            // Text against numbers.
            return self.add_verdict(index, false, false);
        };
        self.nan_a += usize::from(x.is_nan());
        self.nan_b += usize::from(y.is_nan());
        let whole = a.whole(index).zip(b.whole(index));
        let equal = whole.map_or(x == y || (x.is_nan() && y.is_nan()), |(a, b)| a == b);
        if !(x.is_finite() && y.is_finite()) {
            return self.add_verdict(index, equal, equal);
        }
        let difference = whole.map_or((x - y).abs(), |(a, b)| (a - b).unsigned_abs() as f64);
        let within = equal || difference <= tolerance.absolute + tolerance.relative * x.abs();
        self.add_verdict(index, equal, within);
        self.finite += 1;
        self.max_absolute = self.max_absolute.max(difference);
        if x.abs() > tolerance.absolute {
            self.max_relative = Some(self.max_relative.unwrap_or(0.0).max(difference / x.abs()));
        }
        self.squares += difference * difference;
        self.product += x * y;
        self.norm_a += x * x;
        self.norm_b += y * y;
    }

    fn cosine(&self) -> Option<f64> {
        let cosine = self.product / (self.norm_a.sqrt() * self.norm_b.sqrt());
        cosine.is_finite().then(|| cosine.clamp(-1.0, 1.0))
    }

    fn sentence(&self, verdict: OutputVerdict, elements: usize) -> String {
        let largest = match self.max_relative {
            Some(relative) => format!("{:.1e} ({:.2} %)", self.max_absolute, relative * 100.0),
            None => format!("{:.1e}", self.max_absolute),
        };
        match verdict {
            OutputVerdict::Same => "identical".to_owned(),
            OutputVerdict::Close => format!("close: largest difference {largest}, all within tolerance"),
            OutputVerdict::Different => {
                let mut sentence =
                    format!("different: {} of {elements} values beyond tolerance", self.mismatches);
                if self.finite > 0 {
                    sentence.push_str(&format!(", largest difference {largest}"));
                }
                if self.nan_a != self.nan_b {
                    sentence
                        .push_str(&format!(", {} NaN against {} in the reference", self.nan_b, self.nan_a));
                }
                sentence
            }
        }
    }

    fn into_comparison(
        self,
        verdict: OutputVerdict,
        elements: usize,
        tolerance: Tolerance,
        sentence: String,
    ) -> OutputComparison {
        let finite = |value: f64| (self.finite > 0 && value.is_finite()).then_some(value);
        OutputComparison {
            verdict,
            elements,
            mismatches: self.mismatches,
            first_mismatch: self.first_mismatch,
            max_absolute: finite(self.max_absolute),
            max_relative: self.max_relative.filter(|ratio| ratio.is_finite()),
            rms: finite((self.squares / self.finite as f64).sqrt()),
            cosine_similarity: self.cosine(),
            nan_in_reference: self.nan_a,
            nan_in_candidate: self.nan_b,
            tolerance,
            sentence,
        }
    }
}
