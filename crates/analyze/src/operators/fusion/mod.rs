//! What the runtime's optimizer did to a graph, and what it left undone.
//!
//! Optimized graphs keep few node names, but the tensors between fused parts keep theirs: a fused node writes the
//! output of the last of its parts. [`compare_graphs`] follows these names; [`missed`] searches for patterns that a
//! runtime usually fuses and that are still there.

mod compare;
mod patterns;

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::schema::Text;

pub use compare::{Fusion, FusionReport, compare_graphs};
pub use patterns::{MissedFusion, MissedPattern, missed};

/// A node of a graph, as far as fusion is concerned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphNode {
    /// May be empty or occur twice.
    pub name: Text,
    pub op_type: Text,
    pub domain: Text,
    /// Names of tensors; an empty one is left out.
    pub inputs: Vec<Text>,
    pub outputs: Vec<Text>,
}

/// The main graph of a model in one state of optimization.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GraphFacts {
    pub nodes: Vec<GraphNode>,
    /// Names of the initializers.
    pub parameters: BTreeSet<Text>,
    /// Names of the graph's outputs.
    pub outputs: BTreeSet<Text>,
}

/// Writers and readers of each tensor.
#[derive(Debug)]
struct Wiring<'a> {
    graph: &'a GraphFacts,
    writer: BTreeMap<&'a str, usize>,
    readers: BTreeMap<&'a str, Vec<usize>>,
}

impl<'a> Wiring<'a> {
    fn of(graph: &'a GraphFacts) -> Self {
        let mut writer = BTreeMap::new();
        let mut readers: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, node) in graph.nodes.iter().enumerate() {
            for tensor in node.outputs.iter().filter(|tensor| !tensor.is_empty()) {
                writer.insert(&**tensor, index);
            }
            for tensor in node.inputs.iter().filter(|tensor| !tensor.is_empty()) {
                let readers = readers.entry(tensor).or_default();
                // A node that reads a tensor twice is one reader.
                if readers.last() != Some(&index) {
                    readers.push(index);
                }
            }
        }
        Self { graph, writer, readers }
    }

    fn node(&self, index: usize) -> &'a GraphNode {
        &self.graph.nodes[index]
    }

    fn op(&self, index: usize) -> &'a str {
        &self.graph.nodes[index].op_type
    }

    fn readers(&self, tensor: &str) -> &[usize] {
        self.readers.get(tensor).map_or(&[], Vec::as_slice)
    }

    /// The single reader of a node's output; `None` if there are several or it is a graph output.
    fn only_reader(&self, index: usize) -> Option<usize> {
        let tensor = self.graph.nodes[index].outputs.first()?;
        match self.readers(tensor) {
            [reader] if !self.graph.outputs.contains(tensor) => Some(*reader),
            _ => None,
        }
    }

    fn writers_of_inputs(&self, index: usize) -> impl Iterator<Item = usize> + '_ {
        self.graph.nodes[index].inputs.iter().filter_map(|tensor| self.writer.get(&**tensor).copied())
    }

    fn is_parameter(&self, tensor: &str) -> bool {
        let is_constant = |index: &usize| self.graph.nodes[*index].op_type.as_ref() == "Constant";
        self.graph.parameters.contains(tensor) || self.writer.get(tensor).is_some_and(is_constant)
    }
}

/// The display name of a node: its own, or its output's.
fn label(node: &GraphNode) -> Text {
    if node.name.is_empty() {
        node.outputs.first().cloned().unwrap_or_else(|| node.op_type.clone())
    } else {
        node.name.clone()
    }
}
