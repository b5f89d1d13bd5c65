//! Results derived from a report: the critical path, provider transitions, the roofline.

use ortscope_analyze::operators::{Bound, PathMethod, Peaks, critical_path, roofline, transitions};
use ortscope_core::schema::OperatorKind;

use super::{CPU, GPU, With, analyzed, event, node, op, run};

#[test]
fn the_critical_path_is_the_longest_chain() {
    // 0 → 1 → 3, 0 → 2 → 3: the branch over 2 is longer.
    let events = [
        op("A", 0, 10).index(0),
        op("B", 10, 20).index(1),
        op("C", 30, 50).index(2),
        op("D", 80, 5).index(3),
        run(0, 100),
    ];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 99)];
    let path = critical_path(&report, Some(&edges));
    assert_eq!(path.method, PathMethod::Dependencies);
    assert_eq!(path.nodes, [0, 2, 3]);
    assert_eq!((path.length_ns, path.work_ns), (65_000.0, 85_000.0));
    assert!((path.possible_parallelism - 85.0 / 65.0).abs() < 1e-12);
    let sequential = critical_path(&report, None);
    assert!(matches!(sequential.method, PathMethod::SequentialOrder { .. }));
    assert_eq!((sequential.nodes.len(), sequential.length_ns), (4, 85_000.0));
    let cycle = critical_path(&report, Some(&[(0, 1), (1, 0)]));
    assert!(matches!(&cycle.method, PathMethod::SequentialOrder { why } if why.contains("cycle")));
    let nameless = analyzed(&[vec![op("A", 0, 10), op("B", 10, 20), run(0, 100)]]);
    assert!(matches!(critical_path(&nameless, Some(&edges)).method, PathMethod::SequentialOrder { .. }));
    assert!(critical_path(&analyzed(&[]), Some(&edges)).nodes.is_empty());
}

#[test]
fn a_long_chain_does_not_exhaust_the_stack() {
    let events: Vec<_> = (0..50_000).map(|i| op("Op", i, 1).index(i)).chain([run(0, 50_000)]).collect();
    let edges: Vec<_> = (1..50_000).map(|i| (i - 1, i)).collect();
    let path = critical_path(&analyzed(&[events]), Some(&edges));
    assert_eq!((path.nodes.len(), path.method), (50_000, PathMethod::Dependencies));
}

#[test]
fn provider_transitions_with_transferred_bytes() {
    let events = [
        op("A", 0, 10).index(0).by(GPU).writes(1000),
        event(OperatorKind::Copy, "Memcpy_1", 10, 5).index(1).by(GPU).writes(1000),
        op("B", 20, 10).index(2).writes(200),
        op("C", 30, 10).index(3).writes(50),
        op("D", 40, 10).index(4).by(GPU),
        run(0, 100),
    ];
    let report = analyzed(&[events.to_vec(), events.to_vec()]);
    let in_order = transitions(&report, None);
    let seen: Vec<_> = in_order.transitions.iter().map(|t| (t.from_node, t.to_node, t.bytes)).collect();
    assert_eq!(seen, [(0, 2, Some(1000)), (3, 4, Some(50))]);
    assert_eq!(in_order.pairs.len(), 2);
    assert_eq!((&*in_order.pairs[1].from, &*in_order.pairs[1].to, in_order.pairs[1].bytes), (GPU, CPU, 1000));
    assert_eq!((in_order.copies.nodes, in_order.copies.calls_per_run), (1, 1.0));
    assert!((in_order.copies.share - 0.05).abs() < 1e-12);
    // By the edges: A goes to B and C through one copy, which is one transfer; B and C go to D.
    let edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)];
    let by_edges = transitions(&report, Some(&edges));
    let seen: Vec<_> = by_edges.transitions.iter().map(|t| (t.from_node, t.to_node, t.bytes)).collect();
    assert_eq!(seen, [(0, 2, Some(1000)), (2, 4, Some(200)), (3, 4, Some(50))]);
    assert_eq!(by_edges.pairs[0].bytes, 250);
    assert!(by_edges.by_dependencies);
}

#[test]
fn operators_under_their_roof() {
    // 100 GFLOP/s, 10 GB/s: the ridge is at 10 FLOP per byte.
    let peaks = Peaks { flops_per_second: 100e9, bytes_per_second: 10e9 };
    let events = [
        // 5 MFLOP take 50 µs at best, took 100.
        op("Conv", 0, 100).work(5_000_000, 100_000),
        // 1 MB takes 100 µs at best, took 125; 2 FLOP per byte.
        op("Add", 100, 125).work(2_000_000, 1_000_000),
        // A nanosecond of work in 20 µs.
        op("Tiny", 300, 20).work(100, 10),
        // Moving only.
        op("Transpose", 400, 200).work(0, 1_000_000),
        op("Nobody", 700, 100),
        op("Short", 900, 2).work(1_000_000, 10),
        run(0, 1000),
    ];
    let report = analyzed(&[events.to_vec()]);
    let line = roofline(&report, &peaks).unwrap();
    let at = |name| line.points.iter().find(|point| point.node == node(&report, name)).unwrap();
    assert_eq!(at("Conv").bound, Bound::Compute);
    assert!((at("Conv").roof_fraction - 0.5).abs() < 1e-9);
    assert!((at("Conv").flops_per_second - 50e9).abs() < 1.0);
    assert!((at("Conv").roof_flops_per_second - 100e9).abs() < 1.0);
    assert_eq!(at("Add").bound, Bound::Memory);
    assert!((at("Add").roof_fraction - 0.8).abs() < 1e-9);
    assert!((at("Add").roof_flops_per_second - 20e9).abs() < 1.0);
    assert_eq!(at("Tiny").bound, Bound::Overhead);
    assert_eq!(at("Transpose").bound, Bound::Memory);
    assert!((at("Transpose").roof_fraction - 0.5).abs() < 1e-9);
    assert_eq!(at("Short").bound, Bound::Overhead);
    assert_eq!(line.without_numbers, 1);
    assert!((line.share_without_numbers - 0.1).abs() < 1e-12);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(roofline(&report, &Peaks { flops_per_second: bad, ..peaks }).is_none());
    }
    assert!(serde_json::to_string(&line).is_ok());
}
