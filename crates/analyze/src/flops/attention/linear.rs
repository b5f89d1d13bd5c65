//! Linear attention: a state of `key size · value size` per head, updated and read once per token.

use super::divide;
use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    let (heads, kv_heads) = (op.size("q_num_heads")?, op.size("kv_num_heads")?);
    let [batch, length, key_width] = op.input_shape(1)? else {
        return Err(Gap::new("the key is not of rank 3"));
    };
    let [_, _, value_width] = op.input_shape(2)? else {
        return Err(Gap::new("the value is not of rank 3"));
    };
    let state = Count::from(divide(*key_width, kv_heads, "width of the keys by their heads")?)
        * divide(*value_width, kv_heads, "width of the values by their heads")?;
    let rule = op.text("update_rule").unwrap_or("linear");
    // The outer product of key and value; the delta rules read the state once more to correct it.
    let updates = if rule.contains("delta") { 2 } else { 1 };
    let decays = u64::from(rule.starts_with("gated"));
    let tokens = Count::of(&[*batch, *length]);
    let macs = tokens * state * (Count::from(heads) + Count::from(kv_heads) * updates);
    Ok(Work::macs(macs).plus(tokens * state * kv_heads * decays).noted("as the recurrence, token by token"))
}
