//! The inputs of the measured runs: read from files or made from the signature.

use std::collections::BTreeMap;

use ortscope_core::tensor::{Value, ValueInfo};
use ortscope_decode::tensors::NamedValues;
use ortscope_ort::Session;
use ortscope_ort::inputs::{self, GuessedDim, InputError, InputRequest};

use super::Stopped;
use crate::input_files;
use crate::measure::plan::{GeneratePlan, WorkerPlan};
use ortscope_analyze::facts::InputsMade;
use ortscope_core::failure::{Failure, FailureKind};

/// A larger set of inputs is a mistake in a shape.
const MAX_INPUT_BYTES: u64 = 8 << 30;

/// Inputs ready to bind, with notes about them.
#[derive(Debug)]
pub struct Made {
    pub values: Vec<(String, Value)>,
    seed: u64,
    guessed: Vec<GuessedDim>,
    notes: Vec<String>,
    batch_size: Option<u64>,
    padding_ratio: Option<f64>,
}

pub fn make(plan: &WorkerPlan, session: &Session) -> Result<Made, Stopped> {
    let given = read_files(plan, session.inputs())?;
    let mut shapes = BTreeMap::new();
    for (name, sizes) in &plan.inputs.shapes {
        let (name, shape) =
            inputs::parse_shape_override(&format!("{name}={sizes}")).map_err(Failure::usage)?;
        shapes.insert(name, shape);
    }
    let resolved = inputs::resolve(&InputRequest {
        signature: session.inputs(),
        hints: &plan.inputs.hints,
        given,
        shapes,
        batch: plan.inputs.batch,
        seed: plan.inputs.seed,
        max_bytes: MAX_INPUT_BYTES,
    })
    .map_err(|error| input_failure(&error))?;
    Ok(Made {
        values: resolved.values,
        seed: plan.inputs.seed,
        notes: resolved
            .notes
            .into_iter()
            .filter(|note| !resolved.guessed.iter().any(|guess| guess.sentence == *note))
            .collect(),
        guessed: resolved.guessed,
        batch_size: resolved.batch_size,
        padding_ratio: resolved.padding_ratio,
    })
}

fn read_files(plan: &WorkerPlan, signature: &[ValueInfo]) -> Result<NamedValues, Stopped> {
    let mut given = NamedValues::new();
    for file in &plan.inputs.files {
        given.extend(input_files::read(file, signature)?);
    }
    Ok(given)
}

pub fn input_failure(error: &InputError) -> Failure {
    let failure = Failure::new(FailureKind::Input, error.to_string());
    match error {
        InputError::NeedsValue { .. } => failure.with_hint(
            "'ortscope inspect MODEL --template > inputs.json' makes a file to fill in and give with --input",
        ),
        _ => failure.with_hint("'ortscope inspect MODEL' shows what the model takes; set sizes with --shape"),
    }
}

impl Made {
    /// For records, where 0 means unknown.
    pub fn batch_size_u32(&self) -> u32 {
        self.batch_size.and_then(|size| u32::try_from(size).ok()).unwrap_or(0)
    }

    /// When the first run fails, a guessed size is the likeliest cause.
    pub fn suspect_guesses(&self, failure: Failure) -> Failure {
        let guesses: Vec<&str> = self.guessed.iter().map(|guess| guess.sentence.as_str()).collect();
        if guesses.is_empty() {
            return failure;
        }
        failure.with_hint(format!("a size was guessed, perhaps wrongly: {}", guesses.join("; ")))
    }

    /// Tokens, masks and caches are the decoder's business; only the prompt is the user's.
    pub fn for_generation(&self, generate: GeneratePlan) -> InputsMade {
        let described = format!(
            "a prompt of {} tokens, then {} tokens per sequence",
            generate.prompt_tokens, generate.new_tokens
        );
        InputsMade { described: vec![described], guessed: Vec::new(), ..self.message(0, 0, 0) }
    }

    pub fn message(&self, input_bytes: u64, output_bytes: u64, unbound_outputs: u64) -> InputsMade {
        InputsMade {
            seed: self.seed,
            described: self.values.iter().map(|(name, value)| describe(name, value)).collect(),
            guessed: self.guessed.clone(),
            notes: self.notes.clone(),
            batch_size: self.batch_size,
            padding_ratio: self.padding_ratio,
            input_bytes,
            output_bytes,
            unbound_outputs,
        }
    }
}

fn describe(name: &str, value: &Value) -> String {
    match value {
        Value::Tensor(tensor) => {
            let dims: Vec<String> = tensor.dims.iter().map(u64::to_string).collect();
            format!("{name} {}[{}]", tensor.element, dims.join(","))
        }
        Value::Sequence(items) => format!("{name} sequence of {}", items.len()),
        Value::Map { keys, .. } => format!("{name} map of {}", keys.elements().unwrap_or(0)),
    }
}
