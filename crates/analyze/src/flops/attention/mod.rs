//! Attention: every query against the keys it may see, twice.
//!
//! For each head that is `pairs · head size` MACs for the scores, 5 FLOPs per pair for the softmax, and
//! `pairs · head size` MACs for the weighted values. Sharing keys among heads saves memory, not MACs.

mod multi_head;
mod projected;

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

const CAUSAL: &str = "causal: only the pairs that a query may see";
const WHOLE_CACHE: &str = "over the whole cache: how much of it is in use is not in the shapes";
const PADDED: &str = "over padded sequences: the real lengths are not in the shapes";

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "GroupQueryAttention" => grouped_query(op),
        "Attention" if is_projected(op) => projected::work(op, 4, Some(6)),
        "Attention" => multi_head::standard(op),
        "QAttention" => projected::work(op, 8, None),
        "DecoderMaskedSelfAttention" => projected::work(op, 4, Some(6)),
        "PackedAttention" => projected::packed(op),
        "QOrderedAttention" => projected::work(op, 18, None),
        "MultiHeadAttention" => multi_head::work(op, 6, 8),
        "DecoderMaskedMultiHeadAttention" => multi_head::work(op, 5, 7),
        "PackedMultiHeadAttention" => multi_head::packed(op),
        "LinearAttention" => linear(op),
        "RotaryEmbedding" | "MRotaryEmbedding" => rotary(op),
        "GemmaRotaryEmbedding" => gemma_rotary(op),
        _ => return None,
    })
}

/// The contributed operator multiplies by its weights first; ONNX's takes queries, keys and values.
fn is_projected(op: &OpFacts) -> bool {
    op.domain == "com.microsoft" || op.attributes.contains_key("num_heads")
}

/// The dimensions of an attention.
#[derive(Debug, Clone, Copy)]
struct Attention {
    batch: u64,
    heads: u64,
    queries: u64,
    /// Keys with those of the past.
    keys: u64,
    head_size: u64,
    value_size: u64,
    is_causal: bool,
    /// Keys a causal query sees at most, with itself.
    window: Option<u64>,
}

impl Attention {
    /// Pairs of one head of one sequence.
    fn pairs(&self) -> Count {
        let keys = Count::from(self.keys);
        if !self.is_causal {
            return Count::from(self.queries) * keys;
        }
        // Query i sees the past and the first i + 1 of the new keys, but not more than the window.
        let most = Count::from(self.window.unwrap_or(u64::MAX)).min(keys);
        let past = Count::from(self.keys.saturating_sub(self.queries));
        let queries = u128::from(self.queries);
        let growing = most.0.saturating_sub(past.0).min(queries);
        let triangle = Count(growing.saturating_mul(growing + 1) / 2);
        Count(growing) * past + triangle + Count(queries - growing) * most
    }

    fn work(&self) -> Work {
        let pairs = Count::of(&[self.batch, self.heads]) * self.pairs();
        let sizes = Count::from(self.head_size) + Count::from(self.value_size);
        let work = Work::macs(pairs * sizes).plus(pairs * 5);
        if self.is_causal { work.noted(CAUSAL) } else { work }
    }
}

/// How many keys there are, and whether that is only the size of a buffer.
#[derive(Debug, Clone, Copy)]
struct Keys {
    count: u64,
    is_bound: bool,
}

impl Keys {
    /// New keys with those of the past. A cache that is written in place has the same size before and after: then a
    /// known length determines how much of it is in use, and without one all of it counts.
    fn with_past(
        new: u64,
        past: Option<u64>,
        present: Option<u64>,
        in_use: Option<u64>,
    ) -> Result<Self, Gap> {
        let too_long = || Gap::new("the sequence is absurdly long");
        if let Some(count) = in_use {
            return Ok(Self { count, is_bound: false });
        }
        match (past, present) {
            (Some(past), Some(present)) if past == present && past > 0 && new > 0 => {
                Ok(Self { count: present, is_bound: true })
            }
            (Some(past), _) => {
                Ok(Self { count: past.checked_add(new).ok_or_else(too_long)?, is_bound: false })
            }
            (None, _) => Ok(Self { count: new, is_bound: false }),
        }
    }

    fn mark(self, work: Work) -> Work {
        if self.is_bound { work.estimated(WHOLE_CACHE) } else { work }
    }
}

/// The dimension of a cache `[batch, heads, length, size]`.
fn cache_length(shape: Option<&[u64]>) -> Option<u64> {
    match shape {
        Some([_, _, length, _]) => Some(*length),
        _ => None,
    }
}

fn divide(size: u64, heads: u64, what: &str) -> Result<u64, Gap> {
    match size.checked_rem(heads) {
        Some(0) => Ok(size / heads),
        _ => Err(Gap::new(format!("{what}: {size} cannot be divided by {heads}"))),
    }
}

/// `GroupQueryAttention`: fewer keys and values than queries, a cache, causal by default.
fn grouped_query(op: &OpFacts) -> Result<Work, Gap> {
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

/// Linear attention: a state of `key size · value size` per head, updated and read once per token.
fn linear(op: &OpFacts) -> Result<Work, Gap> {
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

const PER_ELEMENT: u64 = 3;

/// Rotary positions: each rotated element costs two products and a sum.
fn rotary(op: &OpFacts) -> Result<Work, Gap> {
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
fn gemma_rotary(op: &OpFacts) -> Result<Work, Gap> {
    Ok(Work::counted((op.read(1)? + op.read(3)?) * PER_ELEMENT))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(queries: u64, keys: u64, window: Option<u64>) -> u128 {
        let (batch, heads, head_size, value_size) = (1, 1, 1, 1);
        Attention { batch, heads, queries, keys, head_size, value_size, is_causal: true, window }.pairs().0
    }

    /// The closed form against the definition, query by query.
    #[test]
    fn causal_pairs_are_those_of_the_definition() {
        for queries in 0..12 {
            for keys in queries..20 {
                for window in [None, Some(1), Some(3), Some(7), Some(40)] {
                    let past = keys - queries;
                    let seen: u64 =
                        (0..queries).map(|i| (past + i + 1).min(window.unwrap_or(u64::MAX)).min(keys)).sum();
                    assert_eq!(pairs(queries, keys, window), u128::from(seen), "{queries} {keys} {window:?}");
                }
            }
        }
    }

    #[test]
    fn absurd_lengths_do_not_wrap() {
        assert!(pairs(u64::MAX, u64::MAX, None) > u128::from(u64::MAX));
    }
}
