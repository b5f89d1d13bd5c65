//! Attention that projects its input to queries, keys and values itself.

use super::{Attention, Keys, PADDED, divide};
use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

/// `past` and `past_length` are the inputs that hold the cache and its length.
pub(super) fn work(op: &OpFacts, past: usize, past_length: Option<usize>) -> Result<Work, Gap> {
    let [batch, queries, input_width] = op.input_shape(0)? else {
        return Err(Gap::new("the input is not of rank 3"));
    };
    let heads = op.size("num_heads")?;
    let widths = Widths::of(op)?;
    // [2, batch, heads, length, size]
    let length = |shape: Option<&[u64]>| match shape {
        Some([_, _, _, length, _]) => Some(*length),
        _ => None,
    };
    let past = length(op.input(past).and_then(|tensor| tensor.shape.as_deref()));
    let in_use =
        past_length.and_then(|index| op.input_value(index)).and_then(|past| past.checked_add(*queries));
    let keys = Keys::with_past(*queries, past, length(op.output_shape(1).ok()), in_use)?;
    let attention = Attention {
        batch: *batch,
        heads,
        queries: *queries,
        keys: keys.count,
        head_size: divide(widths.query, heads, "width of the queries by their heads")?,
        value_size: divide(widths.value, heads, "width of the values by their heads")?,
        is_causal: op.is_set("unidirectional"),
        window: None,
    };
    let tokens = Count::of(&[*batch, *queries]);
    Ok(keys.mark(
        attention.work().plus_macs(tokens * *input_width * widths.sum()).plus(bias(op, tokens, widths)),
    ))
}

/// Sequences without their padding; their lengths are values.
pub(super) fn packed(op: &OpFacts) -> Result<Work, Gap> {
    let [tokens, input_width] = op.input_shape(0)? else {
        return Err(Gap::new("the input is not of rank 2"));
    };
    let [batch, length] = op.input_shape(3)? else {
        return Err(Gap::new("the offsets of the tokens are not of rank 2"));
    };
    let heads = op.size("num_heads")?;
    let widths = Widths::of(op)?;
    let attention = Attention {
        batch: *batch,
        heads,
        queries: *length,
        keys: *length,
        head_size: divide(widths.query, heads, "width of the queries by their heads")?,
        value_size: divide(widths.value, heads, "width of the values by their heads")?,
        is_causal: false,
        window: None,
    };
    let tokens = Count::from(*tokens);
    let work = attention.work().plus_macs(tokens * *input_width * widths.sum());
    Ok(work.plus(bias(op, tokens, widths)).estimated(PADDED))
}

fn bias(op: &OpFacts, tokens: Count, widths: Widths) -> Count {
    let is_there = if op.op_type == "QOrderedAttention" { op.has_input(11) } else { op.has_input(2) };
    if is_there { tokens * widths.sum() } else { Count(0) }
}

/// Widths of the projections; keys are as wide as queries.
#[derive(Debug, Clone, Copy)]
struct Widths {
    query: u64,
    value: u64,
}

impl Widths {
    fn of(op: &OpFacts) -> Result<Self, Gap> {
        if let Some([query, _, value]) = op.sizes("qkv_hidden_sizes").as_deref() {
            return Ok(Self { query: *query, value: *value });
        }
        if op.op_type != "QOrderedAttention"
            && let Ok([_, columns]) = op.input_shape(1)
        {
            let third = divide(*columns, 3, "columns of the weights")?;
            return Ok(Self { query: third, value: third });
        }
        // Packed weights are hidden, but then all three are as wide as the output.
        let width = op.output_shape(0)?.last().copied().ok_or_else(|| Gap::new("the output is a scalar"))?;
        Ok(Self { query: width, value: width })
    }

    fn sum(self) -> Count {
        Count::from(self.query) * 2 + Count::from(self.value)
    }
}
