//! `ortscope inspect`: what is in a model file, without running anything.

use std::collections::BTreeMap;

use ortscope_core::tensor::ValueInfo;
use ortscope_decode::onnx::{Model, Opset, shown};
use serde::Serialize;

use crate::args::InspectArgs;
use crate::exit::{Exit, Failure};
use crate::terminal::{self, BOLD, DIM, Terminal};
use ortscope_core::units;
use ortscope_observe::model_file::{self, ModelFacts};

/// Operators listed in the text; the JSON has all.
const MAX_OPERATORS: usize = 12;
/// Inputs and outputs listed each.
const MAX_VALUES: usize = 16;

#[derive(Debug, Serialize)]
struct InspectDocument<'a> {
    schema: &'static str,
    model: &'a ModelFacts,
    opsets: &'a [Opset],
    graph_name: &'a str,
    inputs: &'a [ValueInfo],
    outputs: &'a [ValueInfo],
    /// Operator (with its domain unless it is the standard one) and how often it occurs, subgraphs included.
    operators: BTreeMap<String, u64>,
    initializers: u64,
    functions: u64,
    metadata: BTreeMap<&'a str, &'a str>,
    notes: &'a [String],
}

pub fn run(args: &InspectArgs, terminal: &Terminal) -> Result<Exit, Failure> {
    let open = model_file::open(&args.model, args.allow_external_data)?;
    if args.template {
        let template = ortscope_ort::inputs::template(&open.model.graph.inputs);
        let text = serde_json::to_string_pretty(&template).map_err(Failure::internal)?;
        terminal::print_data(&(text + "\n"));
        return Ok(Exit::Ok);
    }
    let document = InspectDocument {
        schema: "ortscope.inspect/1",
        model: &open.facts,
        opsets: &open.model.opsets,
        graph_name: &open.model.graph.name,
        inputs: &open.model.graph.inputs,
        outputs: &open.model.graph.outputs,
        operators: operators(&open.model),
        initializers: open.model.graph.initializers.len() as u64,
        functions: open.model.functions.len() as u64,
        metadata: open.model.metadata.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect(),
        notes: &open.notes,
    };
    let text = if terminal.json {
        serde_json::to_string_pretty(&document).map_err(Failure::internal)?
    } else {
        describe(&document, terminal).join("\n")
    };
    terminal::print_data(&(text + "\n"));
    Ok(Exit::Ok)
}

fn operators(model: &Model) -> BTreeMap<String, u64> {
    model
        .operator_counts()
        .into_iter()
        .map(|((domain, operator), count)| {
            let standard = domain.is_empty() || domain == "ai.onnx";
            let name = if standard { operator } else { format!("{domain}::{operator}") };
            (name, count as u64)
        })
        .collect()
}

fn describe(document: &InspectDocument<'_>, terminal: &Terminal) -> Vec<String> {
    let model = document.model;
    let mut lines = Vec::new();
    let mut title = format!("{}  {}", terminal.paint(BOLD, &model.name), units::bytes(model.bytes as f64));
    if model.quantized {
        title += "  quantised";
    }
    lines.push(title);
    let line = |label: &str, text: &str| format!("{}{text}", terminal.paint(DIM, &format!("{label:<12}")));
    let opsets: Vec<String> = document
        .opsets
        .iter()
        .map(|opset| match opset.domain.as_str() {
            "" | "ai.onnx" => format!("{}", opset.version),
            domain => format!("{} {}", shown(domain), opset.version),
        })
        .collect();
    lines.push(line("opset", &format!("{}  IR {}", opsets.join(", "), model.ir_version)));
    if !model.producer.is_empty() {
        lines.push(line("producer", &units::clean(&model.producer, 90)));
    }
    let subgraphs = if model.total_nodes > model.nodes {
        format!("  ({} with subgraphs)", units::count(model.total_nodes))
    } else {
        String::new()
    };
    lines.push(line("nodes", &format!("{}{subgraphs}", units::count(model.nodes))));
    lines.push(line(
        "parameters",
        &format!(
            "{} in {} tensors, {}",
            units::count(model.parameters),
            units::count(document.initializers),
            units::bytes(model.parameter_bytes as f64)
        ),
    ));
    if !model.external_files.is_empty() {
        lines.push(line("external", &model.external_files.join(", ")));
    }
    for (label, values) in [("inputs", document.inputs), ("outputs", document.outputs)] {
        for (index, value) in values.iter().take(MAX_VALUES).enumerate() {
            let label = if index == 0 { label } else { "" };
            lines.push(line(label, &format!("{}  {}", shown(&value.name), value.value_type)));
        }
        if values.len() > MAX_VALUES {
            lines.push(line("", &format!("and {} more", values.len() - MAX_VALUES)));
        }
        if values.is_empty() {
            lines.push(line(label, "none"));
        }
    }
    let mut operators: Vec<(&String, &u64)> = document.operators.iter().collect();
    operators.sort_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let kinds: Vec<String> = operators
        .iter()
        .take(MAX_OPERATORS)
        .map(|(name, count)| format!("{} ×{count}", shown(name)))
        .collect();
    let more = operators.len().saturating_sub(MAX_OPERATORS);
    let more = if more > 0 { format!("  and {more} more kinds") } else { String::new() };
    for (index, chunk) in kinds.chunks(6).enumerate() {
        let last = (index + 1) * 6 >= kinds.len();
        let label = if index == 0 { "operators" } else { "" };
        lines.push(line(label, &format!("{}{}", chunk.join("  "), if last { more.as_str() } else { "" })));
    }
    if document.functions > 0 {
        lines.push(line("functions", &units::count(document.functions)));
    }
    lines.extend(document.notes.iter().map(|note| line("note", note)));
    lines
}
