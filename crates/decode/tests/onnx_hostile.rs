//! No file makes the parser panic or run away, and other formats are named.

mod support;

use ortscope_decode::onnx::{Limits, Model, OnnxError, read_model};
use proptest::prelude::*;
use support::{attribute, bytes, external, model, node, number, sample, tensor, value, varint};

fn read(bytes: &[u8]) -> Result<Model, OnnxError> {
    read_model(bytes, &Limits::default())
}

#[test]
fn other_files_are_named() {
    let safetensors = [&16u64.to_le_bytes()[..], br#"{"a":{"dtype":1}}"#].concat();
    let mut tar = vec![b'x'; 512];
    tar[257..262].copy_from_slice(b"ustar");
    let cases: &[(&[u8], &str)] = &[
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"\n  <HTML lang=en>", "web page"),
        (b"<?xml version=\"1.0\"?><net name=\"a\" version=\"11\">", "OpenVINO"),
        (b"{\"a\": 1}", "JSON"),
        (b"[1]", "JSON"),
        (b"Not Found\n", "text file that begins with \"Not Found\""),
        (b"ir_version: 8\nopset_import {", "text form"),
        (b"   \n", "white space"),
        (b"PK\x03\x04aaaaarchive/data.pkl", "PyTorch"),
        (b"PK\x03\x04aaaax.npy", "npz"),
        (b"PK\x03\x04aaaax.txt", "zip"),
        (b"\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20", "PyTorch"),
        (b"\x80\x04\x95\x00", "pickle"),
        (b"\x93NUMPY\x01\x00", "numpy"),
        (b"\x1c\x00\x00\x00TFL3\x00\x00", "TensorFlow Lite"),
        (b"\x1c\x00\x00\x00ORTM\x00\x00", ".ort"),
        (b"GGUF\x03\x00\x00\x00", "GGUF"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\x1f\x8b\x08", "gzip"),
        (b"\x7fELF\x02", "Linux program"),
        (b"MZ\x90\x00", "Windows program"),
        (b"\x89PNG\r\n", "it is an image"),
        (&safetensors, "safetensors"),
        (&[0; 64], "zeros"),
        (&tar, "tar"),
        (&[0xff; 64], "not recognized"),
    ];
    for (bytes, expected) in cases {
        let error = read(bytes).unwrap_err();
        assert!(matches!(error, OnnxError::NotOnnx { .. }), "{expected}: {error:?}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    assert_eq!(read(b""), Err(OnnxError::Empty));
}

/// A magic number inside a valid model is not a reason to reject it.
#[test]
fn a_producer_called_like_a_magic_number_is_fine() {
    let opset = bytes(8, number(2, 17));
    let file = [number(1, 8), bytes(2, "ORTM"), bytes(7, bytes(1, node("Add", &[], &[]))), opset].concat();
    assert_eq!(&file[4..8], b"ORTM");
    assert_eq!(read(&file).unwrap().producer_name, "ORTM");
}

#[test]
fn protobuf_of_another_schema_is_rejected() {
    let tensor_file = [tensor("x", 1, &[2, 2]), bytes(9, [0; 16])].concat();
    assert_eq!(read(&tensor_file), Err(OnnxError::NoGraph));
    let saved_model = [number(1, 1), bytes(2, bytes(1, "meta"))].concat();
    assert_eq!(read(&saved_model), Err(OnnxError::NoGraph));
    let graph_def = bytes(1, bytes(1, "node\u{1}"));
    assert!(matches!(read(&graph_def), Err(OnnxError::NotOnnx { .. })));
    let without_version = bytes(7, bytes(1, node("Add\u{1}", &[], &[])));
    assert!(matches!(read(&without_version), Err(OnnxError::NotOnnx { .. })));
    let without_opset = [number(1, 8), bytes(7, bytes(1, node("Add", &[], &[])))].concat();
    assert_eq!(read(&without_opset), Err(OnnxError::NoOpset));
    // int64_data has the field number of a graph.
    let typed = [number(1, 4), number(2, 7), bytes(7, [1, 2, 3, 4])].concat();
    assert!(read(&typed).is_err());
}

#[test]
fn a_truncated_file_reports_the_missing_bytes() {
    let file = sample();
    let opset_bytes = bytes(8, [bytes(1, ""), number(2, 17)].concat()).len();
    let cut = file.len() - opset_bytes - 5;
    assert_eq!(read(&file[..cut]), Err(OnnxError::Truncated { at: cut as u64, missing: 5 }));
    assert_eq!(
        read(&file[..cut]).unwrap_err().to_string(),
        format!("the file is truncated: it ends at byte {cut}, 5 bytes too early")
    );
    // Between two fields only the absence of a field is visible.
    assert_eq!(read(&file[..file.len() - opset_bytes]), Err(OnnxError::NoOpset));
}

fn nested(depth: usize) -> Vec<u8> {
    // Built from the inside out in one reversed buffer, so that a million levels stay linear.
    let mut reversed: Vec<u8> = Vec::new();
    let wrap = |reversed: &mut Vec<u8>, field: u64| {
        let length = varint(reversed.len() as u64);
        reversed.extend(length.iter().rev());
        reversed.extend(varint(field << 3 | 2).iter().rev());
    };
    for _ in 0..depth {
        wrap(&mut reversed, 6);
        wrap(&mut reversed, 5);
        wrap(&mut reversed, 1);
    }
    reversed.reverse();
    reversed
}

#[test]
fn depth_is_limited() {
    assert!(read(&model(&nested(60))).is_ok());
    for depth in [65, 1000, 1_000_000] {
        assert_eq!(read(&model(&nested(depth))), Err(OnnxError::TooDeep { limit: 64 }), "{depth}");
    }
    let unlimited = Limits { max_depth: usize::MAX, ..Limits::default() };
    assert_eq!(read_model(&model(&nested(1_000_000)), &unlimited), Err(OnnxError::TooDeep { limit: 256 }));
    let mut value_type = Vec::new();
    for _ in 0..1000 {
        value_type = bytes(4, bytes(1, value_type));
    }
    let typed = model(&bytes(11, value("x", value_type)));
    assert_eq!(read(&typed), Err(OnnxError::TooDeep { limit: 64 }));
}

#[test]
fn nodes_and_memory_are_limited() {
    let graph = bytes(1, []).repeat(1001);
    let limits = Limits { max_nodes: 1000, ..Limits::default() };
    assert_eq!(read_model(&model(&graph), &limits), Err(OnnxError::TooManyNodes { limit: 1000 }));
    let limits = Limits { max_memory_bytes: 10_000, ..Limits::default() };
    assert_eq!(read_model(&model(&graph), &limits), Err(OnnxError::TooLarge { limit: 10_000 }));
    let names = bytes(11, bytes(1, "x".repeat(20_000)));
    assert_eq!(read_model(&model(&names), &limits), Err(OnnxError::TooLarge { limit: 10_000 }));
}

#[test]
fn impossible_tensors_are_rejected_by_name() {
    let with = |tensor: Vec<u8>| read(&model(&bytes(5, tensor))).unwrap_err().to_string();
    assert_eq!(with(tensor("w", 1, &[2, -3])), "tensor 'w' has an impossible shape [2, -3]");
    assert!(with(tensor("w", 1, &[i64::MAX, 2, 2])).contains("impossible shape"));
    assert!(with(tensor("w", 27, &[1])).starts_with("tensor 'w' has the unknown element type 27"));
    let outside = |entries| with([tensor("w", 1, &[1]), external(entries)].concat());
    assert!(outside(&[("offset", "0")]).ends_with("it names no file"));
    assert!(outside(&[("location", "a"), ("offset", "-1")]).ends_with("its offset is \"-1\""));
    assert!(outside(&[("location", "a"), ("length", "1e9")]).ends_with("its length is \"1e9\""));
}

/// Damaged files: each is rejected with one line, or read; none may panic or hang.
#[test]
fn more_than_200_damaged_files_are_handled() {
    let file = sample();
    let mut corpus: Vec<Vec<u8>> = Vec::new();
    for part in 0..64 {
        corpus.push(file[..file.len() * part / 64].to_vec());
    }
    for start in 0..64 {
        corpus.push(file[file.len() * start / 64 + 1..].to_vec());
    }
    for position in 0..64 {
        let at = file.len() * position / 64;
        corpus.push([&file[..at], &[0xff; 11], &file[at..]].concat());
    }
    for shift in 0..64 {
        let length = varint(1 << shift);
        corpus.push([number(1, 8), varint(7 << 3 | 2), length.clone()].concat());
        corpus.push(model(&[varint(1 << 3 | 2), length].concat()));
    }
    for wire_type in 0..8 {
        for field in [0, 1, 5, 7, 8, 536_870_911] {
            corpus.push([number(1, 8), varint(field << 3 | wire_type), vec![1; 9]].concat());
        }
    }
    corpus.push([number(1, 8), [0x0b; 100].to_vec()].concat());
    corpus.push(model(&attribute("x", 5, nested(2000))));
    assert!(corpus.len() > 200);
    let mut refused = 0;
    for bytes in &corpus {
        if let Err(error) = read(bytes) {
            refused += 1;
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
    println!("{} damaged files, {refused} rejected", corpus.len());
    assert!(refused > 200, "only {refused} of {} refused", corpus.len());
    for part in 1..64 {
        let cut = &file[..file.len() * part / 64];
        assert!(read(cut).is_err(), "truncated at {part}/64 was read");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2048)) {
        drop(read(&bytes));
        drop(read(&model(&bytes)));
    }

    #[test]
    fn any_damage(changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..16)) {
        let mut file = sample();
        for (index, byte) in changes {
            let at = index.index(file.len());
            file[at] = byte;
        }
        if let Ok(model) = read(&file) {
            model.input_hints();
            model.parameter_bytes();
            model.kind();
        }
    }
}

/// Found by fuzzing: names from the file were printed unchanged, so that a model could print its own lines and control
/// the terminal.
#[test]
fn names_in_messages_are_short_and_on_one_line() {
    let name = format!("a\n\u{1b}[2J\u{202e}{}", "x".repeat(1000));
    let nowhere = [tensor(&name, 1, &[2]), external(&[("offset", "1")])].concat();
    let offset = [tensor("w", 1, &[2]), external(&[("location", "w"), ("offset", &name)])].concat();
    let unknown = tensor(&name, 99, &[2]);
    let negative = tensor(&name, 1, &[-2]);
    for broken in [nowhere, offset, unknown, negative] {
        let graph = [bytes(1, node("Add", &["a", "b"], &["c"])), bytes(5, broken)].concat();
        let error = read_model(&model(&graph), &Limits::default()).unwrap_err().to_string();
        assert!(!error.chars().any(|letter| letter.is_control() || letter == '\u{202e}'), "{error:?}");
        assert!(error.chars().count() < 300 && error.contains(r"a\n\u{1b}[2J\u{202e}x"), "{error}");
    }
}
