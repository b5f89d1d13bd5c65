//! The longest chain of nodes that wait for each other: what more threads cannot shorten.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::report::OperatorReport;

/// Where the order came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum PathMethod {
    /// The edges of the graph.
    Dependencies,
    /// The nodes in their order, as if each waited for the previous one; the text explains why.
    SequentialOrder { why: String },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CriticalPath {
    pub method: PathMethod,
    /// Indices into the report's nodes, first to last.
    pub nodes: Vec<usize>,
    /// Mean time of the path per run.
    pub length_ns: f64,
    /// Mean time of all nodes of the main graph per run.
    pub work_ns: f64,
    /// Work over length: how many threads could be busy at best.
    pub possible_parallelism: f64,
}

/// Finds it among the nodes of the main graph. Edges are pairs of node indices, from producer to consumer.
pub fn critical_path(report: &OperatorReport, edges: Option<&[(u64, u64)]>) -> CriticalPath {
    let runs = report.runs.max(1) as f64;
    let main: Vec<usize> = (0..report.nodes.len()).filter(|index| report.nodes[*index].depth == 0).collect();
    // Sub-graphs run inside their node, so its whole time is on the path.
    let weight: Vec<f64> = main.iter().map(|i| report.nodes[*i].inclusive_total_ns as f64 / runs).collect();
    let work_ns: f64 = weight.iter().sum();
    let in_order = |why: &str| {
        let method = PathMethod::SequentialOrder { why: why.to_owned() };
        CriticalPath { method, nodes: main.clone(), length_ns: work_ns, work_ns, possible_parallelism: 1.0 }
    };
    let Some(edges) = edges else { return in_order("the edges of the graph are not known") };
    let place: BTreeMap<u64, usize> =
        main.iter().enumerate().filter_map(|(at, i)| Some((report.nodes[*i].node_index?, at))).collect();
    if place.len() < main.len() {
        return in_order("some nodes have no index, or share one");
    }
    let mut next: Vec<Vec<usize>> = vec![Vec::new(); main.len()];
    let mut waiting = vec![0usize; main.len()];
    for (from, to) in edges {
        // Edges of nodes that did not run lead nowhere.
        if let (Some(from), Some(to)) = (place.get(from), place.get(to)) {
            next[*from].push(*to);
            waiting[*to] += 1;
        }
    }
    let Some(nodes) = longest(&next, waiting, &weight) else { return in_order("the edges have a cycle") };
    let length_ns: f64 = nodes.iter().map(|at| weight[*at]).sum();
    CriticalPath {
        method: PathMethod::Dependencies,
        nodes: nodes.into_iter().map(|at| main[at]).collect(),
        length_ns,
        work_ns,
        possible_parallelism: if length_ns > 0.0 { work_ns / length_ns } else { 1.0 },
    }
}

/// The heaviest path; `None` if there is a cycle.
fn longest(next: &[Vec<usize>], mut waiting: Vec<usize>, weight: &[f64]) -> Option<Vec<usize>> {
    let mut ready: Vec<usize> = (0..next.len()).filter(|at| waiting[*at] == 0).collect();
    let mut length = weight.to_vec();
    let mut before: Vec<Option<usize>> = vec![None; next.len()];
    let mut done = 0;
    while let Some(at) = ready.pop() {
        done += 1;
        for to in next[at].iter().copied() {
            let through = length[at] + weight[to];
            if before[to].is_none() || through > length[to] {
                (length[to], before[to]) = (through, Some(at));
            }
            waiting[to] -= 1;
            if waiting[to] == 0 {
                ready.push(to);
            }
        }
    }
    if done < next.len() {
        return None;
    }
    let mut path: Vec<usize> = Vec::new();
    let mut at = (0..next.len()).max_by(|a, b| length[*a].total_cmp(&length[*b]));
    while let Some(node) = at {
        path.push(node);
        at = before[node];
    }
    path.reverse();
    Some(path)
}
