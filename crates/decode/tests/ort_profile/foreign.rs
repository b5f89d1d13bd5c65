//! Files that are not profiles are named, and nothing is made up from them.

use ortscope_decode::ort_profile::NotAProfile;

use crate::support::{Writer, outcome, rows};

fn reason(bytes: &[u8]) -> String {
    let found = outcome(bytes);
    assert_eq!((found.operators, found.runs), (0, 0));
    found.not_a_profile.map(|reason| reason.to_string()).unwrap_or_default()
}

#[test]
fn other_files_are_named() {
    let cases: &[(&[u8], &str)] = &[
        (b"", "the file is empty: ONNX Runtime writes a profile only when"),
        (b" \r\n\t", "the file is empty"),
        (b"\xef\xbb\xbf", "the file is empty"),
        (b"\x1f\x8b\x08\x00", "compressed with gzip: decompress it first"),
        (b"PK\x03\x04abc", "a zip archive"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"\xff\xfe[\x00\n\x00", "UTF-16"),
        (b"<!DOCTYPE html>", "a web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (b"name,ms\nConv,1\n", "begins with \"name,ms\\nConv,1\\n\""),
        (b"12", "begins with \"12\""),
        (b"\x00\x00\x00\x00", "begins with"),
        (b"[1, 2, 3]", "not a list of trace events"),
        (b"{\"a\": 1}", "not a list of trace events"),
        (b"{}", "not a list of trace events"),
        (b"[{\"a\": 1}, {\"b\": 2}]", "not a list of trace events"),
        (b"{\"traceEvents\": {}}", "not a list of trace events"),
    ];
    for (bytes, expected) in cases {
        let found = reason(bytes);
        assert!(found.contains(expected), "{expected:?}: {found:?}");
        // However the file is split.
        for size in 1..4 {
            let (_, pieces) = crate::support::read_in_pieces(bytes, &[size], &Default::default());
            assert_eq!(pieces, outcome(bytes), "{expected:?} in pieces of {size}");
        }
    }
}

#[test]
fn a_trace_of_another_tool_is_named() {
    let chrome = br#"{"traceEvents": [
        {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "ts": 0, "args": {"name": "Browser"}},
        {"name": "RunTask", "cat": "toplevel", "ph": "X", "ts": 12.5, "dur": 3.25, "pid": 1, "tid": 2},
        {"name": "aten::conv2d", "cat": "cpu_op", "ph": "X", "ts": 1e3, "dur": 3, "pid": "x", "tid": "main"}
    ], "metadata": {"source": "DevTools"}}"#;
    let found = outcome(chrome);
    assert_eq!((found.events, found.skipped_events), (3, 0));
    let expected = NotAProfile::ForeignTrace { event: "process_name".to_owned(), category: String::new() };
    assert_eq!(found.not_a_profile, Some(expected));
    let (rows, _, summary) = rows(chrome, Default::default());
    assert_eq!((rows.len(), summary.foreign_events), (0, 3));
}

#[test]
fn kernels_alone_do_not_make_a_profile() {
    let file = Writer::default().event("Kernel", 1, (0, 5), "void gemm<float>()", &[]).file();
    assert!(reason(&file).contains("a trace of another tool"));
}

#[test]
fn an_idle_session_has_a_profile() {
    for bytes in [&b"[\n]\n"[..], b"[]", b"{\"traceEvents\":[]}"] {
        let found = outcome(bytes);
        assert_eq!((found.not_a_profile, found.events, found.truncated), (None, 0, false));
    }
}

/// A file that was truncated early must not be called something else.
#[test]
fn the_beginning_of_a_profile_is_truncated_not_foreign() {
    for bytes in [&b"["[..], b"[\n{\"cat\" : \"Ses", b"{\"cat\" : \"Session\",\"pid\""] {
        let found = outcome(bytes);
        assert_eq!((found.not_a_profile, found.truncated), (None, true), "{bytes:?}");
    }
}
