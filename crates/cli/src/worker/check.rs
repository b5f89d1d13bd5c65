//! Whether a provider answers as the CPU does: a fast wrong answer is worth nothing.

use ortscope_analyze::outputs::{self, OutputComparison, Tolerance, Values, compare_outputs};
use ortscope_core::tensor::{ElementType, TensorData, Value};
use ortscope_decode::tensors::pack;
use ortscope_ort::{Environment, OrtError, ProviderRequest, Session, SessionOptions};

use super::{Stopped, failures};
use crate::measure::plan::WorkerPlan;
use crate::measure::protocol::{CheckedOutput, WorkerMessage};

/// Runs the model once on the CPU, without graph optimisations, and compares.
pub fn against_cpu(
    plan: &WorkerPlan,
    environment: &Environment,
    inputs: &[(String, Value)],
    answers: &[(String, Value)],
) -> Result<WorkerMessage, Stopped> {
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
    Ok(WorkerMessage::OutputsChecked { reference: "CPU, graph optimisations off".into(), outputs })
}

fn compare(expected: &Value, got: &Value) -> OutputComparison {
    let (left, right) = (flatten(expected), flatten(got));
    let element = left.element;
    compare_outputs(&left.view(), &right.view(), element.map_or(Tolerance::EXACT, Tolerance::for_element))
}

/// Values in the form the comparison takes. Integers beyond 2^53 lose their last bits here, which no output has.
struct Flat {
    element: Option<ElementType>,
    shape: Vec<i64>,
    content: Content,
}

enum Content {
    Numbers(Vec<f64>),
    Texts(Vec<String>),
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
        // Sequences and maps are compared by what they print as: equal or not.
        let content = Content::Texts(vec![format!("{value:?}")]);
        return Flat { element: None, shape: vec![1], content };
    };
    let content = match (&tensor.data, pack::numbers(tensor)) {
        (TensorData::Strings(strings), _) => Content::Texts(strings.clone()),
        (TensorData::Bytes(_), Some(numbers)) => Content::Numbers(numbers),
        // Types without numbers of their own: byte for byte.
        (TensorData::Bytes(bytes), None) => {
            Content::Numbers(bytes.iter().map(|byte| f64::from(*byte)).collect())
        }
    };
    let shape = tensor.dims.iter().map(|dim| i64::try_from(*dim).unwrap_or(i64::MAX)).collect();
    Flat { element: Some(tensor.element), shape, content }
}
