//! Planted secrets: weights and values of tensors, tokens and keys in the environment, in files, in headers and on command
//! lines. None of them is found in a recording, a report, an export of any format, a log at its finest level, the audit log
//! or in what the program says, whichever way the run ends.

use std::path::Path;

use crate::support::models;
use crate::support::onnx::{Dim, Graph, Message, initializer, node, tensor_type};
use crate::support::{Place, library};

/// The number of the type in ONNX.
const FLOAT: i32 = 1;
/// Sixteen bytes that nothing else has, as weights; other ones as values of an input; and texts.
const WEIGHTS: [f32; 4] = [1.234_567_8e-7, -9.876_543e12, 4.242_424e-3, 7.777_777e5];
const VALUES: [f32; 3] = [-3.141_592e-9, 2.718_281e11, 6.022_14e-23];
const TOKEN: &str = "planted-token-5f0d3c1b9a";
const PASSWORD: &str = "planted-password-77aa01";
/// A text as the value of a tensor.
const WEIGHT_TEXT: &str = "planted-weight-of-text-31c2";
/// Two keys: in the environment, and in a file.
const KEY: &str = "ortscope-key-5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa5ec2e7aa";
const FILE_KEY: &str = "ortscope-key-0fda7a0f0fda7a0f0fda7a0f0fda7a0f0fda7a0f0fda7a0f0fda7a0f0fda7a0f";

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y[1,4] = x[1,3] * W`, with planted weights.
fn planted_model() -> Vec<u8> {
    let weights = [bytes(&WEIGHTS), bytes(&WEIGHTS), bytes(&WEIGHTS)].concat();
    // TensorProto: dims, data_type (8: string), string_data, name.
    let text = Message::default().int(1, 1).int(2, 8).bytes(6, WEIGHT_TEXT.as_bytes()).string(8, "text");
    Graph::default()
        .initializer(&text)
        .node(&node("MatMul", &["x", "w"], &["y"]))
        .initializer(&initializer("w", FLOAT, &[3, 4], &weights))
        .input("x", &tensor_type(FLOAT, &[Dim::Fixed(1), Dim::Fixed(3)]))
        .output("y", &tensor_type(FLOAT, &[Dim::Fixed(1), Dim::Fixed(4)]))
        .model()
}

/// An array as numpy saves it.
fn npy(values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': (1, {}), }}", values.len());
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((padded as u16).to_le_bytes());
    file.extend(format!("{header:<width$}\n", width = padded - 1).as_bytes());
    file.extend(bytes(values));
    file
}

/// Numbers in the ways a text could show them.
fn shown(values: &[f32]) -> Vec<String> {
    values.iter().flat_map(|value| [format!("{value}"), format!("{value:e}"), format!("{value:?}")]).collect()
}

/// The digits that stand for these bytes when they begin `offset` bytes into a group, without those of their neighbours.
fn in_base64(bytes: &[u8], offset: usize) -> Vec<u8> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let padded = [&vec![0; offset][..], bytes].concat();
    let (groups, _) = padded.as_chunks::<3>();
    let digits: Vec<u8> = groups
        .iter()
        .flat_map(|[a, b, c]| {
            let group = u32::from(*a) << 16 | u32::from(*b) << 8 | u32::from(*c);
            [18, 12, 6, 0].map(|shift| DIGITS[(group >> shift & 63) as usize])
        })
        .collect();
    digits[if offset == 0 { 0 } else { 4 }..].to_vec()
}

/// The first bytes of a key itself.
fn raw_key(key: &str) -> [u8; 8] {
    std::array::from_fn(|at| u8::from_str_radix(&key[13 + 2 * at..15 + 2 * at], 16).expect("digits"))
}

fn needles() -> Vec<Vec<u8>> {
    let mut needles = vec![bytes(&WEIGHTS[..2]), bytes(&WEIGHTS[2..]), bytes(&VALUES[..2])];
    needles.extend(shown(&WEIGHTS).into_iter().chain(shown(&VALUES)).map(String::into_bytes));
    // Also as wider numbers, and in the digits of base64 at each place they can begin.
    for values in [&WEIGHTS[..], &VALUES] {
        needles.extend(values.iter().map(|value| f64::from(*value).to_le_bytes().to_vec()));
        needles.extend(values.iter().map(|value| f64::from(*value).to_string().into_bytes()));
        needles.extend((0..3).map(|offset| in_base64(&bytes(values), offset)));
    }
    needles.extend([TOKEN, PASSWORD, WEIGHT_TEXT].map(|text| text.as_bytes().to_vec()));
    needles.extend([KEY, FILE_KEY].map(|key| key.as_bytes()[13..].to_vec()));
    needles.extend([KEY, FILE_KEY].map(|key| raw_key(key).to_vec()));
    needles
}

#[track_caller]
fn assert_clean(what: &str, haystack: &[u8]) {
    for needle in needles() {
        assert!(
            !haystack.windows(needle.len()).any(|window| window == needle),
            "{what} has {:?}",
            String::from_utf8_lossy(&needle)
        );
    }
}

/// Every file below, except the ones that were planted.
#[track_caller]
fn assert_files_clean(directory: &Path, planted: &[&str]) -> usize {
    let mut looked_at = 0;
    for entry in std::fs::read_dir(directory).expect("a list") {
        let entry = entry.expect("an entry");
        let path = entry.path();
        if entry.file_type().expect("its type").is_dir() {
            looked_at += assert_files_clean(&path, planted);
        } else if !planted.iter().any(|name| path.ends_with(name)) {
            assert_clean(&path.display().to_string(), &std::fs::read(&path).expect("readable"));
            looked_at += 1;
        }
    }
    looked_at
}

#[test]
fn the_needles_would_be_found() {
    assert!(std::panic::catch_unwind(|| assert_clean("a model", &planted_model())).is_err());
    assert!(std::panic::catch_unwind(|| assert_clean("an input", &npy(&VALUES))).is_err());
    assert!(
        std::panic::catch_unwind(|| assert_clean("a line", format!("--token {TOKEN}").as_bytes())).is_err()
    );
    for planted in [KEY, FILE_KEY, WEIGHT_TEXT, PASSWORD] {
        assert!(std::panic::catch_unwind(|| assert_clean("a text", planted.as_bytes())).is_err());
    }
    let mut encoded = in_base64(&[b"xy", &bytes(&WEIGHTS)[..]].concat(), 0);
    encoded.extend(b"==");
    assert!(std::panic::catch_unwind(|| assert_clean("base64", &encoded)).is_err());
    assert_clean("another model", &models::matmul());
}

#[test]
fn nothing_that_was_planted_is_kept_or_said() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("planted.onnx", planted_model());
    place.file("planted.npy", npy(&VALUES));
    let key_file = key_file(&place);
    let run = |arguments: &[&str]| {
        let output = place
            .command(arguments)
            .env("ORTSCOPE_ORT_LIBRARY", &library)
            .env("ORTSCOPE_PUSH_TOKEN", TOKEN)
            .env("ORTSCOPE_KEY", KEY)
            .env("ORTSCOPE_LOG", "trace")
            .env("RUST_BACKTRACE", "full")
            .env("ORTSCOPE_PUSH_BASIC", format!("me:{PASSWORD}"))
            .env("HTTPS_PROXY", format!("http://me:{PASSWORD}@127.0.0.1:9/"))
            .output()
            .expect("ortscope starts");
        assert_clean(&format!("stdout of {arguments:?}"), &output.stdout);
        assert_clean(&format!("stderr of {arguments:?}"), &output.stderr);
        output.status.code()
    };
    let common = ["--runs", "50", "--threads", "1"];
    let with = |first: &[&'static str], more: &[&'static str]| [first, &common, more].concat();
    let input: &[&str] = &["run", "planted.onnx", "--input", "planted.npy"];
    assert_eq!(run(&with(input, &["-vv", "--log-file", "log.jsonl"])), Some(0));
    assert_eq!(run(&with(input, &["--json", "--check-outputs", "cpu"])), Some(0));
    assert_eq!(
        run(&with(input, &["--profile", "full", "--check-outputs", "cpu", "--save", "open"])),
        Some(0)
    );
    assert_eq!(run(&with(input, &["--encrypt", "--save", "sealed", "--secure-delete"])), Some(0));
    // Some that fail.
    run(&with(input, &["--provider", "cuda"]));
    assert_eq!(run(&["report", "sealed", "--key-file", &key_file]), Some(0), "the environment has the key");
    let address = format!("http://me:{PASSWORD}@127.0.0.1:9/write?token={TOKEN}");
    assert_eq!(run(&["export", "open", "--to", "remote-write", "--url", &address]), Some(2));
    for format in [
        "json",
        "jsonl",
        "csv",
        "parquet",
        "sqlite",
        "chrome",
        "perfetto",
        "prometheus",
        "tensorboard",
        "etl",
        "fleet",
    ] {
        let target = format!("export-{format}");
        assert_eq!(run(&["export", "open", "--to", format, "-o", &target]), Some(0), "{format}");
    }
    for format in ["text", "html", "md", "json", "junit", "csv"] {
        let target = format!("report-{format}");
        assert_eq!(run(&["report", "open", "--format", format, "-o", &target]), Some(0), "{format}");
    }
    for command in [
        &["runs", "pack", "open", "-o", "open.ortscope", "--no-redact"][..],
        &["runs", "pack", "sealed", "-o", "sealed.ortscope"],
        &["key", "id"],
        &["report", "last", "-o", "report.html"],
        &["report", "last"],
        &["export", "last", "--to", "jsonl", "-o", "all.jsonl"],
        &["export", "last", "--to", "sqlite", "-o", "all.sqlite"],
        &["runs", "show", "last"],
        &["doctor"],
        &["config", "show"],
    ] {
        run(command);
    }
    let looked_at =
        assert_files_clean(place.directory.path(), &["planted.onnx", "planted.npy", "planted.key"]);
    assert!(looked_at > 40, "only {looked_at} files were there to look at");
}

/// A key in a file that its owner alone can read.
fn key_file(place: &Place) -> String {
    let path = place.file("planted.key", FILE_KEY);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("changed");
    }
    path.display().to_string()
}

/// A token that is sent to the server, in the right place and in wrong ones, is in no log and no file of its.
#[test]
fn tokens_of_the_server_are_not_kept_or_said() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    let place = Place::new();
    let state = place.directory.path().join("state").display().to_string();
    let token = place.ortscope(&["token", "create", "ci", "--state", &state, "-q"]).expect_code(0).stdout();
    let token = token.trim().to_owned();
    let log = std::fs::File::create(place.directory.path().join("stderr.txt")).expect("a file");
    let mut child = place
        .command(&[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "-vv",
            "--log-file",
            "log.jsonl",
            "--state",
            &state,
        ])
        .env("ORTSCOPE_LOG", "trace")
        .env("ORTSCOPE_KEY", KEY)
        .stdout(std::process::Stdio::piped())
        .stderr(log)
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    BufReader::new(child.stdout.take().expect("an output")).read_line(&mut line).expect("a line");
    let document: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    let address = document["addresses"][0].as_str().expect("an address").to_owned();
    let link = document["link"].as_str().expect("a link");
    let once = link.split_once("t=").map_or("no-one-time-token", |(_, once)| once).to_owned();
    let ask = |path: &str, header: &str| {
        let mut stream = std::net::TcpStream::connect(&address).expect("the server listens");
        let head = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{header}Connection: close\r\n\r\n");
        stream.write_all(head.as_bytes()).expect("sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok();
        answer
    };
    let bearer = format!("Authorization: Bearer {token}\r\n");
    assert!(ask("/api/v1/hello", &bearer).starts_with("HTTP/1.1 200"));
    ask(&format!("/api/v1/hello?token={token}"), "");
    ask(&format!("/api/v1/recordings/{TOKEN}"), &bearer);
    ask("/api/v1/hello", &format!("Authorization: Bearer {TOKEN}\r\n"));
    ask("/api/v1/hello", &format!("Authorization: Basic {PASSWORD}\r\nCookie: ortscope={PASSWORD}\r\n"));
    ask(&format!("/login?t={once}"), "");
    ask(&format!("/?t={once}"), "");
    child.kill().ok();
    child.wait().ok();
    let directory = place.directory.path();
    let mut looked_at = 0;
    let mut rest = vec![directory.to_owned()];
    while let Some(path) = rest.pop() {
        if path.is_dir() {
            rest.extend(
                std::fs::read_dir(&path).expect("a list").map(|entry| entry.expect("an entry").path()),
            );
            continue;
        }
        let bytes = std::fs::read(&path).expect("readable");
        looked_at += 1;
        for secret in [token.as_str(), &once, PASSWORD, &KEY[13..]] {
            let has = bytes.windows(secret.len()).any(|window| window == secret.as_bytes());
            assert!(!has, "a secret stands in {}", path.display());
        }
    }
    assert!(looked_at >= 4, "{looked_at}");
}

/// The command line of a program that is observed is that program's business: its secrets stay there.
#[cfg(unix)]
#[test]
fn command_lines_of_observed_programs_are_not_kept() {
    let place = Place::new();
    let output = place
        .command(&[
            "record",
            "-vv",
            "--",
            "sh",
            "-c",
            "sleep 0.6",
            "--token",
            TOKEN,
            &format!("--password={PASSWORD}"),
        ])
        .env("PLANTED", PASSWORD)
        .env("ORTSCOPE_KEY", KEY)
        .env("ORTSCOPE_LOG", "trace")
        .output()
        .expect("ortscope starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_clean("stdout", &output.stdout);
    assert_clean("stderr", &output.stderr);
    assert!(assert_files_clean(place.directory.path(), &[]) > 0);
}
