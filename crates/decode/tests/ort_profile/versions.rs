//! The output of every version is read equally.

use ortscope_core::schema::{OperatorKind, OperatorRow};
use ortscope_decode::ort_profile::{ProfileOutcome, RowOptions, ThreadStats, VersionHint};
use serde_json::Value;

use crate::support::{VERSIONS, outcome, profile, read, rows};

/// A row without times and threads.
fn line(row: &OperatorRow) -> String {
    let OperatorRow { run, kind, name, op_type, node_index, execution_provider, device, depth, .. } = row;
    let run = run.map_or("-".to_owned(), |run| run.to_string());
    let indent = "  ".repeat(*depth as usize);
    let mut line = format!("{run} {indent}{kind} {name:?}");
    if !op_type.is_empty() {
        line += &format!(" {op_type} #{} {execution_provider} {device}", node_index.unwrap_or(99));
        line += &format!(" {:?} -> {:?}", row.input_types, row.output_types).replace("Some", "");
        line += &format!(" {:?} -> {:?}", row.input_shapes, row.output_shapes).replace("Some", "");
        line += &format!(" {:?} {:?} {:?}", row.activation_bytes, row.parameter_bytes, row.output_bytes)
            .replace("Some", "");
    }
    line
}

fn lines(name: &str) -> String {
    let (rows, ..) = rows(&profile(name), RowOptions::default());
    rows.iter().map(|row| line(row) + "\n").collect()
}

/// The oldest and the newest version completely; the others are compared with these below.
#[test]
fn rows_of_the_oldest_and_the_newest_version_are_stable() {
    insta::assert_snapshot!("rows_1_15_1", lines("1.15.1"));
    insta::assert_snapshot!("rows_1_31_1", lines("1.31.1"));
}

#[test]
fn every_version_gives_the_same_rows() {
    let newest = lines("1.31.1");
    for version in VERSIONS {
        // Fences that took time have their own rows.
        let without_waits: String = lines(version)
            .lines()
            .filter(|line| !line.contains(" wait "))
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(without_waits, newest, "{version}");
    }
}

#[test]
fn every_version_is_read_completely() {
    for version in VERSIONS {
        let is_newest = version == "1.31.1";
        let fences = if version < "1.21" { 60 } else { 0 };
        let memory_stats = if version >= "1.28" { 30 } else { 0 };
        let found = outcome(&profile(version));
        // Two runs of fifteen nodes; before 1.31 four events of each of the two difficult names, and their
        // fences, are invalid JSON.
        let expected = ProfileOutcome {
            events: 30 + fences + 2 * 5 + 2 + 2,
            operators: 30,
            runs: 2,
            fences,
            memory_stats,
            repaired_events: if is_newest { 0 } else { 4 + fences * 2 / 15 },
            process: found.process,
            first_problem: found.first_problem.clone(),
            bytes: found.bytes,
            ..ProfileOutcome::default()
        };
        assert_eq!(found, expected, "{version}");
        assert!(found.process.is_some());
        assert_eq!(found.first_problem.is_none(), is_newest, "{version}");
        let hint = match version {
            _ if version < "1.21" => VersionHint::UpTo1_20,
            _ if version < "1.28" => VersionHint::From1_21,
            _ => VersionHint::From1_28,
        };
        assert_eq!(found.version_hint(), hint, "{version}");
        assert_eq!(found.is_clean(), is_newest);
    }
}

/// Another parser finds the same in files that are valid JSON.
#[test]
fn serde_json_agrees_on_every_event() {
    for name in ["1.31.1", "1.31.1-parallel", "1.31.1-concurrent"] {
        let bytes = profile(name);
        let Value::Array(expected) = serde_json::from_slice(&bytes).expect("valid JSON") else {
            panic!("a list")
        };
        let mut found = Vec::new();
        let mut reader = ortscope_decode::ort_profile::ProfileReader::new(Default::default());
        let mut compare = |event: ortscope_decode::ort_profile::ProfileEvent<'_>| {
            let json = &expected[found.len()];
            let text = |key: &str| json["args"][key].as_str().unwrap_or("").to_owned();
            let number = |key: &str| text(key).parse::<i64>().ok();
            let nested = |key: &str, raw: &str| {
                let same =
                    if raw.is_empty() { Value::Null } else { serde_json::from_str(raw).expect("valid") };
                assert_eq!(same, json["args"][key], "{key}");
            };
            assert_eq!(event.category, json["cat"]);
            assert_eq!(Some(event.process), json["pid"].as_i64());
            assert_eq!(Some(event.thread), json["tid"].as_i64());
            assert_eq!(Some(event.start_ns), json["ts"].as_i64().map(|micros| micros * 1000));
            assert_eq!(Some(event.duration_ns), json["dur"].as_u64().map(|micros| micros * 1000));
            assert_eq!(event.op_type, text("op_name"));
            assert_eq!(event.provider, text("provider"));
            assert_eq!(event.node_index.map(|index| index as i64), number("node_index"));
            assert_eq!(event.memory.in_use_delta_bytes, number("mem_in_use_delta"));
            assert_eq!(event.memory.requested_delta_bytes, number("mem_requested_in_use_delta"));
            assert_eq!(event.memory.arena_delta_bytes, number("mem_arena_held_delta"));
            assert_eq!(event.memory.peak_bytes.map(|bytes| bytes as i64), number("mem_in_use_peak"));
            assert_eq!(event.memory.in_use_bytes.map(|bytes| bytes as i64), number("mem_bytes_in_use"));
            assert_eq!(
                event.memory.requested_bytes.map(|bytes| bytes as i64),
                number("mem_bytes_requested_in_use")
            );
            assert_eq!(event.memory.arena_bytes.map(|bytes| bytes as i64), number("mem_arena_held"));
            nested("input_type_shape", event.input_type_shape);
            nested("output_type_shape", event.output_type_shape);
            nested("thread_scheduling_stats", event.thread_stats);
            let name = json["name"].as_str().expect("a name");
            assert!(name == event.name || name.strip_suffix("_kernel_time") == Some(event.name), "{name}");
            assert_eq!(bytes[event.offset as usize], b'{');
            if event.node_index.is_some() {
                let stats = ThreadStats::parse(event.thread_stats).expect("they can be read");
                assert_eq!((stats.pool_name.ends_with("intra-op"), stats.helpers), (true, 1));
            }
            found.push(event.start_ns);
        };
        reader.feed(&bytes, &mut compare);
        reader.finish(&mut compare);
        assert_eq!(found.len(), expected.len(), "{name}");
    }
}

/// Rewritten by another program: compact, pretty, one event per line, or as an object.
#[test]
fn other_layouts_give_the_same_events() {
    let bytes = profile("1.31.1");
    let (expected, plain) = read(&bytes);
    let without_offset = |events: &[String]| -> Vec<String> {
        let cut = |event: &String| {
            // Offsets and raw texts depend on the layout.
            let start = event.split(", input_type_shape").next().unwrap_or_default().to_owned();
            let memory = event.split("memory:").nth(1).unwrap_or_default();
            start + memory.split("args:").next().unwrap_or_default()
        };
        events.iter().map(cut).collect()
    };
    let json: Value = serde_json::from_slice(&bytes).expect("valid JSON");
    let lines: Vec<String> = json.as_array().expect("a list").iter().map(Value::to_string).collect();
    let layouts = [
        json.to_string(),
        serde_json::to_string_pretty(&json).expect("it was read"),
        lines.join("\n"),
        lines.join("\r\n") + "\r\n",
        format!("\u{feff}{json}"),
        format!(
            "{{\"displayTimeUnit\": \"ns\", \"traceEvents\": {json}, \"otherData\": {{\"version\": \"[}}\"}}}}"
        ),
        String::from_utf8(bytes).expect("text").replace('\n', "\r\n"),
    ];
    for layout in layouts {
        let (events, found) = read(layout.as_bytes());
        let head: String = layout.chars().take(40).collect();
        assert_eq!(without_offset(&events), without_offset(&expected), "{head}");
        assert_eq!(found, ProfileOutcome { bytes: found.bytes, ..plain.clone() }, "{head}");
    }
}

/// Times add up: nodes of the main graph fit into its executor, those of a subgraph into their node.
#[test]
fn no_time_is_counted_twice() {
    for version in VERSIONS.into_iter().chain(["1.31.1-concurrent"]) {
        let (rows, _, summary) = rows(&profile(version), RowOptions::default());
        assert_eq!((summary.runs, summary.without_run, summary.ambiguous_run), (2, 0, 0), "{version}");
        for run in 0..2 {
            let sum = |kind: &str, depth: u64| -> u64 {
                let wanted =
                    |row: &&OperatorRow| row.run == Some(run) && &*row.kind == kind && row.depth == depth;
                rows.iter().filter(wanted).map(|row| row.duration_ns).sum()
            };
            let chain = [
                sum("run", 0),
                sum("executor", 0),
                sum("operator", 0),
                sum("executor", 1),
                sum("operator", 1),
                sum("executor", 2),
                sum("operator", 2),
            ];
            assert!(chain.is_sorted_by(|outer, inner| outer >= inner), "{version}: {chain:?}");
            assert!(chain[6] > 0, "{version}: {chain:?}");
        }
    }
}

#[test]
fn nodes_of_the_parallel_executor_find_their_run() {
    let (rows, _, summary) = rows(&profile("1.31.1-parallel"), RowOptions::default());
    assert_eq!((summary.runs, summary.without_run, summary.ambiguous_run), (2, 0, 0));
    let caller = rows.iter().find(|row| row.kind == OperatorKind::Run).expect("a run").thread;
    let elsewhere =
        rows.iter().filter(|row| row.kind == OperatorKind::Operator && row.thread != caller).count();
    assert!(elsewhere > 0, "the parallel executor used its threads");
    for run in 0..2 {
        assert_eq!(
            rows.iter().filter(|row| row.run == Some(run) && row.kind == OperatorKind::Operator).count(),
            15
        );
    }
    let deepest = rows.iter().map(|row| row.depth).max();
    assert_eq!(deepest, Some(2));
}

#[test]
fn concurrent_runs_keep_their_own_nodes() {
    let (rows, ..) = rows(&profile("1.31.1-concurrent"), RowOptions::default());
    let runs: Vec<_> = rows.iter().filter(|row| row.kind == OperatorKind::Run).collect();
    let [first, second] = &runs[..] else { panic!("two runs, not {}", runs.len()) };
    assert_ne!(first.thread, second.thread);
    assert!(second.timestamp_ns < first.timestamp_ns + first.duration_ns, "they overlap");
    for run in runs {
        let own: Vec<_> =
            rows.iter().filter(|row| row.run == run.run && row.kind == OperatorKind::Operator).collect();
        assert_eq!(own.len(), 15);
        assert!(own.iter().all(|row| row.thread == run.thread));
    }
}
