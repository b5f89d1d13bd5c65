//! Attention over queries, keys and values that were projected before.

use super::{Attention, Keys, PADDED, cache_length, divide};
use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

/// ONNX's `Attention`: rank 4 `[batch, heads, length, size]`, or rank 3 with the heads side by side.
pub(super) fn standard(op: &OpFacts) -> Result<Work, Gap> {
    let (batch, heads, queries, head_size) = split(op, 0, "q_num_heads")?;
    let (_, _, new, _) = split(op, 1, "kv_num_heads")?;
    let (_, _, _, value_size) = split(op, 2, "kv_num_heads")?;
    let past = cache_length(op.input(4).and_then(|tensor| tensor.shape.as_deref()));
    let keys = Keys::with_past(new, past, cache_length(op.output_shape(1).ok()), None)?;
    let is_causal = op.is_set("is_causal");
    let (keys_seen, window) = (keys.count, None);
    let attention =
        Attention { batch, heads, queries, keys: keys_seen, head_size, value_size, is_causal, window };
    Ok(keys.mark(attention.work()))
}

fn split(op: &OpFacts, index: usize, heads: &str) -> Result<(u64, u64, u64, u64), Gap> {
    match op.input_shape(index)? {
        [batch, heads, length, size] => Ok((*batch, *heads, *length, *size)),
        [batch, length, width] => {
            let heads = op.size(heads)?;
            Ok((*batch, heads, *length, divide(*width, heads, "width by heads")?))
        }
        shape => Err(Gap::new(format!("input {index} has rank {}, not 3 or 4", shape.len()))),
    }
}

/// The contributed operators. `past_key` and `past_length` are the inputs that hold the cache and its length.
pub(super) fn work(op: &OpFacts, past_key: usize, past_length: usize) -> Result<Work, Gap> {
    let heads = op.size("num_heads")?;
    let query = op.input_shape(0)?;
    let (batch, queries, head_size) = match query {
        [batch, length, width] => {
            (*batch, *length, divide(*width, heads, "width of the query by its heads")?)
        }
        // Queries, keys and values in one tensor.
        [batch, length, _, 3, size] => (*batch, *length, *size),
        _ => return Err(Gap::new(format!("the query has rank {}, not 3 or 5", query.len()))),
    };
    let (new, value_size) = keys_and_values(op, heads, queries, head_size)?;
    let past = cache_length(op.input(past_key).and_then(|tensor| tensor.shape.as_deref()));
    let in_use = op.input_value(past_length).and_then(|length| length.checked_add(new));
    let keys = Keys::with_past(new, past, cache_length(op.output_shape(1).ok()), in_use)?;
    let attention = Attention {
        batch,
        heads,
        queries,
        keys: keys.count,
        head_size,
        value_size,
        is_causal: op.is_set("unidirectional"),
        window: None,
    };
    Ok(keys.mark(attention.work().plus(bias(op, 3, batch, queries, new)?)))
}

/// New keys and the size of a value's head.
fn keys_and_values(op: &OpFacts, heads: u64, queries: u64, head_size: u64) -> Result<(u64, u64), Gap> {
    if !op.has_input(1) {
        return Ok((queries, head_size));
    }
    let new = match op.input_shape(1)? {
        [_, length, _] | [_, _, length, _] | [_, length, _, _, _] => *length,
        shape => return Err(Gap::new(format!("the key has rank {}", shape.len()))),
    };
    let value_size = match op.input(2).and_then(|tensor| tensor.shape.as_deref()) {
        Some([_, _, width]) => divide(*width, heads, "width of the values by their heads")?,
        Some([_, _, _, size]) => *size,
        _ => head_size,
    };
    Ok((new, value_size))
}

/// The bias contains the parts for queries, keys and values in sequence; each is added once per token.
fn bias(op: &OpFacts, input: usize, batch: u64, queries: u64, keys: u64) -> Result<Count, Gap> {
    if !op.has_input(input) {
        return Ok(Count(0));
    }
    Ok(op.read(input)? * Count::of(&[batch, queries.max(keys)]))
}

/// Concatenated sequences without padding; their lengths are values.
pub(super) fn packed(op: &OpFacts) -> Result<Work, Gap> {
    let heads = op.size("num_heads")?;
    let [batch, length] = op.input_shape(4)? else {
        return Err(Gap::new("the offsets of the tokens are not of rank 2"));
    };
    let head_size = match op.input_shape(0)? {
        [_, width] => divide(*width, heads, "width of the query by its heads")?,
        [_, _, 3, size] => *size,
        shape => return Err(Gap::new(format!("the query has rank {}", shape.len()))),
    };
    let value_size = match op.input(2).and_then(|tensor| tensor.shape.as_deref()) {
        Some([_, width]) => divide(*width, heads, "width of the values by their heads")?,
        _ => head_size,
    };
    let (queries, keys, is_causal, window) = (*length, *length, false, None);
    let attention =
        Attention { batch: *batch, heads, queries, keys, head_size, value_size, is_causal, window };
    Ok(attention.work().estimated(PADDED))
}
