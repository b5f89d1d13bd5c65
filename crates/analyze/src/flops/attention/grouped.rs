//! `GroupQueryAttention`: fewer keys and values than queries, a cache, causal unless told otherwise.

use super::{Attention, Keys, cache_length, divide};
use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    let [batch, queries, width] = op.input_shape(0)? else {
        return Err(Gap::new("the query is not of rank 3"));
    };
    let (heads, kv_heads) = (op.size("num_heads")?, op.size("kv_num_heads")?);
    let is_packed = !op.has_input(1);
    let sharers = if is_packed { kv_heads.saturating_mul(2).saturating_add(heads) } else { heads };
    let head_size = divide(*width, sharers, "width of the query by its heads")?;
    let new = if is_packed { *queries } else { op.input_shape(1)?.get(1).copied().unwrap_or(*queries) };
    let past = cache_length(op.input(3).and_then(|tensor| tensor.shape.as_deref()));
    let present = op.output_shape(1).ok();
    let keys = Keys::with_past(new, past, cache_length(present), op.input_value(6))?;
    let attention = Attention {
        batch: *batch,
        heads,
        queries: *queries,
        keys: keys.count,
        head_size,
        value_size: head_size,
        is_causal: op.int("causal").is_none_or(|causal| causal != 0),
        window: op.size("local_window_size").ok(),
    };
    let rotated = if op.is_set("do_rotary") {
        Count::of(&[*batch, *queries, head_size]) * (Count::from(heads) + Count::from(kv_heads)) * 3
    } else {
        Count(0)
    };
    Ok(keys.mark(attention.work().plus(rotated)))
}
