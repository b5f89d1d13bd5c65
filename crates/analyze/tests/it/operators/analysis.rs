use ortscope_analyze::operators::{FloorSource, OperatorAnalysis, OperatorEvent, OperatorOptions, runs_of};
use ortscope_core::schema::{OperatorKind, OperatorRow};

use super::{CPU, GPU, With, analyzed, event, executor, node, op, run};

fn plain(conv_us: u64, add_us: u64) -> Vec<OperatorEvent> {
    vec![op("Conv_0", 2, conv_us), op("Add_1", 5 + conv_us, add_us), executor(1, 190), run(0, 200)]
}

#[test]
fn nodes_and_types_over_runs() {
    let mut runs: Vec<_> = (1..=9).map(|i| plain(100 + i, 20)).collect();
    runs.push(vec![op("Conv_0", 2, 150), op("Conv_9", 160, 20), run(0, 200)]);
    let report = analyzed(&runs);
    assert_eq!((report.runs, report.run.median_ns, report.time.run_ns), (10, 200_000, 2_000_000));
    let conv = &report.nodes[node(&report, "Conv_0")];
    // 101 … 109 and 150: total 1095, median between 105 and 106, p90 at 109 + 0.1 · 41.
    assert_eq!((conv.exclusive.count, conv.exclusive.total_ns), (10, 1_095_000));
    assert_eq!((conv.exclusive.median_ns, conv.exclusive.p90_ns), (105_500, 113_100));
    assert_eq!((conv.exclusive.mean_ns, conv.exclusive.max_ns), (109_500, 150_000));
    assert!((conv.share - 1_095.0 / 2_000.0).abs() < 1e-12);
    let add = &report.nodes[node(&report, "Add_1")];
    assert!((add.calls_per_run - 0.9).abs() < 1e-12);
    let types: Vec<_> =
        report.op_types.iter().map(|t| (&*t.op_type, t.nodes, t.calls, t.per_run.total_ns)).collect();
    assert_eq!(types, [("Conv", 2, 11, 1_115_000), ("Add", 1, 9, 180_000)]);
    let shares: f64 = report.nodes.iter().map(|node| node.share).sum();
    let remainder = report.time.remainder_ns() as f64 / report.time.run_ns as f64;
    assert!((shares + remainder - 1.0).abs() < 1e-12);
}

#[test]
fn the_first_run_is_warm_up_if_there_are_others() {
    let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
    analysis.add_run(&plain(150, 20));
    let only = analysis.finish();
    assert_eq!((only.runs, only.warm_up_runs, only.first_run_ns), (1, 0, Some(200_000)));
    let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
    analysis.add_run(&[op("Conv_0", 1, 900), run(0, 1000)]);
    analysis.add_run(&plain(100, 20));
    let report = analysis.finish();
    assert_eq!((report.runs, report.warm_up_runs, report.first_run_ns), (1, 1, Some(1_000_000)));
    assert_eq!(report.nodes[0].exclusive.total_ns, 100_000);
    let empty = OperatorAnalysis::new(OperatorOptions::default()).finish();
    assert_eq!((empty.runs, empty.nodes.len(), empty.first_run_ns), (0, 0, None));
}

/// Nodes as short as the shortest are the profiler's, not the model's.
#[test]
fn short_nodes_are_not_ranked() {
    let events =
        [op("Shape_0", 1, 2), op("Cast_1", 4, 5), op("Add_2", 10, 7), op("Conv_3", 20, 90), run(0, 120)];
    let report = analyzed(&[events.to_vec()]);
    assert_eq!((report.floor.floor_ns, report.floor.source), (2_000, FloorSource::SmallestNodes));
    let ranked: Vec<_> = report.nodes.iter().map(|node| node.is_rankable).collect();
    assert_eq!(ranked, [false, false, true, true]);
    assert_eq!(report.floor.nodes_near_it, 2);
    // Above the floor: 0, 3, 5 and 88 of 96 µs; together they have the operators' 104 of 120.
    let conv = &report.nodes[3];
    assert!((conv.share_above_floor - 88.0 / 96.0 * 104.0 / 120.0).abs() < 1e-12);
    // A model with only long nodes cannot determine the floor.
    let long = analyzed(&[vec![op("Conv_0", 1, 500), run(0, 600)]]);
    assert_eq!((long.floor.floor_ns, long.floor.source), (1_000, FloorSource::ClockTick));
    let options = OperatorOptions { floor_ns: Some(40_000), warm_up_runs: 0, observer_factor: Some(2.0) };
    let mut analysis = OperatorAnalysis::new(options);
    analysis.add_run(&events);
    let calibrated = analysis.finish();
    assert_eq!((calibrated.floor.source, calibrated.floor.nodes_near_it), (FloorSource::Calibrated, 4));
    // Profiling made the run twice as long.
    assert_eq!(calibrated.nodes[3].scaled_ns_per_run, Some(45_000.0));
}

#[test]
fn nodes_with_equal_names_are_distinguished() {
    let events = [
        op("Add_0", 1, 10).index(3),
        op("Add_0", 20, 30).index(4),
        op("Add_0", 60, 20).index(3).at(1),
        run(0, 100),
    ];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    let totals: Vec<_> = report.nodes.iter().map(|node| node.exclusive.total_ns).collect();
    assert_eq!(totals, [20_000, 60_000, 40_000]);
    assert_eq!(report.op_types[0].nodes, 3);
}

#[test]
fn a_node_in_a_loop_has_several_calls() {
    let body = |start| op("Mul_1", start, 4).at(1).index(0);
    let events = [body(12), body(20), body(28), op("Loop_0", 10, 30).index(0), run(0, 50)];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    let body = &report.nodes[node(&report, "Mul_1")];
    assert_eq!((body.exclusive.count, body.calls_per_run, body.exclusive.total_ns), (6, 3.0, 24_000));
    let around = &report.nodes[node(&report, "Loop_0")];
    assert_eq!((around.exclusive.total_ns, around.inclusive_total_ns), (36_000, 60_000));
}

#[test]
fn lanes_by_thread_and_provider() {
    let events = [
        op("A", 10, 40).on(1),
        op("B", 10, 20).on(2).by(GPU),
        op("C", 35, 10).on(2),
        event(OperatorKind::Copy, "Memcpy", 50, 10).on(2).by(GPU),
        executor(5, 80),
        run(0, 100),
    ];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    let lanes: Vec<_> =
        report.lanes.iter().map(|l| (l.thread, &*l.provider, l.kind, l.busy_ns / 1000, l.calls)).collect();
    assert_eq!(
        lanes,
        [
            (1, CPU, OperatorKind::Operator, 80, 2),
            (2, GPU, OperatorKind::Operator, 40, 2),
            (2, CPU, OperatorKind::Operator, 20, 2),
            (2, GPU, OperatorKind::Copy, 20, 2),
        ]
    );
    assert!((report.lanes[0].utilization - 0.4).abs() < 1e-12);
    for thread in &report.threads {
        let parts = thread.operators_ns + thread.copies_ns + thread.waits_ns + thread.remainder_ns;
        assert_eq!(parts, report.time.run_ns);
    }
    // Both at once from 10 to 30 and 35 to 45; 70 µs of work in 40 µs of time.
    assert_eq!((report.parallelism.threads, report.parallelism.parallel_ns), (2, 60_000));
    assert!((report.parallelism.mean_concurrency - 70.0 / 40.0).abs() < 1e-12);
}

#[test]
fn changing_shapes_are_counted() {
    let with = |shape: &str| vec![op("Conv_0", 1, 50).shapes(shape), run(0, 60)];
    let report = analyzed(&[with("[[1,3]]"), with("[[2,3]]"), with("[[1,3]]")]);
    assert_eq!(report.nodes[0].shape_variants, 2);
    assert_eq!(report.nodes[0].input_shapes.as_deref(), Some("[[1,3]]"));
    let many: Vec<_> = (0..100).map(|i| with(&format!("[[{i}]]"))).collect();
    assert_eq!(analyzed(&many).nodes[0].shape_variants, 16);
}

#[test]
fn flops_and_bytes_per_call() {
    let events = [op("Conv_0", 1, 50).work(1000, 200), op("Conv_1", 60, 50).work(500, 100), run(0, 200)];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    assert_eq!((report.nodes[0].flops, report.nodes[0].bytes_moved), (Some(1000), Some(200)));
    assert_eq!(report.op_types[0].flops_per_run, Some(1500));
    let unknown = analyzed(&[vec![op("Conv_0", 1, 50).work(1000, 200), op("Conv_1", 60, 50), run(0, 200)]]);
    assert_eq!(unknown.op_types[0].flops_per_run, None);
}

#[test]
fn rows_of_the_schema_become_runs() {
    let row = |run: Option<u64>, kind: &str, start: u64, length: u64| OperatorRow {
        timestamp_ns: start,
        duration_ns: length,
        run,
        kind: kind.into(),
        name: "Conv_0".into(),
        op_type: "Conv".into(),
        execution_provider: CPU.into(),
        output_bytes: Some(10),
        activation_bytes: Some(20),
        parameter_bytes: Some(30),
        ..OperatorRow::default()
    };
    let rows = [
        row(None, "session", 0, 900),
        row(Some(0), "operator", 1000, 500),
        row(Some(0), "run", 900, 700),
        row(Some(1), "operator", 2000, 400),
        row(Some(1), "run", 1900, 600),
    ];
    let runs = runs_of(&rows);
    assert_eq!(runs.keys().copied().collect::<Vec<_>>(), [0, 1]);
    let report = analyzed(&runs.into_values().collect::<Vec<_>>());
    assert_eq!((report.nodes[0].exclusive.total_ns, report.nodes[0].bytes_moved), (900, Some(60)));
    assert_eq!(report.time.outside_executor_ns, 400);
}

/// A model of 10,000 nodes: memory is for nodes, not for runs. The full 1,000 runs take too long for every change.
#[test]
fn large_models_stay_exact() {
    large(10_000, 20);
}

#[test]
#[ignore = "ten million events: half a minute; cargo test -- --ignored"]
fn ten_million_events() {
    let started = std::time::Instant::now();
    large(10_000, 1_000);
    println!("10,000 nodes × 1,000 runs: {:.1} s", started.elapsed().as_secs_f64());
}

fn large(nodes: u64, runs: u64) {
    let mut events: Vec<OperatorEvent> =
        (0..nodes).map(|i| op(&format!("Op_{i}"), 10 + i * 4, 3).index(i).shapes("[[1,64]]")).collect();
    events.push(executor(5, nodes * 4 + 8));
    events.push(run(0, nodes * 4 + 20));
    let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
    for i in 0..=runs {
        for (index, event) in events.iter_mut().enumerate().take(usize::try_from(nodes).unwrap()) {
            event.duration_ns = 1000 + (i * 7 + index as u64 * 13) % 1900;
        }
        analysis.add_run(&events);
    }
    let report = analysis.finish();
    assert_eq!((report.runs, report.nodes.len() as u64), (runs, nodes));
    let summed: u64 = report.nodes.iter().map(|node| node.exclusive.total_ns).sum();
    assert_eq!(summed + report.time.remainder_ns(), report.time.run_ns);
    assert!(report.nodes.iter().all(|node| node.exclusive.count == runs));
}
