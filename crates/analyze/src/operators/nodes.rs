//! The nodes of a session and what adds up for each of them.

use std::collections::HashMap;
use std::sync::Arc;

use ortscope_core::schema::{OperatorKind, Text};

use super::event::OperatorEvent;
use super::quantiles::Series;

/// Maximum number of distinct nodes, as many as a model may have. Events of further nodes are counted as dropped.
pub(super) const MAX_NODES: usize = 2_000_000;
/// Maximum distinct shapes per node; more count as any number.
const MAX_SHAPES: usize = 16;

/// Names need not be unique, and the nodes of sub-graphs count from 0 again: only all of it together names a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeKey {
    name: Text,
    op_type: Text,
    node_index: Option<u64>,
    depth: u64,
    kind: OperatorKind,
}

#[derive(Debug)]
pub(super) struct Node {
    pub name: Text,
    pub op_type: Text,
    pub provider: Text,
    pub device: Text,
    pub node_index: Option<u64>,
    pub depth: u64,
    pub kind: OperatorKind,
    pub exclusive: Series,
    pub inclusive_total_ns: u64,
    pub first_shapes: Option<Text>,
    shapes: Vec<Text>,
    pub output_bytes: Option<u64>,
    pub bytes_moved: PerCall,
    pub flops: PerCall,
}

/// The sum of a value that not every call reports.
#[derive(Debug, Default)]
pub(super) struct PerCall {
    sum: u128,
    calls: u64,
}

impl PerCall {
    fn add(&mut self, value: Option<u64>) {
        if let Some(value) = value {
            self.sum = self.sum.saturating_add(u128::from(value));
            self.calls += 1;
        }
    }

    pub(super) fn mean(&self) -> Option<u64> {
        u64::try_from(self.sum.checked_div(u128::from(self.calls))?).ok()
    }
}

impl Node {
    fn new(event: &OperatorEvent) -> Self {
        Self {
            name: event.name.clone(),
            op_type: event.op_type.clone(),
            provider: event.provider.clone(),
            device: event.device.clone(),
            node_index: event.node_index,
            depth: event.depth,
            kind: event.kind,
            exclusive: Series::default(),
            inclusive_total_ns: 0,
            first_shapes: event.input_shapes.clone(),
            shapes: Vec::new(),
            output_bytes: None,
            bytes_moved: PerCall::default(),
            flops: PerCall::default(),
        }
    }

    fn is_of(&self, event: &OperatorEvent) -> bool {
        self.node_index == event.node_index
            && self.depth == event.depth
            && self.kind == event.kind
            && is_same(&self.name, &event.name)
            && is_same(&self.op_type, &event.op_type)
    }

    pub(super) fn add(&mut self, event: &OperatorEvent, exclusive_ns: u64) {
        self.exclusive.push(exclusive_ns);
        self.inclusive_total_ns = self.inclusive_total_ns.saturating_add(event.duration_ns);
        self.output_bytes = self.output_bytes.max(event.output_bytes);
        self.bytes_moved.add(event.bytes_moved);
        self.flops.add(event.flops);
        if let Some(shapes) = &event.input_shapes {
            let is_known = self.shapes.iter().any(|known| is_same(known, shapes));
            if !is_known && self.shapes.len() < MAX_SHAPES {
                self.shapes.push(shapes.clone());
            }
        }
    }

    pub(super) fn shape_variants(&self) -> u64 {
        self.shapes.len() as u64
    }
}

/// Texts of one profile mostly share their memory, which is quicker to see than equal letters.
pub(super) fn is_same(a: &Text, b: &Text) -> bool {
    Arc::ptr_eq(a, b) || a == b
}

#[derive(Debug, Default)]
pub(super) struct NodeTable {
    pub nodes: Vec<Node>,
    by_key: HashMap<NodeKey, usize>,
    /// The nodes of the run before in their order: the next run has mostly the same.
    expected: Vec<usize>,
    current: Vec<usize>,
}

impl NodeTable {
    pub(super) fn begin_run(&mut self) {
        std::mem::swap(&mut self.expected, &mut self.current);
        self.current.clear();
    }

    /// The node of an event; `None` when there are too many.
    pub(super) fn find(&mut self, event: &OperatorEvent) -> Option<usize> {
        let expected = self.expected.get(self.current.len()).copied();
        let found = match expected {
            Some(index) if self.nodes[index].is_of(event) => index,
            _ => self.look_up(event)?,
        };
        // An endless loop in one run must not grow this without a bound.
        if self.current.len() < MAX_NODES {
            self.current.push(found);
        }
        Some(found)
    }

    fn look_up(&mut self, event: &OperatorEvent) -> Option<usize> {
        let key = NodeKey {
            name: event.name.clone(),
            op_type: event.op_type.clone(),
            node_index: event.node_index,
            depth: event.depth,
            kind: event.kind,
        };
        if let Some(index) = self.by_key.get(&key) {
            return Some(*index);
        }
        if self.nodes.len() >= MAX_NODES {
            return None;
        }
        self.nodes.push(Node::new(event));
        self.by_key.insert(key, self.nodes.len() - 1);
        Some(self.nodes.len() - 1)
    }
}
