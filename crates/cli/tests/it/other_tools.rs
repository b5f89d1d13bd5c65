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
pub fn rows(place: &Place, table: &str) -> u64 {
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
    far_end_that_says(requests, "200 OK", "")
}

fn far_end_that_says(
    requests: usize,
    status: &'static str,
    words: &'static str,
) -> (String, std::thread::JoinHandle<usize>) {
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
            let answer = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{words}", words.len());
            stream.write_all(answer.as_bytes()).ok();
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

/// Who is refused is told why, in the far end's own words, and by the exit code.
#[test]
fn a_far_end_that_refuses_ends_with_its_words() {
    let place = Place::new();
    imported(&place);
    let push = |url: &str, queue: &str| {
        place.ortscope(&["export", "p", "--to", "remote-write", "--url", url, "--queue", queue])
    };
    let (url, thread) = far_end_that_says(1, "401 Unauthorized", "who are you");
    push(&url, "q1").expect_error(5, &["does not let us in (401): who are you", "hint:"]);
    thread.join().unwrap();
    let (url, thread) = far_end_that_says(1, "400 Bad Request", "out of bounds");
    let refused = push(&url, "q2").expect_code(20);
    assert!(refused.stderr().contains("were refused") && refused.stderr().contains("out of bounds"));
    thread.join().unwrap();
    // Nothing waits: what was refused is not sent again.
    let left = std::fs::read_dir(place.directory.path().join("q2")).unwrap();
    assert!(left.flatten().all(|entry| entry.metadata().unwrap().len() < 200));
}

/// A certificate that nobody vouches for: that of our own server.
#[test]
fn a_certificate_that_is_not_trusted_loses_nothing() {
    use std::io::BufRead as _;
    let place = Place::new();
    imported(&place);
    let mut serving = place
        .command(&["serve", "--listen", "127.0.0.1:0", "--tls", "auto", "--json", "--state", "state"])
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    std::io::BufReader::new(serving.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let document: serde_json::Value = serde_json::from_str(&line).unwrap();
    let url = format!("https://{}/api/v1/write", document["addresses"][0].as_str().unwrap());
    let push =
        place.ortscope(&["export", "p", "--to", "remote-write", "--url", &url, "--queue", "q", "--json"]);
    serving.kill().ok();
    serving.wait().ok();
    if push.stderr().contains("no file of certificates") {
        skips::skipped("this system has no certificates to trust");
        return;
    }
    push.expect_error(5, &["no secure connection", "certificate", "hint:"]);
}

#[test]
fn a_trace_grows_while_a_program_runs() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_ortscope");
    let recorded = |file: &str| {
        place.ortscope(&[
            "record",
            "--no-inject",
            "--perfetto",
            file,
            "--json",
            "--",
            program,
            "doctor",
            "-q",
        ])
    };
    // The program's own words come first.
    let run = recorded("t.pftrace");
    let text = run.stdout();
    let at = text.rfind("\n{\n").map_or(0, |at| at + 1);
    let document: serde_json::Value = serde_json::from_str(&text[at..]).expect("the document");
    assert!(document["trace"]["rows"].as_u64().unwrap() > 0, "{document}");
    let file = std::fs::read(place.directory.path().join("t.pftrace")).unwrap();
    assert_eq!(document["trace"]["bytes"].as_u64(), Some(file.len() as u64));
    assert_eq!(document["trace"]["left_out"], 0);
    // A packet of `Trace` first, and what it is of.
    assert!(file[0] == 0x0a && file.windows(16).any(|window| window == b"ortscope_version"));
    recorded("t.pftrace").expect_error(2, &["exists already", "hint:"]);
    recorded("no/t.pftrace").expect_error(2, &["there is no directory", "hint:"]);
    let shown = place.ortscope(&["serve", "p.ortscope", "--perfetto", "x.pftrace"]);
    assert_ne!(shown.code(), 0);
}

/// The machine of an export is the one that was recorded, not the one that exports.
#[test]
fn exports_name_the_recorded_machine() {
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_ortscope");
    let on = |host: &str, arguments: &[&str]| {
        let mut command = place.command(arguments);
        command.env("COMPUTERNAME", host).env("HOSTNAME", host).output().expect("it starts")
    };
    on("box7", &["record", "--no-inject", "--save", "r", "--", program, "doctor", "-q"]);
    let exported = on("elsewhere", &["export", "r", "--to", "fleet", "-o", "fleet"]);
    assert!(exported.status.success(), "{}", String::from_utf8_lossy(&exported.stderr));
    let text = String::from_utf8_lossy(&exported.stdout).into_owned();
    assert!(text.contains("host=box7") && !text.contains("host=elsewhere"), "{text}");
    let named = on("elsewhere", &["export", "r", "--to", "fleet", "-o", "fleet", "--host", "mine"]);
    assert!(String::from_utf8_lossy(&named.stdout).contains("host=mine"));
    // What nobody recorded has no machine of its own: it is that of whoever exports it.
    imported(&place);
    let imported = on("elsewhere", &["export", "p", "--to", "fleet", "-o", "fleet"]);
    assert!(String::from_utf8_lossy(&imported.stdout).contains("host=elsewhere"));
}
