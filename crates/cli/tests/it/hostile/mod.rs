//! Files that somebody made to do harm, or that a disk made: hundreds of them from one generator. For each the program
//! ends with a documented exit code and one sentence, within a bound of memory.

mod generator;

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Place, library, models, onnx};
use generator::{INSPECT, Malformed};

/// What a process may have of memory, in KiB of addresses: more than it needs, far less than a length can claim.
const MEMORY_KIB: &str = "1500000";

/// Runs the program with a bound on its memory, where the system has one.
fn bounded(place: &Place, arguments: &[&str]) -> Output {
    let mut plain = place.command(arguments);
    if !cfg!(unix) {
        return plain.output().expect("it starts");
    }
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {MEMORY_KIB}; exec \"$0\" \"$@\"")]);
    command.arg(plain.get_program()).args(plain.get_args());
    command.current_dir(place.directory.path());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.output().expect("it starts")
}

/// A text without its colours.
fn uncoloured(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut parts = text.split('\u{1b}');
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let is_of_it = |letter: char| letter.is_ascii_digit() || letter == ';';
        match part.strip_prefix('[').and_then(|rest| rest.trim_start_matches(is_of_it).strip_prefix('m')) {
            Some(behind) => plain.push_str(behind),
            None => plain.extend(["\u{1b}", part]),
        }
    }
    plain
}

/// Whether there is anything that a terminal obeys.
fn steers(text: &str) -> bool {
    text.chars().any(|letter| letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// What is wrong with an answer, if anything.
fn problem(output: &Output) -> Option<String> {
    let stderr = uncoloured(&output.stderr);
    let errors = stderr.lines().filter(|line| line.starts_with("error:")).count();
    let is_told = match output.status.code() {
        // Some can be read in spite of it: a flipped bit in a name, a list that was cut off.
        Some(0) => errors == 0,
        Some(2..=4) => errors == 1,
        // Damage is told by sentences about each place; the recording is shown.
        Some(20) => errors <= 1 && !stderr.trim().is_empty(),
        // A defect of ours, a panic, or an end by the system.
        _ => false,
    };
    let steers = steers(&stderr) || steers(&uncoloured(&output.stdout));
    let told: String = stderr.chars().take(300).collect();
    (!is_told || steers || stderr.contains("panicked")).then(|| format!("{}\n{told}", output.status))
}

fn try_all(place: &Place, files: &[Malformed], least: usize) {
    assert!(files.len() >= least, "{} files", files.len());
    let mut problems = Vec::new();
    for file in files {
        let path = place.file(&file.name, &file.bytes);
        let here = format!("./{}", file.name);
        // With colours, as on a terminal: without them everything that a terminal obeys is taken out on the way.
        let colours = ["--color", "always", here.as_str()];
        let arguments: Vec<&str> = file.command.iter().copied().chain(colours).collect();
        let output = bounded(place, &arguments);
        std::fs::remove_file(path).expect("removed");
        if let Some(problem) = problem(&output) {
            problems.push(format!("{} {}: {problem}", file.command.join(" "), file.name));
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), files.len(), problems.join("\n"));
}

#[test]
fn models_that_are_none_each_cost_one_sentence() {
    try_all(&Place::new(), &generator::models_that_are_none(), 90);
}

#[test]
fn texts_that_are_none_each_cost_one_sentence() {
    try_all(&Place::new(), &generator::texts_that_are_none(), 40);
}

#[test]
fn binaries_that_are_none_each_cost_one_sentence() {
    let place = Place::new();
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/data/ort_profile/1.31.1.json");
    place.ortscope(&["import", data.to_str().expect("a plain path"), "--name", "whole"]).expect_code(0);
    place.ortscope(&["runs", "pack", "whole", "-o", "whole.ortscope"]).expect_code(0);
    let packed = std::fs::read(place.directory.path().join("whole.ortscope")).expect("it was written");
    try_all(&place, &generator::binaries_that_are_none(&packed), 70);
}

#[test]
fn configurations_that_are_none_each_cost_one_sentence() {
    try_all(&Place::new(), &generator::configurations_that_are_none(), 10);
}

/// What the supervisor lets pass is ONNX Runtime's to judge, in the worker, and its end is told all the same.
#[test]
fn models_that_are_none_do_not_take_a_run_with_them() {
    let Some(library) = library() else { return };
    let place = Place::new();
    for file in generator::models_to_run() {
        place.file(&file.name, &file.bytes);
        let run = place.with_library(&library, &["run", &file.name, "--runs", "1", "--profile", "off"]);
        assert_eq!(run.code(), 3, "{}: {}", file.name, run.stderr());
        assert_eq!(problem(&run.output), None, "{}", file.name);
    }
}

/// Reading these would never end.
#[cfg(unix)]
#[test]
fn devices_and_pipes_are_no_files() {
    let place = Place::new();
    place.ortscope(&["inspect", "/dev/zero"]).expect_error(3, &["not a regular file"]);
    place.ortscope(&["run", "/dev/zero"]).expect_error(3, &["not a regular file"]);
    place.ortscope(&["config", "show", "--config", "/dev/zero"]).expect_error(2, &["more than"]);
    let pipe = place.directory.path().join("pipe.onnx");
    assert!(Command::new("mkfifo").arg(&pipe).status().is_ok_and(|status| status.success()));
    place.ortscope(&["inspect", "pipe.onnx"]).expect_error(3, &["not a regular file"]);
    let large = std::fs::File::create(place.directory.path().join("large.onnx")).expect("a file");
    large.set_len(1 << 40).expect("it has no blocks, only a length");
    place.ortscope(&["inspect", "large.onnx"]).expect_error(3, &["less than 2 GiB", "hint:"]);
}

/// Each way out of the model's directory, through the program: `inspect` and `run` judge alike.
#[test]
fn external_data_elsewhere_is_refused_by_every_command() {
    let place = Place::new();
    // Longer than a path may be; on Windows 32,767 letters are allowed.
    let (long, too_long) = ("x/".repeat(3000), if cfg!(windows) { "is missing" } else { "cannot be used" });
    // There no name may have such letters.
    let steering = if cfg!(windows) { "cannot be used" } else { "is missing" };
    for (location, words) in [
        ("../w.bin", "leaves the model's directory"),
        ("/etc/passwd", "absolute path"),
        ("\\\\server\\share\\w.bin", "network path"),
        ("C:\\w.bin", "drive or a stream"),
        ("nul", "device on Windows"),
        ("a\0b", "NUL character"),
        (long.as_str(), too_long),
        ("a\u{1b}[2J\nb", steering),
    ] {
        place.file("external.onnx", with_external_data(location));
        for command in ["inspect", "run"] {
            let run = place.ortscope(&[command, "external.onnx"]).expect_error(3, &[words, "hint:"]);
            assert_eq!(problem(&run.output), None, "{location:?}");
        }
    }
}

fn with_external_data(location: &str) -> Vec<u8> {
    let entry = onnx::Message::default().string(1, "location").string(2, location);
    let weight = onnx::Message::default().int(1, 2).int(2, 1).string(8, "w").message(13, &entry).int(14, 1);
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(2)]);
    onnx::Graph::default()
        .node(&onnx::node("Add", &["x", "w"], &["y"]))
        .initializer(&weight)
        .input("x", &of)
        .output("y", &of)
        .model()
}

/// The generator's models are malformed because of what was done to them: as it is, the model is one.
#[test]
fn the_model_that_is_damaged_is_whole_before() {
    let place = Place::new();
    place.file("whole.onnx", models::decoder());
    let output = bounded(&place, &[INSPECT, &["./whole.onnx"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}
