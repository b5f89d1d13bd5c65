//! Inferences of programs that know nothing of ortscope: Python and native ones, killed ones, running ones.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::support::{Place, library, skips, small_model};

/// Counts its inferences itself, and starts another Python that does the same.
const SCRIPT: &str = r#"
import subprocess, sys
import numpy, onnxruntime
session = onnxruntime.InferenceSession("small.onnx", providers=["CPUExecutionProvider"])
count = 0
for number in range(int(sys.argv[1])):
    (y,) = session.run(None, {"x": numpy.full((1, 3), number, dtype=numpy.float32)})
    assert y[0, 0] == 9 * number, y
    count += 1
assert "ortscope" not in globals()
print(count, flush=True)
if len(sys.argv) > 2 and sys.argv[2] == "child":
    subprocess.check_call([sys.executable, sys.argv[0], "40"])
if len(sys.argv) > 2 and sys.argv[2] == "killed":
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
if len(sys.argv) > 2 and sys.argv[2] == "wait":
    import time
    time.sleep(60)
"#;

/// Records itself and goes on until it is ended.
const RECORDS_ITSELF: &str = r#"
import time
import numpy, onnxruntime, ortscope
ortscope.patch()
session = onnxruntime.InferenceSession("small.onnx", providers=["CPUExecutionProvider"])
print("ready", flush=True)
end = time.monotonic() + 60
while time.monotonic() < end:
    session.run(None, {"x": numpy.ones((1, 3), dtype=numpy.float32)})
    time.sleep(0.001)
"#;

/// A Python with onnxruntime and our package, or `None` after saying that the test is skipped.
fn python() -> Option<PathBuf> {
    skips::python_with(&["onnxruntime", "numpy", "ortscope"])
}

fn place_with_script() -> Place {
    let place = Place::new();
    small_model(&place);
    place.file("app.py", SCRIPT);
    place.file("itself.py", RECORDS_ITSELF);
    place
}

fn rows(place: &Place, recording: &str, table: &str) -> Vec<Value> {
    place.ortscope(&["export", recording, "-o", "rows.jsonl", "--table", table]).expect_code(0);
    let text = std::fs::read_to_string(place.directory.path().join("rows.jsonl")).expect("it was written");
    std::fs::remove_file(place.directory.path().join("rows.jsonl")).expect("it was there");
    // The first line is about the recording.
    let rows = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    rows.filter(|row| row["table"] == table).collect()
}

/// Homes of the channels of a reader.
fn homes_of(pid: u32) -> Vec<PathBuf> {
    let prefix = format!("ortscope-{pid}-");
    let found = ["/dev/shm", "/tmp"].map(|place| std::fs::read_dir(place).ok());
    let paths = found.into_iter().flatten().flatten().flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix)))
        .collect()
}

#[test]
fn every_inference_of_an_unmodified_script_and_its_children_is_recorded() {
    let Some(python) = python() else { return };
    let place = place_with_script();
    let python = python.to_str().expect("a plain path");
    let run = place.ortscope(&[
        "record",
        "--save",
        "z",
        "--profile-every",
        "50",
        "--json",
        "--",
        python,
        "app.py",
        "200",
        "child",
    ]);
    let run = run.expect_code(0);
    // The program's output is in front of the document.
    let stdout = run.stdout();
    assert!(stdout.starts_with("200\n40\n"), "{stdout}");
    let document: Value = serde_json::from_str(&stdout["200\n40\n".len()..]).expect("a document");
    let inferences = &document["inferences"];
    assert_eq!(inferences["count"], 240, "{document}");
    assert_eq!(document["losses"], serde_json::json!([]));
    let sessions = inferences["sessions"].as_array().expect("a list");
    assert_eq!(sessions.len(), 2);
    assert!(sessions.iter().all(|session| session["model_name"] == "small"), "{inferences}");
    assert_ne!(sessions[0]["pid"], sessions[1]["pid"]);
    if inferences["marks"]["profiling_unavailable"].is_null() {
        // The second run of each session and every fiftieth after it: four of 200, one of 40.
        assert_eq!(inferences["profiled"], 5, "{inferences}");
        assert_eq!(inferences["operators"][0]["op_type"], "MatMul", "{inferences}");
        assert!(!rows(&place, "z", "operators").is_empty());
    }
    // Beside them, what is seen from outside.
    assert!(!document["processes"].as_array().expect("a list").is_empty());
    assert_eq!(rows(&place, "z", "inferences").len(), 240);
    assert_eq!(rows(&place, "z", "sessions").len(), 2);
}

#[test]
fn a_script_that_is_killed_loses_nothing_that_was_finished() {
    let Some(python) = python() else { return };
    let place = place_with_script();
    let python = python.to_str().expect("a plain path");
    let run =
        place.ortscope(&["record", "--save", "k", "--", python, "app.py", "300", "killed"]).expect_code(137);
    assert_eq!(run.stdout(), "300\n");
    assert!(run.stderr().contains("300 inferences of 1 session"), "{}", run.stderr());
    assert_eq!(rows(&place, "k", "inferences").len(), 300);
}

/// The recorder itself is killed: what was finished is in its recording all the same, and what it left in memory goes
/// when ortscope is next started.
#[test]
fn a_recorder_that_is_killed_loses_nothing_and_leaves_nothing() {
    let Some(python) = python() else { return };
    let place = place_with_script();
    let python = python.to_str().expect("a plain path");
    let mut recorder = place
        .command(&["record", "--save", "r", "--", python, "app.py", "300", "wait"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("ortscope starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(recorder.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("the script says when it is done");
    assert_eq!(line, "300\n");
    let homes = homes_of(recorder.id());
    assert_eq!(homes.len(), 1);
    let script = script_below(&homes[0]);
    recorder.kill().expect("it can be killed");
    recorder.wait().expect("it has ended");
    Command::new("kill").args(["-9", &script.to_string()]).status().expect("kill");
    let deadline = Instant::now() + Duration::from_secs(60);
    while homes[0].exists() && Instant::now() < deadline {
        place.ortscope(&["record", "--no-save", "--", "sleep", "0.2"]).expect_code(0);
    }
    assert!(!homes[0].exists(), "the rings are still in memory");
    assert_eq!(rows(&place, "r", "inferences").len(), 300);
    let sessions = rows(&place, "r", "sessions");
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0]["model_name"], "small");
}

/// The process that writes below a home.
fn script_below(home: &Path) -> u32 {
    let names = std::fs::read_dir(home).expect("a directory").flatten();
    let pids = names.filter_map(|entry| {
        entry.file_name().to_str()?.strip_prefix("process-")?.split('-').next()?.parse().ok()
    });
    pids.into_iter().next().expect("a process writes there")
}

#[test]
fn what_is_missing_is_said() {
    let place = Place::new();
    let python = place.file("python", "#!/bin/sh\nexit 0\n");
    let mut rights = std::fs::metadata(&python).expect("it is there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    std::fs::set_permissions(&python, rights).expect("ours");
    let missing = |arguments: &[&str]| {
        let output =
            place.command(arguments).env("PATH", place.directory.path()).output().expect("it starts");
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert!(document["inferences"].is_null());
        document["unavailable"].to_string()
    };
    let record = ["record", "--no-save", "--json", "--", "./python", "app.py"];
    assert!(missing(&record).contains("pip install ortscope"));
    // The report of a recording gives the same reason.
    assert!(
        missing(&["record", "--save", "m", "--json", "--", "./python", "app.py"]).contains("pip install")
    );
    let report = place.ortscope(&["report", "m", "--json"]).expect_code(0).json();
    assert!(report["unavailable"].to_string().contains("pip install ortscope"), "{report}");
    let isolated = ["record", "--no-save", "--json", "--", "./python", "-I", "app.py"];
    assert!(missing(&isolated).contains("-I, -E or -S"));
    let from_outside = ["record", "--no-save", "--json", "--no-inject", "--", "./python", "app.py"];
    assert!(!missing(&from_outside).contains("pip install"));
    let mut child = Command::new("sleep").arg("30").spawn().expect("sleep starts");
    let pid = child.id().to_string();
    let attached = missing(&["attach", &pid, "--duration", "0.3s", "--no-save", "--json"]);
    child.kill().ok();
    child.wait().ok();
    assert!(attached.contains("does not record its inferences"), "{attached}");
}

#[test]
fn attach_listens_to_a_program_that_records_itself() {
    let Some(python) = python() else { return };
    let place = place_with_script();
    let mut program = Command::new(&python)
        .arg("itself.py")
        .current_dir(place.directory.path())
        .env("ORTSCOPE_STORE", place.directory.path().join("runs"))
        .stdout(Stdio::piped())
        .spawn()
        .expect("python starts");
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(program.stdout.take().expect("a pipe"));
    std::io::BufRead::read_line(&mut stdout, &mut line).expect("it says when it is ready");
    let pid = program.id().to_string();
    // The program's journal names its sessions within a second or so; until then they have no names.
    let begin = Instant::now();
    let document = loop {
        let attached = place.ortscope(&["attach", &pid, "--duration", "1s", "--save", "a", "--json"]);
        let document = attached.expect_code(0).json();
        let inferences = &document["inferences"];
        let is_complete = inferences["count"].as_u64().is_some_and(|count| count > 10)
            && inferences["sessions"][0]["model_name"] == "small";
        if is_complete || begin.elapsed() > Duration::from_secs(30) {
            break document;
        }
        place.ortscope(&["runs", "remove", "a"]).expect_code(0);
    };
    program.kill().ok();
    program.wait().ok();
    let inferences = &document["inferences"];
    assert!(inferences["count"].as_u64().is_some_and(|count| count > 10), "{document}");
    assert_eq!(inferences["sessions"][0]["model_name"], "small", "{document}");
    assert!(!rows(&place, "a", "inferences").is_empty());
}

/// The program itself is a native one that loads ONNX Runtime: its worker runs the model.
#[test]
fn every_run_of_a_native_program_is_recorded() {
    let Some(library) = library() else { return };
    let program = PathBuf::from(env!("CARGO_BIN_EXE_ortscope"));
    if !program.with_file_name("libortscope_preload.so").is_file() {
        skips::not_set_up("libortscope_preload.so is not beside ortscope (cargo build -p ortscope-preload)");
        return;
    }
    let place = Place::new();
    let model = small_model(&place);
    let program = program.to_str().expect("a plain path");
    let arguments = [
        "record",
        "--save",
        "n",
        "--",
        program,
        "run",
        &model,
        "--runs",
        "500",
        "--profile",
        "off",
        "--no-save",
        "--json",
    ];
    let run = place.with_library(&library, &arguments).expect_code(0);
    let measured = run.json();
    let rows = rows(&place, "n", "inferences");
    let sessions = place.ortscope(&["report", "n"]).expect_code(0);
    assert!(rows.len() >= 500, "{} of {measured}", rows.len());
    assert!(rows.iter().all(|row| row["ok"] == true));
    assert!(run.stderr().contains("small"), "{}\n{}", run.stderr(), sessions.stdout());
}
