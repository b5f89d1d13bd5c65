//! Planted secrets: weights and values of tensors, tokens in the environment and on command lines. None of them is found in
//! a recording, a report, an export, a log or in what the program says, whichever way the run ends.

use std::path::Path;

use crate::support::models;
use crate::support::onnx::{Dim, Graph, initializer, node, tensor_type};
use crate::support::{Place, library};

/// The number of the type in ONNX.
const FLOAT: i32 = 1;
/// Sixteen bytes that nothing else has, as weights; other ones as values of an input; and texts.
const WEIGHTS: [f32; 4] = [1.234_567_8e-7, -9.876_543e12, 4.242_424e-3, 7.777_777e5];
const VALUES: [f32; 3] = [-3.141_592e-9, 2.718_281e11, 6.022_14e-23];
const TOKEN: &str = "planted-token-5f0d3c1b9a";
const PASSWORD: &str = "planted-password-77aa01";

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// `y[1,4] = x[1,3] * W`, with planted weights.
fn planted_model() -> Vec<u8> {
    let weights = [bytes(&WEIGHTS), bytes(&WEIGHTS), bytes(&WEIGHTS)].concat();
    Graph::default()
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

fn needles() -> Vec<Vec<u8>> {
    let mut needles = vec![bytes(&WEIGHTS[..2]), bytes(&WEIGHTS[2..]), bytes(&VALUES[..2])];
    needles.extend(shown(&WEIGHTS).into_iter().chain(shown(&VALUES)).map(String::into_bytes));
    needles.extend([TOKEN, PASSWORD].map(|text| text.as_bytes().to_vec()));
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
    assert_clean("another model", &models::matmul());
}

#[test]
fn nothing_that_was_planted_is_kept_or_said() {
    let Some(library) = library() else { return };
    let place = Place::new();
    place.file("planted.onnx", planted_model());
    place.file("planted.npy", npy(&VALUES));
    let run = |arguments: &[&str]| {
        let output = place
            .command(arguments)
            .env("ORTSCOPE_ORT_LIBRARY", &library)
            .env("ORTSCOPE_PUSH_TOKEN", TOKEN)
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
    // One that fails.
    run(&with(input, &["--provider", "cuda"]));
    for command in [
        &["report", "last", "-o", "report.html"][..],
        &["report", "last"],
        &["export", "last", "--to", "jsonl", "-o", "all.jsonl"],
        &["export", "last", "--to", "sqlite", "-o", "all.sqlite"],
        &["runs", "show", "last"],
        &["doctor"],
        &["config", "show"],
    ] {
        run(command);
    }
    let looked_at = assert_files_clean(place.directory.path(), &["planted.onnx", "planted.npy"]);
    assert!(looked_at > 10, "only {looked_at} files were there to look at");
}

/// The command line of a program that is observed is that program's business: its secrets stay there.
#[cfg(unix)]
#[test]
fn command_lines_of_observed_programs_are_not_kept() {
    let place = Place::new();
    let output = place
        .command(&["record", "--", "sh", "-c", "sleep 0.6", "--token", TOKEN])
        .env("PLANTED", PASSWORD)
        .output()
        .expect("ortscope starts");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_clean("stdout", &output.stdout);
    assert_clean("stderr", &output.stderr);
    assert!(assert_files_clean(place.directory.path(), &[]) > 0);
}
