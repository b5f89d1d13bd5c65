//! Builds the operators section of a result from a profile.

use std::collections::BTreeMap;

use super::Counted;
use super::device_time::{Evidence, device_times};
use super::graph::graph_facts;
use super::pass::Profile;
use ortscope_analyze::operators::fusion::{compare_graphs, missed};
use ortscope_analyze::operators::section::{
    ExecutedNodes, FallbackType, FlopReport, FusionSection, LevelReport, NodeRow, NotCounted, Observer,
    OperatorPlacement, OperatorSection, PathReport, ProfiledRuns, QnnReport, RooflineReport,
    TransitionReport, TypeRow,
};
use ortscope_analyze::operators::{
    self, Bound, CriticalPath, FindingContext, NodeStatistics, OperatorFinding, OperatorReport, Peaks,
    Roofline, ThreadFacts, TimeSplit, Transitions,
};
use ortscope_core::schema::{OperatorKind, Text};
use ortscope_core::session::MachinePeak;
use ortscope_decode::onnx::Graph;
use ortscope_ort::LogLine;
use ortscope_ort::ep::UsedDevice;

/// Nodes that the document lists; the recording has all.
const MAX_NODES: usize = 200;
/// Chances that the document lists one by one.
const MAX_MISSED: usize = 50;
/// Why nodes stay on the CPU: sentences kept.
const MAX_REASONS: usize = 10;
/// Of the time, what may be of operators without a count before a rate means nothing.
const MAX_NOT_COUNTED: f64 = 0.1;
/// Nodes of the critical path that are named.
const MAX_PATH: usize = 50;
pub const CPU: &str = "CPUExecutionProvider";

/// What the section needs to know beside the profile.
#[derive(Debug)]
pub struct Surroundings<'a> {
    pub original: &'a Graph,
    pub requested_providers: &'a [Text],
    /// Hardware behind the session's providers.
    pub used: &'a [UsedDevice],
    pub plain_median_ns: Option<f64>,
    pub peak: Option<MachinePeak>,
    pub threads: ThreadFacts,
    /// Inputs whose sizes the model leaves open.
    pub has_open_sizes: bool,
    pub levels: Vec<LevelReport>,
}

/// An operators section and what comes with it.
#[derive(Debug)]
pub struct BuiltSection {
    pub section: OperatorSection,
    /// Which node reads the output of which, by node index; only the recording keeps them.
    pub edges: Vec<(u64, u64)>,
    pub findings: Vec<OperatorFinding>,
}

/// The section of a profile, with the graph's edges by node index and the findings.
pub fn operator_section(profile: Profile, around: &Surroundings<'_>) -> BuiltSection {
    let report = &profile.report;
    let main = report.nodes.iter().filter(|node| node.depth == 0);
    let numbered: Option<Vec<(&str, &str, u64)>> =
        main.map(|node| Some((&*node.name, &*node.op_type, node.node_index?))).collect();
    let edges = numbered.map(|rows| profile.graph.edges(rows.into_iter())).unwrap_or_default();
    let all_edges = edges.is_complete.then_some(edges.known.as_slice());
    let transitions = operators::transitions(report, all_edges);
    let path = operators::critical_path(report, all_edges);
    let peaks = around.peak.as_ref().map(|peak| Peaks {
        flops_per_second: peak.flops_per_second,
        bytes_per_second: peak.bytes_per_second,
    });
    let roofline = peaks.and_then(|peaks| operators::roofline(report, &peaks));
    let optimized = profile.graph_is_optimized.then(|| profile.graph.facts());
    let missed = optimized.as_ref().map(missed).unwrap_or_default();
    let found = operators::findings(
        report,
        &FindingContext {
            requested_providers: around.requested_providers,
            transitions: Some(&transitions),
            roofline: roofline.as_ref(),
            missed: &missed,
            threads: Some(around.threads),
            has_open_sizes: around.has_open_sizes,
        },
    );
    let fusion = optimized.map(|after| {
        let change = compare_graphs(&graph_facts(around.original), &after);
        FusionSection {
            before: change.before as u64,
            after: change.after as u64,
            kept: change.kept as u64,
            replaced: change.replaced.len() as u64,
            fused: change.fused.len() as u64,
            folded: change.folded.len() as u64,
            removed: change.removed.len() as u64,
            added: change.added.len() as u64,
            patterns: change.patterns,
            missed_not_listed: missed.len().saturating_sub(MAX_MISSED) as u64,
            missed: missed.into_iter().take(MAX_MISSED).collect(),
        }
    });
    let runs = report.runs.max(1);
    let device_time = device_times(
        report,
        &Evidence {
            used: around.used,
            device_work: &profile.device_work,
            by_node: profile.device_by_node.clone(),
            qnn: profile.qnn_time.as_ref(),
            busy_ns: profile.busy_ns.clone(),
        },
    );
    let section = OperatorSection {
        profiled: ProfiledRuns {
            runs: profile.runs,
            windows: profile.windows,
            events: profile.events,
            lost_events: profile.lost_events,
            seconds: profile.seconds,
        },
        observer: Observer {
            profiled_median_ms: profile.profiled_median_ns.map(|ns| ns / 1e6),
            plain_median_ms: around.plain_median_ns.map(|ns| ns / 1e6),
            factor: report.observer_factor,
        },
        time_per_run: per_run(&report.time, runs),
        by_type: types(report),
        by_node: nodes(report, roofline.as_ref(), around.peak.as_ref()),
        nodes_not_listed: report.nodes.len().saturating_sub(MAX_NODES) as u64,
        floor: report.floor,
        lanes: report.lanes.clone(),
        threads: report.threads.clone(),
        parallelism: report.parallelism,
        critical_path: path_report(&path, report),
        placement: placement(&profile, around),
        transitions: transition_report(&transitions, report),
        flops: flop_report(&profile, around),
        peak: around.peak.clone(),
        roofline: roofline.as_ref().map(|line| roofline_report(line, report)),
        fusion,
        levels: around.levels.clone(),
        memory: report.memory.clone(),
        inconsistencies: report.inconsistencies,
        notes: profile.notes,
        device_time,
        qnn: profile.qnn.as_ref().map(|qnn| QnnReport {
            executions: qnn.profile().executions,
            events: qnn.profile().events.clone(),
            preparation: qnn.profile().preparation.clone(),
        }),
        device_work: profile.device_work.into_iter().take(MAX_NODES).collect(),
    };
    BuiltSection { section, edges: edges.known, findings: found }
}

/// The provider whose nodes fell back: the first that was asked for and is not the CPU.
fn fallback_provider(requested: &[Text]) -> Option<&Text> {
    requested.iter().find(|name| &***name != CPU)
}

fn per_run(time: &TimeSplit, runs: u64) -> TimeSplit {
    TimeSplit {
        run_ns: time.run_ns / runs,
        operators_ns: time.operators_ns / runs,
        copies_ns: time.copies_ns / runs,
        waits_ns: time.waits_ns / runs,
        between_operators_ns: time.between_operators_ns / runs,
        outside_executor_ns: time.outside_executor_ns / runs,
        after_last_ns: time.after_last_ns / runs,
    }
}

fn types(report: &OperatorReport) -> Vec<TypeRow> {
    let runs = report.runs.max(1) as f64;
    report
        .op_types
        .iter()
        .map(|of| TypeRow {
            op_type: of.op_type.clone(),
            provider: of.provider.clone(),
            nodes: of.nodes,
            calls_per_run: of.calls as f64 / runs,
            share: of.share,
            median_ms_per_run: of.per_run.median_ns as f64 / 1e6,
            estimated_ms_per_run: of.scaled_ns_per_run.map(|ns| ns / 1e6),
            flops_per_run: of.flops_per_run,
        })
        .collect()
}

fn nodes(report: &OperatorReport, roofline: Option<&Roofline>, peak: Option<&MachinePeak>) -> Vec<NodeRow> {
    let points: BTreeMap<usize, &operators::RooflinePoint> =
        roofline.iter().flat_map(|line| &line.points).map(|point| (point.node, point)).collect();
    let mut order: Vec<usize> = (0..report.nodes.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(report.nodes[*index].exclusive.total_ns));
    let row = |index: usize| {
        let node: &NodeStatistics = &report.nodes[index];
        let point = points.get(&index);
        let on_cpu = &*node.provider == CPU;
        NodeRow {
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            provider: node.provider.clone(),
            device: node.device.clone(),
            depth: node.depth,
            calls_per_run: node.calls_per_run,
            share: node.share,
            median_us: node.exclusive.median_ns as f64 / 1e3,
            p90_us: node.exclusive.p90_ns as f64 / 1e3,
            max_us: node.exclusive.max_ns as f64 / 1e3,
            is_rankable: node.is_rankable,
            input_shapes: node.input_shapes.clone(),
            shape_variants: node.shape_variants,
            output_bytes: node.output_bytes,
            bytes_moved: node.bytes_moved,
            flops: node.flops,
            intensity: point.map(|point| point.intensity),
            flops_per_second: point.map(|point| point.flops_per_second),
            roof_fraction: point.map(|point| point.roof_fraction),
            bound: point.map(|point| point.bound),
            estimated_cycles: peak
                .filter(|_| on_cpu)
                .map(|peak| (node.exclusive.median_ns as f64 * peak.clock_hertz / 1e9) as u64),
        }
    };
    order.into_iter().take(MAX_NODES).map(row).collect()
}

fn path_report(path: &CriticalPath, report: &OperatorReport) -> PathReport {
    PathReport {
        method: path.method.clone(),
        nodes: path.nodes.len() as u64,
        names: path.nodes.iter().take(MAX_PATH).map(|index| report.nodes[*index].name.clone()).collect(),
        length_ms: path.length_ns / 1e6,
        work_ms: path.work_ns / 1e6,
        possible_parallelism: path.possible_parallelism,
    }
}

fn placement(profile: &Profile, around: &Surroundings<'_>) -> OperatorPlacement {
    let report = &profile.report;
    let mut executed: BTreeMap<(&Text, &Text), (u64, f64)> = BTreeMap::new();
    let mut fallen: BTreeMap<&Text, (u64, f64)> = BTreeMap::new();
    let asked_for_another = fallback_provider(around.requested_providers).is_some();
    for node in report.nodes.iter().filter(|node| node.kind == OperatorKind::Operator) {
        let of = executed.entry((&node.provider, &node.device)).or_default();
        *of = (of.0 + 1, of.1 + node.share);
        if asked_for_another && &*node.provider == CPU {
            let of = fallen.entry(&node.op_type).or_default();
            *of = (of.0 + 1, of.1 + node.share);
        }
    }
    let mut executed: Vec<ExecutedNodes> = executed
        .into_iter()
        .map(|((provider, device), (nodes, share))| ExecutedNodes {
            provider: provider.clone(),
            device: device.clone(),
            nodes,
            share,
        })
        .collect();
    executed.sort_by_key(|of| std::cmp::Reverse(of.nodes));
    let mut fallback_types: Vec<FallbackType> = fallen
        .into_iter()
        .map(|(op_type, (nodes, share))| FallbackType { op_type: op_type.clone(), nodes, share })
        .collect();
    fallback_types.sort_by(|a, b| b.share.total_cmp(&a.share));
    OperatorPlacement {
        model_nodes: around.original.nodes.len() as u64,
        optimized_nodes: profile.graph_is_optimized.then(|| profile.graph.node_count()),
        executed,
        fallback_types,
        reasons: if asked_for_another { reasons(&profile.ort_logs) } else { Vec::new() },
    }
}

/// Log lines that say why nodes are where they are.
fn reasons(logs: &[LogLine]) -> Vec<String> {
    const WORDS: &[&str] = &[
        "not supported",
        "unsupported",
        "not assigned",
        "fallback",
        "fall back",
        "falling back",
        "validation fail",
    ];
    let mut reasons: Vec<String> = Vec::new();
    for line in logs {
        let text = line.message.to_lowercase();
        let sentence = ortscope_core::units::clean(&ortscope_ort::essence(&line.message), 300);
        if WORDS.iter().any(|word| text.contains(word)) && !reasons.contains(&sentence) {
            reasons.push(sentence);
        }
        if reasons.len() >= MAX_REASONS {
            break;
        }
    }
    reasons
}

fn transition_report(transitions: &Transitions, report: &OperatorReport) -> TransitionReport {
    let runs = report.runs.max(1) as f64;
    TransitionReport {
        by_dependencies: transitions.by_dependencies,
        per_run: transitions.transitions.len() as u64,
        pairs: transitions.pairs.clone(),
        copies: transitions.copies,
        after_last_ms_per_run: report.time.after_last_ns as f64 / runs / 1e6,
        wait_ms_per_run: report.time.waits_ns as f64 / runs / 1e6,
    }
}

fn flop_report(profile: &Profile, around: &Surroundings<'_>) -> FlopReport {
    let Counted { total, bytes_moved, weight_bytes } = &profile.counted;
    let operators = profile.report.nodes.iter().filter(|node| node.kind == OperatorKind::Operator);
    let share_not_counted =
        operators.filter(|node| node.flops.is_none()).map(|node| node.share).sum::<f64>() + 0.0;
    // A rate over a part of the work would look like a slow machine.
    let flops_per_second = around
        .plain_median_ns
        .filter(|ns| *ns > 0.0 && total.counted > 0 && share_not_counted <= MAX_NOT_COUNTED)
        .map(|ns| total.flops as f64 / ns * 1e9);
    FlopReport {
        flops_per_run: total.flops,
        macs_per_run: total.macs,
        bytes_moved_per_run: *bytes_moved,
        weight_bytes_per_run: *weight_bytes,
        counted: total.counted,
        movement: total.movement,
        not_counted: total
            .unknown
            .iter()
            .map(|((op_type, why), operators)| NotCounted {
                op_type: op_type.clone(),
                why: why.clone(),
                operators: *operators,
            })
            .collect(),
        share_not_counted,
        flops_per_second,
        share_of_peak: flops_per_second
            .zip(around.peak.as_ref())
            .map(|(rate, peak)| rate / peak.flops_per_second),
    }
}

fn roofline_report(line: &Roofline, report: &OperatorReport) -> RooflineReport {
    let share = |bound: Bound| -> f64 {
        let of_bound = line.points.iter().filter(|point| point.bound == bound);
        // A sum of nothing is minus zero.
        of_bound.map(|point| report.nodes[point.node].share).sum::<f64>() + 0.0
    };
    RooflineReport {
        ridge: line.peaks.ridge(),
        compute_bound: share(Bound::Compute),
        memory_bound: share(Bound::Memory),
        overhead_bound: share(Bound::Overhead),
        without_numbers: line.share_without_numbers,
    }
}
