//! Two states of one graph, node by node.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{GraphFacts, GraphNode, Wiring};

/// Nodes that only change the layout or the place of data: optimizers insert them, so they come from nothing.
const INSERTED: &[&str] = &["ReorderInput", "ReorderOutput", "MemcpyFromHost", "MemcpyToHost"];
/// Operators that convolution and matrix product kernels absorb at their end.
const ABSORBED: &[&str] = &[
    "Add",
    "BatchNormalization",
    "Clip",
    "Elu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "Mul",
    "Relu",
    "Sigmoid",
    "Softplus",
    "Tanh",
];
/// Nodes that compute nothing at inference: they are dropped, not fused.
const NOTHING: &[&str] = &["Identity", "Dropout"];
/// Endings that optimizers give to the tensors and nodes they make from others.
const ENDINGS: &[&str] =
    &["/duplicated", "_nchwc", "_q_to_dq", "_pre_q", "_post_dq", "_pre_dq", "_dq", "_q", "_out0"];

/// A node and the nodes it replaces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fusion {
    /// Index into the optimized graph's nodes.
    pub into: usize,
    /// Indices into the original graph's nodes, in their order.
    pub from: Vec<usize>,
}

/// What happened to the nodes of a graph. Every original node is kept, replaced, fused, folded or removed; every node
/// of the optimized graph is kept, replaced, fused or added.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FusionReport {
    pub before: usize,
    pub after: usize,
    /// Nodes that are in both.
    pub kept: usize,
    /// One node became another of a different type.
    pub replaced: Vec<Fusion>,
    /// Several nodes became one.
    pub fused: Vec<Fusion>,
    /// Nodes whose result was computed once and for all.
    pub folded: Vec<usize>,
    /// Nodes that are gone, e.g. identities.
    pub removed: Vec<usize>,
    /// Nodes of the optimized graph without an original, e.g. layout changes.
    pub added: Vec<usize>,
    /// Fused patterns, e.g. `Conv + Relu → FusedConv`, with their counts.
    pub patterns: BTreeMap<String, usize>,
}

/// Finds out what the nodes of `after` were in `before`.
pub fn compare_graphs(before: &GraphFacts, after: &GraphFacts) -> FusionReport {
    let mut comparison = Comparison::new(before);
    let anchors: Vec<Option<usize>> = after.nodes.iter().map(|node| comparison.anchor(node)).collect();
    comparison.visible = visible(before, after, &anchors);
    for (index, anchor) in anchors.iter().enumerate() {
        if let Some(anchor) = anchor {
            comparison.claimed[*anchor].get_or_insert(index);
        }
    }
    comparison.absorb(after);
    for anchor in anchors.into_iter().flatten() {
        comparison.claim_what_leads_to(anchor);
    }
    comparison.report(after)
}

struct Comparison<'a> {
    before: Wiring<'a>,
    by_name: BTreeMap<&'a str, usize>,
    is_constant: Vec<bool>,
    /// Tensors of `before` that exist in `after`.
    visible: BTreeSet<&'a str>,
    /// The node of `after` that represents each node of `before`.
    claimed: Vec<Option<usize>>,
}

fn visible<'a>(
    before: &'a GraphFacts,
    after: &'a GraphFacts,
    anchors: &[Option<usize>],
) -> BTreeSet<&'a str> {
    let kept =
        after.nodes.iter().filter(|node| !INSERTED.contains(&&*node.op_type)).flat_map(|node| &node.outputs);
    let anchored = anchors.iter().flatten().flat_map(|index| &before.nodes[*index].outputs);
    kept.chain(anchored).map(|tensor| &**tensor).collect()
}

impl<'a> Comparison<'a> {
    fn new(before: &'a GraphFacts) -> Self {
        let wiring = Wiring::of(before);
        // Nodes are in the order of execution, so that what feeds a node is known before it.
        let mut is_constant: Vec<bool> = Vec::with_capacity(before.nodes.len());
        for node in &before.nodes {
            let fixed = |tensor: &&str| {
                let from_constant =
                    wiring.writer.get(*tensor).and_then(|index| is_constant.get(*index).copied());
                before.parameters.contains(*tensor) || from_constant == Some(true)
            };
            let mut inputs = node.inputs.iter().map(|tensor| &**tensor).filter(|tensor| !tensor.is_empty());
            is_constant
                .push(&*node.op_type == "Constant" || (!node.inputs.is_empty() && inputs.all(|t| fixed(&t))));
        }
        let named = before.nodes.iter().enumerate().filter(|(_, node)| !node.name.is_empty());
        let by_name = named.map(|(index, node)| (&*node.name, index)).collect();
        let claimed = vec![None; before.nodes.len()];
        Self { before: wiring, by_name, is_constant, visible: BTreeSet::new(), claimed }
    }

    /// The original node whose result a node computes.
    fn anchor(&self, node: &GraphNode) -> Option<usize> {
        if INSERTED.contains(&&*node.op_type) {
            return None;
        }
        let written = node.outputs.iter().filter(|tensor| !tensor.is_empty());
        let by_tensor = written.clone().find_map(|tensor| self.before.writer.get(&**tensor));
        let by_ending = || {
            written.clone().chain([&node.name]).find_map(|name| self.before.writer.get(without_ending(name)))
        };
        let by_name = || self.by_name.get(without_ending(&node.name));
        by_tensor.or_else(by_ending).or_else(by_name).copied()
    }

    /// Activations and sums that went into the kernel before them: its result has no name of its own any more.
    fn absorb(&mut self, after: &GraphFacts) {
        let written: BTreeSet<&str> =
            after.nodes.iter().flat_map(|node| &node.outputs).map(|t| &**t).collect();
        for index in 0..self.claimed.len() {
            if self.claimed[index].is_some() || !ABSORBED.contains(&self.before.op(index)) {
                continue;
            }
            let takes_in = |kernel: &usize| {
                let op = &after.nodes[*kernel].op_type;
                op.contains("Conv") || op.contains("Gemm") || op.contains("MatMul")
            };
            let is_gone = |writer: &usize| {
                self.before.node(*writer).outputs.iter().all(|tensor| !written.contains(&**tensor))
            };
            let latest = self.before.writers_of_inputs(index).filter(|w| self.claimed[*w].is_some()).max();
            let kernel = latest.filter(is_gone).and_then(|writer| self.claimed[writer]);
            self.claimed[index] = kernel.filter(takes_in);
        }
    }

    /// Claims for the same node everything that leads to its result from tensors that still exist.
    fn claim_what_leads_to(&mut self, anchor: usize) {
        let Some(after) = self.claimed[anchor] else { return };
        let mut open = vec![anchor];
        while let Some(index) = open.pop() {
            for tensor in &self.before.graph.nodes[index].inputs {
                if !self.visible.contains(&**tensor)
                    && let Some(writer) = self.before.writer.get(&**tensor).copied()
                    && !self.is_constant[writer]
                    && self.claimed[writer].is_none()
                {
                    self.claimed[writer] = Some(after);
                    open.push(writer);
                }
            }
        }
    }

    fn report(&self, after: &GraphFacts) -> FusionReport {
        let mut from: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut report = FusionReport {
            before: self.before.graph.nodes.len(),
            after: after.nodes.len(),
            ..FusionReport::default()
        };
        for (index, claimed) in self.claimed.iter().enumerate() {
            match claimed {
                Some(after) => from.entry(*after).or_default().push(index),
                None if self.is_constant[index] => report.folded.push(index),
                None => report.removed.push(index),
            }
        }
        for (into, node) in after.nodes.iter().enumerate() {
            let Some(mut from) = from.remove(&into) else {
                report.added.push(into);
                continue;
            };
            let computes = |index: &usize| !NOTHING.contains(&self.before.op(*index));
            if from.iter().any(computes) {
                report.removed.extend(from.iter().filter(|index| !computes(index)));
                from.retain(computes);
            }
            let is_kept = |index: usize| {
                let original = self.before.node(index);
                original.op_type == node.op_type && original.domain == node.domain
            };
            match from.as_slice() {
                [only] if is_kept(*only) => report.kept += 1,
                [_] => report.replaced.push(Fusion { into, from }),
                _ => report.fused.push(Fusion { into, from }),
            }
        }
        report.removed.sort_unstable();
        for fusion in report.fused.iter().chain(&report.replaced) {
            let parts: Vec<&str> = fusion.from.iter().map(|index| self.before.op(*index)).collect();
            let pattern = format!("{} → {}", parts.join(" + "), title(&after.nodes[fusion.into]));
            *report.patterns.entry(pattern).or_default() += 1;
        }
        report
    }
}

fn title(node: &GraphNode) -> String {
    match &*node.domain {
        "" | "ai.onnx" | "com.microsoft" => node.op_type.to_string(),
        domain => format!("{domain}.{}", node.op_type),
    }
}

/// Takes off what optimizers append: `_token_12`, `_nchwc`, and others.
fn without_ending(name: &str) -> &str {
    let name = match name.rsplit_once("_token_") {
        Some((start, number)) if number.bytes().all(|byte| byte.is_ascii_digit()) => start,
        _ => name,
    };
    let name = name.trim_end_matches(|c: char| c.is_ascii_digit() && name.contains("_post_dq"));
    ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::without_ending;

    #[test]
    fn optimizer_suffixes_are_removed() {
        for (name, original) in [
            ("conv_nchwc", "conv"),
            ("node_conv1d_token_9", "node_conv1d"),
            ("view_1_q_to_dq", "view_1"),
            ("view_1_post_dq12", "view_1"),
            ("x/duplicated", "x"),
            ("plain_12", "plain_12"),
            ("a_token_b", "a_token_b"),
        ] {
            assert_eq!(without_ending(name), original);
        }
    }
}
