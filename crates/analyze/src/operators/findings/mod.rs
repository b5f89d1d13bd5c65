//! Actionable observations, each with the numbers it is based on.
//!
//! Every finding states what was measured, how much of the time it concerns and what to try. Thresholds are constants
//! with their reasons; below them there is no finding.

mod compute;
mod placement;
mod structure;
mod time;

use std::borrow::Cow;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use ortscope_core::schema::{Severity, Text};
use serde::{Deserialize, Serialize};

use super::fusion::MissedFusion;
use super::report::OperatorReport;
use super::roofline::Roofline;
use super::transitions::Transitions;

/// Something a user should act on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperatorFinding {
    /// Stable, e.g. `cpu-fallback`.
    pub id: Cow<'static, str>,
    pub severity: Severity,
    /// The observation, with numbers.
    pub evidence: String,
    /// The recommended action.
    pub advice: String,
    /// Indices into the report's nodes, the costliest first; at most [`MAX_NODES_NAMED`].
    pub nodes: Vec<usize>,
}

/// Nodes a finding names: enough to start with.
pub const MAX_NODES_NAMED: usize = 10;

/// Inputs of findings besides the report. Absent inputs are not judged.
#[derive(Debug, Clone, Copy, Default)]
pub struct FindingContext<'a> {
    /// Execution providers requested by the user, by ONNX Runtime's names.
    pub requested_providers: &'a [Text],
    pub transitions: Option<&'a Transitions>,
    pub roofline: Option<&'a Roofline>,
    /// Missed fusions of the optimized graph.
    pub missed: &'a [MissedFusion],
    pub threads: Option<ThreadFacts>,
    /// The model leaves sizes of its inputs open, which providers that compile graphs often refuse.
    pub has_open_sizes: bool,
}

/// Threads that compete for processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadFacts {
    /// Threads of one operator.
    pub intra_op: u64,
    /// Operators side by side; 1 in sequential mode.
    pub inter_op: u64,
    /// Runs side by side.
    pub concurrent_runs: u64,
    /// Processors the process may use.
    pub processors: u64,
}

pub(super) const CPU: &str = "CPUExecutionProvider";

/// All findings, the gravest first.
pub fn findings(report: &OperatorReport, context: &FindingContext<'_>) -> Vec<OperatorFinding> {
    if report.runs == 0 {
        return Vec::new();
    }
    let mut found: Vec<OperatorFinding> = [
        placement::cpu_fallback(report, context),
        placement::provider_copies(report, context),
        time::oversubscribed_threads(report, context),
        time::unattributed(report),
        time::slow_first_run(report),
        structure::dynamic_shapes(report),
        structure::quantize_islands(report, context),
        compute::memory_bound(report, context),
        compute::batch_too_small(report),
    ]
    .into_iter()
    .flatten()
    .collect();
    found.extend(structure::unfused(report, context));
    found.sort_by_key(|finding| finding.severity);
    found
}

/// The costliest of these nodes. Indices of another report are left out.
fn costliest(report: &OperatorReport, nodes: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let mut nodes: Vec<(u64, usize)> = nodes
        .into_iter()
        .filter_map(|index| Some((report.nodes.get(index)?.exclusive.total_ns, index)))
        .collect();
    nodes.sort_by_key(|(total_ns, index)| (Reverse(*total_ns), *index));
    nodes.into_iter().take(MAX_NODES_NAMED).map(|(_, index)| index).collect()
}

fn share(report: &OperatorReport, nodes: &[usize]) -> f64 {
    nodes.iter().filter_map(|index| report.nodes.get(*index)).map(|node| node.share).sum()
}

/// Types of these nodes by their time: `Resize ×2, Erf`.
fn types_of(report: &OperatorReport, nodes: &[usize]) -> String {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for node in nodes.iter().filter_map(|index| report.nodes.get(*index)) {
        let (total_ns, count) = sums.entry(&node.op_type).or_default();
        *total_ns = total_ns.saturating_add(node.exclusive.total_ns);
        *count += 1;
    }
    let mut types: Vec<(&str, (u64, u64))> = sums.into_iter().collect();
    types.sort_by_key(|(_, (total_ns, _))| Reverse(*total_ns));
    let shown = 4;
    let word = |(op_type, (_, count)): &(&str, (u64, u64))| match count {
        1 => (*op_type).to_owned(),
        count => format!("{op_type} ×{count}"),
    };
    let mut words: Vec<String> = types.iter().take(shown).map(word).collect();
    if types.len() > shown {
        words.push(format!("{} more types", types.len() - shown));
    }
    words.join(", ")
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn milliseconds(ns: f64) -> String {
    format!("{:.3} ms", ns / 1e6)
}

fn megabytes(bytes: f64) -> String {
    format!("{:.1} MB", bytes / 1e6)
}
