//! QNN's own profile: device rows of each profiled run.
//!
//! The file has executions in order with the cycles of their nodes, but no start times. The executions of a run are those of
//! its compiled parts, one after the other. Within one, nodes are placed in the order of the file from the start of the call,
//! each as long as its share of the cycles; this is an estimate.

use std::collections::{HashMap, HashSet};

use ortscope_core::schema::OperatorRow;
use ortscope_decode::onnx::Graph;
use ortscope_decode::qnn_profile::{QnnExecution, QnnProfile};

use super::row_inside;
use ortscope_analyze::operators::section::DeviceWork;

pub const PROVIDER: &str = "QNNExecutionProvider";

/// The device's work in the runs of the statistics.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct QnnTime {
    pub runs: u64,
    /// Its busy time.
    pub device_ns: Option<u64>,
    pub cycles: Option<u64>,
    /// In the order of their first occurrence.
    pub nodes: Vec<NodeCycles>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeCycles {
    pub name: String,
    /// The type of the ONNX node, or a marker for nodes that QNN added.
    pub op_type: String,
    pub calls: u64,
    pub cycles: u64,
}

impl QnnTime {
    /// Nodes as device work; the time of each is its share of the cycles.
    pub fn work(&self) -> impl Iterator<Item = DeviceWork> + '_ {
        self.nodes.iter().map(|node| {
            let share = self
                .device_ns
                .zip(self.cycles.filter(|all| *all > 0))
                .map(|(device_ns, all)| u128::from(device_ns) * u128::from(node.cycles) / u128::from(all));
            let total_ns = share.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
            DeviceWork {
                name: node.name.clone(),
                op_type: node.op_type.clone(),
                provider: PROVIDER.to_owned(),
                count: node.calls,
                total_ms: total_ns as f64 / 1e6,
                total_ns,
                cycles: Some(node.cycles),
            }
        })
    }
}

/// The type of nodes that QNN added: conversions of layouts and types.
const ADDED: &str = "added by QNN";

/// Node types of the model by name.
#[derive(Debug, Default)]
pub struct NodeTypes {
    by_name: HashMap<String, String>,
    types: HashSet<String>,
}

impl NodeTypes {
    pub fn new(graph: &Graph) -> Self {
        let named = graph.nodes.iter().filter(|node| !node.name.is_empty());
        Self {
            by_name: named.map(|node| (node.name.clone(), node.op_type.clone())).collect(),
            types: graph.nodes.iter().map(|node| node.op_type.clone()).collect(),
        }
    }

    fn of(&self, name: &str) -> &str {
        // QNN sometimes appends a number that its token does not explain.
        let bare = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let named = self.by_name.get(name).or_else(|| self.by_name.get(bare.strip_suffix('_')?));
        // A node without a name gets its type and a number as name.
        named.or_else(|| self.types.get(bare.trim_end_matches('_'))).map_or(ADDED, String::as_str)
    }
}

/// The executions of a profile, in the order of the runs.
#[derive(Debug)]
pub struct QnnLanes {
    profile: QnnProfile,
    types: NodeTypes,
    next: usize,
}

impl QnnLanes {
    pub fn new(profile: QnnProfile, types: NodeTypes) -> Self {
        Self { profile, types, next: 0 }
    }

    pub fn profile(&self) -> &QnnProfile {
        &self.profile
    }

    /// Device rows of a compiled part, given the part's own row.
    pub fn rows_inside(&mut self, part: &OperatorRow) -> Vec<OperatorRow> {
        if &*part.execution_provider != PROVIDER {
            return Vec::new();
        }
        let Some(execution) = self.profile.each.get(self.next) else { return Vec::new() };
        self.next += 1;
        let (Some(all @ 1..), Some(device_us)) = (execution.cycles, execution.device_us) else {
            return Vec::new();
        };
        // A call cannot be shorter than its device work; if rounding makes it so, the call's duration wins.
        let device_ns = device_us.saturating_mul(1000).min(part.duration_ns);
        let mut at_ns = part.timestamp_ns;
        let end_ns = at_ns.saturating_add(device_ns);
        let mut rows = Vec::with_capacity(execution.nodes.len());
        // Nodes without cycles were merged into others and have no rows.
        for (index, cycles) in execution.nodes.iter().filter(|(_, cycles)| *cycles > 0) {
            let Some(node) = self.profile.nodes.get(*index) else { continue };
            let share = u128::from(device_ns) * u128::from(*cycles) / u128::from(all);
            let duration_ns = u64::try_from(share).unwrap_or(u64::MAX).min(end_ns - at_ns);
            rows.push(OperatorRow {
                name: node.name.as_str().into(),
                op_type: self.types.of(&node.name).into(),
                cycles: Some(*cycles),
                ..row_inside(part, PROVIDER, at_ns, duration_ns)
            });
            at_ns += duration_ns;
        }
        rows
    }

    /// Sums over all runs after the warm-up; `runs` is the number of runs in the file.
    pub fn time(&self, runs: u64, warm_up: u64) -> Option<QnnTime> {
        let executions = self.profile.executions;
        // If the executions do not divide evenly among the runs, their assignment is unknown.
        if runs <= warm_up || executions == 0 || !executions.is_multiple_of(runs) {
            return None;
        }
        let skipped = usize::try_from(executions / runs * warm_up).ok()?;
        let kept = self.profile.each.get(skipped..).filter(|kept| !kept.is_empty())?;
        let sum = |of: fn(&QnnExecution) -> Option<u64>| {
            kept.iter().try_fold(0u64, |sum, execution| sum.checked_add(of(execution)?))
        };
        let mut nodes: Vec<NodeCycles> = self
            .profile
            .nodes
            .iter()
            .map(|node| NodeCycles {
                name: node.name.clone(),
                op_type: self.types.of(&node.name).to_owned(),
                ..NodeCycles::default()
            })
            .collect();
        for (index, cycles) in kept.iter().flat_map(|execution| &execution.nodes) {
            if let Some(node) = nodes.get_mut(*index) {
                node.calls += 1;
                node.cycles = node.cycles.saturating_add(*cycles);
            }
        }
        Some(QnnTime {
            runs: kept.len() as u64 / (executions / runs).max(1),
            device_ns: sum(|execution| execution.device_us).map(|us| us.saturating_mul(1000)),
            cycles: sum(|execution| execution.cycles),
            nodes,
        })
    }
}

#[cfg(test)]
mod tests {
    use ortscope_decode::onnx::Node;
    use ortscope_decode::qnn_profile;

    use super::*;

    fn profile(executions: &[&[u64]]) -> QnnProfile {
        let mut text =
            "Msg Timestamp,Message,Time,Unit of Measurement,Timing Source,Event Level,Event Identifier\n"
                .to_owned();
        for nodes in executions {
            let all: u64 = nodes.iter().sum();
            text += &format!("0,BACKEND,{all},CYCLES,BACKEND,ROOT,Accelerator (execute) time (cycles)\n");
            for (index, cycles) in nodes.iter().enumerate() {
                text += &format!(
                    "0,NODE,{cycles},CYCLES,BACKEND,SUB-EVENT,conv{index}_3:OpId_{index} (cycles)\n"
                );
            }
            text += &format!("0,BACKEND,{},US,BACKEND,ROOT,Accelerator (execute) time\n", all / 10);
            text += "0,EXECUTE,500,US,BACKEND,ROOT,QNN (execute) time\n";
        }
        qnn_profile::read(&text).unwrap()
    }

    fn types() -> NodeTypes {
        let node = Node { name: "conv0".to_owned(), op_type: "Conv".to_owned(), ..Node::default() };
        NodeTypes::new(&Graph { nodes: vec![node], ..Graph::default() })
    }

    #[test]
    fn nodes_lie_within_their_call() {
        let mut lanes = QnnLanes::new(profile(&[&[300, 100], &[100, 100]]), types());
        let part = OperatorRow {
            timestamp_ns: 1_000_000,
            duration_ns: 50_000,
            run: Some(3),
            kind: "operator".into(),
            execution_provider: PROVIDER.into(),
            ..OperatorRow::default()
        };
        let cpu = OperatorRow { execution_provider: "CPUExecutionProvider".into(), ..part.clone() };
        assert_eq!(lanes.rows_inside(&cpu), []);
        let rows = lanes.rows_inside(&part);
        let seen: Vec<_> = rows.iter().map(|row| (row.timestamp_ns, row.duration_ns, row.cycles)).collect();
        assert_eq!(seen, [(1_000_000, 30_000, Some(300)), (1_030_000, 10_000, Some(100))]);
        assert_eq!((&*rows[0].op_type, &*rows[1].op_type, rows[0].run), ("Conv", ADDED, Some(3)));
        assert_eq!(
            (types().of("Conv89"), types().of("Conv_8"), types().of("Transpose")),
            ("Conv", "Conv", ADDED)
        );
        // Rows are limited to a call that is shorter than its device time.
        let short = OperatorRow { duration_ns: 10_000, ..part.clone() };
        let rows = lanes.rows_inside(&short);
        assert_eq!(rows.iter().map(|row| row.duration_ns).sum::<u64>(), 10_000);
        assert_eq!(lanes.rows_inside(&part), [], "the file has no third execution");
    }

    #[test]
    fn excludes_warm_up_and_rejects_inconsistent_files() {
        let lanes = QnnLanes::new(profile(&[&[9_000, 1_000], &[300, 100], &[100, 100]]), types());
        let time = lanes.time(3, 1).unwrap();
        assert_eq!((time.runs, time.device_ns, time.cycles), (2, Some(60_000), Some(600)));
        assert_eq!(
            time.nodes.iter().map(|node| (node.calls, node.cycles)).collect::<Vec<_>>(),
            [(2, 400), (2, 200)]
        );
        assert_eq!(lanes.time(2, 1), None, "three executions in two runs");
        assert_eq!(lanes.time(1, 1), None);
    }
}
