//! Recordings as a user meets them: kept by `run`, read back by `report`, `export` and `runs`, made by `import`, and what
//! happens when they are damaged, of another version, or killed while they are written.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Place, library, small_model};

fn profile(version: &str) -> PathBuf {
    let data = "../decode/tests/data/ort_profile";
    Path::new(env!("CARGO_MANIFEST_DIR")).join(data).join(format!("{version}.json"))
}

/// The directory of the only recording.
fn recording(place: &Place) -> PathBuf {
    let entries = std::fs::read_dir(place.directory.path().join("runs")).expect("there is a store");
    let mut found = entries.filter_map(|entry| Some(entry.ok()?.path()).filter(|path| path.is_dir()));
    let path = found.next().expect("there is a recording");
    assert!(found.next().is_none(), "one recording expected");
    path
}

#[test]
fn a_run_is_kept_and_tells_the_same_later() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run = place.with_library(&library, &["run", &model, "--runs", "3000", "--save", "first", "--json"]);
    let document = run.expect_code(0).json();
    assert_eq!(document["recording"]["name"], "first");

    let report = place.ortscope(&["report", "first", "--json"]).expect_code(0).json();
    assert_eq!(report["schema"], "ortscope.report/1");
    let shown = place.ortscope(&["runs", "show", "first", "--json"]).expect_code(0).json();
    assert_eq!(shown["condition"]["finished"], true);
    // Every inference that was asked for is there, and the first run before them.
    let exported = place.ortscope(&["export", "first", "-o", "i.jsonl", "--table", "inferences", "--json"]);
    assert_eq!(exported.expect_code(0).json()["rows"], 3001);
    let text = std::fs::read_to_string(place.directory.path().join("i.jsonl")).expect("it was written");
    let sum: u64 = text
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|row| row["phase"] == "steady")
        .filter_map(|row| row["run_ns"].as_u64())
        .sum();
    let mean = document["results"][0]["latency"]["inference"]["mean_ms"].as_f64().expect("a mean");
    let warm_up = document["results"][0]["warm_up"]["discarded"].as_u64().expect("a number");
    if warm_up == 0 {
        assert!((sum as f64 / 3000.0 / 1e6 / mean - 1.0).abs() < 1e-6, "{sum} and {mean}");
    }
    for format in ["text", "html", "md", "json", "junit", "csv"] {
        let out = place.ortscope(&["report", "first", "--format", format]).expect_code(0).stdout();
        assert!(out.contains("small") || format == "csv", "{format}:\n{out}");
    }
    let packed = place.ortscope(&["runs", "pack", "first", "-o", "bug.ortscope"]).expect_code(0);
    assert!(packed.stdout().contains("removed"), "{}", packed.stdout());
    place.ortscope(&["report", "./bug.ortscope"]).expect_code(0);
}

#[test]
fn nothing_is_kept_when_nobody_wants_it() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let run =
        place.with_library(&library, &["run", &model, "--runs", "50", "--no-save", "--json"]).expect_code(0);
    assert!(run.json()["recording"].is_null());
    assert!(!place.directory.path().join("runs").exists());
}

#[test]
fn a_store_that_cannot_be_written_does_not_stop_a_measurement() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let store = place.file("not-a-directory", "x");
    let store = store.to_str().expect("a plain path");
    let run = place.with_library(&library, &["run", &model, "--runs", "50", "--store", store]).expect_code(0);
    assert!(run.stderr().contains("not recorded"), "{}", run.stderr());
    let insisted = ["run", &model, "--runs", "50", "--store", store, "--save", "x"];
    assert_ne!(place.with_library(&library, &insisted).code(), 0);
}

#[test]
fn profiles_of_every_version_become_recordings() {
    let place = Place::new();
    for version in ["1.15.1", "1.20.1", "1.26.0", "1.31.1"] {
        let path = profile(version);
        let path = path.to_str().expect("a plain path");
        let imported = place.ortscope(&["import", path, "--name", version, "--json"]).expect_code(0).json();
        assert_eq!(imported["lost_events"], 0, "{version}");
        let text = place.ortscope(&["report", version, "--timeline"]).expect_code(0).stdout();
        assert!(text.contains("OPERATORS") && text.contains("By type"), "{version}\n{text}");
        let trace = format!("{version}.trace.json");
        let trace = place.ortscope(&["export", version, "-o", &trace, "--json"]).expect_code(0).json();
        assert!(trace["rows"].as_u64() > Some(0), "{version}: {trace}");
    }
    let list = place.ortscope(&["runs", "list", "--json"]).expect_code(0).json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(4));
    // What has a name stays until somebody says otherwise.
    let prune = |more: &[&str]| {
        let arguments = [&["runs", "prune", "--older-than", "0s", "--json"], more].concat();
        place.ortscope(&arguments).expect_code(0).json()["pruned"].as_array().map(Vec::len)
    };
    assert_eq!(prune(&[]), Some(0));
    assert_eq!(prune(&["--all", "--dry-run"]), Some(4));
    assert_eq!(prune(&["--all"]), Some(4));
}

#[test]
fn files_that_are_no_profiles_leave_nothing_behind() {
    let place = Place::new();
    for (name, content) in [
        ("empty.json", ""),
        ("text.json", "hello"),
        ("other.json", "{\"a\": 1}"),
        ("trace.json", "{\"traceEvents\": []}"),
    ] {
        place.file(name, content);
        place.ortscope(&["import", name]).expect_error(2, &[name]);
    }
    place.ortscope(&["import", "absent.json"]).expect_error(2, &["absent.json"]);
    let list = place.ortscope(&["runs", "list", "--json"]).expect_code(0).json();
    assert_eq!(list["runs"].as_array().map(Vec::len), Some(0));
}

#[test]
fn a_truncated_profile_is_kept_and_counted() {
    let place = Place::new();
    let whole = std::fs::read(profile("1.31.1")).expect("the profile is there");
    place.file("cut.json", &whole[..whole.len() / 2]);
    let run = place.ortscope(&["import", "cut.json"]).expect_code(20);
    assert!(run.stderr().contains("the end is missing"), "{}", run.stderr());
    place.ortscope(&["report", "last"]).expect_code(0);
}

#[test]
fn mistakes_are_told_in_one_sentence() {
    let place = Place::new();
    let path = profile("1.31.1");
    place.ortscope(&["import", path.to_str().expect("a plain path"), "--name", "it"]).expect_code(0);
    place.ortscope(&["report", "nothing"]).expect_error(2, &["nothing"]);
    place.ortscope(&["report", "it", "-o", "report.docx"]).expect_error(2, &["report.docx", "--format"]);
    place.ortscope(&["report", "it", "--limit", "p50=fast"]).expect_error(2, &["p50=fast"]);
    place.ortscope(&["export", "it", "--to", "docx", "-o", "x"]).expect_error(2, &["docx"]);
    place
        .ortscope(&["export", "it", "--to", "csv", "-o", "x", "--table", "nope"])
        .expect_error(2, &["nope", "operators"]);
    for filter in ["dur>", "colour:red", "from:5s to:1s", "dur>-1ms"] {
        place.ortscope(&["export", "it", "--to", "csv", "-o", "x", "--filter", filter]).expect_error(2, &[]);
    }
    assert!(!place.directory.path().join("x").exists(), "a refused export leaves nothing");
    place.file("there.json", "mine");
    place.ortscope(&["export", "it", "-o", "there.json"]).expect_error(2, &["there.json"]);
    let kept = std::fs::read_to_string(place.directory.path().join("there.json"));
    assert_eq!(kept.expect("it is still there"), "mine");
    place.ortscope(&["runs", "prune"]).expect_error(2, &["--older-than"]);
    place.ortscope(&["runs", "prune", "--older-than", "3 moons"]).expect_error(2, &["3 moons"]);
}

#[test]
fn a_recording_of_a_later_version_is_refused_and_left_alone() {
    let place = Place::new();
    place.ortscope(&["import", profile("1.31.1").to_str().expect("a plain path")]).expect_code(0);
    let manifest = recording(&place).join("manifest.json");
    let text = std::fs::read_to_string(&manifest).expect("the manifest is there");
    let later = text.replacen("\"format\": 1", "\"format\": 99", 1);
    assert_ne!(text, later);
    // Of a later version, not of a damaged one: that would not have this checksum.
    let later = later.replace("crc32c", "later");
    std::fs::write(&manifest, &later).expect("it can be written");
    place.ortscope(&["report", recording(&place).to_str().expect("a plain path")]).expect_error(20, &["99"]);
    assert_eq!(std::fs::read_to_string(&manifest).expect("it is there"), later);
}

#[test]
fn a_damaged_segment_is_named_and_the_rest_is_shown() {
    let place = Place::new();
    place
        .ortscope(&["import", profile("1.31.1").to_str().expect("a plain path"), "--name", "it"])
        .expect_code(0);
    let segments = recording(&place).join("segments");
    let segment =
        std::fs::read_dir(segments).expect("segments").next().expect("one").expect("readable").path();
    let mut bytes = std::fs::read(&segment).expect("the segment is there");
    let middle = bytes.len() / 3;
    bytes[middle] ^= 0x40;
    std::fs::write(&segment, bytes).expect("it can be written");
    let run = place.ortscope(&["report", "it"]);
    // The flipped bit may lie in a block that a report does not read; showing the tables reads the directory.
    assert!([0, 20].contains(&run.code()), "{}", run.stderr());
    assert!(!run.stderr().contains("panicked"));
    let repaired = place.ortscope(&["runs", "repair", "it"]);
    assert!([0, 20].contains(&repaired.code()), "{}", repaired.stderr());
    place.ortscope(&["report", "it"]).expect_code(0);
}

/// The recorder is killed without warning; what it and its worker had seen is there.
#[test]
fn a_killed_recorder_leaves_a_recording_that_opens() {
    let Some(library) = library() else { return };
    let place = Place::new();
    let model = small_model(&place);
    let mut child = place
        .command(&["run", &model, "--duration", "180s", "--quiet"])
        .env("ORTSCOPE_ORT_LIBRARY", &library)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ortscope starts");
    place.wait_for_rows("inferences", 1001);
    child.kill().expect("it can be killed");
    child.wait().expect("it ends");
    let shown = place.ortscope(&["runs", "show", "last", "--json"]).expect_code(0).json();
    assert_eq!(shown["condition"]["finished"], false);
    assert_eq!(shown["condition"]["damaged"], Value::Array(Vec::new()));
    let before = rows(&shown, "inferences");
    assert!(before > 1000, "{shown}");
    place.ortscope(&["report", "last"]).expect_code(0);
    place.ortscope(&["runs", "repair", "last"]).expect_code(0);
    let shown = place.ortscope(&["runs", "show", "last", "--json"]).expect_code(0).json();
    assert_eq!(shown["condition"]["finished"], true);
    assert!(rows(&shown, "inferences") >= before);
}

fn rows(shown: &Value, table: &str) -> u64 {
    let tables = shown["tables"].as_array().into_iter().flatten();
    tables.filter(|entry| entry["table"] == table).filter_map(|entry| entry["rows"].as_u64()).sum()
}
