//! Recordings for other tools and from them, as a user meets them.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use crate::support::{Place, skips};

fn profile() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/data/ort_profile/1.20.1.json");
    path.display().to_string()
}

fn imported(place: &Place) {
    place.ortscope(&["import", &profile(), "--name", "p"]).expect_code(0);
}

/// Rows of a table of the last recording.
fn rows(place: &Place, table: &str) -> u64 {
    let name = format!("{table}.jsonl");
    let arguments = ["export", "last", "-o", name.as_str(), "--table", table, "--force", "--json"];
    place.ortscope(&arguments).json()["rows"].as_u64().expect("a number")
}

#[test]
fn a_chrome_trace_of_our_own_comes_back_as_it_was() {
    let place = Place::new();
    imported(&place);
    let before = rows(&place, "operators");
    place
        .ortscope(&["export", "last", "--to", "chrome", "-o", "t.json", "--gzip", "--table", "operators"])
        .expect_code(0);
    let document = place.ortscope(&["import", "t.json", "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.import.chrome/1");
    assert_eq!(document["slices"], before);
    assert_eq!(rows(&place, "operators"), before);
    place.ortscope(&["report", "last"]).expect_code(0);
}

#[test]
fn cut_and_foreign_files_are_one_sentence_each() {
    let place = Place::new();
    place.file("cut.json", r#"{"traceEvents": [{"ph":"X","name":"a","ts":1,"dur":2},{"ph":"X","#);
    let cut = place.ortscope(&["import", "cut.json"]).expect_code(0);
    assert!(cut.stderr().contains("the list of events has no end"), "{}", cut.stderr());
    place.file("empty.json", r#"{"traceEvents": []}"#);
    place.ortscope(&["import", "empty.json"]).expect_error(2, &["the list of events is empty", "hint:"]);
    place.file("perf.data", b"PERFILE2\x10\0\0\0\0\0\0\0");
    place.ortscope(&["import", "perf.data"]).expect_error(2, &["written to a pipe", "hint:"]);
    place.file(
        "qnn.csv",
        "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n",
    );
    place.ortscope(&["import", "qnn.csv"]).expect_error(2, &["no node and no event", "hint:"]);
    let left = place.ortscope(&["runs", "list", "--json"]).expect_code(0).stdout();
    assert_eq!(left.matches("\"id\"").count(), 1, "only the cut one is there:\n{left}");
}

#[test]
fn files_for_other_tools_are_written() {
    let place = Place::new();
    imported(&place);
    for (format, target) in
        [("prometheus", "run.prom"), ("tensorboard", "logs"), ("etl", "run.etl"), ("fleet", "fleet")]
    {
        let run =
            place.ortscope(&["export", "p", "--to", format, "-o", target, "--host", "pc 1"]).expect_code(0);
        assert!(run.stdout().contains(target), "{format}: {}", run.stdout());
        let again = place.ortscope(&["export", "p", "--to", format, "-o", target, "--host", "pc 1"]);
        again.expect_error(2, &["exists already", "hint:"]);
    }
    let info = place.ortscope(&["etl", "info", "run.etl"]).expect_code(0);
    assert!(info.stdout().contains("ortscope"), "{}", info.stdout());
    let text = std::fs::read_to_string(place.directory.path().join("run.prom")).unwrap();
    assert!(text.contains("ortscope_operators_total{"), "{text}");
}

/// Takes this many requests, and says 200 to each.
fn far_end(requests: usize) -> (String, std::thread::JoinHandle<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/api/v1/write", listener.local_addr().expect("its address"));
    let thread = std::thread::Builder::new().name("far end".into()).spawn(move || {
        let mut bytes = 0;
        for _ in 0..requests {
            let (mut stream, _) = listener.accept().expect("a connection");
            stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).ok();
            let mut all = Vec::new();
            let mut buffer = [0; 8192];
            loop {
                let text = String::from_utf8_lossy(&all).into_owned();
                if let Some((head, _)) = text.split_once("\r\n\r\n") {
                    let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
                    let length: usize = length.expect("a length").trim().parse().expect("a number");
                    if all.len() >= head.len() + 4 + length {
                        break;
                    }
                }
                match stream.read(&mut buffer) {
                    Ok(count) if count > 0 => all.extend_from_slice(&buffer[..count]),
                    _ => break,
                }
            }
            bytes += all.len();
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").ok();
        }
        bytes
    });
    (url, thread.expect("a thread"))
}

#[test]
fn a_push_says_what_arrived_and_what_is_wrong() {
    let place = Place::new();
    imported(&place);
    let queue = place.directory.path().join("queue").display().to_string();
    let (url, thread) = far_end(1);
    let push = |to: &str, url: &str| {
        place.ortscope(&["export", "p", "--to", to, "--url", url, "--queue", &queue, "--json"])
    };
    let report = push("remote-write", &url).expect_code(0).json();
    assert_eq!(report["schema"], "ortscope.export.push/1");
    assert!(
        report["delivered"].as_u64().unwrap() > 0 && report["delivered"] == report["samples"],
        "{report}"
    );
    assert!(thread.join().unwrap() > 100);

    push("remote-write", "prometheus").expect_error(2, &["is not an address", "hint:"]);
    push("remote-write", "http://me:secret@127.0.0.1/").expect_error(2, &["does not belong into an address"]);
    push("json", "http://127.0.0.1:9/").expect_error(2, &["is written to a file", "hint:"]);
    place.ortscope(&["export", "p", "--to", "otlp", "-o", "x"]).expect_error(2, &["none was given", "--url"]);
    place.ortscope(&["export", "p", "--to", "json"]).expect_code(2);
    place.file("ca.pem", "nothing");
    let ca =
        ["export", "p", "--to", "otlp", "--url", "https://127.0.0.1:9/", "--queue", &queue, "--ca", "ca.pem"];
    place.ortscope(&ca).expect_error(2, &["certificates", "hint:"]);
    let file = place.file("file", "");
    let unusable = file.display().to_string();
    let arguments = ["export", "p", "--to", "otlp", "--url", "http://127.0.0.1:9/", "--queue", &unusable];
    place.ortscope(&arguments).expect_error(5, &["cannot be used", "hint:"]);
}

/// A file that the real `perf` wrote, if it can record here.
#[test]
fn samples_of_perf_are_imported() {
    let place = Place::new();
    let path = place.directory.path().join("perf.data");
    let recorded = std::process::Command::new("perf")
        .args(["record", "-q", "-e", "cpu-clock", "-F", "499", "-g", "-o"])
        .arg(&path)
        .args(["--", "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"])
        .output();
    if !recorded.is_ok_and(|output| output.status.success()) {
        skips::skipped("perf is not installed, or may not record here");
        return;
    }
    let script = std::process::Command::new("perf")
        .args(["script", "-F", "comm", "-G", "-i"])
        .arg(&path)
        .output()
        .unwrap();
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
    let file: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let nodes = file["data"]["qnn_op_instances_nodes"]["data"].as_array().expect("nodes");
    let cycles: u64 = nodes.iter().filter_map(|node| node["cycles"].as_u64()).sum();
    let place = Place::new();
    let document = place.ortscope(&["import", &path.display().to_string(), "--json"]).expect_code(0).json();
    assert_eq!(document["schema"], "ortscope.import.qhas/1");
    assert_eq!((&document["nodes"], &document["cycles"]), (&nodes.len().into(), &cycles.into()));
    assert_eq!(rows(&place, "operators"), nodes.len() as u64);
    let exported = std::fs::read_to_string(place.directory.path().join("operators.jsonl")).unwrap();
    let summed: u64 = exported
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok()?["cycles"].as_u64())
        .sum();
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
