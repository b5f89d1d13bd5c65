//! One truth: the result that `run` prints is the one that every later reader of its recording sees, to the last bit.

use serde_json::Value;

use crate::support::{Place, library, skips, small_model};

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
fn assert_agreement(place: &Place, library: &std::path::Path, arguments: &[&str]) -> usize {
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
    printed.iter().filter(|(_, value)| value.is_number()).count()
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
