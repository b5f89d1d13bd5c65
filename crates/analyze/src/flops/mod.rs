//! How much an operator computes, from its type, shapes and attributes alone.
//!
//! # Convention
//! - One multiplication with its addition is one MAC and two FLOPs: `flops = 2 · macs + the rest`.
//! - Everything else counts one FLOP per operation of ONNX: an elementwise operator costs one per output element, be it
//!   an addition or a tangent. A fused operator costs what it replaced, so that fusing changes no total.
//! - Softmax and the normalizations cost five per element (four without a mean), as `fvcore` counts them.
//! - Integer operations count like floating-point ones.
//! - Causal attention counts only the pairs that a query may see. Kernels that compute all pairs do more work than that.
//! - Moving, copying and converting data costs no FLOP, but bytes.
//!
//! Uncountable operators are [`Method::Unknown`] with the reason, never a silent zero; sums include the number of
//! such nodes. Counts are computed in 128 bits: a model with absurd shapes gives a reason, not an overflow.

mod attention;
mod contraction;
mod convolution;
mod count;
mod elementwise;
mod facts;
mod fourier;
mod movement;
mod normalization;
mod profile;
mod recurrent;
mod resample;
mod uncounted;

use std::collections::BTreeMap;

use count::{Count, Gap, Work};
use serde::{Deserialize, Serialize};

pub use facts::{AttributeFact, OpFacts, TensorFacts};
pub use profile::{ReportedTensor, align_inputs, element_by_runtime_name};

/// How a count came about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Method {
    /// A formula over shapes and attributes.
    Counted,
    /// A formula with assumptions, described by the text.
    Estimated { how: String },
    /// So many operations per element.
    Elementwise,
    /// Data is moved or converted, nothing is computed: 0 FLOPs.
    DataMovement,
    /// Not counted, with the reason.
    Unknown { why: String },
}

/// Computation and data movement of one execution of an operator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlopCount {
    /// `None` exactly if the method is [`Method::Unknown`].
    pub flops: Option<u64>,
    /// Multiplications with their additions; `None` for operators that have none by nature.
    pub macs: Option<u64>,
    pub method: Method,
    /// Something to know about the number, e.g. that attention was causal.
    pub note: Option<&'static str>,
    /// Inputs, weights and outputs in bytes; for lookup tables at most the size of the output. `None` if the size of
    /// a tensor is unknown.
    pub bytes_moved: Option<u64>,
    /// The part of the inputs that are parameters of the model, in bytes as stored (two 4-bit weights to a byte).
    pub weight_bytes: Option<u64>,
}

impl FlopCount {
    /// FLOPs per byte moved; `None` if either is unknown or nothing is moved.
    pub fn arithmetic_intensity(&self) -> Option<f64> {
        let bytes = self.bytes_moved.filter(|bytes| *bytes > 0)?;
        Some(self.flops? as f64 / bytes as f64)
    }

    /// FLOPs besides the MACs: biases, activations, scaling.
    pub fn other_flops(&self) -> Option<u64> {
        self.flops?.checked_sub(self.macs.unwrap_or(0).checked_mul(2)?)
    }
}

/// Counts one operator.
pub fn count(op: &OpFacts) -> FlopCount {
    let bytes_moved = bytes_moved(op);
    let weight_bytes = weight_bytes(op);
    let (flops, macs, method, note) = match work(op).and_then(finished) {
        Ok(counted) => counted,
        Err(Gap(why)) => (None, None, Method::Unknown { why }, None),
    };
    FlopCount { flops, macs, method, note, bytes_moved, weight_bytes }
}

type Finished = (Option<u64>, Option<u64>, Method, Option<&'static str>);

fn finished(work: Work) -> Result<Finished, Gap> {
    let total = (work.macs.unwrap_or_default() * 2 + work.other).fits()?;
    let macs = work.macs.map(Count::fits).transpose()?;
    Ok((Some(total), macs, work.method, work.note))
}

/// The sum over many operators, with the number of omitted ones.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlopTotal {
    /// Saturates at the largest number.
    pub flops: u64,
    pub macs: u64,
    /// Operators in the sum.
    pub counted: u64,
    /// Operators that only move data.
    pub movement: u64,
    /// Operators that are not in the sum: their type and the reason, with how many there are.
    pub unknown: BTreeMap<(String, String), u64>,
}

impl FlopTotal {
    pub fn add(&mut self, op_type: &str, count: &FlopCount) {
        match &count.method {
            Method::Unknown { why } => {
                *self.unknown.entry((op_type.to_owned(), why.clone())).or_default() += 1;
                return;
            }
            Method::DataMovement => self.movement += 1,
            _ => self.counted += 1,
        }
        self.flops = self.flops.saturating_add(count.flops.unwrap_or(0));
        self.macs = self.macs.saturating_add(count.macs.unwrap_or(0));
    }

    /// Operators that the sum leaves out.
    pub fn unknown_count(&self) -> u64 {
        self.unknown.values().sum()
    }
}

/// Inputs and outputs together. Lookup tables count at most as much as the output taken from them; operators that
/// only read a shape read no data. `None` if a size is unknown.
fn bytes_moved(op: &OpFacts) -> Option<u64> {
    let outputs = sum_bytes(op.outputs.iter().flatten())?;
    if matches!(op.op_type.as_str(), "Shape" | "Size" | "Constant") {
        return Some(outputs);
    }
    let tables = lookups(op);
    let first_output = op.outputs.first().and_then(Option::as_ref).and_then(TensorFacts::bytes);
    let mut inputs = 0u64;
    for (index, tensor) in op.inputs.iter().enumerate() {
        let Some(tensor) = tensor else { continue };
        let bytes = tensor.bytes()?;
        let read = if tables.contains(&index) { bytes.min(first_output?) } else { bytes };
        inputs = inputs.checked_add(read)?;
    }
    inputs.checked_add(outputs)
}

fn weight_bytes(op: &OpFacts) -> Option<u64> {
    sum_bytes(op.inputs.iter().flatten().filter(|tensor| tensor.is_parameter))
}

fn sum_bytes<'a>(tensors: impl Iterator<Item = &'a TensorFacts>) -> Option<u64> {
    let mut bytes = 0u64;
    for tensor in tensors {
        bytes = bytes.checked_add(tensor.bytes()?)?;
    }
    Some(bytes)
}

/// Inputs of which only some rows are read.
fn lookups(op: &OpFacts) -> &'static [usize] {
    match op.op_type.as_str() {
        "Gather" | "GatherND" | "GatherElements" | "Slice" | "DynamicSlice" | "TorchEmbedding" => &[0],
        "GatherBlockQuantized" => &[0, 2, 3],
        "EmbedLayerNormalization" => &[2, 3, 4],
        "QEmbedLayerNormalization" => &[2, 3, 4],
        // Tables of sines and cosines for every position there may be.
        "GroupQueryAttention" => &[7, 8],
        "RotaryEmbedding" => &[1, 2, 3],
        _ => &[],
    }
}

const DOMAINS: &[&str] = &[
    "",
    "ai.onnx",
    "ai.onnx.ml",
    "com.microsoft",
    "com.microsoft.experimental",
    "com.microsoft.nchwc",
    "com.ms.internal.nhwc",
];

fn work(op: &OpFacts) -> Result<Work, Gap> {
    if !DOMAINS.contains(&op.domain.as_str()) {
        return Err(Gap::new(format!("operators of the domain {} are not known", op.domain)));
    }
    // Each family answers `None` for operators that are not its own.
    let families = [
        elementwise::work,
        movement::work,
        contraction::work,
        convolution::work,
        normalization::work,
        attention::work,
        recurrent::work,
        resample::work,
        fourier::work,
    ];
    if let Some(work) = families.iter().find_map(|family| family(op)) {
        return work;
    }
    Err(Gap::new(uncounted::reason(&op.op_type)))
}
