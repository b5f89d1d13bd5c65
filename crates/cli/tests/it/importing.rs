//! Files that other programs wrote, as recordings: rows and sums are those of the file.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::other_tools::rows;
use crate::support::{Place, skips};

/// The rows of a table of the last recording.
fn exported(place: &Place, table: &str) -> Vec<Value> {
    rows(place, table);
    let path = place.directory.path().join(format!("{table}.jsonl"));
    let text = std::fs::read_to_string(path).expect("the export");
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    lines.filter(|row| row["table"] == table).collect()
}

/// A Chrome trace of another program: VizTracer's of a Python program.
#[test]
fn a_trace_of_viztracer_is_imported() {
    let Some(python) = skips::python_with(&["viztracer"]) else { return };
    let place = Place::new();
    place.file("fib.py", "def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nfib(15)\n");
    let traced = Command::new(python)
        .args(["-m", "viztracer", "--quiet", "-o", "viz.json", "fib.py"])
        .current_dir(place.directory.path())
        .output()
        .expect("viztracer starts");
    assert!(traced.status.success(), "{}", String::from_utf8_lossy(&traced.stderr));
    let text = std::fs::read(place.directory.path().join("viz.json")).expect("the trace");
    let trace: Value = serde_json::from_slice(&text).expect("JSON");
    let slices = trace["traceEvents"].as_array().expect("events").iter().filter(|event| event["ph"] == "X");
    let (mut count, mut nanos) = (0, 0.0);
    for slice in slices {
        count += 1;
        nanos += (slice["dur"].as_f64().expect("a duration") * 1e3).round();
    }
    let document = place.ortscope(&["import", "viz.json", "--json"]).expect_code(0).json();
    assert!(count > 1_000 && document["slices"] == count, "{count}: {document}");
    let rows = exported(&place, "operators");
    let sum: u64 = rows.iter().map(|row| row["duration_ns"].as_u64().expect("a number")).sum();
    assert_eq!((rows.len() as u64, sum as f64), (count, nanos));
}

/// A file that the real `perf` wrote, if it can record here.
#[test]
fn samples_of_perf_are_imported() {
    let place = Place::new();
    let path = place.directory.path().join("perf.data");
    let recorded = Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o"])
        .arg(&path)
        .args(["--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
        .output();
    if !recorded.is_ok_and(|output| output.status.success()) {
        skips::skipped("perf is not installed, or may not record here");
        return;
    }
    let script = Command::new("perf").args(["script", "-F", "comm", "-G", "-i"]).arg(&path).output().unwrap();
    let theirs =
        String::from_utf8_lossy(&script.stdout).lines().filter(|line| !line.trim().is_empty()).count() as u64;
    let document = place.ortscope(&["import", "perf.data", "--json"]).expect_code(0).json();
    assert!(theirs > 0, "{}", String::from_utf8_lossy(&script.stderr));
    assert_eq!(document["samples"], theirs);
    assert_eq!(document["unreadable"], 0);
    assert_eq!(rows(&place, "kernel_events"), theirs);
    let text = std::fs::read_to_string(place.directory.path().join("kernel_events.jsonl")).unwrap();
    assert!(text.contains("+0x"), "frames have the names of their files: {text}");
}

/// Files of Qualcomm's tools that others have published, if they are here.
fn qnn_file(name: &str) -> Option<std::path::PathBuf> {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        std::path::PathBuf::from,
    );
    let path = root.join("hardware").join(name);
    if path.is_file() {
        return Some(path);
    }
    skips::skipped(&format!("no file {}; set ORTSCOPE_CORPUS", path.display()));
    None
}

#[test]
fn an_analysis_of_qnn_is_imported() {
    let Some(path) = qnn_file("qhas_resnet50.json") else { return };
    let text = std::fs::read_to_string(&path).expect("the file");
    let file: Value = serde_json::from_str(&text).expect("JSON");
    let nodes = file["data"]["qnn_op_instances_nodes"]["data"].as_array().expect("nodes");
    let cycles: u64 = nodes.iter().filter_map(|node| node["cycles"].as_u64()).sum();
    let place = Place::new();
    let document = place.ortscope(&["import", &path.display().to_string(), "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.import.qhas/1");
    assert_eq!((&document["nodes"], &document["cycles"]), (&nodes.len().into(), &cycles.into()));
    assert_eq!(rows(&place, "operators"), nodes.len() as u64);
    let summed: u64 = exported(&place, "operators").iter().filter_map(|row| row["cycles"].as_u64()).sum();
    assert_eq!(summed, cycles);
    place.ortscope(&["report", "last"]).expect_code(0);
}

#[test]
fn a_profile_of_qnn_is_imported() {
    let Some(path) = qnn_file("qnn_profile_resnet50.csv") else { return };
    let place = Place::new();
    let document = place.ortscope(&["import", &path.display().to_string(), "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.import.qnn/1");
    let nodes = document["nodes"].as_u64().expect("a number");
    assert!(nodes > 10, "{document}");
    assert_eq!(rows(&place, "operators"), nodes);
    place.ortscope(&["report", "last"]).expect_code(0);
}
