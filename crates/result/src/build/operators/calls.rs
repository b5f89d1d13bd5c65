//! Calls by node and by type, with samples of their durations in bounded memory.

use std::collections::{BTreeMap, HashMap};

use ortscope_analyze::percentile::runs_needed;
use ortscope_core::schema::{OperatorKind, OperatorRow, Text};

use super::super::thin::Decimated;
use crate::latency::ms;
use crate::{CallTimes, OperatorNodeRow, OperatorTypeRow, OtherNodes, PlacementRow};
use ortscope_core::units::clean;

/// Nodes that are told apart; the calls of others count for their type only.
const MAX_NODES: usize = 50_000;
/// Types of operators that are told apart.
const MAX_TYPES: usize = 2000;
/// Durations kept for percentiles over all nodes, and again over all types.
const MAX_SAMPLES: usize = 2_000_000;
/// Types that are shown.
const MAX_TYPE_ROWS: usize = 150;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct TypeKey {
    session: usize,
    kind: OperatorKind,
    op_type: Text,
    provider: Text,
    device: Text,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeKey {
    of_type: usize,
    name: Text,
    depth: u64,
}

/// Durations of one node or type.
#[derive(Debug, Default)]
struct Durations {
    calls: u64,
    total_ns: u64,
    self_ns: u64,
    max_ns: u64,
    samples: Decimated<u64>,
}

impl Durations {
    fn add(&mut self, duration_ns: u64, self_ns: u64) {
        self.calls += 1;
        self.total_ns = self.total_ns.saturating_add(duration_ns);
        self.self_ns = self.self_ns.saturating_add(self_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }

    fn times(&self, run_total_ns: Option<u64>) -> CallTimes {
        let mut sorted = self.samples.kept.clone();
        sorted.sort_unstable();
        CallTimes {
            calls: self.calls,
            self_ms: ms(self.self_ns),
            share: run_total_ns.filter(|total| *total > 0).map(|total| self.self_ns as f64 / total as f64),
            mean_ms: self.total_ns as f64 / self.calls.max(1) as f64 / 1e6,
            max_ms: ms(self.max_ns),
            p50_ms: quantile(&sorted, 0.5),
            p99_ms: quantile(&sorted, 0.99),
        }
    }
}

/// The value at a rank; `None` below the number of calls that bounds it.
fn quantile(sorted: &[u64], p: f64) -> Option<f64> {
    let rank = (p * sorted.len().checked_sub(1)? as f64).round() as usize;
    sorted.get(rank).copied().filter(|_| sorted.len() as u64 >= runs_needed(p, 1.0)).map(ms)
}

#[derive(Debug)]
struct Node {
    key: NodeKey,
    durations: Durations,
    input_shapes: Option<Text>,
    output_bytes: Option<u64>,
    flops: Option<u64>,
}

#[derive(Debug)]
struct Type {
    key: TypeKey,
    nodes: u64,
    durations: Durations,
}

/// Keeps the samples of many series within one budget: when it is spent, the longest give up half of theirs.
#[derive(Debug)]
struct Budget {
    kept: usize,
    most_each: usize,
}

impl Default for Budget {
    fn default() -> Self {
        Self { kept: 0, most_each: MAX_SAMPLES / 2 }
    }
}

impl Budget {
    fn push(&mut self, samples: &mut Decimated<u64>, value: u64) {
        let before = samples.kept.len();
        samples.push(value, self.most_each);
        self.kept = self.kept + samples.kept.len() - before;
    }

    fn is_spent(&self) -> bool {
        self.kept > MAX_SAMPLES
    }

    fn shrink<'d>(&mut self, all: impl Iterator<Item = &'d mut Durations>) {
        self.most_each = (self.most_each / 2).max(2);
        self.kept = 0;
        for durations in all {
            while durations.samples.kept.len() > self.most_each {
                durations.samples.halve();
            }
            self.kept += durations.samples.kept.len();
        }
    }
}

/// Which node and type a call belongs to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Callee {
    of_type: usize,
    node: Option<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Calls {
    types: Vec<Type>,
    type_index: HashMap<TypeKey, usize>,
    nodes: Vec<Node>,
    node_index: HashMap<NodeKey, usize>,
    node_budget: Budget,
    type_budget: Budget,
}

impl Calls {
    pub fn callee(&mut self, session: usize, kind: OperatorKind, row: &OperatorRow) -> Callee {
        let key = TypeKey {
            session,
            kind,
            op_type: Text::clone(&row.op_type),
            provider: Text::clone(&row.execution_provider),
            device: Text::clone(&row.device),
        };
        let of_type = match self.type_index.get(&key) {
            Some(index) => *index,
            // The last type takes what is beyond the limit; no model has that many.
            None if self.types.len() >= MAX_TYPES => self.types.len() - 1,
            None => {
                self.type_index.insert(key.clone(), self.types.len());
                self.types.push(Type { key, nodes: 0, durations: Durations::default() });
                self.types.len() - 1
            }
        };
        let key = NodeKey { of_type, name: Text::clone(&row.name), depth: row.depth };
        let node = match self.node_index.get(&key) {
            Some(index) => Some(*index),
            None if self.nodes.len() >= MAX_NODES => None,
            None => {
                self.node_index.insert(key.clone(), self.nodes.len());
                self.types[of_type].nodes += 1;
                self.nodes.push(Node {
                    key,
                    durations: Durations::default(),
                    input_shapes: row.input_shapes.clone(),
                    output_bytes: row.output_bytes,
                    flops: row.flops,
                });
                Some(self.nodes.len() - 1)
            }
        };
        Callee { of_type, node }
    }

    pub fn add(&mut self, callee: Callee, duration_ns: u64, self_ns: u64) {
        let of_type = &mut self.types[callee.of_type].durations;
        of_type.add(duration_ns, self_ns);
        self.type_budget.push(&mut of_type.samples, duration_ns);
        if self.type_budget.is_spent() {
            self.type_budget.shrink(self.types.iter_mut().map(|of_type| &mut of_type.durations));
        }
        let Some(node) = callee.node.and_then(|node| self.nodes.get_mut(node)) else { return };
        node.durations.add(duration_ns, self_ns);
        self.node_budget.push(&mut node.durations.samples, duration_ns);
        if self.node_budget.is_spent() {
            self.node_budget.shrink(self.nodes.iter_mut().map(|node| &mut node.durations));
        }
    }

    pub fn by_type(&self, session: usize, run_total_ns: Option<u64>) -> Vec<OperatorTypeRow> {
        let mut types: Vec<&Type> =
            self.types.iter().filter(|of_type| of_type.key.session == session).collect();
        types.sort_by_key(|of_type| std::cmp::Reverse(of_type.durations.self_ns));
        types
            .into_iter()
            .take(MAX_TYPE_ROWS)
            .map(|of_type| OperatorTypeRow {
                kind: of_type.key.kind.name().into(),
                op_type: clean(&of_type.key.op_type, 100),
                execution_provider: clean(&of_type.key.provider, 100),
                device: clean(&of_type.key.device, 20),
                nodes: of_type.nodes,
                times: of_type.durations.times(run_total_ns),
            })
            .collect()
    }

    pub fn by_node(
        &self,
        session: usize,
        run_total_ns: Option<u64>,
        most: usize,
    ) -> (Vec<OperatorNodeRow>, OtherNodes) {
        let of_type = |node: &Node| &self.types[node.key.of_type].key;
        let mut nodes: Vec<&Node> =
            self.nodes.iter().filter(|node| of_type(node).session == session).collect();
        nodes.sort_by_key(|node| std::cmp::Reverse(node.durations.self_ns));
        let mut others = OtherNodes::default();
        for node in nodes.iter().skip(most) {
            others.nodes += 1;
            others.calls += node.durations.calls;
            others.self_ms += ms(node.durations.self_ns);
        }
        let rows = nodes.into_iter().take(most).map(|node| {
            let of_type = of_type(node);
            OperatorNodeRow {
                kind: of_type.kind.name().into(),
                name: clean(&node.key.name, 200),
                op_type: clean(&of_type.op_type, 100),
                execution_provider: clean(&of_type.provider, 100),
                device: clean(&of_type.device, 20),
                depth: node.key.depth,
                input_shapes: node.input_shapes.as_ref().map(|shapes| clean(shapes, 100)),
                output_bytes: node.output_bytes,
                flops: node.flops,
                times: node.durations.times(run_total_ns),
            }
        });
        (rows.collect(), others)
    }

    pub fn placement(&self, session: usize) -> Vec<PlacementRow> {
        let mut by_provider: BTreeMap<(&Text, &Text), (u64, u64)> = BTreeMap::new();
        let mut all_ns = 0_u64;
        for of_type in self.types.iter().filter(|of_type| of_type.key.session == session) {
            let sums = by_provider.entry((&of_type.key.provider, &of_type.key.device)).or_default();
            sums.0 += of_type.nodes;
            sums.1 = sums.1.saturating_add(of_type.durations.self_ns);
            all_ns = all_ns.saturating_add(of_type.durations.self_ns);
        }
        let mut rows: Vec<PlacementRow> = by_provider
            .into_iter()
            .map(|((provider, device), (nodes, self_ns))| PlacementRow {
                execution_provider: clean(provider, 100),
                device: clean(device, 20),
                nodes,
                self_ms: ms(self_ns),
                share: if all_ns > 0 { self_ns as f64 / all_ns as f64 } else { 0.0 },
            })
            .collect();
        rows.sort_by(|left, right| right.self_ms.total_cmp(&left.self_ms));
        rows.truncate(32);
        rows
    }

    /// Whether nodes were beyond the limit.
    pub fn is_full(&self) -> bool {
        self.nodes.len() >= MAX_NODES
    }
}
