//! Inputs for a model: values given by the user are checked, the rest is generated.
//!
//! Generated inputs must run and must cost as much as real ones: indices stay inside their tables, masks hide
//! nothing, lengths fit shapes. Every guessed size is reported, with the option that changes it. All of it is pure:
//! equal requests give equal bytes on every system and in every version.

mod error;
mod given;
mod names;
mod open_dims;
mod overrides;
mod random;
mod sizes;
#[cfg(test)]
mod tests;
mod values;

use std::collections::BTreeMap;

pub use error::InputError;
use ortscope_core::tensor::{Value, ValueInfo};
use ortscope_decode::onnx::InputHints;
use ortscope_decode::tensors::{NamedValues, json, pack};
pub use overrides::{ShapeOverride, parse_shape_override};
use serde::Serialize;

/// Known facts about the inputs.
#[derive(Debug, Clone)]
pub struct InputRequest<'a> {
    pub signature: &'a [ValueInfo],
    pub hints: &'a InputHints,
    /// Values of the user; the others are made up.
    pub given: NamedValues,
    /// By name of an input or of a symbolic dimension.
    pub shapes: BTreeMap<String, ShapeOverride>,
    pub batch: Option<u64>,
    pub seed: u64,
    /// Bytes of all made-up values together; beyond: [`InputError::TooLarge`].
    pub max_bytes: u64,
}

/// Inputs in the order of the signature.
#[derive(Debug, Clone, PartialEq)]
pub struct ResolvedInputs {
    pub values: Vec<(String, Value)>,
    /// Notes for the user, one sentence each.
    pub notes: Vec<String>,
    pub guessed: Vec<GuessedDim>,
    pub batch_size: Option<u64>,
    /// Where the batch is; empty when it is fixed or unknown.
    pub batch_axes: Vec<BatchAxis>,
    /// Share of zeros in the first mask that the user gave.
    pub padding_ratio: Option<f64>,
}

pub use ortscope_core::session::GuessedDim;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BatchAxis {
    pub input: String,
    pub axis: usize,
}

/// Checks the given values and generates the rest.
pub fn resolve(request: &InputRequest<'_>) -> Result<ResolvedInputs, InputError> {
    let given = given::assign(request)?;
    let sizes = sizes::Sizes::settle(request, &given)?;
    let mut notes = sizes.notes.clone();
    let mut left = request.max_bytes;
    let mut values = Vec::with_capacity(request.signature.len());
    let mut made_up = Vec::new();
    for info in request.signature {
        let value = match given.get(info.name.as_str()) {
            Some(value) => (*value).clone(),
            None => {
                made_up.push(info.name.as_str());
                values::make(request, &sizes, info, &mut left)?
            }
        };
        values.push((info.name.clone(), value));
    }
    if !given.is_empty() && !made_up.is_empty() {
        notes.push(format!("no values given for {}; they are made up", made_up.join(", ")));
    }
    let mask = request.signature.iter().find_map(|info| {
        let value = given.get(info.name.as_str())?;
        request.hints.get(&info.name).is_mask.then_some(value)
    });
    Ok(ResolvedInputs {
        values,
        notes,
        guessed: sizes.guessed,
        batch_size: sizes.batch_size,
        batch_axes: sizes.batch_axes,
        padding_ratio: mask.and_then(|mask| padding_ratio(mask)),
    })
}

/// A JSON file for the signature, ready to be edited and given back.
pub fn template(signature: &[ValueInfo]) -> serde_json::Value {
    json::template(signature)
}

fn padding_ratio(mask: &Value) -> Option<f64> {
    let Value::Tensor(tensor) = mask else { return None };
    let numbers = pack::numbers(tensor).filter(|numbers| !numbers.is_empty())?;
    let zeros = numbers.iter().filter(|number| **number == 0.0).count();
    Some(zeros as f64 / numbers.len() as f64)
}
