//! How many bytes an operator reads and writes.

use super::facts::{OpFacts, TensorFacts};

/// Inputs and outputs together. Tables that are looked into count at most as much as the output that was taken from
/// them; operators that only read a shape read no data. `None` if a size is not known.
pub(super) fn moved(op: &OpFacts) -> Option<u64> {
    let outputs = sum(op.outputs.iter().flatten())?;
    if matches!(op.op_type.as_str(), "Shape" | "Size" | "Constant") {
        return Some(outputs);
    }
    let tables = lookups(op);
    let first_output = op.outputs.first().and_then(Option::as_ref).and_then(TensorFacts::bytes);
    let mut inputs = 0u64;
    for (index, tensor) in op.inputs.iter().enumerate() {
        let Some(tensor) = tensor else { continue };
        let bytes = tensor.bytes()?;
        let read = if tables.contains(&index) { bytes.min(first_output?) } else { bytes };
        inputs = inputs.checked_add(read)?;
    }
    inputs.checked_add(outputs)
}

pub(super) fn weights(op: &OpFacts) -> Option<u64> {
    sum(op.inputs.iter().flatten().filter(|tensor| tensor.is_parameter))
}

fn sum<'a>(tensors: impl Iterator<Item = &'a TensorFacts>) -> Option<u64> {
    let mut bytes = 0u64;
    for tensor in tensors {
        bytes = bytes.checked_add(tensor.bytes()?)?;
    }
    Some(bytes)
}

/// Inputs of which only some rows are read.
fn lookups(op: &OpFacts) -> &'static [usize] {
    match op.op_type.as_str() {
        "Gather" | "GatherND" | "GatherElements" | "Slice" | "DynamicSlice" | "TorchEmbedding" => &[0],
        "GatherBlockQuantized" => &[0, 2, 3],
        "EmbedLayerNormalization" => &[2, 3, 4],
        "QEmbedLayerNormalization" => &[2, 3, 4],
        // Tables of sines and cosines for every position there may be.
        "GroupQueryAttention" => &[7, 8],
        "RotaryEmbedding" => &[1, 2, 3],
        _ => &[],
    }
}
