//! Leaks whose truth is known: a real ONNX Runtime that loses a hundred bytes with every run, and one that loses nothing.
//! `cargo xtask bench verdicts` does the same with the counts that a promise needs.

use std::path::Path;

use serde_json::Value;

use crate::altered;
use crate::support::{Place, Run, library, small_model};

/// Runs that such a leak must be found in.
const RUNS: &str = "200000";

fn soak(place: &Place, library: &Path, name: &str, length: &[&str]) -> Run {
    let model = small_model(place);
    let arguments = ["run", &model, "--batch", "4096", "--profile", "off", "--threads", "1", "--save", name];
    place.with_library(library, &[&arguments[..], length, &["--json", "-q"]].concat())
}

fn leak(document: &Value) -> &Value {
    &document["results"][0]["leak"]
}

#[test]
fn a_hundred_bytes_per_inference_are_found_and_compared() {
    let Some(real) = library() else { return };
    let place = Place::new();
    let Some(leaky) = altered::library(&place, &real, "leaky", &[("ALTERED_HEAP_BYTES", "100")]) else {
        return;
    };
    let length = ["--soak", "20s", "--runs", RUNS];
    let sound = soak(&place, &real, "sound", &length).expect_code(0).json();
    assert_eq!(leak(&sound)["verdict"], "no_leak", "{}", leak(&sound));
    let found = soak(&place, &leaky, "leaky", &length).expect_code(10).json();
    let report = leak(&found);
    assert_eq!(report["verdict"], "leak", "{report}");
    // malloc adds its own to a hundred bytes.
    let bounds = ["low_bytes", "high_bytes"].map(|bound| report[bound].as_f64().unwrap());
    assert!(bounds[0] < 130.0 && bounds[1] > 95.0, "{report}");
    assert!(found["results"][0]["findings"].to_string().contains("memory-leak"));
    // ONNX Runtime tells its arena's figures from 1.23 on.
    if !report["allocations"].is_null() {
        assert_eq!(report["place"], "outside_arena", "{report}");
    }

    // From the recordings alone. The library has the same version, so they can be compared.
    let compared = place.ortscope(&["compare", "sound", "leaky", "--json"]).expect_code(10).json();
    assert_eq!(compared["verdict"], "regression");
    assert!(compared["summary"].as_str().unwrap().contains("bytes per inference"), "{}", compared["summary"]);
    assert_eq!(compared["a"][0]["leak"]["verdict"], "no_leak");
    let text = place.ortscope(&["compare", "sound", "leaky"]).expect_code(10).stdout();
    assert!(text.contains("leak B") && text.contains("leak A"), "{text}");
    // The other way round it is none, and who asks only for time gets no answer about memory.
    place.ortscope(&["compare", "leaky", "sound"]).expect_code(0);
    place.ortscope(&["compare", "sound", "leaky", "--metric", "p50"]).expect_code(0);
}

#[test]
fn a_leak_in_the_arena_is_attributed_to_the_arena() {
    let Some(real) = library() else { return };
    let place = Place::new();
    let Some(leaky) = altered::library(&place, &real, "leaky", &[("ALTERED_ARENA_BYTES", "100")]) else {
        return;
    };
    // The arena is sampled ten times a second. Ending after a number of runs would leave too few samples on a machine that
    // runs the model fast and the sampling thread late.
    let found = soak(&place, &leaky, "leaky", &["--soak", "12s"]).expect_code(10).json();
    let report = leak(&found);
    if report["allocations"].is_null() {
        // Before 1.23 nobody can ask the arena: it is a leak all the same.
        assert_eq!(report["place"], Value::Null);
        return;
    }
    assert_eq!(report["place"], "arena", "{report}");
    assert!(report["sentence"].as_str().unwrap().contains("in ONNX Runtime's arena"), "{report}");
    // One per run; the arena and the count of runs are not read at the very same moment.
    assert!(report["allocations"]["per_inference"].as_f64().unwrap() >= 0.9, "{report}");
    let windows = report["fragmentation"]["over_time"].as_array().unwrap();
    let used = |window: &Value| window["used_bytes"].as_u64().unwrap();
    assert!(used(&windows[0]) < used(&windows[windows.len() - 1]), "{report}");
    // A recording keeps the arena over time, for `compare` and the dashboard.
    place
        .ortscope(&["export", "leaky", "--to", "csv", "--table", "memory", "-o", "memory.csv"])
        .expect_code(0);
    let rows = std::fs::read_to_string(place.directory.path().join("memory.csv")).unwrap();
    assert!(
        rows.lines().filter(|row| row.contains("arena") && row.contains("in_use")).count() > 12,
        "{rows}"
    );
}

#[test]
fn memory_by_batch_size_is_fitted_and_compared() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    for name in ["one", "two"] {
        let arguments = ["run", &model, "--batch", "1,1000,100000", "--runs", "60", "--save", name];
        place.with_library(&library, &[&arguments[..], &["--json", "-q"]].concat()).expect_code(0);
    }
    let document = place.ortscope(&["compare", "one", "two", "--json"]).expect_code(0).json();
    assert_eq!(document["verdict"], "inconclusive");
    // x[batch,3] and y[batch,2] of floats: 20 bytes per sample, and some copies of them.
    for side in ["a", "b"] {
        let per_sample = document[side]["memory"]["per_sample_bytes"].as_f64().unwrap();
        assert!((10.0..200.0).contains(&per_sample), "{document}");
    }
    assert_eq!(document["batches"].as_array().unwrap().len(), 3);
    let text = place.ortscope(&["compare", "one", "two"]).expect_code(0).stdout();
    assert!(text.contains("memory A") && text.contains("per sample"), "{text}");
    // A sweep and a single run have nothing to compare.
    place.with_library(&library, &["run", &model, "--runs", "60", "--save", "single", "-q"]).expect_code(0);
    place.ortscope(&["compare", "one", "single"]).expect_error(2, &["has 3 measurements"]);
}
