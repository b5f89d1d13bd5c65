//! Runs, threads, devices and clocks, with generated events.

use std::collections::BTreeSet;
use std::sync::Arc;

use ortscope_core::schema::OperatorRow;
use ortscope_decode::ort_profile::{ProfileStart, RowOptions};

use crate::support::{Writer, rows};

fn read(writer: &Writer) -> (Vec<OperatorRow>, ortscope_decode::ort_profile::RowSummary) {
    let (rows, outcome, summary) = rows(&writer.file(), RowOptions::default());
    assert_eq!(outcome.first_problem, None);
    (rows, summary)
}

fn find<'a>(rows: &'a [OperatorRow], name: &str) -> &'a OperatorRow {
    rows.iter().find(|row| &*row.name == name).unwrap_or_else(|| panic!("no row {name}"))
}

#[test]
fn rows_are_ordered_by_start_within_a_run() {
    let writer = Writer::default()
        .node(1, (12, 13), "inner", "Add")
        .executor(1, (11, 14))
        .node(1, (10, 15), "outer", "If")
        .node(1, (16, 17), "last", "Add")
        .executor(1, (9, 18))
        .run(1, (8, 19));
    let (rows, _) = read(&writer);
    let order: Vec<_> = rows.iter().map(|row| (&*row.kind, &*row.name, row.depth)).collect();
    let executor = "SequentialExecutor::Execute";
    let expected = [
        ("run", "model_run", 0),
        ("executor", executor, 0),
        ("operator", "outer", 0),
        ("executor", executor, 1),
        ("operator", "inner", 1),
        ("operator", "last", 0),
    ];
    assert_eq!(order, expected);
}

/// Nodes that start in the same microsecond do not contain each other.
#[test]
fn short_nodes_are_neighbours() {
    let writer = Writer::default()
        .node(1, (5, 5), "a", "Add")
        .node(1, (5, 5), "b", "Add")
        .node(1, (5, 6), "c", "Add")
        .node(1, (6, 6), "child", "Add")
        .executor(1, (6, 6))
        .node(1, (6, 6), "parent", "If")
        .executor(1, (5, 6))
        .run(1, (5, 6))
        .node(1, (6, 6), "next", "Add")
        .executor(1, (6, 7))
        .run(1, (6, 7));
    let (rows, summary) = read(&writer);
    let depths: Vec<_> =
        ["a", "b", "c", "parent", "child", "next"].map(|name| find(&rows, name).depth).into();
    assert_eq!(depths, [0, 0, 0, 0, 1, 0]);
    assert_eq!((find(&rows, "parent").run, find(&rows, "next").run), (Some(0), Some(1)));
    assert_eq!(summary.without_run, 0);
}

#[test]
fn helper_threads_belong_to_the_only_run() {
    let writer = Writer::default()
        .node(2, (11, 12), "a", "Add")
        .run(1, (10, 20))
        .node(2, (31, 32), "b", "Add")
        .node(2, (33, 41), "c", "Add")
        .run(1, (30, 40))
        .node(2, (45, 46), "between", "Add")
        .run(1, (50, 60));
    let (rows, summary) = read(&writer);
    assert_eq!(
        ["a", "b", "c", "between"].map(|name| find(&rows, name).run),
        [Some(0), Some(1), Some(1), None]
    );
    assert_eq!((summary.without_run, summary.ambiguous_run), (1, 0));
}

#[test]
fn helper_threads_of_several_runs_are_ambiguous() {
    let writer = Writer::default()
        .node(9, (11, 12), "one run", "Add")
        .node(9, (16, 17), "two runs", "Add")
        .node(1, (16, 18), "own", "Add")
        .run(1, (10, 20))
        .run(2, (15, 30));
    let (rows, summary) = read(&writer);
    assert_eq!(find(&rows, "one run").run, Some(0));
    assert_eq!(find(&rows, "two runs").run, None);
    assert_eq!(find(&rows, "own").run, Some(0), "its own thread is certain");
    assert_eq!((summary.without_run, summary.ambiguous_run), (0, 1));
}

/// A run that was truncated by the end of the file or by the cap.
#[test]
fn the_last_run_may_be_missing() {
    let writer = Writer::default()
        .node(1, (1, 2), "a", "Add")
        .run(1, (0, 5))
        .node(2, (1, 3), "of the cut run", "Add")
        .run(2, (0, 4))
        .node(2, (6, 7), "cut", "Add")
        .node(1, (6, 7), "cut too", "Add")
        .run(1, (5, 8));
    let (rows, summary) = read(&writer);
    assert_eq!(find(&rows, "cut").run, None, "a thread that calls Run is not a helper of another");
    assert_eq!(find(&rows, "cut too").run, Some(2));
    assert_eq!(summary.without_run, 1);
}

#[test]
fn work_before_runs_belongs_to_none() {
    let writer = Writer::default()
        .event("Session", 1, (0, 5), "model_loading_array", &[])
        .event("Session", 1, (5, 9), "session_initialization", &[])
        .node(1, (9, 10), "early", "Add")
        .node(1, (21, 22), "a", "Add")
        .run(1, (20, 30));
    let (rows, summary) = read(&writer);
    let kinds: Vec<_> = rows.iter().map(|row| (&*row.kind, row.run)).collect();
    let expected =
        [("session", None), ("session", None), ("operator", None), ("run", Some(0)), ("operator", Some(0))];
    assert_eq!(kinds, expected);
    assert_eq!((summary.without_run, summary.rows), (1, 5));
}

#[test]
fn an_appended_profile_is_independent() {
    let part = Writer::default()
        .event("Session", 1, (0, 5), "session_initialization", &[])
        .node(1, (11, 12), "a", "Add")
        .node(2, (13, 14), "helper", "Add")
        .executor(1, (10, 19))
        .run(1, (10, 20));
    let twice = Writer { events: [&part.events[..], &part.events[..]].concat() };
    let (rows, summary) = read(&twice);
    for name in ["a", "helper"] {
        let runs: Vec<_> = rows.iter().filter(|row| &*row.name == name).map(|row| row.run).collect();
        assert_eq!(runs, [Some(0), Some(1)], "{name}");
    }
    assert_eq!((summary.runs, summary.without_run), (2, 0));
}

#[test]
fn fences_are_waits() {
    let fences = Writer::default()
        .event("Node", 1, (0, 0), "a_fence_before", &[("op_name", "Add")])
        .node(1, (0, 4), "a", "Add")
        .event("Node", 1, (4, 9), "a_fence_after", &[("op_name", "Add")])
        .run(1, (0, 9));
    let (found, summary) = read(&fences);
    let kinds: Vec<_> = found.iter().map(|row| (&*row.kind, &*row.name, &*row.op_type)).collect();
    assert_eq!(kinds, [("run", "model_run", ""), ("operator", "a", "Add"), ("wait", "a", "Add")]);
    assert_eq!(summary.empty_fences, 1);
    let keep = RowOptions { keep_empty_fences: true, ..RowOptions::default() };
    let (all, _, summary) = rows(&fences.file(), keep);
    assert_eq!((all.len(), summary.empty_fences), (4, 0));
}

#[test]
fn copies_between_devices_are_copies() {
    let args = |op_type| [("op_name", op_type), ("provider", "WebGpuExecutionProvider"), ("node_index", "1")];
    let writer = Writer::default()
        .event("Node", 1, (1, 2), "Memcpy_token_1_kernel_time", &args("MemcpyFromHost"))
        .event("Node", 1, (3, 4), "Memcpy_token_2_kernel_time", &args("MemcpyToHost"))
        .run(1, (0, 9));
    let (rows, _) = read(&writer);
    assert_eq!((&*rows[1].kind, &*rows[1].device), ("copy", "GPU"));
    assert_eq!((&*rows[2].kind, &*rows[2].name), ("copy", "Memcpy_token_2"));
}

/// CUDA: kernels follow their node, name it, and may end after it.
#[test]
fn kernels_belong_to_their_node() {
    let node = [("op_name", "Conv"), ("provider", "CUDAExecutionProvider"), ("node_index", "1")];
    let grid = [
        ("stream", "7"),
        ("grid_x", "1"),
        ("block_x", "32"),
        ("op_name", "Conv"),
        ("parent_name", "c_kernel_time"),
    ];
    let writer = Writer::default()
        .event("Node", 1, (1, 3), "c_kernel_time", &node)
        .event("Kernel", -1, (2, 8), "void implicit_convolve<float>()", &grid)
        .event("Kernel", -1, (8, 9), "MemcpyDeviceToHost", &grid)
        .executor(1, (1, 10))
        .run(1, (0, 11));
    let (rows, summary) = read(&writer);
    let kernel = find(&rows, "void implicit_convolve<float>()");
    assert_eq!((&*kernel.kind, kernel.run, kernel.thread), ("other", Some(0), 0));
    assert_eq!((&*kernel.execution_provider, &*kernel.device), ("CUDAExecutionProvider", "GPU"));
    assert_eq!((&*kernel.op_type, kernel.depth), ("Conv", 0));
    assert_eq!(&*find(&rows, "MemcpyDeviceToHost").kind, "copy");
    assert_eq!(summary.device_rows_without_run, 0);
}

/// Plug-in providers append their events to the file; WebGPU's have another clock.
#[test]
fn device_work_at_the_end_is_placed_by_time() {
    let ov =
        [("ep", "OpenVINOExecutionProvider"), ("ov_node_type", "Convolution"), ("ov_status", "EXECUTED")];
    let shader = [("shapes", "inputs[0] = {1} "), ("cache_key", "MatMul|1")];
    let writer = Writer::default()
        .node(1, (1, 8), "fused", "OpenVINO-EP-subgraph_1")
        .run(1, (0, 9))
        .node(1, (11, 18), "fused", "OpenVINO-EP-subgraph_1")
        .run(1, (10, 19))
        .event("Kernel", -1, (2, 4), "OV::conv1", &ov)
        .event("Kernel", -1, (12, 14), "OV::conv2", &ov)
        .event("Kernel", -1, (40, 41), "OV::late", &ov)
        .event("Api", -1, (0, 3), "node&MatMul&MatMulNaive", &shader);
    let devices = vec![("OpenVINOExecutionProvider".to_owned(), "NPU".to_owned())];
    let (rows, outcome, summary) = rows(&writer.file(), RowOptions { devices, ..RowOptions::default() });
    assert_eq!(
        ["OV::conv1", "OV::conv2", "OV::late"].map(|name| find(&rows, name).run),
        [Some(0), Some(1), None]
    );
    let conv = find(&rows, "OV::conv1");
    assert_eq!(
        (&*conv.op_type, &*conv.execution_provider, &*conv.device),
        ("Convolution", "OpenVINOExecutionProvider", "NPU")
    );
    assert_eq!(find(&rows, "node&MatMul&MatMulNaive").run, None);
    assert_eq!((summary.device_rows_without_run, outcome.device_events, outcome.unknown_keys), (2, 4, 0));
}

/// OpenVINO's CPU counters are means of all executions so far: `conv` took 900, 10 and 20 µs, and the reported times are
/// 900, 455 and 310. Events like those of plug-in 1.8.1, including starts.
#[test]
fn running_means_of_primitives_are_corrected() {
    let of = |run: &'static str| {
        [
            ("ep", "OpenVINOExecutionProvider"),
            ("ov_node_type", "Convolution"),
            ("ort_correlation_id", run),
            ("parent_ort_event_name", "part_kernel_time"),
        ]
    };
    let writer = Writer::default()
        .node(1, (0, 1000), "part", "OpenVINO-EP-subgraph_1")
        .run(1, (0, 1001))
        .node(1, (2000, 2050), "part", "OpenVINO-EP-subgraph_1")
        .run(1, (2000, 2051))
        .node(1, (3000, 3050), "part", "OpenVINO-EP-subgraph_1")
        .run(1, (3000, 3051))
        .event("Kernel", 48, (0, 900), "OV::conv", &of("71"))
        .event("Kernel", 48, (901, 921), "OV::add", &of("71"))
        .event("Kernel", 48, (2000, 2455), "OV::conv", &of("72"))
        .event("Kernel", 49, (2011, 2026), "OV::add", &of("72"))
        .event("Kernel", 48, (3000, 3310), "OV::conv", &of("73"))
        .event("Kernel", 50, (3021, 3034), "OV::add", &of("73"));
    let (rows, _, summary) = rows(&writer.file(), RowOptions::default());
    let of = |name: &str| -> Vec<(Option<u64>, u64)> {
        let named = rows.iter().filter(|row| &*row.name == name);
        named.map(|row| (row.run, row.duration_ns / 1000)).collect()
    };
    assert_eq!(of("OV::conv"), [(Some(0), 900), (Some(1), 10), (Some(2), 20)]);
    // 20, 10 and 9: the last is 3 × 13 − 2 × 15.
    assert_eq!(of("OV::add"), [(Some(0), 20), (Some(1), 10), (Some(2), 9)]);
    assert_eq!((summary.corrected_means, summary.device_rows_without_run), (4, 0));
    let mut lanes = rows.iter().filter(|row| row.name.starts_with("OV::")).map(|row| row.thread);
    assert!(lanes.all(|lane| lane == 0), "one lane, also in the first run");
}

/// A device that does two things at once has two lanes.
#[test]
fn overlapping_primitives_keep_their_lanes() {
    let of = [("ov_node_type", "Convolution"), ("ort_correlation_id", "1")];
    let writer = Writer::default()
        .node(1, (0, 100), "part", "Part")
        .run(1, (0, 101))
        .event("Kernel", 48, (0, 50), "OV::a", &of)
        .event("Kernel", 49, (20, 60), "OV::b", &of);
    let (rows, _, _) = rows(&writer.file(), RowOptions::default());
    let lanes: BTreeSet<u64> =
        rows.iter().filter(|row| row.name.starts_with("OV::")).map(|row| row.thread).collect();
    assert_eq!(lanes.len(), 2);
}

/// Times of the execution itself are not changed.
#[test]
fn actual_times_of_primitives_are_unchanged() {
    let of = |run: &'static str| [("ov_node_type", "Convolution"), ("ort_correlation_id", run)];
    let mut writer = Writer::default();
    for start in [0, 1000, 2000] {
        writer = writer.node(1, (start, start + 100), "part", "Part").run(1, (start, start + 101));
    }
    for (start, took, run) in [(0, 50, "1"), (1000, 30, "2"), (2000, 40, "3")] {
        writer = writer.event("Kernel", -1, (start, start + took), "a", &of(run)).event(
            "Kernel",
            -1,
            (start + took + 1, start + took + 6),
            "b",
            &of(run),
        );
    }
    let (rows, _, summary) = rows(&writer.file(), RowOptions::default());
    let times: Vec<u64> =
        rows.iter().filter(|row| &*row.name == "a").map(|row| row.duration_ns / 1000).collect();
    assert_eq!((times, summary.corrected_means), (vec![50, 30, 40], 0));
}

#[test]
fn rows_move_to_the_monotonic_clock() {
    let writer = Writer::default().event("Kernel", -1, (-5, -3), "early", &[]).run(1, (2, 4));
    let (relative, _, summary) = rows(&writer.file(), RowOptions::default());
    assert_eq!((find(&relative, "model_run").timestamp_ns, summary.clamped_times), (2_000, 1));
    assert_eq!(find(&relative, "early").timestamp_ns, 0);
    let start = ProfileStart::from_monotonic_ns(1_000_000);
    let options = RowOptions { start, session_id: "s1".into(), ..RowOptions::default() };
    let (moved, _, summary) = rows(&writer.file(), options);
    assert_eq!((find(&moved, "model_run").timestamp_ns, summary.clamped_times), (1_002_000, 0));
    assert_eq!(find(&moved, "early").timestamp_ns, 995_000);
    assert!(moved.iter().all(|row| &*row.session_id == "s1"));
}

#[test]
fn texts_are_shared_and_long_ones_truncated() {
    let long = "ä".repeat(5_000);
    let writer = Writer::default()
        .node(1, (1, 2), "same", "Add")
        .node(1, (2, 3), "same", "Add")
        .node(1, (3, 4), &long, "Add")
        .run(1, (0, 9));
    let (rows, summary) = read(&writer);
    assert!(Arc::ptr_eq(&rows[1].name, &rows[2].name));
    assert_eq!((rows[3].name.len(), rows[3].name.chars().last()), (4096 + '…'.len_utf8(), Some('…')));
    assert_eq!(summary.cut_texts, 1);
}

#[test]
fn unreadable_shapes_are_counted() {
    let args =
        [("op_name", "Add"), ("input_type_shape", "[{\"float\":[1,2]}]"), ("output_type_shape", "[1,2]")];
    let writer = Writer::default().event("Node", 1, (1, 2), "a_kernel_time", &args).run(1, (0, 3));
    let (rows, summary) = read(&writer);
    assert_eq!(
        (rows[1].input_shapes.as_deref(), rows[1].input_types.as_deref()),
        (Some("[[1,2]]"), Some("[\"float\"]"))
    );
    assert_eq!((rows[1].output_shapes.clone(), summary.unreadable_shapes), (None, 1));
}

/// A run with more nodes than the limit: they are emitted without their run and counted.
#[test]
fn pending_rows_are_bounded() {
    let mut writer = Writer::default();
    for at in 0..1000 {
        writer = writer.node(1, (at, at + 1), "a", "Add");
    }
    writer = writer.run(1, (0, 1000)).node(1, (1001, 1002), "b", "Add").run(1, (1000, 1003));
    let options = RowOptions { max_pending_rows: 100, ..RowOptions::default() };
    let (rows, _, summary) = rows(&writer.file(), options);
    assert_eq!((rows.len(), summary.runs), (1003, 2));
    let with_run = rows.iter().filter(|row| row.run == Some(0)).count() as u64;
    assert!((50..=101).contains(&with_run), "{with_run}");
    assert_eq!(summary.without_run + with_run, 1001);
    assert_eq!(find(&rows, "b").run, Some(1));
}
