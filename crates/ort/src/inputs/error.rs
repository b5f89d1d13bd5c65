//! Why inputs do not fit a model, in one sentence each.

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    #[error("the model has no input '{name}'{}; its inputs are {inputs}", did_you_mean(nearest))]
    UnknownInput { name: String, nearest: Option<String>, inputs: String },
    #[error(
        "--shape {name}: the model has neither an input nor a dimension of that name{}",
        did_you_mean(nearest)
    )]
    UnknownShape { name: String, nearest: Option<String> },
    #[error("a value without a name can only be given to a model with one input; this one has {inputs}")]
    Unnamed { inputs: String },
    #[error("input '{name}' is given twice")]
    Twice { name: String },
    #[error("input '{name}' must be {expected}, but {received} was given")]
    WrongType { name: String, expected: String, received: String },
    #[error("input '{name}' must have {expected} dimensions ({shape}), but {received:?} has {}", received.len())]
    WrongRank { name: String, expected: usize, shape: String, received: Vec<u64> },
    #[error("axis {axis} of input '{name}' is fixed at {expected} in the model, but {received} was given")]
    WrongSize { name: String, axis: usize, expected: u64, received: u64 },
    #[error(
        "dimension '{dim}' is {first} by {first_from} but {second} by {second_from}; equal names mean equal sizes"
    )]
    Conflict { dim: String, first: u64, first_from: String, second: u64, second_from: String },
    #[error(
        "the model's batch is fixed at {fixed} (axis 0 of '{input}'), so --batch {asked} is impossible; export it with a dynamic batch"
    )]
    FixedBatch { input: String, fixed: u64, asked: u64 },
    #[error("the model has no batch dimension, so --batch {asked} is impossible; use --shape")]
    NoBatch { asked: u64 },
    #[error(
        "values for input '{input}' would need {bytes} bytes, more than is left of {limit}; make it smaller with --shape"
    )]
    TooLarge { input: String, bytes: String, limit: u64 },
    #[error(
        "input '{input}' is {value_type}, for which no value can be made up; give one with --input, like {template}"
    )]
    NeedsValue { input: String, value_type: String, template: serde_json::Value },
}

fn did_you_mean(nearest: &Option<String>) -> String {
    nearest.as_ref().map(|name| format!(" (did you mean '{name}'?)")).unwrap_or_default()
}
