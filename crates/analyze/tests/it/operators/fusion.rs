use std::collections::BTreeSet;

use ortscope_analyze::operators::fusion::{GraphFacts, GraphNode, MissedPattern, compare_graphs, missed};
use ortscope_core::schema::Text;

/// `name: Op(inputs) -> outputs`; names that start with `w` are weights, `out` is what the graph gives.
fn graph(lines: &[&str]) -> GraphFacts {
    let names = |text: &str| -> Vec<Text> {
        text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(Text::from).collect()
    };
    let mut parameters = BTreeSet::new();
    let nodes = lines.iter().map(|line| {
        let (name, rest) = line.split_once(": ").unwrap();
        let (op, rest) = rest.split_once('(').unwrap();
        let (inputs, outputs) = rest.split_once(") -> ").unwrap();
        let (domain, op) = op.rsplit_once('.').unwrap_or(("", op));
        let inputs = names(inputs);
        parameters.extend(inputs.iter().filter(|name| name.starts_with('w')).cloned());
        GraphNode {
            name: name.into(),
            op_type: op.into(),
            domain: domain.into(),
            inputs,
            outputs: names(outputs),
        }
    });
    let nodes = nodes.collect();
    GraphFacts { nodes, parameters, outputs: BTreeSet::from(["out".into()]) }
}

const NETWORK: &[&str] = &[
    "conv: Conv(x, w0) -> a",
    "bn: BatchNormalization(a, w1) -> b",
    "relu: Relu(b) -> c",
    "same: Identity(c) -> d",
    "k: Constant() -> k",
    "k2: Mul(k, w2) -> k2",
    "scale: Mul(d, k2) -> e",
    "product: MatMul(e, w3) -> f",
    "bias: Add(f, w4) -> out",
];

#[test]
fn fused_nodes_are_found_by_their_outputs() {
    let before = graph(NETWORK);
    let after = graph(&[
        "fused: com.microsoft.FusedConv(x, w9) -> c",
        "scale: Mul(c, w8) -> e",
        "gemm: Gemm(e, w3, w4) -> out",
    ]);
    let report = compare_graphs(&before, &after);
    assert_eq!((report.before, report.after, report.kept), (9, 3, 1));
    let fused: Vec<_> = report.fused.iter().map(|fusion| (fusion.into, fusion.from.clone())).collect();
    assert_eq!(fused, [(0, vec![0, 1, 2]), (2, vec![7, 8])]);
    assert_eq!(report.removed, [3]);
    assert_eq!(report.folded, [4, 5]);
    assert_eq!(report.patterns["Conv + BatchNormalization + Relu → FusedConv"], 1);
    assert_eq!(report.patterns["MatMul + Add → Gemm"], 1);
    let same = compare_graphs(&before, &before);
    assert_eq!((same.kept, same.fused.len(), same.removed.len(), same.added.len()), (9, 0, 0, 0));
}

/// The blocked layout writes tensors of new names; its nodes are named after the old ones.
#[test]
fn layout_changes_are_followed() {
    let before = graph(&["c0: Conv(x, w0) -> a", "relu: Relu(a) -> b", "c1: Conv(b, w1) -> out"]);
    let after = graph(&[
        "in: com.microsoft.nchwc.ReorderInput(x) -> r0",
        "a_nchwc: com.microsoft.nchwc.Conv(r0, w0) -> r1",
        "out_nchwc: com.microsoft.nchwc.Conv(r1, w1) -> r2",
        "back: com.microsoft.nchwc.ReorderOutput(r2) -> out",
    ]);
    let report = compare_graphs(&before, &after);
    assert_eq!(report.added, [0, 3]);
    assert_eq!(report.patterns["Conv + Relu → com.microsoft.nchwc.Conv"], 1);
    assert_eq!(report.patterns["Conv → com.microsoft.nchwc.Conv"], 1);
    assert!(report.removed.is_empty());
}

/// For any two graphs, every node is classified exactly once.
#[test]
fn every_node_of_two_unrelated_graphs_is_classified_once() {
    let before = graph(NETWORK);
    let after = graph(&["z: Softmax(y) -> z", "q: Relu(z) -> c"]);
    let report = compare_graphs(&before, &after);
    let used: usize = report.fused.iter().chain(&report.replaced).map(|fusion| fusion.from.len()).sum();
    assert_eq!(report.kept + used + report.folded.len() + report.removed.len(), report.before);
    let used = report.kept + report.fused.len() + report.replaced.len() + report.added.len();
    assert_eq!(used, report.after);
    assert_eq!(compare_graphs(&GraphFacts::default(), &after).added.len(), 2);
    assert_eq!(compare_graphs(&before, &GraphFacts::default()).removed.len(), 7);
}

fn patterns(lines: &[&str]) -> Vec<(MissedPattern, usize)> {
    missed(&graph(lines)).into_iter().map(|found| (found.pattern, found.nodes.len())).collect()
}

#[test]
fn patterns_left_apart() {
    assert_eq!(
        patterns(&["a: Conv(x, w0) -> a", "b: BatchNormalization(a, w1) -> out"]),
        [(MissedPattern::ConvBatchNormalization, 2)]
    );
    assert_eq!(patterns(&["a: Conv(x, w0) -> a", "b: Relu(a) -> out"]), [(MissedPattern::ConvActivation, 2)]);
    assert_eq!(patterns(&["a: MatMul(x, w0) -> a", "b: Add(w1, a) -> out"]), [(MissedPattern::MatMulAdd, 2)]);
    assert_eq!(
        patterns(&["a: Transpose(x) -> a", "b: Transpose(a) -> out"]),
        [(MissedPattern::TransposePair, 2)]
    );
    assert_eq!(patterns(&["a: Cast(x) -> a", "b: Cast(a) -> out"]), [(MissedPattern::CastPair, 2)]);
    assert_eq!(
        patterns(&[
            "a: Div(x, w0) -> a",
            "b: Erf(a) -> b",
            "c: Add(b, w1) -> c",
            "d: Mul(x, c) -> d",
            "e: Mul(d, w2) -> out"
        ]),
        [(MissedPattern::GeluChain, 4)]
    );
    assert_eq!(
        patterns(&[
            "a: ReduceMean(x) -> a",
            "b: Sub(x, a) -> b",
            "c: Pow(b, w0) -> c",
            "d: ReduceMean(c) -> d",
            "e: Add(d, w1) -> e",
            "f: Sqrt(e) -> f",
            "g: Div(b, f) -> out"
        ]),
        [(MissedPattern::LayerNormalizationChain, 7)]
    );
    assert_eq!(
        patterns(&[
            "a: DequantizeLinear(x, w0) -> a",
            "b: Softmax(a) -> b",
            "c: QuantizeLinear(b, w1) -> out"
        ]),
        [(MissedPattern::QuantizedIsland, 3)]
    );
    assert_eq!(
        patterns(&[
            "a: QuantizeLinear(x, w0) -> a",
            "b: DequantizeLinear(a, w0) -> b",
            "c: Resize(b) -> out"
        ]),
        [(MissedPattern::QuantizePair, 2)]
    );
}

#[test]
fn unfusable_patterns_are_not_reported() {
    // The result is needed elsewhere.
    assert!(patterns(&["a: Conv(x, w0) -> a", "b: Relu(a) -> b", "c: Add(a, b) -> out"]).is_empty());
    // It is what the graph gives.
    assert!(patterns(&["a: Transpose(x) -> out", "b: Transpose(out) -> b"]).is_empty());
    // A sum of two values is not a bias.
    assert!(patterns(&["a: MatMul(x, w0) -> a", "b: Add(a, y) -> out"]).is_empty());
    assert!(patterns(&["a: FusedConv(x, w0) -> a", "b: Relu(a) -> out"]).is_empty());
}
