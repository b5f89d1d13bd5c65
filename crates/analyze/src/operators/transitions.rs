//! Where execution moves from one provider to another, and the data transferred.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::{OperatorKind, Text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lanes::ratio;
use super::report::OperatorReport;

/// One change of provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transition {
    /// Indices into the report's nodes.
    pub from_node: usize,
    pub to_node: usize,
    pub from_provider: Text,
    pub to_provider: Text,
    /// Output of the first node, which the second provider has to be given.
    pub bytes: Option<u64>,
}

/// All changes between two providers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProviderPair {
    pub from: Text,
    pub to: Text,
    /// Changes per run.
    pub count: u64,
    /// Bytes carried over per run, as far as known.
    pub bytes: u64,
    /// Changes whose bytes are not known.
    pub unknown_bytes: u64,
}

/// Copies between devices that the runtime inserted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Copies {
    pub nodes: u64,
    pub calls_per_run: f64,
    pub ns_per_run: f64,
    pub share: f64,
    /// Bytes per run, as far as known.
    pub bytes_per_run: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Transitions {
    /// By the graph's edges; otherwise by execution order, which misses edges that skip nodes.
    pub by_dependencies: bool,
    /// In the order of execution.
    pub transitions: Vec<Transition>,
    pub pairs: Vec<ProviderPair>,
    pub copies: Copies,
}

/// Finds the changes among the operators of the main graph.
pub fn transitions(report: &OperatorReport, edges: Option<&[(u64, u64)]>) -> Transitions {
    let operators: Vec<usize> = (0..report.nodes.len())
        .filter(|index| {
            let node = &report.nodes[*index];
            node.depth == 0 && node.kind == OperatorKind::Operator
        })
        .collect();
    let found = match edges {
        Some(edges) => crossing_edges(report, &operators, edges),
        None => operators.windows(2).map(|pair| (pair[0], pair[1])).collect(),
    };
    let transitions: Vec<Transition> = found
        .into_iter()
        .filter(|(from, to)| report.nodes[*from].provider != report.nodes[*to].provider)
        .map(|(from_node, to_node)| Transition {
            from_node,
            to_node,
            from_provider: report.nodes[from_node].provider.clone(),
            to_provider: report.nodes[to_node].provider.clone(),
            bytes: report.nodes[from_node].output_bytes,
        })
        .collect();
    let pairs = pairs(&transitions);
    Transitions { by_dependencies: edges.is_some(), transitions, pairs, copies: copies(report) }
}

/// A tensor is transferred once per provider, however many of its nodes read it. Copy nodes in between are skipped.
fn crossing_edges(report: &OperatorReport, operators: &[usize], edges: &[(u64, u64)]) -> Vec<(usize, usize)> {
    let index_of: BTreeMap<u64, usize> = report
        .nodes
        .iter()
        .enumerate()
        .filter(|(_, node)| node.depth == 0)
        .filter_map(|(index, node)| Some((node.node_index?, index)))
        .collect();
    let mut readers: BTreeMap<usize, BTreeSet<usize>> = BTreeMap::new();
    for (from, to) in edges {
        if let (Some(from), Some(to)) = (index_of.get(from), index_of.get(to)) {
            readers.entry(*from).or_default().insert(*to);
        }
    }
    let mut found = BTreeSet::new();
    for from in operators.iter().copied() {
        let mut seen_providers = BTreeSet::from([report.nodes[from].provider.clone()]);
        let direct = readers.get(&from).into_iter().flatten().copied();
        // There is at most one copy between two operators.
        let behind_copies = readers.get(&from).into_iter().flatten().filter(|to| is_copy(report, **to));
        let behind_copies = behind_copies.filter_map(|copy| readers.get(copy)).flatten().copied();
        let mut targets: Vec<usize> =
            direct.chain(behind_copies).filter(|to| !is_copy(report, *to)).collect();
        targets.sort_unstable();
        for to in targets {
            if seen_providers.insert(report.nodes[to].provider.clone()) {
                found.insert((to, from));
            }
        }
    }
    found.into_iter().map(|(to, from)| (from, to)).collect()
}

fn is_copy(report: &OperatorReport, index: usize) -> bool {
    report.nodes[index].kind == OperatorKind::Copy
}

fn pairs(transitions: &[Transition]) -> Vec<ProviderPair> {
    let mut pairs: BTreeMap<(&Text, &Text), ProviderPair> = BTreeMap::new();
    for transition in transitions {
        let pair = pairs.entry((&transition.from_provider, &transition.to_provider)).or_insert_with(|| {
            ProviderPair {
                from: transition.from_provider.clone(),
                to: transition.to_provider.clone(),
                count: 0,
                bytes: 0,
                unknown_bytes: 0,
            }
        });
        pair.count += 1;
        match transition.bytes {
            Some(bytes) => pair.bytes = pair.bytes.saturating_add(bytes),
            None => pair.unknown_bytes += 1,
        }
    }
    pairs.into_values().collect()
}

fn copies(report: &OperatorReport) -> Copies {
    let mut copies = Copies::default();
    for node in report.nodes.iter().filter(|node| node.kind == OperatorKind::Copy) {
        copies.nodes += 1;
        copies.calls_per_run += node.calls_per_run;
        copies.ns_per_run += ratio(node.exclusive.total_ns, report.runs);
        copies.share += node.share;
        copies.bytes_per_run += node.output_bytes.unwrap_or(0) as f64 * node.calls_per_run;
    }
    copies
}
