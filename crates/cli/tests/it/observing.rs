//! Watching other processes: a program started for it, running ones by id and name, and what cannot be watched.

#[cfg(unix)]
use std::process::{Command, Stdio};

#[cfg(unix)]
use serde_json::Value;

use crate::support::Place;
#[cfg(target_os = "linux")]
use crate::support::{library, skips, small_model};

/// A program that is busy for a while and starts another one; every system with a shell has it.
#[cfg(unix)]
const BUSY: &[&str] =
    &["sh", "-c", "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sh -c 'sleep 0.3'; echo out; exit 3"];

#[cfg(unix)]
#[test]
fn a_program_is_recorded_with_its_children_and_keeps_its_exit_code() {
    let place = Place::new();
    let arguments: Vec<&str> =
        ["record", "--save", "w", "--rate", "200", "--"].iter().chain(BUSY).copied().collect();
    let run = place.ortscope(&arguments).expect_code(3);
    // The program's output is its own; the summary goes elsewhere.
    assert_eq!(run.stdout(), "out\n");
    assert!(run.stderr().contains("exit code 3"), "{}", run.stderr());
    let exported = place.ortscope(&["export", "w", "-o", "p.jsonl", "--table", "process_samples"]);
    exported.expect_code(0);
    let text = std::fs::read_to_string(place.directory.path().join("p.jsonl")).expect("it was written");
    let rows: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let first = rows.first().expect("there are samples");
    let cpu = |row: &Value| row["cpu_time_ns"].as_u64().unwrap_or(0);
    let of_first: Vec<&Value> = rows.iter().filter(|row| row["pid"] == first["pid"]).collect();
    // Totals never go back.
    assert!(of_first.windows(2).all(|pair| cpu(pair[0]) <= cpu(pair[1])));
    let report = place.ortscope(&["report", "w"]).expect_code(0).stdout();
    assert!(report.contains("sh"), "{report}");
}

#[cfg(unix)]
#[test]
fn a_running_process_is_watched_by_its_id() {
    let place = Place::new();
    let mut child = Command::new("sleep").arg("30").stdout(Stdio::null()).spawn().expect("sleep starts");
    let pid = child.id().to_string();
    let run = place.ortscope(&["attach", &pid, "--duration", "1s", "--no-save", "--threads", "--json"]);
    child.kill().ok();
    child.wait().ok();
    let document = run.expect_code(0).json();
    assert_eq!(document["ending"], "duration");
    assert_eq!(document["processes"][0]["pid"].as_u64(), Some(u64::from(child.id())));
    assert_eq!(document["processes"][0]["name"], "sleep");
    // What watching costs is known only after its first full second; the samples are there at once.
    assert!(document["processes"][0]["samples"].as_u64().is_some_and(|samples| samples > 5), "{document}");
}

#[test]
fn what_cannot_be_watched_is_said_at_once() {
    let place = Place::new();
    place.ortscope(&["attach", "4294967295"]).expect_error(2, &["there is no process"]);
    place.ortscope(&["attach", "no such program at all"]).expect_error(2, &["no process is called"]);
    place.ortscope(&["record", "--", "/no/such/program"]).expect_error(2, &["cannot be started"]);
    for rate in ["0", "1e9", "nan", "-5"] {
        let argument = format!("--rate={rate}");
        place.ortscope(&["record", &argument, "--", "true"]).expect_error(2, &[]);
    }
    place.ortscope(&["record", "--spike=0", "--", "true"]).expect_error(2, &["--spike"]);
    place.ortscope(&["record", "--duration", "soon", "--", "true"]).expect_error(2, &[]);
    place
        .ortscope(&["record", "--kernel=everything", "--", "true"])
        .expect_error(2, &["class of kernel events"]);
}

/// A run with kernel events can be explained: its report knows the process, and says what was recorded.
#[cfg(target_os = "linux")]
#[test]
fn a_run_records_what_the_kernel_does_to_its_worker() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let arguments =
        ["run", &model, "--duration", "1s", "--kernel", "--profile", "off", "--save", "k", "--json"];
    let document = place.with_library(&library, &arguments).expect_code(0).json();
    let exported = place.ortscope(&["export", "k", "-o", "k.jsonl", "--table", "kernel_events", "--json"]);
    let rows = exported.expect_code(0).json()["rows"].as_u64().unwrap_or(0);
    if rows == 0 {
        let notes = document["results"][0]["notes"].to_string();
        assert!(notes.contains("CAP_BPF") || notes.contains("permission"), "{notes}");
        skips::skipped("kernel events need CAP_BPF and CAP_PERFMON");
        return;
    }
    let report = place.ortscope(&["report", "k"]).expect_code(0).stdout();
    assert!(!report.contains("does not say which process"), "{report}");
    assert!(!report.contains("Kernel events were not recorded"), "{report}");
}

/// Kernel events of a program: every stretch without a processor, and what its milliseconds were. Without the rights the
/// rest works, and the document says what is missing.
#[cfg(target_os = "linux")]
#[test]
fn the_kernel_tells_what_it_did_to_a_program() {
    let place = Place::new();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; sleep 0.2; i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let arguments = ["record", "--kernel", "--spike", "60", "--save", "k", "--json", "--", "sh", "-c", busy];
    let run = place.ortscope(&arguments).expect_code(0);
    let document = run.json();
    let scheduling = document["scheduling"].as_object().expect("a map");
    if scheduling.is_empty() {
        let notes = document["notes"].to_string();
        assert!(notes.contains("CAP_BPF") || notes.contains("permission"), "{document}");
        skips::skipped("kernel events need CAP_BPF and CAP_PERFMON");
        return;
    }
    // It slept once at least, and was busy twice.
    let waits: u64 = scheduling.values().filter_map(|of| of["waits"].as_u64()).sum();
    assert!(waits >= 1, "{document}");
    let spikes = document["spikes"].as_array().expect("a list");
    let busy_ns: u64 =
        spikes.iter().filter_map(|spike| Some(spike["to_ns"].as_u64()? - spike["from_ns"].as_u64()?)).sum();
    assert!(busy_ns > 10_000_000, "{spikes:?}");
    let exported = place.ortscope(&["export", "k", "-o", "k.jsonl", "--table", "kernel_events", "--json"]);
    assert!(exported.expect_code(0).json()["rows"].as_u64().is_some_and(|rows| rows > 0));
}
