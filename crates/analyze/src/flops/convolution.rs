//! Convolutions and pools.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "Conv" => conv(op, 0, 1).and_then(|work| with_extras(op, work, &[2, 3])),
        "FusedConv" | "NhwcConv" | "NhwcFusedConv" => {
            conv(op, 0, 1).and_then(|work| with_extras(op, work, &[2, 3]))
        }
        "ConvInteger" => conv(op, 0, 1),
        "QLinearConv" => conv(op, 0, 3)
            .and_then(|work| with_extras(op, work, &[8]))
            .and_then(|work| Ok(work.plus(op.written()? * 2))),
        "ConvTranspose" => transposed(op, 0, 1).and_then(|work| with_extras(op, work, &[2])),
        "ConvTransposeWithDynamicPads" => transposed(op, 0, 1).and_then(|work| with_extras(op, work, &[3])),
        "QLinearConvTranspose" => transposed(op, 0, 3)
            .and_then(|work| with_extras(op, work, &[8]))
            .and_then(|work| Ok(work.plus(op.written()? * 2))),
        "DeformConv" => deformable(op),
        "CausalConvWithState" => conv(op, 0, 1).and_then(|work| with_extras(op, work, &[2])),
        "AveragePool" | "MaxPool" | "NhwcMaxPool" | "MaxpoolWithMask" => pool(op, 1),
        "LpPool" => pool(op, 2),
        "QLinearAveragePool" => {
            pool(op, 1).and_then(|work| Ok(work.plus(op.read(0)? * 2 + op.written()? * 2)))
        }
        "GlobalAveragePool" | "GlobalMaxPool" => op.read(0).map(Work::counted),
        "GlobalLpPool" => op.read(0).map(|elements| Work::counted(elements * 2)),
        "QLinearGlobalAveragePool" => {
            op.read(0).and_then(|elements| Ok(Work::counted(elements * 3 + op.written()? * 2)))
        }
        _ => return None,
    })
}

/// MACs per output element: the weights of one output channel. They are the same number in every layout of the
/// weights, since only the first dimension counts the outputs.
fn kernel(op: &OpFacts, input: usize, weights: usize) -> Result<Count, Gap> {
    if let Ok([_, rest @ ..]) = op.input_shape(weights) {
        return Ok(Count::of(rest));
    }
    // Runtimes hide weights that they repacked; then the attributes and the input's channels give their size.
    let window = op.sizes("kernel_shape").ok_or_else(|| Gap::new("the shape of the weights is not known"))?;
    let shape = op.input_shape(input)?;
    let channels_last = op.is_set("channels_last") || op.op_type.starts_with("Nhwc") || is_nhwc(op);
    let channels = if channels_last { shape.last() } else { shape.get(1) };
    let channels = channels.copied().ok_or_else(|| Gap::new("the input has no channels"))?;
    let groups = op.int("group").map_or(Ok(1), |_| op.size("group"))?;
    Ok(Count::from(channels).divided_by(Count::from(groups), "channels by groups")? * Count::of(&window))
}

fn is_nhwc(op: &OpFacts) -> bool {
    op.domain == "com.ms.internal.nhwc"
}

fn conv(op: &OpFacts, input: usize, weights: usize) -> Result<Work, Gap> {
    let work = Work::macs(op.written()? * kernel(op, input, weights)?);
    let blocked = op.domain == "com.microsoft.nchwc";
    Ok(if blocked { work.noted("with the padding channels of the blocked layout") } else { work })
}

/// Each input element is spread over the kernel: the output's size does not matter.
fn transposed(op: &OpFacts, input: usize, weights: usize) -> Result<Work, Gap> {
    let [_, per_input @ ..] = op.input_shape(weights)? else {
        return Err(Gap::new("the weights are a scalar"));
    };
    Ok(Work::macs(op.read(input)? * Count::of(per_input)))
}

/// Bias and residual cost an addition per output element, a fused activation one operation.
fn with_extras(op: &OpFacts, work: Work, inputs: &[usize]) -> Result<Work, Gap> {
    let added = inputs.iter().filter(|index| op.has_input(**index)).count() as u64;
    let activated = op.text("activation").is_some_and(|name| !name.is_empty() && name != "none");
    let per_element = added + u64::from(activated);
    if per_element == 0 { Ok(work) } else { Ok(work.plus(op.written()? * per_element)) }
}

/// A convolution over samples that are interpolated between four neighbors.
fn deformable(op: &OpFacts) -> Result<Work, Gap> {
    let weights = op.input_shape(1)?;
    let outputs = weights.first().copied().unwrap_or(1);
    let positions = op.written()?.divided_by(Count::from(outputs), "output channels")?;
    let channels = op.input_shape(0)?.get(1).copied().ok_or_else(|| Gap::new("the input has no channels"))?;
    let samples = positions * channels * Count::of(weights.get(2..).unwrap_or(&[]));
    let masked = if op.has_input(4) { samples } else { Count(0) };
    let work = conv(op, 0, 1)?.plus_macs(samples * 4).plus(masked);
    with_extras(op, work, &[3])
}

fn pool(op: &OpFacts, per_tap: u64) -> Result<Work, Gap> {
    let window = op.sizes("kernel_shape").ok_or_else(|| Gap::new("the attribute kernel_shape is missing"))?;
    Ok(Work::counted(op.written()? * Count::of(&window) * per_tap))
}
