//! Traces of Windows as users meet them: real ones, cut ones, and files that are none.

use std::path::PathBuf;

use serde_json::Value;

use crate::support::{Place, skips};

/// A trace of the corpus, if it is there.
fn trace(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("ORTSCOPE_CORPUS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let path = root.join("etl").join(name);
    if path.is_file() {
        return Some(path);
    }
    skips::skipped(&format!("no trace {}; set ORTSCOPE_CORPUS", path.display()));
    None
}

fn json(place: &Place, arguments: &[&str]) -> Value {
    let text = place.ortscope(arguments).expect_code(0).stdout();
    serde_json::from_str(&text).expect("one JSON document")
}

#[test]
fn a_trace_is_described_counted_and_shown() {
    let Some(path) = trace("perfview_net.4.5.2.x64.etl") else { return };
    let (place, path) = (Place::new(), path.display().to_string());
    let info = json(&place, &["etl", "info", &path, "--json"]);
    assert_eq!(info["schema"], "ortscope.etl.info/1");
    assert_eq!(info["records"], 179_474);
    assert_eq!(
        (&info["events_lost"], &info["processors"], &info["os_build"]),
        (&0.into(), &8.into(), &9200.into())
    );
    assert!(info["start"].as_str().expect("a time").starts_with("2020-07-29T"));
    assert!(info["end"].as_str() > info["start"].as_str());

    let stats = json(&place, &["etl", "stats", &path, "--json"]);
    let events = stats["events"].as_array().expect("a list");
    let total: u64 = events.iter().filter_map(|event| event["count"].as_u64()).sum();
    assert_eq!(total, 179_474);
    let samples = events.iter().find(|event| event["event"] == "PerfInfo/Sample").expect("samples");
    assert_eq!((&samples["count"], &samples["version"]), (&79_528.into(), &2.into()));

    let dump = json(&place, &["etl", "dump", &path, "--event", "Process/DCStart", "--limit", "2", "--json"]);
    let shown = dump["events"].as_array().expect("a list");
    assert_eq!(shown.len(), 2);
    assert_eq!(shown[1]["fields"]["ImageFileName"], "System");
    let text =
        place.ortscope(&["etl", "dump", &path, "--event", "Process/DCStart", "--limit", "2"]).expect_code(0);
    assert!(text.stdout().contains("ImageFileName=\"System\""), "{}", text.stdout());
}

#[test]
fn a_cut_trace_is_a_trace_and_events_become_tables() {
    let Some(path) = trace("perfview_net.4.5.2.x64.etl") else { return };
    let (place, path) = (Place::new(), path.display().to_string());
    let cut = json(
        &place,
        &["etl", "cut", &path, "-o", "part.etl", "--from", "1", "--to", "1.5", "--strict", "--json"],
    );
    let info = json(&place, &["etl", "info", "part.etl", "--json"]);
    assert_eq!(info["records"], cut["kept"]);
    assert!(info["duration_seconds"].as_f64() < Some(2.0));
    // Not over a file that is there, and never over the trace itself.
    place.ortscope(&["etl", "cut", &path, "-o", "part.etl"]).expect_code(2);
    place.ortscope(&["etl", "cut", "part.etl", "-o", "part.etl", "--force"]).expect_code(2);
    let converted = json(
        &place,
        &["etl", "convert", "part.etl", "-o", "part.csv", "--event", "PerfInfo/Sample", "--json"],
    );
    let lines = std::fs::read_to_string(place.directory.path().join("part.csv")).expect("it was written");
    assert_eq!(lines.lines().count() as u64 - 1, converted["events"].as_u64().expect("a number"));
    assert!(lines.lines().skip(1).all(|line| line.contains("InstructionPointer")));
    place.ortscope(&["etl", "convert", "part.etl", "-o", "part.xyz"]).expect_code(2);
}

#[test]
fn damaged_and_foreign_files_are_named() {
    let place = Place::new();
    let file = place.directory.path().join("no.etl");
    std::fs::write(&file, vec![7u8; 100_000]).expect("a file");
    let run = place.ortscope(&["etl", "info", "no.etl"]).expect_code(2);
    assert!(run.stderr().contains("not an ETL file"), "{}", run.stderr());
    place.ortscope(&["etl", "stats", "absent.etl"]).expect_code(2);
    let Some(path) = trace("perfview_net.4.5.2.x64.etl") else { return };
    let bytes = std::fs::read(&path).expect("it is there");
    std::fs::write(&file, &bytes[..bytes.len() / 3]).expect("a file");
    let run = place.ortscope(&["etl", "info", "no.etl", "--json"]).expect_code(20);
    let info: Value = serde_json::from_str(&run.stdout()).expect("one document");
    assert!(info["records"].as_u64() > Some(1000), "{info}");
    assert!(info["losses"]["damage"]["buffers_missing"]["count"].as_u64() > Some(0), "{info}");
    place.ortscope(&["etl", "dump", &path.display().to_string(), "--from", "2", "--to", "1"]).expect_code(2);
}

#[test]
fn sessions_are_refused_elsewhere_and_asked_for_wrongly_everywhere() {
    let place = Place::new();
    let unknown =
        place.ortscope(&["etl", "start", "-o", "t.etl", "--flags", "cswtch"]).expect_code(2).stderr();
    assert!(unknown.contains("'cswtch' is not a kernel flag") && unknown.contains("hint:"), "{unknown}");
    let nothing = place.ortscope(&["etl", "start", "-o", "t.etl", "--flags", "none"]).expect_code(2).stderr();
    assert!(nothing.contains("nothing to record"), "{nothing}");
    let buffers = ["etl", "start", "-o", "t.etl", "--min-buffers", "9", "--max-buffers", "8"];
    assert!(place.ortscope(&buffers).expect_code(2).stderr().contains("--min-buffers 9 is more"));
    if std::env::consts::OS == "windows" {
        return;
    }
    for arguments in [&["etl", "list"][..], &["etl", "stop"], &["etl", "start", "-o", "t.etl"]] {
        let told = place.ortscope(arguments).expect_code(2).stderr();
        assert!(told.contains("run on Windows only") && told.contains("hint:"), "{told}");
    }
}

/// Windows Performance Recorder, stood in for by a script that notes what it was asked.
#[cfg(unix)]
#[test]
fn the_recorder_of_windows_is_started_and_stopped() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    let script = "#!/bin/sh\necho \"$@\" >> asked.txt\ncase \"$1\" in -stop) echo trace > \"$2\";; esac\n\
                  case \"$2\" in Broken) echo 'The profile is unknown.'; exit 3;; esac\n";
    let program = place.file("wpr", script);
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let here = place.directory.path().display().to_string();
    let path = format!("{here}:{}", std::env::var("PATH").unwrap_or_default());
    let run = |arguments: &[&str]| place.command(arguments).env("PATH", &path).output().expect("it starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).replace(&here, "[here]");
    let started = run(&["etl", "start", "--wpr", "CPU,gpu,Memory"]);
    let stopped = run(&["etl", "stop", "--wpr", "-o", "t.etl"]);
    let again = run(&["etl", "stop", "--wpr", "-o", "t.etl"]);
    let broken = run(&["etl", "start", "--wpr", "Broken"]);
    let codes = [&started, &stopped, &again, &broken].map(|output| output.status.code());
    assert_eq!(codes, [Some(0), Some(0), Some(2), Some(1)], "{}", text(&started.stderr));
    let asked = std::fs::read_to_string(place.directory.path().join("asked.txt")).expect("it was asked");
    let said = text(&started.stdout) + &text(&stopped.stdout) + &text(&again.stderr) + &text(&broken.stderr);
    insta::assert_snapshot!(said + &asked.replace(&here, "[here]"), @r"
    Windows Performance Recorder records CPU, GPU, VirtualAllocation
    stop it with: ortscope etl stop --wpr -o trace.etl
    6 B written  [here]/t.etl
    error: 't.etl' exists already
    hint: --force replaces it
    error: wpr -start Broken -filemode ended with 0x3: The profile is unknown.
    hint: `wpr -status` tells what it records now, `wpr -cancel` ends that without a file, `wpr -profiles` lists what it knows
    -start CPU -start GPU -start VirtualAllocation -filemode
    -stop [here]/t.etl
    -start Broken -filemode
    ");
}

#[test]
fn without_the_recorder_of_windows_it_is_said() {
    if std::path::Path::new(r"C:\Windows\System32\wpr.exe").exists() {
        skips::skipped("Windows Performance Recorder is here, and would record");
        return;
    }
    let place = Place::new();
    let run = |arguments: &[&str]| {
        let output =
            place.command(arguments).env("PATH", place.directory.path()).output().expect("it starts");
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, told) = run(&["etl", "start", "--wpr", "CPU,GPU,Memory"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(
        told.contains("there is no Windows Performance Recorder (wpr)") && told.contains("hint:"),
        "{told}"
    );
    place.ortscope(&["etl", "start", "--wpr", "CPU", "-o", "t.etl"]).expect_code(2);
    place.ortscope(&["etl", "stop", "--wpr"]).expect_code(2);
    place.ortscope(&["etl", "start", "--wpr=-cancel"]).expect_code(2);
}
