//! Counting from profiles: the tensors of real profiles are assigned to the nodes of the optimized graph.
//!
//! Optimizing must not change how many MACs a model has. So the sum over the profile of the optimized model, whose
//! kernels hide their packed weights, is the sum over the original model.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use ortscope_analyze::flops::{
    self, FlopTotal, OpFacts, ReportedTensor, TensorFacts, align_inputs, element_by_runtime_name,
};
use ortscope_decode::onnx::{Graph, Limits, Node, read_model};
use serde_json::Value;

use crate::flops_peer::attribute;
use crate::skips;

const SCRIPT: &str = r#"
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.enable_profiling = True
options.profile_file_prefix = sys.argv[2]
options.log_severity_level = 3
options.optimized_model_filepath = sys.argv[3]
options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, sys.argv[4])
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}
sizes = {"batch": 1, "seq": 4, "past": 16, "total": 20}
feeds = {i.name: numpy.ones([d if isinstance(d, int) else sizes.get(d, 1) for d in i.shape], types[i.type])
         for i in session.get_inputs()}
session.run(None, feeds)
print(session.end_profiling())
"#;

/// The sum over the nodes of one run of a model, from its profile and its graph.
fn profiled_total(python: &Path, model: &Path, level: &str) -> FlopTotal {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let stem = model.file_stem().unwrap().to_string_lossy();
    // Even without optimization the runtime resolves functions: only the graph it writes has the profile's nodes.
    let written = dir.join(format!("flops-{stem}-{level}.onnx"));
    let prefix = dir.join(format!("flops-{stem}-{level}"));
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .args([model.as_os_str(), prefix.as_os_str(), written.as_os_str(), level.as_ref()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&std::fs::read(path.trim()).unwrap()).unwrap();
    std::fs::remove_file(path.trim()).unwrap();
    let graph = read_model(&std::fs::read(&written).unwrap(), &Limits::default()).unwrap().graph;
    std::fs::remove_file(written).unwrap();
    let parameters: BTreeMap<&str, TensorFacts> = graph
        .initializers
        .iter()
        .map(|tensor| (tensor.name.as_str(), TensorFacts::parameter(tensor.element, &tensor.dims)))
        .collect();
    let mut total = FlopTotal::default();
    for event in events.iter().filter(|event| event["cat"] == "Node") {
        let node = find(&graph, event);
        let facts = facts(node, event, &parameters);
        total.add(&node.op_type, &flops::count(&facts));
    }
    total
}

fn find<'a>(graph: &'a Graph, event: &Value) -> &'a Node {
    let name = event["name"].as_str().unwrap().strip_suffix("_kernel_time").unwrap();
    let op_type = event["args"]["op_name"].as_str().unwrap();
    graph.nodes.iter().find(|node| node.name == name && node.op_type == op_type).unwrap()
}

fn facts(node: &Node, event: &Value, parameters: &BTreeMap<&str, TensorFacts>) -> OpFacts {
    let known: Vec<Option<TensorFacts>> = node
        .inputs
        .iter()
        .map(|name| (!name.is_empty()).then(|| parameters.get(name.as_str()).cloned().unwrap_or_default()))
        .collect();
    let inputs = align_inputs(&known, &reported(&event["args"]["input_type_shape"]));
    let outputs = reported(&event["args"]["output_type_shape"]).into_iter().map(|tensor| {
        Some(TensorFacts { shape: Some(tensor.shape), element: tensor.element, ..TensorFacts::default() })
    });
    let (domain, op_type) = node.operator();
    OpFacts {
        domain: domain.to_owned(),
        op_type: op_type.to_owned(),
        inputs: inputs.unwrap_or_else(|| panic!("not aligned: {node:?} {event}")),
        outputs: outputs.collect(),
        attributes: node.attributes.iter().map(|a| (a.name.clone(), attribute(&a.value))).collect(),
    }
}

fn reported(list: &Value) -> Vec<ReportedTensor> {
    let tensor = |item: &Value| {
        let (element, shape) = item.as_object().unwrap().iter().next().unwrap();
        let shape = shape.as_array().unwrap().iter().map(|dim| dim.as_u64().unwrap()).collect();
        ReportedTensor { element: element_by_runtime_name(element), shape }
    };
    list.as_array().unwrap().iter().map(tensor).collect()
}

#[test]
fn optimizing_changes_no_macs() {
    let Some(python) = skips::variable("ORTSCOPE_TEST_PYTHON") else { return };
    for (model, macs) in [("tinyllm", 13_258_752), ("smart-turn-v3.2-cpu", 3_612_889_152)] {
        let Some(path) = skips::model(model) else { continue };
        let original = profiled_total(&python, &path, "ORT_DISABLE_ALL");
        let optimized = profiled_total(&python, &path, "ORT_ENABLE_EXTENDED");
        println!("{model}: {} MACs; FLOPs {} → {}", original.macs, original.flops, optimized.flops);
        assert_eq!((original.macs, optimized.macs), (macs, macs), "{optimized:?}");
        assert!(original.unknown.is_empty() && optimized.unknown.is_empty(), "{optimized:?}");
    }
}
