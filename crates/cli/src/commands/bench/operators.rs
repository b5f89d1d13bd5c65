//! Which operators the difference comes from: one short profile of each side, joined by the names of nodes.
//!
//! This is attribution, not a test: one profile a side, no interval. It says where to look, never whether to worry.

use std::collections::BTreeMap;

use serde::Serialize;

use super::report::signed;
use crate::commands::run::jobs::Job;
use crate::operators::{self, OperatorSection, ProfileRequest};
use crate::progress::ProgressLine;
use crate::report::RunResult;
use crate::terminal::{DIM, Terminal};
use ortscope_core::units;
use ortscope_observe::interrupt::Interrupt;
use ortscope_observe::progress::Progress as _;

/// Changes that are listed.
const MOST: usize = 50;
/// Of a run: smaller changes are below what one profile can say.
const MIN_SHARE: f64 = 0.005;

#[derive(Debug, Serialize)]
pub struct Attribution {
    /// What this is worth.
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

/// Profiles both sides. What cannot be had is a note.
pub fn attribute(
    sides: [(&Job, &mut RunResult); 2],
    interrupt: &Interrupt,
    progress: &mut ProgressLine,
) -> Result<Attribution, String> {
    let mut sections = Vec::new();
    for (name, (job, result)) in ["A", "B"].into_iter().zip(sides) {
        if interrupt.requested() {
            return Err("operators were not profiled: interrupted".into());
        }
        progress.update(&|| format!("profiling {name}"));
        operators::add_to(
            result,
            &job.plan,
            &job.graph,
            ProfileRequest::default(),
            None,
            interrupt,
            progress,
        )
        .map_err(|failure| format!("operators of {name} could not be profiled: {failure}"))?;
        let plain_us = result.latency.as_ref().map_or(0.0, |latency| latency.inference.median_ms * 1e3);
        let section = result.operators.take().ok_or("there is no profile")?;
        sections.push((section, plain_us));
    }
    match sections.as_slice() {
        [(a, a_us), (b, b_us)] => Ok(compare((a, *a_us), (b, *b_us))),
        _ => Err("there is no profile".into()),
    }
}

fn compare(a: (&OperatorSection, f64), b: (&OperatorSection, f64)) -> Attribution {
    let smallest = MIN_SHARE * a.1.max(b.1);
    let mut nodes: BTreeMap<String, NodeChange> = BTreeMap::new();
    for (is_b, (section, run_us)) in [(false, a), (true, b)] {
        let profiled_us = section.observer.profiled_median_ms.map_or(run_us, |ms| ms * 1e3);
        let scale = if profiled_us > 0.0 { run_us / profiled_us } else { 1.0 };
        for row in &section.by_node {
            // Medians: one run that lost its processor must not become an operator's fault.
            let us = row.median_us * row.calls_per_run * scale;
            let change = nodes.entry(row.name.to_string()).or_insert_with(|| NodeChange {
                name: row.name.to_string(),
                op_type: row.op_type.to_string(),
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
            *time = Some(time.unwrap_or(0.0) + us);
            // Old versions of ONNX Runtime do not say who ran a node: that is not a move.
            *provider = Some(row.provider.to_string()).filter(|name| !name.is_empty());
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
        .filter(|node| node.moved || node.change_us.abs() >= smallest)
        .collect();
    nodes.sort_by(|a, b| b.change_us.abs().total_cmp(&a.change_us.abs()));
    let not_listed = nodes.len().saturating_sub(MOST);
    nodes.truncate(MOST);
    Attribution { label: "attribution from one profile of each side, not a test", nodes, not_listed }
}

impl Attribution {
    pub fn any_moved(&self) -> bool {
        self.nodes.iter().any(|node| node.moved)
    }

    pub fn text(&self, most: usize, terminal: &Terminal) -> Vec<String> {
        if self.nodes.is_empty() {
            return vec![
                "where     no operator stands out (one profile a side: attribution, not a test)".into(),
            ];
        }
        let mut lines: Vec<String> = self.nodes.iter().take(most).map(NodeChange::line).collect();
        let rest = self.nodes.len().saturating_sub(most) + self.not_listed;
        let more = if rest > 0 { format!(", {rest} more with --json") } else { String::new() };
        lines.push(terminal.paint(DIM, &format!("          {}{more}", self.label)));
        lines
    }
}

impl NodeChange {
    fn line(&self) -> String {
        let us =
            |time: Option<f64>| time.map_or_else(|| "not there".into(), |us| units::nanoseconds(us * 1e3));
        let change = match (self.a_us, self.b_us) {
            (Some(a), Some(b)) if a > 0.0 => signed(b / a - 1.0),
            (Some(_), None) => "gone".into(),
            _ => "new".into(),
        };
        let moved = match (&self.a_provider, &self.b_provider) {
            (Some(a), Some(b)) if self.moved => format!(", moved from {} to {}", short(a), short(b)),
            _ => String::new(),
        };
        format!(
            "where     {} ({}) {change}: {} → {}{moved}",
            units::clean(&self.name, 48),
            self.op_type,
            us(self.a_us),
            us(self.b_us)
        )
    }
}

fn short(provider: &str) -> &str {
    provider.strip_suffix("ExecutionProvider").unwrap_or(provider)
}
