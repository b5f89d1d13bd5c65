use ortscope_analyze::operators::fusion::{MissedFusion, MissedPattern};
use ortscope_analyze::operators::{
    FindingContext, OperatorAnalysis, OperatorEvent, OperatorFinding, OperatorOptions, OperatorReport, Peaks,
    ThreadFacts, findings, roofline, transitions,
};
use ortscope_core::schema::{OperatorKind, Severity};

use super::{CPU, GPU, With, analyzed, event, executor, op, run};

fn of<'a>(found: &'a [OperatorFinding], id: &str) -> Option<&'a OperatorFinding> {
    found.iter().find(|finding| finding.id == id)
}

fn only(report: &OperatorReport, context: &FindingContext<'_>, id: &str) -> OperatorFinding {
    let found = findings(report, context);
    let finding = of(&found, id).unwrap_or_else(|| panic!("no {id} among {found:?}")).clone();
    assert!(finding.evidence.bytes().any(|byte| byte.is_ascii_digit()), "no number: {}", finding.evidence);
    assert!(!finding.advice.is_empty());
    finding
}

/// A run of 1 ms whose operators fill it.
fn full(operators: Vec<OperatorEvent>) -> OperatorReport {
    let mut events = operators;
    events.extend([executor(0, 1000), run(0, 1000)]);
    analyzed(&[events])
}

#[test]
fn a_good_run_has_no_findings() {
    let report = full(vec![op("Conv_0", 1, 700), op("Relu_1", 702, 290)]);
    let providers = [CPU.into()];
    let context = FindingContext {
        requested_providers: &providers,
        threads: Some(ThreadFacts { intra_op: 2, inter_op: 1, concurrent_runs: 1, processors: 2 }),
        ..FindingContext::default()
    };
    assert_eq!(findings(&report, &context), []);
    assert_eq!(findings(&analyzed(&[]), &context), []);
}

#[test]
fn fallback_to_the_cpu() {
    let providers = [GPU.into(), CPU.into()];
    let context = FindingContext { requested_providers: &providers, ..FindingContext::default() };
    let all = full(vec![op("Conv_0", 1, 990)]);
    assert_eq!(only(&all, &context, "cpu-fallback").severity, Severity::Error);
    let some = full(vec![op("Conv_0", 1, 800).by(GPU), op("Resize_1", 810, 100), op("Erf_2", 920, 50)]);
    let finding = only(&some, &context, "cpu-fallback");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(finding.evidence.contains("1 of 3 nodes run on CUDAExecutionProvider"), "{}", finding.evidence);
    assert!(
        finding.evidence.contains("15.0 %") && finding.evidence.contains("Resize, Erf"),
        "{}",
        finding.evidence
    );
    assert_eq!(finding.nodes, [1, 2]);
    // Shapes on the CPU are meant to be there.
    let mut nodes: Vec<_> = (0..20).map(|i| op(&format!("Conv_{i}"), 1 + i * 48, 47).by(GPU)).collect();
    nodes.push(op("Shape_20", 980, 3));
    assert!(of(&findings(&full(nodes), &context), "cpu-fallback").is_none());
    assert!(of(&findings(&all, &FindingContext::default()), "cpu-fallback").is_none());
}

#[test]
fn copies_between_providers() {
    let report = full(vec![
        op("Conv_0", 1, 500).by(GPU).writes(4_000_000),
        event(OperatorKind::Copy, "Memcpy_1", 510, 150).by(GPU).writes(4_000_000),
        op("Resize_2", 700, 290).writes(10),
    ]);
    let moves = transitions(&report, None);
    let context = FindingContext { transitions: Some(&moves), ..FindingContext::default() };
    let finding = only(&report, &context, "provider-copies");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.evidence.contains("15.0 %") && finding.evidence.contains("4.0 MB"),
        "{}",
        finding.evidence
    );
}

#[test]
fn competing_threads() {
    let report = full(vec![op("Conv_0", 1, 990)]);
    let threads = Some(ThreadFacts { intra_op: 8, inter_op: 1, concurrent_runs: 2, processors: 8 });
    let context = FindingContext { threads, ..FindingContext::default() };
    let finding = only(&report, &context, "oversubscribed-threads");
    assert!(finding.evidence.contains("16 threads") && finding.evidence.contains("8 processors"));
}

#[test]
fn unattributed_time() {
    let waiting = analyzed(&[vec![op("Conv_0", 100, 1000), executor(90, 1100), run(0, 10_000)]]);
    let finding = only(&waiting, &FindingContext::default(), "unattributed-time");
    assert_eq!(finding.severity, Severity::Warning);
    // 9 ms without 5 µs for the profiler.
    assert!(finding.evidence.contains("8.995 ms of 10.000 ms"), "{}", finding.evidence);
    // The profiler's own share is not the model's: 100 short nodes, 6 µs between each.
    let mut short: Vec<_> = (0..100).map(|i| op(&format!("Sin_{i}"), i * 8, 2)).collect();
    short.push(run(0, 800));
    assert!(
        of(&findings(&analyzed(&[short.clone()]), &FindingContext::default()), "unattributed-time").is_none()
    );
    let mut analysis =
        OperatorAnalysis::new(OperatorOptions { observer_factor: Some(1.0), ..Default::default() });
    analysis.add_run(&short);
    assert!(of(&findings(&analysis.finish(), &FindingContext::default()), "unattributed-time").is_some());
}

#[test]
fn a_slow_first_run() {
    let timed = |ms: u64| vec![op("Conv_0", 1, ms * 1000 - 2), run(0, ms * 1000)];
    let report = |first: u64| {
        let mut analysis = OperatorAnalysis::new(OperatorOptions::default());
        analysis.add_run(&timed(first));
        (0..5).for_each(|_| analysis.add_run(&timed(10)));
        analysis.finish()
    };
    let finding = only(&report(80), &FindingContext::default(), "slow-first-run");
    assert!(finding.evidence.contains("8.0 times"), "{}", finding.evidence);
    assert!(of(&findings(&report(20), &FindingContext::default()), "slow-first-run").is_none());
}

#[test]
fn changing_shapes() {
    let with = |shape: &str| {
        vec![op("Conv_0", 1, 900).shapes(shape), op("Add_1", 902, 90).shapes("[[1]]"), run(0, 1000)]
    };
    let report = analyzed(&[with("[[1]]"), with("[[2]]"), with("[[3]]")]);
    let finding = only(&report, &FindingContext::default(), "dynamic-shapes");
    assert!(finding.evidence.contains("1 of 2 nodes") && finding.evidence.contains("3 different"));
    assert_eq!(finding.nodes, [0]);
}

fn missing(pattern: MissedPattern, nodes: &[&str]) -> MissedFusion {
    let op_types = nodes.iter().map(|name| name.split('_').next().unwrap().into()).collect();
    MissedFusion { pattern, nodes: nodes.iter().map(|name| (*name).into()).collect(), op_types }
}

#[test]
fn missed_fusions() {
    let report = full(vec![op("Conv_0", 1, 500), op("BatchNormalization_1", 502, 300), op("Cast_2", 810, 2)]);
    let missed = [
        missing(MissedPattern::ConvBatchNormalization, &["Conv_0", "BatchNormalization_1"]),
        missing(MissedPattern::CastPair, &["Cast_2", "Cast_3"]),
    ];
    let context = FindingContext { missed: &missed, ..FindingContext::default() };
    let found = findings(&report, &context);
    let unfused: Vec<_> = found.iter().filter(|finding| finding.id == "unfused-patterns").collect();
    // The casts take too little time to be worth a word.
    assert_eq!(unfused.len(), 1);
    assert!(
        unfused[0].evidence.contains("Conv + BatchNormalization") && unfused[0].evidence.contains("80.0 %")
    );
    assert_eq!(unfused[0].nodes, [0, 1]);
}

#[test]
fn quantizing_for_nothing() {
    let report = full(vec![
        op("DequantizeLinear_0", 1, 200),
        op("Softmax_1", 202, 500),
        op("QuantizeLinear_2", 710, 200),
    ]);
    let missed =
        [missing(MissedPattern::QuantizedIsland, &["DequantizeLinear_0", "Softmax_1", "QuantizeLinear_2"])];
    let context = FindingContext { missed: &missed, ..FindingContext::default() };
    let finding = only(&report, &context, "quantize-islands");
    assert_eq!(finding.severity, Severity::Warning);
    assert!(
        finding.evidence.contains("40.0 %") && finding.evidence.contains("Softmax"),
        "{}",
        finding.evidence
    );
}

#[test]
fn bound_by_memory_and_by_small_batches() {
    let report = full(vec![
        op("MatMul_0", 1, 600).shapes("[[1,1,4096],[4096,4096]]").work(33_554_432, 67_141_632),
        op("Softmax_1", 610, 300).shapes("[[1,4096]]").work(20_480, 32_768),
    ]);
    let peaks = Peaks { flops_per_second: 1e12, bytes_per_second: 1e11 };
    let line = roofline(&report, &peaks).unwrap();
    let context = FindingContext { roofline: Some(&line), ..FindingContext::default() };
    let bound = only(&report, &context, "memory-bound");
    assert!(bound.evidence.contains("10.0"), "{}", bound.evidence);
    let batch = only(&report, &context, "batch-too-small");
    assert!(
        batch.evidence.contains("60.0 %") && batch.evidence.contains("0.5 FLOP per byte"),
        "{}",
        batch.evidence
    );
    assert_eq!(batch.nodes, [0]);
    let large = full(vec![op("MatMul_0", 1, 600).shapes("[[64,4096],[4096,4096]]")]);
    assert!(of(&findings(&large, &context), "batch-too-small").is_none());
}

#[test]
fn the_gravest_come_first() {
    let providers = [GPU.into()];
    let threads = Some(ThreadFacts { intra_op: 8, inter_op: 1, concurrent_runs: 2, processors: 8 });
    let context = FindingContext { requested_providers: &providers, threads, ..FindingContext::default() };
    let found = findings(&analyzed(&[vec![op("Conv_0", 1, 1000), run(0, 10_000)]]), &context);
    let severities: Vec<_> = found.iter().map(|finding| finding.severity).collect();
    assert_eq!(severities[0], Severity::Error);
    assert!(severities.is_sorted());
    assert!(serde_json::to_string(&found).unwrap().contains("\"severity\":\"error\""));
}
