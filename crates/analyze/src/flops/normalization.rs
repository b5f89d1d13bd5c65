//! Softmax and normalizations: a few passes over all elements.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

/// Mean, deviation, square, scale and shift.
const WITH_MEAN: u64 = 5;
/// Square, sum, scale by the root, weight.
const ROOT_MEAN_SQUARE: u64 = 4;
/// Maximum, difference, exponential, sum, quotient.
const SOFTMAX: u64 = 5;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    let present = |index| u64::from(op.has_input(index));
    let per_element = match op.op_type.as_str() {
        "Softmax" | "LogSoftmax" => SOFTMAX,
        "BiasSoftmax" => SOFTMAX + 1,
        "QLinearSoftmax" => SOFTMAX + 4,
        // At inference mean and variance are constants: one product and one sum remain.
        "BatchNormalization" if !op.is_set("training_mode") => 2,
        "BatchNormalization" | "InstanceNormalization" | "GroupNormalization" | "LayerNormalization" => {
            WITH_MEAN
        }
        "QOrderedLayerNormalization" => WITH_MEAN + 4,
        "MeanVarianceNormalization" => 4,
        "GroupNorm" => WITH_MEAN + u64::from(op.is_set("activation")),
        "SkipGroupNorm" => WITH_MEAN + 1 + present(4) + u64::from(op.is_set("activation")),
        "RMSNormalization" | "SimplifiedLayerNormalization" | "BranchwiseRMSNorm" => ROOT_MEAN_SQUARE,
        "GatedRMSNorm" => ROOT_MEAN_SQUARE + 2,
        "SkipLayerNormalization" => WITH_MEAN + 1 + present(4),
        "SkipSimplifiedLayerNormalization" => ROOT_MEAN_SQUARE + 1 + present(3),
        // Square (or absolute value), sum, quotient.
        "LpNormalization" | "Normalizer" => 3,
        "LRN" => return Some(local_response(op)),
        "EmbedLayerNormalization" => return Some(embedding(op, 1)),
        "QEmbedLayerNormalization" => return Some(embedding(op, 2)),
        _ => return None,
    };
    Some(op.read(0).map(|elements| Work::counted(elements * per_element)))
}

/// Sum of squares over the window, then scale, power and quotient.
fn local_response(op: &OpFacts) -> Result<Work, Gap> {
    Ok(Work::counted(op.written()? * op.size("size")?.saturating_mul(2).saturating_add(3)))
}

/// The rows of two or three tables are added, then normalized. Quantized tables cost two more for each.
fn embedding(op: &OpFacts, per_table: u64) -> Result<Work, Gap> {
    let tables = 2 + u64::from(op.has_input(1));
    let scaling = if per_table == 2 { tables * 2 } else { 0 };
    let elements: Count = op.written()?;
    Ok(Work::counted(elements * (WITH_MEAN + tables - 1 + scaling)))
}
