//! Rotary positions: each rotated element costs two products and a sum.

use super::divide;
use crate::flops::count::{Gap, Work};
use crate::flops::facts::OpFacts;

const PER_ELEMENT: u64 = 3;

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    let shape = op.input_shape(0)?;
    let elements = op.read(0)?;
    let Ok(rotated) = op.size("rotary_embedding_dim") else {
        return Ok(Work::counted(elements * PER_ELEMENT));
    };
    let head_size = match shape {
        [.., size] if shape.len() == 4 => *size,
        [.., width] => divide(*width, op.size("num_heads")?, "width by heads")?,
        [] => return Err(Gap::new("the input is a scalar")),
    };
    let heads = elements.divided_by(head_size.into(), "elements by the size of a head")?;
    Ok(Work::counted(heads * rotated.min(head_size) * PER_ELEMENT))
}

/// Queries and keys in one node.
pub(super) fn gemma(op: &OpFacts) -> Result<Work, Gap> {
    Ok(Work::counted((op.read(1)? + op.read(3)?) * PER_ELEMENT))
}
