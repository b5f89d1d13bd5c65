//! Products of matrices in all their forms.

mod einsum;

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "MatMul" | "MatMulInteger" | "MatMulInteger16" => matmul(op, 0, 1, false).map(Work::macs),
        "FusedMatMul" | "TransposeMatMul" | "SparseToDenseMatMul" => {
            matmul(op, 0, 1, op.is_set("transA")).map(Work::macs)
        }
        "FusedMatMulActivation" => {
            matmul(op, 0, 1, op.is_set("transA")).and_then(|macs| Ok(Work::macs(macs).plus(op.written()?)))
        }
        "QLinearMatMul" => quantized(op, 0, 3),
        "QOrderedMatMul" => quantized(op, 0, 2).and_then(|work| with_bias(op, work, &[5, 6])),
        "MatMulIntegerToFloat" => quantized(op, 0, 1).and_then(|work| with_bias(op, work, &[6])),
        "DynamicQuantizeMatMul" => dynamic_matmul(op),
        "Gemm" => gemm(op, 0, 1).and_then(|work| with_bias(op, work, &[2])),
        "FusedGemm" | "GemmFloat8" => gemm(op, 0, 1)
            .and_then(|work| with_bias(op, work, &[2]))
            .and_then(|work| Ok(work.plus(activation(op)?))),
        "GemmFastGelu" => gemm_gelu(op),
        "QGemm" => {
            gemm(op, 0, 3).and_then(|work| with_bias(op, work, &[6])).and_then(|work| requantized(op, work))
        }
        "Einsum" => einsum::work(op),
        "LinearClassifier" | "LinearRegressor" => linear_model(op),
        "CDist" => distances(op),
        "Det" | "Inverse" => factorised(op),
        "AffineGrid" => affine_grid(op),
        "MoE" | "QMoE" => experts(op),
        _ => return low_bits(op),
    })
}

/// MACs of a product: elements of the output times the length of the sums. The second matrix is not needed for that,
/// which matters because runtimes hide weights that they packed anew.
fn matmul(op: &OpFacts, a: usize, b: usize, transposed: bool) -> Result<Count, Gap> {
    let depth = match op.input_shape(a) {
        Ok([]) => return Err(Gap::new("a scalar has no matrix product")),
        Ok([only]) => *only,
        Ok(shape) if !transposed => last(shape),
        // A transposed batch puts the summed dimension first.
        Ok(shape) if op.is_set("transBatchA") => shape[0],
        Ok(shape) => shape[shape.len() - 2],
        Err(gap) => depth_of_second(op, b).ok_or(gap)?,
    };
    if let Some(other) = depth_of_second(op, b).filter(|other| *other != depth) {
        return Err(Gap::new(format!("the matrices do not fit: {depth} columns against {other} rows")));
    }
    Ok(output_of_product(op, a, b)? * depth)
}

/// Rows of the second matrix, where its layout is the plain one.
fn depth_of_second(op: &OpFacts, b: usize) -> Option<u64> {
    if op.is_set("transB") || op.is_set("transBatchB") {
        return None;
    }
    match op.input_shape(b).ok()? {
        [] => None,
        [only] => Some(*only),
        shape => shape.get(shape.len() - 2).copied(),
    }
}

fn output_of_product(op: &OpFacts, a: usize, b: usize) -> Result<Count, Gap> {
    let missing = match op.written() {
        Ok(elements) => return Ok(elements),
        Err(gap) => gap,
    };
    // Without the output's shape it follows from the inputs, as long as nothing is transposed.
    let plain = !["transA", "transB", "transBatchA", "transBatchB"].iter().any(|name| op.is_set(name));
    match (op.input_shape(a), op.input_shape(b)) {
        (Ok(a), Ok(b)) if plain && a.len() >= 2 && b.len() >= 2 => {
            let (batch_a, batch_b) = (&a[..a.len() - 2], &b[..b.len() - 2]);
            Ok(broadcast(batch_a, batch_b)? * a[a.len() - 2] * last(b))
        }
        _ => Err(missing),
    }
}

/// Elements of two shapes stretched to each other.
fn broadcast(a: &[u64], b: &[u64]) -> Result<Count, Gap> {
    let rank = a.len().max(b.len());
    let at = |shape: &[u64], index: usize| {
        (index + shape.len()).checked_sub(rank).and_then(|index| shape.get(index).copied()).unwrap_or(1)
    };
    (0..rank)
        .map(|index| match (at(a, index), at(b, index)) {
            (1, dim) | (dim, 1) => Ok(Count::from(dim)),
            (left, right) if left == right => Ok(Count::from(left)),
            (left, right) => Err(Gap::new(format!("the shapes do not fit: {left} against {right}"))),
        })
        .try_fold(Count(1), |product, dim: Result<Count, Gap>| Ok(product * dim?))
}

/// `A` may be transposed; the depth is what both matrices share.
fn gemm(op: &OpFacts, a: usize, b: usize) -> Result<Work, Gap> {
    let (rows, depth) = match op.input_shape(a)? {
        [first, second] if op.is_set("transA") => (*second, *first),
        [first, second] => (*first, *second),
        _ => return Err(Gap::new("Gemm needs matrices")),
    };
    let elements = match (op.written(), op.input_shape(b)) {
        (Ok(elements), _) => elements,
        (Err(_), Ok([first, second])) => {
            Count::from(rows) * if op.is_set("transB") { *first } else { *second }
        }
        (Err(gap), _) => return Err(gap),
    };
    Ok(Work::macs(elements * depth))
}

fn gemm_gelu(op: &OpFacts) -> Result<Work, Gap> {
    let elements = op.written()?;
    let work = Work::macs(matmul(op, 0, 1, false)?).plus(elements * 8);
    with_bias(op, work, &[2])
}

/// One addition per output element for each of these inputs that is there.
fn with_bias(op: &OpFacts, work: Work, inputs: &[usize]) -> Result<Work, Gap> {
    let biases = inputs.iter().filter(|index| op.has_input(**index)).count() as u64;
    if biases == 0 { Ok(work) } else { Ok(work.plus(op.written()? * biases)) }
}

/// One operation per output element for an activation that was fused into the operator.
fn activation(op: &OpFacts) -> Result<Count, Gap> {
    match op.text("activation") {
        None | Some("" | "NONE") => Ok(Count(0)),
        Some(_) => op.written(),
    }
}

/// Scale and zero point for each output element.
fn requantized(op: &OpFacts, work: Work) -> Result<Work, Gap> {
    Ok(work.plus(op.written()? * 2))
}

fn quantized(op: &OpFacts, a: usize, b: usize) -> Result<Work, Gap> {
    requantized(op, Work::macs(matmul(op, a, b, false)?))
}

/// The activations are quantized first: minimum, maximum, scale, zero point.
fn dynamic_matmul(op: &OpFacts) -> Result<Work, Gap> {
    let work = quantized(op, 0, 1)?.plus(op.read(0)? * 4);
    with_bias(op, work, &[4])
}

fn linear_model(op: &OpFacts) -> Result<Work, Gap> {
    let rows = op.input_shape(0)?.first().copied().filter(|_| op.input_shape(0).is_ok_and(|s| s.len() > 1));
    let macs = Count::from(rows.unwrap_or(1)) * op.items("coefficients")?;
    Ok(Work::macs(macs))
}

/// Difference, square and sum over the last dimension for every pair of rows.
fn distances(op: &OpFacts) -> Result<Work, Gap> {
    let (a, b) = (op.input_shape(0)?, op.input_shape(1)?);
    let pairs = Count::of(&a[..a.len().saturating_sub(1)]) * Count::of(&b[..b.len().saturating_sub(1)]);
    let depth = a.last().copied().ok_or_else(|| Gap::new("a scalar has no distance"))?;
    Ok(Work::counted(pairs * depth * 3))
}

/// LU decomposition: n³/3 MACs for the determinant, n³ for the inverse.
fn factorised(op: &OpFacts) -> Result<Work, Gap> {
    let [.., rows, columns] = op.input_shape(0)? else {
        return Err(Gap::new("the operator needs matrices"));
    };
    if rows != columns {
        return Err(Gap::new("the matrix is not square"));
    }
    let cubes = op.read(0)? * *rows;
    let macs = if op.op_type == "Det" { cubes.div_ceil(3) } else { cubes };
    Ok(Work::macs(macs).estimated("as an LU decomposition"))
}

/// Each point of the grid is a row times the matrix `theta`.
fn affine_grid(op: &OpFacts) -> Result<Work, Gap> {
    let depth = op.input_shape(0)?.last().copied().unwrap_or(1);
    Ok(Work::macs(op.written()? * depth))
}

fn last(shape: &[u64]) -> u64 {
    shape.last().copied().unwrap_or(1)
}

/// Mixtures of experts: each token passes through `k` of them only.
fn experts(op: &OpFacts) -> Result<Work, Gap> {
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

/// Products with weights of few bits. Their second matrix is packed, so sizes come from attributes.
fn low_bits(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "MatMulNBits" => packed(op).and_then(|work| with_bias(op, work, &[5])),
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
        Some(bias) => with_bias(op, work, &[bias]),
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

/// A normalization by the root mean square, with the residual added before it.
fn norm_before(op: &OpFacts, skip: usize, scale: usize) -> Result<Count, Gap> {
    let cost = u64::from(op.has_input(skip)) + if op.has_input(scale) { 4 } else { 0 };
    Ok(op.read(0)? * cost)
}
