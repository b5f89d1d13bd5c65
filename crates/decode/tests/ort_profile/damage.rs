//! Damaged profiles: everything readable is read, and everything else is counted.

use ortscope_decode::ort_profile::{EventKind, ProfileOptions, ProfileReader};

use crate::support::{Writer, outcome, profile, read, read_in_pieces};

fn three() -> Writer {
    Writer::default().node(1, (0, 5), "a", "Add").node(1, (6, 8), "b", "Mul").run(1, (0, 9))
}

/// Names and kinds of the emitted events.
fn names(bytes: &[u8]) -> Vec<(EventKind, String)> {
    let mut names = Vec::new();
    let mut out = |event: ortscope_decode::ort_profile::ProfileEvent<'_>| {
        names.push((event.kind, event.name.to_owned()));
    };
    let mut reader = ProfileReader::new(ProfileOptions::default());
    reader.feed(bytes, &mut out);
    reader.finish(&mut out);
    names
}

fn name_of(text: &str) -> String {
    let file = Writer::default().event("Node", 1, (0, 1), &format!("{text}_kernel_time"), &[]).file();
    let found = names(&file);
    let [(EventKind::Operator, name)] = &found[..] else { panic!("{text:?} gives {found:?}") };
    name.clone()
}

#[test]
fn commas_are_counted() {
    let [a, b, c] = &three().events[..] else { panic!("three events") };
    let cases = [
        (format!("[{a},{b},{c}]"), 0),
        (format!("[{a}\n{b},{c}]"), 1),
        (format!("[{a},,{b},,,{c}]"), 3),
        (format!("[,{a},{b},{c},]"), 2),
        (format!("[{a}{b}{c},,]"), 4),
        (format!("{a}\n{b}\n{c}\n"), 0),
    ];
    for (text, expected) in cases {
        let found = outcome(text.as_bytes());
        assert_eq!((found.events, found.bad_commas), (3, expected), "{text}");
        assert_eq!(found.first_problem.is_some(), expected > 0, "{text}");
        assert!(!found.truncated, "{text}");
    }
}

#[test]
fn commas_inside_events_are_counted() {
    let cases = [
        (r#"{"cat":"Node","ts":1,"dur":2,"name":"x_kernel_time","args":{"op_name":"Add",}}"#, 1),
        (r#"{"cat":"Node",,"ts":1,"dur":2,"name":"x_kernel_time","args":{,"op_name":"Add"},}"#, 3),
        (r#"{"cat":"Node" "ts":1 "dur":2,"name":"x_kernel_time" "args":{"op_name":"Add"}}"#, 3),
    ];
    for (event, expected) in cases {
        let found = outcome(format!("[{event}]").as_bytes());
        assert_eq!((found.operators, found.bad_commas, found.repaired_events), (1, expected, 1), "{event}");
    }
}

/// Up to 1.30 ONNX Runtime does not escape node names.
#[test]
fn unescaped_names_are_read() {
    assert_eq!(name_of(r#"say "hi" twice"#), r#"say "hi" twice"#);
    assert_eq!(name_of(r#"""#), r#"""#);
    assert_eq!(name_of(r#"one " quote"#), r#"one " quote"#);
    assert_eq!(name_of(r"C:\models\x"), r"C:\models\x");
    assert_eq!(name_of(r"C:\new\User"), r"C:\new\User", "one invalid escape: none is an escape");
    assert_eq!(name_of("two\nlines"), "two\nlines");
    assert_eq!(name_of("tab\there"), "tab\there");
    assert_eq!(name_of("curly } and { and ]"), "curly } and { and ]");
}

#[test]
fn escaped_names_are_read() {
    assert_eq!(name_of(r#"say \"hi\""#), r#"say "hi""#);
    assert_eq!(name_of(r"C:\\models\\x\/y"), r"C:\models\x/y");
    assert_eq!(name_of(r"\u00e4\ud83d\ude00\n\t\r\b\f"), "ä😀\n\t\r\u{8}\u{c}");
    assert_eq!(name_of(r"\ud83d alone, \u0000"), "\u{fffd} alone, \0");
    assert_eq!(name_of("äöü 漢字"), "äöü 漢字");
    assert_eq!(outcome(&Writer::default().node(1, (0, 1), r#"\"a\" \\ b"#, "Add").file()).repaired_events, 0);
}

#[test]
fn an_unclosed_name_does_not_affect_the_next_line() {
    let mut writer = three();
    // An odd number of quotes, and brackets inside them: nothing in this line closes.
    writer.events[1] = writer.events[1].replace("b_kernel", "b\"{[\\\"_kernel");
    let found = outcome(&writer.file());
    assert_eq!((found.events, found.runs), (3, 1));
    assert_eq!((found.repaired_events, found.skipped_events, found.bad_commas), (1, 0, 0));
    // A line that was truncated by a full disk.
    let mut writer = three();
    writer.events[0].truncate(40);
    let found = outcome(&writer.file());
    assert_eq!((found.events, found.skipped_events), (2, 1));
    assert!(found.first_problem.is_some());
}

#[test]
fn invalid_utf8_is_reported() {
    let mut file = three().file();
    let at = file.windows(2).position(|bytes| bytes == b"a_").expect("the name");
    file[at] = 0xff;
    assert_eq!(names(&file)[0], (EventKind::Operator, "\u{fffd}".to_owned()));
    let found = outcome(&file);
    assert_eq!((found.events, found.repaired_events), (3, 1));
    let problem = found.first_problem.expect("a problem");
    assert!(problem.to_string().starts_with("a text is not UTF-8 (at byte "), "{problem}");
}

#[test]
fn invalid_numbers_are_counted() {
    let event = |start: &str, duration: &str, index: &str| {
        format!(
            r#"[{{"cat":"Node","pid":1,"tid":1,"dur":{duration},"ts":{start},"name":"x_kernel_time","args":{{"node_index":{index}}}}}]"#
        )
    };
    let good = outcome(event("1.5", "2e0", "\"7\"").as_bytes());
    assert_eq!((good.events, good.skipped_events, good.bad_numbers), (1, 0, 0));
    for (start, duration) in
        [("NaN", "1"), ("1", "Infinity"), ("-Infinity", "1"), ("null", "1"), ("1", "\"\"")]
    {
        let found = outcome(event(start, duration, "7").as_bytes());
        assert_eq!((found.events, found.skipped_events, found.bad_numbers), (0, 1, 1), "{start} {duration}");
    }
    let negative = outcome(event("1", "-1", "7").as_bytes());
    assert_eq!((negative.events, negative.skipped_events), (0, 1));
    let index = outcome(event("1", "1", "NaN").as_bytes());
    assert_eq!((index.events, index.bad_numbers), (1, 1), "the index is not required");
}

#[test]
fn the_last_of_duplicate_keys_wins() {
    let file = br#"[{"cat":"Node","pid":1,"tid":1,"dur":5,"dur":7,"ts":1,"name":"x_kernel_time","args":{"op_name":"Add","op_name":"Mul"}}]"#;
    let (events, found) = read(file);
    assert_eq!((found.events, found.duplicate_keys), (1, 2));
    assert!(
        events[0].contains("duration_ns: 7000") && events[0].contains("op_type: \"Mul\""),
        "{}",
        events[0]
    );
}

#[test]
fn unknown_keys_are_named() {
    let file = Writer::default()
        .event(
            "Node",
            1,
            (0, 1),
            "x_kernel_time",
            &[("op_name", "Add"), ("cores", "8"), ("cache", "{\"l1\":1}")],
        )
        .event("Node", 1, (1, 2), "y_kernel_time", &[("cores", "8")])
        .event("Kernel", -1, (1, 2), "gemm", &[("anything", "from a provider")])
        .file();
    let found = outcome(&file);
    assert_eq!((found.events, found.unknown_keys), (3, 3));
    assert_eq!(found.unknown_key_names, ["cores"]);
    assert!(found.is_clean(), "a newer version is not damage");
}

#[test]
fn events_that_are_too_large_are_skipped() {
    let options = ProfileOptions { max_event_bytes: 300, ..ProfileOptions::default() };
    let huge = "x".repeat(500);
    let shapes = format!("[{}]", "{\"float\":[1]},".repeat(60).trim_end_matches(','));
    let file = three()
        .node(1, (10, 11), &huge, "Add")
        .event("Node", 1, (12, 13), "y_kernel_time", &[("input_type_shape", &shapes)])
        .node(1, (14, 15), "after", "Add")
        .file();
    let (expected, found) = read_in_pieces(&file, &[file.len()], &options);
    assert_eq!((found.events, found.skipped_events, found.bad_commas), (4, 2, 0));
    assert!(!found.truncated);
    for size in [1, 2, 7, 100, 299, 300, 301] {
        assert_eq!(
            read_in_pieces(&file, &[size], &options),
            (expected.clone(), found.clone()),
            "pieces of {size}"
        );
    }
    // The default allows events of megabytes.
    let file = Writer::default().node(1, (0, 1), &"x".repeat(3 << 20), "Add").file();
    assert_eq!(outcome(&file).operators, 1);
    let file = Writer::default().node(1, (0, 1), &"x".repeat(5 << 20), "Add").run(1, (0, 2)).file();
    let found = read_in_pieces(&file, &[65_536], &ProfileOptions::default()).1;
    assert_eq!((found.operators, found.runs, found.skipped_events), (0, 1, 1));
}

#[test]
fn nesting_is_unlimited() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let file = Writer::default().event("Node", 1, (0, 1), "x_kernel_time", &[("deep", &deep)]).file();
    assert_eq!(outcome(&file).operators, 1);
    let open = format!("[{}", "{\"a\":".repeat(100_000));
    let found = outcome(open.as_bytes());
    assert_eq!((found.events, found.skipped_events, found.truncated), (0, 1, true));
}

#[test]
fn a_file_may_end_anywhere() {
    let bytes = profile("1.24.4");
    let text = String::from_utf8(bytes.clone()).expect("text");
    let (whole, complete) = read(&bytes);
    // An event is complete with its last bracket; its line ends there, or with a comma.
    let (mut starts, mut ends) = (Vec::new(), Vec::new());
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let event = line.trim_end().trim_end_matches(',');
        if event.starts_with('{') {
            starts.push(at);
            ends.push(at + event.len());
        }
        at += line.len();
    }
    assert_eq!(ends.len(), whole.len());
    for cut in (0..bytes.len()).step_by(17).chain(bytes.len() - 60..bytes.len()) {
        let (events, found) = read(&bytes[..cut]);
        let expected = ends.iter().filter(|end| **end <= cut).count();
        assert_eq!(events, whole[..expected], "cut at {cut}");
        let is_whole = text[..cut].trim_end().ends_with("\n]");
        assert_eq!(found.truncated, !is_whole && cut > 0, "cut at {cut}");
        let begun = starts.iter().filter(|start| **start < cut).count();
        assert_eq!(found.skipped_events, (begun - expected) as u64, "cut at {cut}");
        assert!(found.not_a_profile.is_none() || cut == 0, "cut at {cut}: {:?}", found.not_a_profile);
    }
    assert!(!complete.truncated);
}

#[test]
fn the_cap_is_noticed() {
    let notice = [("max_num_events", "1000000"), ("dropped_event_count", "27002")];
    let file = three().event("Session", 1, (9, 9), "profile_truncated", &notice).file();
    let found = outcome(&file);
    assert_eq!(
        (found.capped, found.dropped_events, found.events, found.unknown_keys),
        (true, Some(27_002), 4, 0)
    );
    // Older versions report it only in their log.
    let options = ProfileOptions { cap_reported: true, ..ProfileOptions::default() };
    let found = read_in_pieces(&three().file(), &[4096], &options).1;
    assert_eq!((found.capped, found.dropped_events), (true, None));
    assert!(!outcome(&three().file()).capped);
}

/// Exactly ONNX Runtime's maximum number of events, plus those of a provider.
#[test]
fn a_million_events_indicate_the_cap() {
    let fence = &Writer::default().event("Node", 1, (0, 0), "x_fence_after", &[("op_name", "Add")]).events[0];
    let kernel = &Writer::default().event("Kernel", -1, (0, 1), "gemm", &[]).events[0];
    for (events, expected) in [(999_999, false), (1_000_000, true)] {
        let mut reader = ProfileReader::new(ProfileOptions::default());
        let mut count = 0u64;
        let mut out = |_: ortscope_decode::ort_profile::ProfileEvent<'_>| count += 1;
        reader.feed(format!("[{kernel}").as_bytes(), &mut out);
        let piece = format!(",{fence}").repeat(1000);
        for _ in 0..events / 1000 {
            reader.feed(piece.as_bytes(), &mut out);
        }
        reader.feed(format!(",{fence}").repeat(events % 1000).as_bytes(), &mut out);
        reader.feed(b"]", &mut out);
        let found = reader.finish(&mut out);
        assert_eq!((found.capped, found.events), (expected, events as u64 + 1));
        assert_eq!(count, found.events);
    }
}

#[test]
fn junk_between_events_is_counted() {
    let [a, b, c] = &three().events[..] else { panic!("three events") };
    let found = outcome(format!("[{a},xyz,{b},[{c}]]").as_bytes());
    assert_eq!(found.events, 3);
    assert_eq!(found.junk_bytes, 5, "xyz, a bracket that opens and one that closes");
    // Two profiles in one file.
    let found = outcome(format!("[{a},{b},{c}]\n[{a},{b},{c}]\n").as_bytes());
    assert_eq!((found.events, found.runs, found.bad_commas, found.truncated), (6, 2, 0, false));
    assert!(found.first_problem.expect("a problem").sentence.contains("continues after the end"));
}

/// Each of these makes a naive parser scan the rest of the file again for every event.
#[test]
fn malicious_files_cost_no_more() {
    let parts = [
        "{\"a\":[\"\\\\\\\"\"]},",
        "{\"cat\":\"a\"b\",\"x\":[",
        "{\"name\":\"a\"b\"}},",
        "{",
        "{\"a\":[{\"b\":",
        "[",
        "\"",
        "{\"a\" \"b\" ",
        "\n{\"cat\" : \"",
        "{\"cat\":\"Node\",\"ts\":1,\"dur\":1,\"name\":\"x\"y\",\"args\":{}},",
    ];
    for part in parts {
        let file = format!("[\n{}", part.repeat((2 << 20) / part.len()));
        let whole = outcome(file.as_bytes());
        let pieces = read_in_pieces(file.as_bytes(), &[10_000], &ProfileOptions::default()).1;
        assert_eq!(whole, pieces, "{part:?}");
    }
}
