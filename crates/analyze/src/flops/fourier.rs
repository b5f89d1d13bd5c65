//! Fourier transforms, counted as fast ones: 5 · n · log2 n for a complex transform of n points, half of it for a real
//! one.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

const HOW: &str = "as a fast Fourier transform: 5·n·log2(n)";

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "DFT" => dft(op),
        "STFT" => stft(op),
        "Rfft" | "Irfft" => real(op),
        _ => return None,
    })
}

fn transform(points: u64, is_real: bool) -> Count {
    let log2 = points.saturating_sub(1).checked_ilog2().map_or(0, |below| u64::from(below) + 1);
    let complex = Count::from(points) * 5 * log2;
    if is_real { complex.div_ceil(2) } else { complex }
}

fn dft(op: &OpFacts) -> Result<Work, Gap> {
    let shape = op.input_shape(0)?;
    let [.., parts] = shape else { return Err(Gap::new("the signal is a scalar")) };
    let rank = i64::try_from(shape.len()).unwrap_or(i64::MAX);
    // The axis is an attribute before opset 20 and an input after it; the default is the last but one.
    let axis = op.int("axis").or_else(|| op.input(2)?.value.as_ref()?.first().copied()).unwrap_or(-2);
    let axis = if axis < 0 { axis + rank } else { axis };
    let axis = usize::try_from(axis).ok().filter(|axis| axis + 1 < shape.len());
    let axis = axis.ok_or_else(|| Gap::new("the axis is not one of the signal's"))?;
    let points = op.input_value(1).unwrap_or(shape[axis]);
    let signals: Vec<u64> = shape
        .iter()
        .enumerate()
        .filter(|(index, _)| *index != axis && index + 1 != shape.len())
        .map(|(_, dim)| *dim)
        .collect();
    Ok(Work::counted(Count::of(&signals) * transform(points, *parts == 1)).estimated(HOW))
}

/// One windowed transform per frame.
fn stft(op: &OpFacts) -> Result<Work, Gap> {
    let [batch, frames, _, _] = op.output_shape(0)? else {
        return Err(Gap::new("the output is not of rank 4"));
    };
    let window = op.input_shape(2).ok().and_then(|shape| shape.first().copied());
    let points = op
        .input_value(3)
        .or(window)
        .ok_or_else(|| Gap::new("the length of a frame is not known from the shapes"))?;
    let is_real = op.input_shape(0)?.last() != Some(&2);
    let windowing = if op.has_input(2) { points } else { 0 };
    let per_frame = transform(points, is_real) + Count::from(windowing);
    Ok(Work::counted(Count::of(&[*batch, *frames]) * per_frame).estimated(HOW))
}

/// The transformed dimensions are the last ones; the longer side is the real signal.
fn real(op: &OpFacts) -> Result<Work, Gap> {
    let dims = op.int("signal_ndim").and_then(|dims| usize::try_from(dims).ok()).unwrap_or(1).max(1);
    let signal = if op.op_type == "Rfft" { op.input_shape(0)? } else { op.output_shape(0)? };
    let split =
        signal.len().checked_sub(dims).ok_or_else(|| Gap::new("the signal has too few dimensions"))?;
    let (batch, points) = signal.split_at(split);
    let points = Count::of(points).fits()?;
    Ok(Work::counted(Count::of(batch) * transform(points, true)).estimated(HOW))
}
