//! Operators that compute each output element from few input elements, and reductions, which read each input once.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    if let Some(cost) = cost_per_output(op) {
        return Some(op.written().map(|elements| Work::elementwise(elements * cost)));
    }
    if let Some(cost) = cost_per_input(op.op_type.as_str()) {
        return Some(op.read(0).map(|elements| Work::elementwise(elements * cost)));
    }
    match op.op_type.as_str() {
        "Max" | "Min" | "Sum" | "Mean" => Some(variadic(op)),
        "QLinearConcat" => Some(op.written().map(|elements| Work::elementwise(elements * 4))),
        "QLinearReduceMean" => Some(quantized_reduction(op)),
        "DynamicQuantizeLinear" => Some(op.read(0).map(|elements| Work::elementwise(elements * 4))),
        "IsAllFinite" => Some(all_inputs(op)),
        _ => None,
    }
}

/// Operations per output element: one for an operator of ONNX, the number of what they replace for fused ones.
fn cost_per_output(op: &OpFacts) -> Option<u64> {
    Some(match op.op_type.as_str() {
        "Abs" | "Acos" | "Acosh" | "Add" | "And" | "Asin" | "Asinh" | "Atan" | "Atanh" | "Binarizer"
        | "BitShift" | "BitwiseAnd" | "BitwiseNot" | "BitwiseOr" | "BitwiseXor" | "Ceil" | "Celu"
        | "Clip" | "Cos" | "Cosh" | "Div" | "Elu" | "Equal" | "Erf" | "Exp" | "Floor" | "Greater"
        | "GreaterOrEqual" | "HardSigmoid" | "Imputer" | "IsInf" | "IsNaN" | "LeakyRelu" | "Less"
        | "LessOrEqual" | "Log" | "Mod" | "Mul" | "MulInteger" | "Neg" | "Not" | "Or" | "PRelu" | "Pow"
        | "Reciprocal" | "Relu" | "Round" | "Scale" | "Selu" | "Shrink" | "Sigmoid" | "Sign" | "Sin"
        | "Sinh" | "Softplus" | "Softsign" | "Sqrt" | "Sub" | "Tan" | "Tanh" | "ThresholdedRelu"
        | "Where" | "Xor" => 1,
        // A multiplication and an addition, but never a matrix: they are not called MACs.
        "Affine"
        | "BiasAdd"
        | "DequantizeBFP"
        | "DequantizeLinear"
        | "DequantizeWithOrder"
        | "GatherBlockQuantized"
        | "HardSwish"
        | "ImageScaler"
        | "QuantizeBFP"
        | "QuantizeLinear"
        | "QuantizeWithOrder"
        | "Range"
        | "Scaler"
        | "GatedAdd" => 2,
        "ScaledTanh" | "ParametricSoftplus" | "Mish" | "ComplexMul" | "ComplexMulConj" => 3,
        // x·sigmoid(αx); a factor of 1 is not multiplied.
        "Swish" | "QuickGelu" | "ScaledSiLU" => {
            let default = if op.op_type == "QuickGelu" { 1.702 } else { 1.0 };
            let is_scaled = op.float("alpha").unwrap_or(default) != 1.0;
            2 + u64::from(is_scaled) + u64::from(op.has_input(1))
        }
        "HannWindow" | "HammingWindow" => 4,
        "BlackmanWindow" => 7,
        // x·½·(1 + erf(x/√2)): divide, erf, add, two products.
        "Gelu" if op.text("approximate") == Some("tanh") => 8,
        "Gelu" => 5,
        "QOrderedGelu" => 5 + 4,
        "BiasGelu" => 6,
        // Cube, scale, add, scale, tanh, add, two products.
        "FastGelu" => 8 + u64::from(op.has_input(1)),
        // Two additions of the bias, GELU of one half, the product with the other.
        "BiasSplitGelu" => 8,
        "BiasDropout" | "BitmaskBiasDropout" => 1 + u64::from(op.has_input(2)),
        // The operation, plus two per quantized input and two for the output.
        "QLinearSigmoid" | "QLinearLeakyRelu" => 5,
        "QLinearAdd" | "QLinearMul" | "QLinearWhere" => 7,
        _ => return None,
    })
}

/// Reductions: operations per input element.
fn cost_per_input(op_type: &str) -> Option<u64> {
    Some(match op_type {
        "ArgMax" | "ArgMin" | "Col2Im" | "CumProd" | "CumSum" | "Hardmax" | "NonZero" | "ReduceLogSum"
        | "ReduceMax" | "ReduceMean" | "ReduceMin" | "ReduceProd" | "ReduceSum" | "ReduceSumInteger" => 1,
        // The absolute value, the square or the exponential comes first.
        "ReduceL1" | "ReduceL2" | "ReduceLogSumExp" | "ReduceSumSquare" => 2,
        _ => return None,
    })
}

/// Adding `n` tensors takes `n - 1` additions per element; a mean divides once more.
fn variadic(op: &OpFacts) -> Result<Work, Gap> {
    let operands = op.inputs.iter().flatten().count() as u64;
    let steps = operands.saturating_sub(1) + u64::from(op.op_type == "Mean");
    Ok(Work::elementwise(op.written()? * steps.max(1)))
}

fn quantized_reduction(op: &OpFacts) -> Result<Work, Gap> {
    Ok(Work::elementwise(op.read(0)? * 3 + op.written()? * 2))
}

fn all_inputs(op: &OpFacts) -> Result<Work, Gap> {
    let mut elements = Count(0);
    for index in 0..op.inputs.len() {
        elements = elements + op.read(index)?;
    }
    Ok(Work::elementwise(elements))
}
