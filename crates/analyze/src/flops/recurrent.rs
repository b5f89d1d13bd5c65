//! Recurrent networks: the matrices are used once per step of the sequence.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    // Gates, and operations per hidden unit after the products: LSTM 3 sigmoids, 2 tangents, 3 products, 1 sum; GRU
    // 2 sigmoids, 1 tangent, 3 products, 1 difference, 1 sum.
    let (gates, per_unit) = match op.op_type.as_str() {
        "LSTM" | "DynamicQuantizeLSTM" => (4, 9),
        "GRU" => (3, 8),
        "RNN" => (1, 1),
        _ => return None,
    };
    Some(cells(op, gates, per_unit))
}

fn cells(op: &OpFacts, gates: u64, per_unit: u64) -> Result<Work, Gap> {
    let [first, second, inputs] = op.input_shape(0)? else {
        return Err(Gap::new("the input is not of rank 3"));
    };
    // Either layout has sequence and batch in front, and only their product matters.
    let steps = Count::of(&[*first, *second]);
    let (directions, hidden) = hidden_units(op, gates)?;
    let of_matrix = |index: usize, columns: u64| {
        // Packed anew, a matrix is hidden, but its size follows.
        op.read(index).unwrap_or(Count::of(&[directions, gates, hidden, columns]))
    };
    let weights = of_matrix(1, *inputs) + of_matrix(2, hidden);
    let units = Count::of(&[directions, hidden]);
    let bias = if op.has_input(3) { op.read(3)? } else { Count(0) };
    let peepholes = if gates == 4 && op.has_input(7) { units * 6 } else { Count(0) };
    Ok(Work::macs(steps * weights).plus(steps * (units * per_unit + bias + peepholes)))
}

/// Directions and hidden units, from the attributes or from the matrix of the recurrence.
fn hidden_units(op: &OpFacts, gates: u64) -> Result<(u64, u64), Gap> {
    let directions = match op.text("direction") {
        Some("bidirectional") => 2,
        _ => 1,
    };
    if let Ok(hidden) = op.size("hidden_size") {
        return Ok((directions, hidden));
    }
    let [directions, rows, columns] = op.input_shape(2)? else {
        return Err(Gap::new("the recurrence matrix is not of rank 3"));
    };
    let hidden = *rows.min(columns);
    if gates.checked_mul(hidden) != Some(*rows.max(columns)) {
        return Err(Gap::new("the recurrence matrix does not fit the number of gates"));
    }
    Ok((*directions, hidden))
}
