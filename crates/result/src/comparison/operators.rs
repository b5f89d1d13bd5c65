//! The operators behind a difference: one short profile per side, joined by node name.
//!
//! This is attribution, not a test: one profile per side has no interval. It shows where to look, not whether to worry.

use std::collections::BTreeMap;

use serde::Serialize;

/// Largest number of changes listed.
const MAX_CHANGES: usize = 50;
/// Share of a run; one profile cannot show smaller changes.
const MIN_SHARE: f64 = 0.005;

#[derive(Debug, Serialize)]
pub struct Attribution {
    /// How reliable this is.
    pub label: &'static str,
    /// The largest change first.
    pub nodes: Vec<NodeChange>,
    pub not_listed: usize,
}

#[derive(Debug, Clone, Serialize)]
pub struct NodeChange {
    pub name: String,
    pub op_type: String,
    /// Time per run, scaled to the latency without the profiler; `null`: this side has no such node.
    pub a_us: Option<f64>,
    pub b_us: Option<f64>,
    pub change_us: f64,
    pub a_provider: Option<String>,
    pub b_provider: Option<String>,
    pub moved: bool,
}

/// The time of one node per run.
#[derive(Debug, Clone)]
pub struct NodeTime {
    pub name: String,
    pub op_type: String,
    /// Empty in old versions of ONNX Runtime.
    pub provider: String,
    /// Scaled to the latency without the profiler. From medians, because one interrupted run must not count as a change
    /// of an operator.
    pub us_per_run: f64,
}

/// Compares the profiles of A and B. `run_us` is the latency of the slower side.
pub fn attribute(a: Vec<NodeTime>, b: Vec<NodeTime>, run_us: f64) -> Attribution {
    let mut nodes: BTreeMap<String, NodeChange> = BTreeMap::new();
    for (is_b, times) in [(false, a), (true, b)] {
        for node in times {
            let change = nodes.entry(node.name.clone()).or_insert_with(|| NodeChange {
                name: node.name,
                op_type: node.op_type,
                a_us: None,
                b_us: None,
                change_us: 0.0,
                a_provider: None,
                b_provider: None,
                moved: false,
            });
            let (time, provider) = if is_b {
                (&mut change.b_us, &mut change.b_provider)
            } else {
                (&mut change.a_us, &mut change.a_provider)
            };
            *time = Some(time.unwrap_or(0.0) + node.us_per_run);
            // An unknown provider is not a move.
            *provider = Some(node.provider).filter(|name| !name.is_empty());
        }
    }
    let mut nodes: Vec<NodeChange> = nodes
        .into_values()
        .map(|mut node| {
            node.change_us = node.b_us.unwrap_or(0.0) - node.a_us.unwrap_or(0.0);
            node.moved =
                node.a_provider.is_some() && node.b_provider.is_some() && node.a_provider != node.b_provider;
            node
        })
        .filter(|node| node.moved || node.change_us.abs() >= MIN_SHARE * run_us)
        .collect();
    nodes.sort_by(|a, b| b.change_us.abs().total_cmp(&a.change_us.abs()));
    let not_listed = nodes.len().saturating_sub(MAX_CHANGES);
    nodes.truncate(MAX_CHANGES);
    Attribution { label: "attribution from one profile of each side, not a test", nodes, not_listed }
}

impl Attribution {
    pub fn any_moved(&self) -> bool {
        self.nodes.iter().any(|node| node.moved)
    }
}
