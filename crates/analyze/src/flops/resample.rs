//! Interpolation: resizing, sampling by a grid, aligning regions.

use super::count::{Count, Gap, Work};
use super::facts::OpFacts;

pub(super) fn work(op: &OpFacts) -> Option<Result<Work, Gap>> {
    Some(match op.op_type.as_str() {
        "Resize" | "Upsample" => resize(op),
        "GridSample" => grid_sample(op),
        "RoiAlign" => roi_align(op),
        _ => return None,
    })
}

/// MACs per output element: the neighbors of a point in `dims` dimensions.
fn neighbors(mode: &str, dims: u32) -> Option<u64> {
    match mode {
        "nearest" => Some(0),
        "linear" | "bilinear" => 2u64.checked_pow(dims),
        "cubic" | "bicubic" => 4u64.checked_pow(dims),
        _ => None,
    }
}

fn interpolated(elements: Count, mode: &str, dims: u32) -> Result<Work, Gap> {
    match neighbors(mode, dims) {
        Some(0) => Ok(Work::movement()),
        Some(taps) => Ok(Work::macs(elements * taps)),
        None => Err(Gap::new(format!("the mode {mode} is not known"))),
    }
}

fn resize(op: &OpFacts) -> Result<Work, Gap> {
    let (from, to) = (op.input_shape(0)?, op.output_shape(0)?);
    if from.len() != to.len() {
        return Err(Gap::new("input and output differ in rank"));
    }
    let changed = from.iter().zip(to).filter(|(from, to)| from != to).count();
    // An image that keeps one of its sides is interpolated along the other only.
    interpolated(
        op.written()?,
        op.text("mode").unwrap_or("nearest"),
        u32::try_from(changed).unwrap_or(u32::MAX),
    )
}

fn grid_sample(op: &OpFacts) -> Result<Work, Gap> {
    let spatial = op.input_shape(0)?.len().saturating_sub(2);
    interpolated(
        op.written()?,
        op.text("mode").unwrap_or("linear"),
        u32::try_from(spatial).unwrap_or(u32::MAX),
    )
}

fn roi_align(op: &OpFacts) -> Result<Work, Gap> {
    let samples = op
        .int("sampling_ratio")
        .and_then(|ratio| u64::try_from(ratio).ok())
        .filter(|ratio| *ratio > 0)
        .ok_or_else(|| Gap::new("the number of samples depends on the size of the regions"))?;
    Ok(Work::macs(op.written()? * Count::of(&[samples, samples, 4])))
}
