//! Products with weights of few bits. Their second matrix is packed, so sizes come from attributes.

use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "MatMulNBits" => packed(op).and_then(|work| super::with_bias(op, work, &[5])),
        "MatMulBnb4" => packed(op),
        "MatMulFpQ4" => plain(op, None),
        "MatMulBlockQuantizedFp4Weight" => plain(op, Some(5)),
        "MatMulBlockQuantizedFp8Weight" => plain(op, Some(4)),
        "MatMulNBitsMlp" => gated(op),
        "MatMulNBitsQkv" => projections(op),
        _ => return None,
    })
}

/// Refuses an input whose last dimension is not the `K` of the weights.
fn rows(op: &OpFacts) -> Result<Count, Gap> {
    op.read(0)?.divided_by(Count::from(op.size("K")?), "rows of the first matrix")
}

fn packed(op: &OpFacts) -> Result<Work, Gap> {
    Ok(Work::macs(rows(op)? * op.size("K")? * op.size("N")?))
}

fn plain(op: &OpFacts, bias: Option<usize>) -> Result<Work, Gap> {
    let depth = op.input_shape(0)?.last().copied().ok_or_else(|| Gap::new("a scalar has no product"))?;
    let work = Work::macs(op.written()? * depth);
    match bias {
        Some(bias) => super::with_bias(op, work, &[bias]),
        None => Ok(work),
    }
}

/// Two products of the same input, and an activation of the one times the other.
fn gated(op: &OpFacts) -> Result<Work, Gap> {
    let columns = op.size("N")?;
    let elements = rows(op)? * columns;
    let biases = u64::from(op.has_input(5)) + u64::from(op.has_input(8));
    Ok(Work::macs(op.read(0)? * columns * 2).plus(elements * (2 + biases)).plus(norm_before(op, 1, 2)?))
}

fn projections(op: &OpFacts) -> Result<Work, Gap> {
    let (queries, values) = (op.size("Nq")?, op.size("Nkv")?);
    let rows = rows(op)?;
    let bias = |input, columns: u64| rows * if op.has_input(input) { columns } else { 0 };
    let macs = op.read(0)? * queries + op.read(0)? * values * 2;
    let biases = bias(5, queries) + bias(8, values) + bias(11, values);
    Ok(Work::macs(macs).plus(biases).plus(norm_before(op, 1, 2)?))
}

/// A normalisation by the root mean square, with the residual added before it.
fn norm_before(op: &OpFacts, skip: usize, scale: usize) -> Result<Count, Gap> {
    let cost = u64::from(op.has_input(skip)) + if op.has_input(scale) { 4 } else { 0 };
    Ok(op.read(0)? * cost)
}
