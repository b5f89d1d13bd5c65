//! One truth: every reader of a recording sees the same result, to the last bit, whatever kind of recording it is.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::serving::Server;
use crate::support::{Place, library, skips, small_model};

/// Fields of the report that `GET /operators` leaves out on purpose: `GET /timeline` has them at every zoom level.
const NOT_IN_OPERATORS_ANSWER: [&str; 2] = ["timeline", "timeline_unknown"];

/// Wire records are compared for recordings with at most this many inferences.
const MAX_WIRE_RECORDS: u64 = 100_000;

/// Runs the model for the given number of seconds.
#[cfg(target_os = "linux")]
const PROGRAM: &str = r#"
import sys, time
import numpy, onnxruntime
session = onnxruntime.InferenceSession("small.onnx", providers=["CPUExecutionProvider"])
print("ready", flush=True)
end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    session.run(None, {"x": numpy.ones((1, 3), dtype=numpy.float32)})
    time.sleep(0.001)
"#;

/// Writes a profile with ONNX Runtime's own profiler.
const PROFILED: &str = r#"
import os
import numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.enable_profiling = True
session = onnxruntime.InferenceSession("small.onnx", options, providers=["CPUExecutionProvider"])
for _ in range(40):
    session.run(None, {"x": numpy.ones((1, 3), dtype=numpy.float32)})
os.rename(session.end_profiling(), "profile.json")
"#;

/// Every leaf of a document with its path; lists count with their index.
fn leaves(path: &str, value: &Value, into: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(name, value)| leaves(&format!("{path}.{name}"), value, into));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| leaves(&format!("{path}[{n}]"), value, into));
        }
        _ => into.push((path.to_owned(), value.clone())),
    }
}

/// Runs a command, reads its recording again, and compares. Returns the number of equal numbers.
fn assert_agreement(place: &Place, library: &Path, arguments: &[&str]) -> usize {
    let run =
        place.with_library(library, &[&["run", "--json", "-q"], arguments].concat()).expect_code(0).json();
    let report = place.ortscope(&["report", "last", "--json"]).expect_code(0).json();
    // The whole result, field by field, so that a field added later is covered.
    let (mut printed, mut stored) = (Vec::new(), Vec::new());
    leaves("", &run["results"], &mut printed);
    leaves("", &report["runs"], &mut stored);
    assert_eq!(printed, stored, "{arguments:?}");
    // The sessions of the report have the same figures under their own names.
    let results = run["results"].as_array().expect("results");
    for result in results.iter().filter(|result| result["sessions"] == 1) {
        let id = &result["session_ids"][0];
        let sessions = report["sessions"].as_array().expect("sessions");
        let session = sessions.iter().find(|session| session["session_id"] == *id).expect("the session");
        for (ours, theirs) in [
            (&result["latency"]["inference"], &session["inference"]),
            (&result["latency"]["end_to_end"], &session["end_to_end"]),
            (&result["server"], &session["server"]),
            (&result["generation"], &session["generation"]),
            (&result["cold"], &session["cold"]),
            (&result["memory"], &session["memory"]),
            (&result["warm_up"], &session["warm_up"]),
            (&result["cpu_cores_used"], &session["cpu_cores_used"]),
        ] {
            assert!(ours == theirs || (ours.is_null() && theirs.is_null()), "{ours}\nis not\n{theirs}");
        }
        for figure in ["requests", "seconds", "requests_per_second", "samples_per_second", "concurrency"] {
            assert_eq!(result["throughput"][figure], session["throughput"][figure], "{figure}");
        }
    }
    // The flat list of numbers, as builds read it.
    let csv = place.ortscope(&["report", "last", "--format", "csv"]).expect_code(0).stdout();
    let p50 = &report["sessions"][0]["inference"]["percentiles"]["p50"];
    if let Some(p50) = p50.as_f64() {
        let line = csv.lines().find(|line| line.starts_with("sessions.0.latency.inference.p50,"));
        assert!(line.is_some_and(|line| line.contains(&format!("{p50}"))), "{p50} in {line:?}");
    }
    assert_readers_agree(place, &report);
    printed.iter().filter(|(_, value)| value.is_number()).count()
}

/// Reads the newest recording through the server, the HTML page, Python and the exports, and compares every field with
/// its report. Returns the number of numbers in the report.
fn assert_readers_agree(place: &Place, report: &Value) -> usize {
    let id = report["header"]["id"].as_str().expect("an id");
    assert_server_agrees(place, id, report);
    assert_page_agrees(place, report);
    assert_python_agrees(place, report);
    assert_exports_agree(place, report);
    let mut all = Vec::new();
    leaves("", report, &mut all);
    all.iter().filter(|(_, value)| value.is_number()).count()
}

/// Compares leaf by leaf, so that a failure names the field.
#[track_caller]
fn assert_same(reader: &str, theirs: &Value, ours: &Value) {
    let (mut left, mut right) = (Vec::new(), Vec::new());
    leaves("", theirs, &mut left);
    leaves("", ours, &mut right);
    for (theirs, ours) in left.iter().zip(&right) {
        assert_eq!(theirs, ours, "{reader}");
    }
    assert_eq!(left.len(), right.len(), "{reader}");
}

fn assert_server_agrees(place: &Place, id: &str, report: &Value) {
    let server = Server::start(place, |command| {
        command.arg(id);
    });
    let get = |path: &str| -> Value {
        let answer = server.get(path);
        let (head, body) = answer.split_once("\r\n\r\n").expect("a body");
        assert!(head.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    };
    assert_same("/recordings/{id}/report", &get(&format!("/api/v1/recordings/{id}/report")), report);
    let latency = get(&format!("/api/v1/latency?source={id}"));
    for field in ["sessions", "other_sessions", "explanation_sources"] {
        assert_same(&format!("/latency {field}"), &latency[field], &report[field]);
    }
    let findings = get(&format!("/api/v1/findings?source={id}"));
    for field in ["findings", "annotations"] {
        assert_same(&format!("/findings {field}"), &findings[field], &report[field]);
    }
    let system = get(&format!("/api/v1/system?source={id}"));
    for field in ["machine", "ort_versions", "execution_providers", "command", "duration_seconds", "ended"] {
        assert_same(&format!("/system {field}"), &system[field], &report["header"][field]);
    }
    assert_same("/system provenance", &system["provenance"], &report["provenance"]);
    let operators = get(&format!("/api/v1/operators?source={id}"));
    let answered = operators["sessions"].as_array().expect("a list");
    let reported = report["operators"].as_array().expect("a list");
    assert_eq!(answered.len(), reported.len());
    for (answered, reported) in answered.iter().zip(reported) {
        let shared = |value: &Value| {
            let mut value = value.as_object().expect("an object").clone();
            value.retain(|name, _| name != "insight" && !NOT_IN_OPERATORS_ANSWER.contains(&name.as_str()));
            Value::Object(value)
        };
        assert_same("/operators", &shared(answered), &shared(reported));
    }
}

/// The page has the whole report in it, so that a program can read what a person sees.
fn assert_page_agrees(place: &Place, report: &Value) {
    let page = place.ortscope(&["report", "last", "--format", "html"]).expect_code(0).stdout();
    let marker = "<script type=\"application/json\" id=\"report\">";
    let data = page.split_once(marker).and_then(|(_, rest)| rest.split_once("</script>"));
    let (data, _) = data.expect("the page has its data");
    assert_same("the HTML page", &serde_json::from_str(data).expect("JSON"), report);
}

fn assert_python_agrees(place: &Place, report: &Value) {
    let Some(python) = skips::python_with(&["ortscope"]) else { return };
    let code = "import json, ortscope; print(json.dumps(ortscope.Recording('last').result()))";
    let output = Command::new(python)
        .args(["-c", code])
        .current_dir(place.directory.path())
        .env("ORTSCOPE_STORE", place.directory.path().join("runs"))
        .env("ORTSCOPE_BINARY", env!("CARGO_BIN_EXE_ortscope"))
        .output()
        .expect("python starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_same("Python", &serde_json::from_slice(&output.stdout).expect("JSON"), report);
}

/// The counts of the exports are those of the report.
fn assert_exports_agree(place: &Place, report: &Value) {
    let written = |to: &str, file: &str, extra: &[&str]| {
        place
            .ortscope(&[&["export", "last", "--to", to, "-o", file, "--force"], extra].concat())
            .expect_code(0);
        std::fs::read_to_string(place.directory.path().join(file)).expect("it was written")
    };
    let sessions = report["sessions"].as_array().expect("a list");
    let total: u64 = sessions.iter().filter_map(|session| session["counts"]["total"].as_u64()).sum();
    let failed: u64 = sessions.iter().filter_map(|session| session["counts"]["failed"].as_u64()).sum();

    let metrics = written("prometheus", "metrics.txt", &[]);
    let sum = |family: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(&format!("{family}{{")));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    assert_eq!(sum("ortscope_inference_duration_seconds_count"), total, "{metrics}");
    assert_eq!(sum("ortscope_inference_errors_total"), failed, "{metrics}");

    // A record has 400 bytes: those of a million inferences would take longer than all other readers together.
    if total > MAX_WIRE_RECORDS {
        return;
    }
    // The first line describes the file and is not a record.
    #[derive(serde::Deserialize)]
    struct Record {
        record: Option<String>,
        session_id: Option<String>,
    }
    let mut by_session = std::collections::BTreeMap::<String, u64>::new();
    for line in written("jsonl", "records.jsonl", &["--records"]).lines() {
        let record: Record = serde_json::from_str(line).expect("JSON");
        if record.record.as_deref() == Some("inference") {
            *by_session.entry(record.session_id.expect("a session")).or_default() += 1;
        }
    }
    for session in sessions {
        let id = session["session_id"].as_str().expect("an id");
        assert_eq!(by_session.remove(id), session["counts"]["total"].as_u64(), "{id}");
    }
    assert!(by_session.is_empty(), "{by_session:?}");
}

/// The report of the newest recording, after every reader was compared with it.
fn agreed_report(place: &Place) -> Value {
    let report = place.ortscope(&["report", "last", "--json"]).expect_code(0).json();
    assert_readers_agree(place, &report);
    report
}

#[test]
fn a_run_and_its_recording_agree() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let numbers = assert_agreement(&place, &library, &[&model, "--runs", "400"]);
    assert!(numbers >= 60, "{numbers} numbers were compared");
}

#[test]
fn an_open_loop_and_its_recording_agree() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    assert_agreement(&place, &library, &[&model, "--scenario", "server:200", "--duration", "2s"]);
}

#[test]
fn a_batch_sweep_and_its_recording_agree() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    assert_agreement(&place, &library, &[&model, "--batch", "1,2,4", "--duration", "1s"]);
    // Short enough for the comparison of its wire records.
    let place = Place::new();
    let model = small_model(&place);
    assert_agreement(&place, &library, &[&model, "--batch", "1,2,4", "--runs", "400"]);
}

#[test]
fn several_sessions_and_their_recording_agree() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments = [&model, "--sessions", "2", "--scenario", "multi:2", "--runs", "400"];
    assert_agreement(&place, &library, &arguments);
}

#[test]
fn a_decoder_and_its_recording_agree() {
    let Some(library) = library() else { return };
    let Some(model) = skips::model("tinyllm") else { return };
    let place = Place::new();
    let arguments = [&model.display().to_string(), "--generate", "8", "-n", "5"];
    assert_agreement(&place, &library, &arguments);
}

/// A Python program under `record`, with kernel events where they are allowed and an energy meter that is a stand-in.
#[test]
#[cfg(target_os = "linux")]
fn a_recorded_python_program_and_its_readers_agree() {
    let Some(python) = skips::python_with(&["onnxruntime", "numpy", "ortscope"]) else { return };
    let (place, tree) = (Place::new(), tempfile::tempdir().expect("a directory"));
    let _meter = crate::devices::Meter::start(tree.path());
    small_model(&place);
    place.file("app.py", PROGRAM);
    let python = python.display().to_string();
    let output = place
        .command(&["record", "--kernel", "--save", "recorded", "-q", "--", &python, "app.py", "0.8"])
        .env("ORTSCOPE_TEST_DEVICES", tree.path())
        .env("ORTSCOPE_TEST_NVML", "")
        .output()
        .expect("ortscope starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report = agreed_report(&place);
    assert!(report["sessions"][0]["counts"]["total"].as_u64().is_some_and(|count| count > 10), "{report}");
    assert!(!report["devices"].as_array().expect("a list").is_empty(), "{report}");
}

#[test]
#[cfg(target_os = "linux")]
fn an_attached_program_and_its_readers_agree() {
    let Some(python) = skips::python_with(&["onnxruntime", "numpy", "ortscope"]) else { return };
    let place = Place::new();
    small_model(&place);
    place.file("app.py", format!("import ortscope\nortscope.patch()\n{PROGRAM}"));
    let mut program = Command::new(python)
        .args(["app.py", "60"])
        .current_dir(place.directory.path())
        // The program records itself elsewhere, so that the newest recording here is the one of `attach`.
        .env("ORTSCOPE_STORE", place.directory.path().join("own"))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut stdout = std::io::BufReader::new(program.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut String::new()).expect("it says when it is ready");
    let pid = program.id().to_string();
    place.ortscope(&["attach", &pid, "--duration", "1s", "--save", "attached", "-q"]).expect_code(0);
    program.kill().ok();
    program.wait().ok();
    let report = agreed_report(&place);
    assert!(report["sessions"][0]["counts"]["total"].as_u64().is_some_and(|count| count > 10), "{report}");
}

#[test]
fn an_imported_profile_and_its_readers_agree() {
    let Some(python) = skips::python_with(&["onnxruntime", "numpy"]) else { return };
    let place = Place::new();
    small_model(&place);
    place.file("profile.py", PROFILED);
    let status = Command::new(python).arg("profile.py").current_dir(place.directory.path()).status();
    assert!(status.expect("python starts").success());
    place.ortscope(&["import", "profile.json"]).expect_code(0);
    let report = agreed_report(&place);
    assert!(!report["operators"].as_array().expect("a list").is_empty(), "{report}");
}

#[test]
fn an_imported_trace_and_its_readers_agree() {
    let place = Place::new();
    let path = place.file("written.etl", crate::import_etl::written()).display().to_string();
    place.ortscope(&["import", &path]).expect_code(0);
    let report = agreed_report(&place);
    assert_eq!(report["sessions"][0]["counts"]["total"], 200);
}
