//! Files that somebody made to do harm, or that a disk made: hundreds of them from one generator. For each the program
//! ends with a documented exit code and one sentence, within a bound of memory.

use std::path::Path;
use std::process::{Command, Output};

use crate::support::{Place, models, onnx};

/// What a process may have of memory, in KiB of addresses: far more than it needs, far less than a length can claim.
const MEMORY_KIB: &str = "3000000";

/// A malformed file, and the command that is given its path at the end.
struct Malformed {
    name: String,
    bytes: Vec<u8>,
    command: &'static [&'static str],
}

const INSPECT: &[&str] = &["inspect"];
const IMPORT: &[&str] = &["import"];
const SHOW: &[&str] = &["runs", "show"];
const ETL: &[&str] = &["etl", "stats"];

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// A field that claims to have this many bytes and has a few.
fn claiming(field: u64, length: u64) -> Vec<u8> {
    let mut bytes = varint(field << 3 | 2);
    bytes.extend(varint(length));
    bytes.extend(b"few");
    bytes
}

/// Messages inside of messages: `path` are the fields that lead one level down, the innermost is empty.
fn nested(path: &[u64], levels: usize) -> Vec<u8> {
    // From the inside out, written backwards: each head stands before what is there already.
    let mut reversed: Vec<u8> = Vec::new();
    for level in (0..levels).rev() {
        let mut head = varint(path[level % path.len()] << 3 | 2);
        head.extend(varint(reversed.len() as u64));
        reversed.extend(head.iter().rev());
    }
    reversed.reverse();
    reversed
}

fn models_that_are_none(files: &mut Vec<Malformed>) {
    let mut add = |name: String, bytes: Vec<u8>| {
        files.push(Malformed { name: format!("{name}.onnx"), bytes, command: INSPECT });
    };
    let whole = models::decoder();
    for share in 0..64 {
        add(format!("cut-{share}"), whole[..whole.len() * share / 64].to_vec());
    }
    for length in [1 << 31, 1 << 62, 1 << 63, u64::MAX] {
        for field in [1, 7, 8, 14] {
            add(format!("claims-{field}-{length:x}"), claiming(field, length));
            let mut behind = whole.clone();
            behind.extend(claiming(field, length));
            add(format!("claims-behind-{field}-{length:x}"), behind);
        }
    }
    // Varints that never end, and keys of field zero or of types that there are not.
    for (name, bytes) in [
        ("endless", vec![0xff; 4096]),
        ("eleven", [vec![0x08], vec![0x80; 10], vec![1]].concat()),
        ("field-zero", vec![0x00; 64]),
        ("type-3", vec![0x0b; 64]),
        ("type-7", vec![0x0f; 64]),
        ("zeros", vec![0; 65_536]),
    ] {
        add(name.to_owned(), bytes);
    }
    // Graph, node, attribute, graph … and the same with types, to the depth at which a stack would end.
    for levels in [100, 1000, 100_000, 1_000_000] {
        add(format!("nested-graphs-{levels}"), nested(&[7, 1, 5, 6], levels));
        add(format!("nested-types-{levels}"), nested(&[7, 11, 2, 4, 1], levels));
        add(format!("nested-one-field-{levels}"), nested(&[7], levels));
    }
    for step in 0..40 {
        let mut bytes = whole.clone();
        let at = bytes.len() * step / 40;
        bytes[at] ^= 0xff;
        add(format!("flipped-{step}"), bytes);
    }
    add("cyclic".into(), cyclic());
}

/// Two nodes that wait for each other.
fn cyclic() -> Vec<u8> {
    let of = onnx::tensor_type(1, &[onnx::Dim::Fixed(2)]);
    onnx::Graph::default()
        .node(&onnx::node("Add", &["x", "b"], &["a"]))
        .node(&onnx::node("Add", &["x", "a"], &["b"]))
        .node(&onnx::node("Identity", &["self"], &["self"]))
        .input("x", &of)
        .output("b", &of)
        .model()
}

fn profiles_that_are_none(files: &mut Vec<Malformed>) {
    let mut add = |name: String, bytes: Vec<u8>| {
        files.push(Malformed { name: format!("{name}.json"), bytes, command: IMPORT });
    };
    let event = r#"{"cat":"Node","pid":1,"tid":1,"dur":5,"ts":10,"ph":"X","name":"a_kernel_time","args":{"op_name":"Conv"}}"#;
    let with = |from: &str, to: &str| format!("[{}]", event.replace(from, to));
    let whole = format!("[\n{}\n]\n", vec![event; 20].join(",\n")).into_bytes();
    for share in 0..32 {
        add(format!("cut-{share}"), whole[..whole.len() * share / 32].to_vec());
    }
    for (name, text) in [
        ("deep-lists", "[".repeat(1_000_000)),
        ("deep-objects", "{\"a\":".repeat(500_000)),
        ("long-text", format!("[{{\"cat\":\"{}\"", "x".repeat(6 << 20))),
        ("huge-numbers", with("\"dur\":5", "\"dur\":1e999")),
        ("negative", with("\"ts\":10", "\"ts\":-9223372036854775809")),
        ("null-name", with("\"a_kernel_time\"", "null")),
        ("zero-letter", with("Conv", "a\\u0000b")),
        ("half-surrogate", with("Conv", "\\ud800")),
        ("not-a-list", "{\"traceEvents\":7}".into()),
        ("numbers", "[1,2,3,4]".into()),
        ("spaces", " ".repeat(100_000)),
        ("commas", format!("[{}", ",".repeat(100_000))),
    ] {
        add(name.to_owned(), text.into_bytes());
    }
    let mut not_text = whole;
    for at in (0..not_text.len()).step_by(97) {
        not_text[at] = 0xff;
    }
    add("not-utf-8".into(), not_text);
}

/// Traces and packed recordings: heads that are right, and nothing behind them that is.
fn binaries_that_are_none(files: &mut Vec<Malformed>, packed: &[u8]) {
    for share in 0..32 {
        let bytes = packed[..packed.len() * share / 32].to_vec();
        files.push(Malformed { name: format!("cut-{share}.ortscope"), bytes, command: SHOW });
        let mut bytes = packed.to_vec();
        let at = bytes.len() * share / 32;
        bytes[at] ^= 0x41;
        files.push(Malformed { name: format!("flipped-{share}.ortscope"), bytes, command: SHOW });
    }
    for fill in [0_u8, 1, 0xff] {
        for length in [0, 1, 8, 71, 4096, 65_536] {
            // As long as a buffer claims to be, with the rest of its head filled.
            let mut bytes = vec![fill; length];
            let head = [0x00, 0x10, 0, 0, 0x00, 0x10, 0, 0];
            let known = head.len().min(length);
            bytes[..known].copy_from_slice(&head[..known]);
            files.push(Malformed { name: format!("trace-{fill}-{length}.etl"), bytes, command: ETL });
        }
    }
}

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

fn packed(place: &Place) -> Vec<u8> {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../decode/tests/data/ort_profile/1.31.1.json");
    place.ortscope(&["import", data.to_str().expect("a plain path"), "--name", "whole"]).expect_code(0);
    place.ortscope(&["runs", "pack", "whole", "-o", "whole.ortscope"]).expect_code(0);
    std::fs::read(place.directory.path().join("whole.ortscope")).expect("it was written")
}

#[test]
fn hundreds_of_malformed_files_each_cost_one_sentence() {
    let place = Place::new();
    let mut files = Vec::new();
    models_that_are_none(&mut files);
    profiles_that_are_none(&mut files);
    binaries_that_are_none(&mut files, &packed(&place));
    assert!(files.len() >= 200, "{} files", files.len());
    let mut problems = Vec::new();
    for file in &files {
        let path = place.file(&file.name, &file.bytes);
        let here = format!("./{}", file.name);
        let mut arguments: Vec<&str> = file.command.to_vec();
        arguments.push(&here);
        let output = bounded(&place, &arguments);
        std::fs::remove_file(path).expect("removed");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let errors = stderr.lines().filter(|line| line.starts_with("error:")).count();
        let is_told = match output.status.code() {
            // Some can be read in spite of it: a flipped bit in a name, a list that was cut off.
            Some(0) => errors == 0,
            Some(2 | 3 | 4 | 20) => errors <= 1 && !stderr.trim().is_empty(),
            // A defect of ours, a panic, or an end by the system.
            _ => false,
        };
        if !is_told || stderr.contains("panicked") {
            let told: String = stderr.chars().take(300).collect();
            problems.push(format!("{} {}: {}\n{told}", file.command.join(" "), file.name, output.status));
        }
    }
    assert!(problems.is_empty(), "{} of {}:\n{}", problems.len(), files.len(), problems.join("\n"));
}
