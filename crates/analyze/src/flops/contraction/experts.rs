//! Mixtures of experts: each token passes through `k` of them only.

use crate::flops::count::{Count, Gap, Work};
use crate::flops::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Result<Work, Gap> {
    let input = op.input_shape(0)?;
    let tokens = Count::of(&input[..input.len().saturating_sub(1)]);
    let chosen = op.int("k").map_or(Ok(1), |_| op.size("k"))?;
    // The plain operator has no scales between its matrices.
    let matrices: [(usize, &str); 3] = if op.op_type == "QMoE" {
        [(2, "fc1_expert_weight_bits"), (5, "fc2_expert_weight_bits"), (8, "fc3_expert_weight_bits")]
    } else {
        [(2, ""), (4, ""), (6, "")]
    };
    let mut weights = Count(0);
    let mut hidden = Count(0);
    for (position, (index, bits_attribute)) in matrices.into_iter().enumerate() {
        // The third matrix belongs to gated activations only.
        if position == 2 && !op.has_input(index) {
            continue;
        }
        let [_, rows, columns] = op.input_shape(index)? else {
            return Err(Gap::new("the weights of the experts are not of rank 3"));
        };
        let per_stored = if op.op_type == "QMoE" { values_per_byte(op, bits_attribute)? } else { 1 };
        weights = weights + Count::of(&[*rows, *columns, per_stored]);
        if position == 0 {
            hidden = Count::from(*rows);
        }
    }
    let router = op.read(1)? * 5;
    // The activation between the matrices: one operation per hidden unit.
    Ok(Work::macs(tokens * chosen * weights)
        .plus(router + tokens * chosen * hidden)
        .noted("only the experts that are chosen for a token"))
}

fn values_per_byte(op: &OpFacts, attribute: &str) -> Result<u64, Gap> {
    let bits = op.int(attribute).or_else(|| op.int("expert_weight_bits")).unwrap_or(4);
    match bits {
        2 => Ok(4),
        4 => Ok(2),
        8 => Ok(1),
        other => Err(Gap::new(format!("weights of {other} bits are not known"))),
    }
}
