//! Compares the outputs of a provider with the CPU's: a fast wrong answer is worthless.

use std::path::Path;

use ortscope_analyze::outputs::{self, CheckedOutput, OutputComparison, Tolerance, Values, compare_outputs};
use ortscope_core::tensor::{ElementType, TensorData, Value};
use ortscope_decode::tensors::pack;
use serde::{Deserialize, Serialize};

use ortscope_ort::{Environment, OrtError, ProviderRequest, Session, SessionOptions};

use super::{Stopped, failures};
use crate::measure::plan::WorkerPlan;
use ortscope_analyze::facts::{Fact, OutputsChecked};
use ortscope_core::failure::Failure;

/// Runs the model once on the CPU, without graph optimizations, and compares.
pub fn against_cpu(
    plan: &WorkerPlan,
    environment: &Environment,
    inputs: &[(String, Value)],
    answers: &[(String, Value)],
) -> Result<Fact, Stopped> {
    let wrong = |error: &OrtError| Stopped { failure: failures::from_ort(error, plan), after_runs: None };
    let options = SessionOptions {
        optimization: ortscope_ort::Optimization::None,
        providers: vec![ProviderRequest::named("cpu")],
        intra_op_threads: plan.options.intra_op_threads,
        config_entries: plan.options.config_entries.clone(),
        ..SessionOptions::default()
    };
    let session = Session::create(environment, &plan.model, &options).map_err(|error| wrong(&error))?;
    let mut binding = session.bind(inputs).map_err(|error| wrong(&error))?;
    binding.copy_inputs().map_err(|error| wrong(&error))?;
    binding.run().map_err(|error| wrong(&error))?;
    let reference = binding.outputs().map_err(|error| wrong(&error))?;
    let outputs = reference
        .iter()
        .zip(answers)
        .map(|((name, expected), (_, got))| CheckedOutput {
            name: name.clone(),
            comparison: compare(expected, got),
        })
        .collect();
    Ok(Fact::OutputsChecked(OutputsChecked { reference: "CPU, graph optimizations off".into(), outputs }))
}

/// Inputs and outputs of one worker, for the comparison with another's.
#[derive(Debug, Serialize, Deserialize)]
struct Answers {
    inputs: Vec<(String, Flat)>,
    outputs: Vec<(String, Flat)>,
}

pub fn save(path: &Path, inputs: &[(String, Value)], outputs: &[(String, Value)]) -> Result<(), Failure> {
    let flat = |values: &[(String, Value)]| {
        values.iter().map(|(name, value)| (name.clone(), flatten(value))).collect()
    };
    let answers = Answers { inputs: flat(inputs), outputs: flat(outputs) };
    let file = std::io::BufWriter::new(fs_err::File::create(path)?);
    serde_json::to_writer(file, &answers).map_err(Failure::internal)
}

/// Compares the files of two workers. `tolerance` replaces that of the element types. Different inputs are an error.
pub fn compare_saved(
    reference: &Path,
    candidate: &Path,
    tolerance: Option<Tolerance>,
) -> Result<Vec<CheckedOutput>, Failure> {
    let read = |path: &Path| -> Result<Answers, Failure> {
        let file = std::io::BufReader::new(fs_err::File::open(path)?);
        serde_json::from_reader(file).map_err(Failure::internal)
    };
    let (a, b) = (read(reference)?, read(candidate)?);
    if a.inputs != b.inputs {
        return Err(Failure::input(
            "the two sides made different inputs, so their outputs cannot be compared",
        )
        .with_hint("give the values with --input"));
    }
    if a.outputs.len() != b.outputs.len() {
        return Err(Failure::input(format!(
            "side A has {} outputs, side B {}: they cannot be compared",
            a.outputs.len(),
            b.outputs.len()
        )));
    }
    // By position: converters rename outputs but keep their order.
    let pairs = a.outputs.iter().zip(&b.outputs);
    Ok(pairs
        .map(|((name, expected), (_, got))| CheckedOutput {
            name: name.clone(),
            comparison: compare_flat(expected, got, tolerance),
        })
        .collect())
}

fn compare(expected: &Value, got: &Value) -> OutputComparison {
    compare_flat(&flatten(expected), &flatten(got), None)
}

fn compare_flat(expected: &Flat, got: &Flat, tolerance: Option<Tolerance>) -> OutputComparison {
    let of_type = || expected.element.map_or(Tolerance::EXACT, Tolerance::for_element);
    compare_outputs(&expected.view(), &got.view(), tolerance.unwrap_or_else(of_type))
}

/// Values in the form that the comparison takes. Integers beyond 2^53 lose their last bits; outputs do not have such values.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat {
    element: Option<ElementType>,
    shape: Vec<i64>,
    content: Content,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
enum Content {
    /// Stored as bits, because JSON has no NaN.
    #[serde(with = "bits")]
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

mod bits {
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(values: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(values.iter().map(|value| value.to_bits()))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<u64>::deserialize(deserializer)?.into_iter().map(f64::from_bits).collect())
    }
}

impl Flat {
    fn view(&self) -> outputs::Tensor<'_> {
        let values = match &self.content {
            Content::Numbers(values) => Values::Float64(values),
            Content::Texts(values) => Values::Text(values),
        };
        outputs::Tensor { shape: &self.shape, values }
    }
}

fn flatten(value: &Value) -> Flat {
    let Value::Tensor(tensor) = value else {
        // Sequences and maps are compared by their debug text.
        let content = Content::Texts(vec![format!("{value:?}")]);
        return Flat { element: None, shape: vec![1], content };
    };
    let content = match (&tensor.data, pack::numbers(tensor)) {
        (TensorData::Strings(strings), _) => Content::Texts(strings.clone()),
        (TensorData::Bytes(_), Some(numbers)) => Content::Numbers(numbers),
        // Non-numeric types are compared byte by byte.
        (TensorData::Bytes(bytes), None) => {
            Content::Numbers(bytes.iter().map(|byte| f64::from(*byte)).collect())
        }
    };
    let shape = tensor.dims.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
    Flat { element: Some(tensor.element), shape, content }
}
