//! Hints from the graph about suitable input values.
//!
//! Random numbers are good enough for most inputs, but an index beyond its table fails or reads elsewhere, and a random
//! attention mask measures another model. Indices are found by following an input through shape-preserving operators to
//! a `Gather` from a table with a known size.

use std::collections::{BTreeMap, HashMap, HashSet};

use ortscope_core::tensor::{Dimension, ValueInfo, ValueType};
use serde::{Deserialize, Serialize};

use super::model::{AttributeValue, Graph, Initializer, Model, Node};

/// Hints for every input, by name.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputHints {
    pub inputs: BTreeMap<String, InputHint>,
}

impl InputHints {
    /// Default hint for an unknown input.
    pub fn get(&self, name: &str) -> InputHint {
        self.inputs.get(name).cloned().unwrap_or_default()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct InputHint {
    /// Rows of the smallest table that this input indexes.
    pub vocabulary: Option<u64>,
    /// It is used as an index, perhaps into a table of unknown size.
    pub feeds_index: bool,
    pub is_mask: bool,
    pub is_position: bool,
    /// A cache of earlier tokens (`past_key_values.0.key`).
    pub is_cache: bool,
    /// It looks like images, with this channel layout.
    pub image: Option<ImageLayout>,
    /// It specifies sequence lengths of an attention operator.
    pub length: Option<LengthRole>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ImageLayout {
    ChannelsFirst,
    ChannelsLast,
}

/// Inputs of `com.microsoft.GroupQueryAttention` that must match the shapes of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LengthRole {
    /// Per batch entry: tokens so far, minus one.
    LastIndex,
    /// Past and new tokens together.
    Total,
}

impl Model {
    pub fn input_hints(&self) -> InputHints {
        let uses = Uses::of(&self.graph);
        let inputs = self.graph.inputs.iter().map(|input| (input.name.clone(), hint(&uses, input)));
        InputHints { inputs: inputs.collect() }
    }
}

pub(super) fn is_cache(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.starts_with("past")
        || name.contains("past_")
        || name.contains("past.")
        || name.contains("kv_cache")
        || name.contains("cache_k")
        || name.contains("cache_v")
        || name.contains("key_cache")
        || name.contains("value_cache")
}

fn hint(uses: &Uses<'_>, input: &ValueInfo) -> InputHint {
    let name = input.name.to_ascii_lowercase();
    let mut hint = InputHint {
        is_mask: name.contains("mask"),
        is_position: name.contains("position") || name.contains("pos_ids"),
        is_cache: is_cache(&name),
        ..InputHint::default()
    };
    if let (ValueType::Tensor { shape: Some(shape), .. }, false) =
        (&input.value_type, hint.is_cache || hint.is_mask)
    {
        hint.image = image(shape);
    }
    uses.follow(&input.name, &mut hint);
    hint
}

fn image(shape: &[Dimension]) -> Option<ImageLayout> {
    let [_, second, third, last] = shape else {
        return None;
    };
    let channels = |dim: &Dimension| matches!(dim, Dimension::Fixed(1 | 3 | 4));
    let spatial = |dim: &Dimension| !matches!(dim, Dimension::Fixed(0..8));
    if channels(second) && spatial(third) && spatial(last) {
        Some(ImageLayout::ChannelsFirst)
    } else if channels(last) && spatial(second) && spatial(third) {
        Some(ImageLayout::ChannelsLast)
    } else {
        None
    }
}

/// Uses of values across all subgraphs: ONNX forbids inner names that hide outer ones, and the hints of sibling branches
/// with the same name are merged.
struct Uses<'a> {
    consumers: HashMap<&'a str, Vec<(&'a Node, usize)>>,
    producers: HashMap<&'a str, &'a Node>,
    tables: HashMap<&'a str, &'a Initializer>,
}

impl<'a> Uses<'a> {
    fn of(graph: &'a Graph) -> Self {
        let mut uses = Self { consumers: HashMap::new(), producers: HashMap::new(), tables: HashMap::new() };
        uses.add(graph);
        uses
    }

    fn add(&mut self, graph: &'a Graph) {
        self.tables.extend(graph.initializers.iter().map(|tensor| (tensor.name.as_str(), tensor)));
        for node in &graph.nodes {
            for (slot, name) in node.inputs.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
                self.consumers.entry(name).or_default().push((node, slot));
            }
            for name in &node.outputs {
                self.producers.insert(name, node);
            }
            if let (("", "Constant"), Some(AttributeValue::Tensor(tensor)), Some(output)) =
                (node.operator(), node.attribute("value"), node.outputs.first())
            {
                self.tables.insert(output, tensor);
            }
            for (_, subgraph) in &node.subgraphs {
                self.add(subgraph);
            }
        }
    }

    fn follow(&self, input: &'a str, hint: &mut InputHint) {
        let mut seen = HashSet::from([input]);
        let mut open = vec![input];
        while let Some(value) = open.pop() {
            for (node, slot) in self.consumers.get(value).into_iter().flatten() {
                if let Some(role) = length_role(node, *slot) {
                    hint.length = Some(role);
                } else if let Some((table, axis)) = indexed(node, *slot) {
                    hint.feeds_index = true;
                    if let Some(rows) = table.and_then(|table| self.rows(node.inputs.get(table)?, axis)) {
                        hint.vocabulary = Some(hint.vocabulary.map_or(rows, |known| known.min(rows)));
                    }
                } else if *slot == 0 && changes_form_only(node) {
                    open.extend(node.outputs.first().map(String::as_str).filter(|name| seen.insert(name)));
                }
            }
        }
    }

    /// Size of a table along an axis, through operators that keep its shape.
    fn rows(&self, table: &str, axis: i64) -> Option<u64> {
        let mut table = table;
        for _ in 0..8 {
            if let Some(tensor) = self.tables.get(table) {
                let rank = i64::try_from(tensor.dims.len()).ok()?;
                let axis = if axis < 0 { axis + rank } else { axis };
                return tensor.dims.get(usize::try_from(axis).ok()?).copied().filter(|rows| *rows > 0);
            }
            let producer = self.producers.get(table)?;
            if !matches!(
                producer.op_type.as_str(),
                "Cast" | "Identity" | "DequantizeLinear" | "QuantizeLinear"
            ) {
                return None;
            }
            table = producer.inputs.first()?;
        }
        None
    }
}

fn changes_form_only(node: &Node) -> bool {
    let op = node.op_type.as_str();
    matches!(
        op,
        "Cast"
            | "Reshape"
            | "Squeeze"
            | "Unsqueeze"
            | "Identity"
            | "Flatten"
            | "Transpose"
            | "Expand"
            | "Slice"
    )
}

/// Whether a node uses the input in this slot as an index: the slot of the table, if it has one, and the axis.
fn indexed(node: &Node, slot: usize) -> Option<(Option<usize>, i64)> {
    match (node.operator(), slot) {
        (("", "Gather" | "GatherElements"), 1) => Some((Some(0), node.int("axis").unwrap_or(0))),
        (("com.microsoft", "GatherBlockQuantized"), 1) => {
            Some((Some(0), node.int("gather_axis").unwrap_or(0)))
        }
        (("com.microsoft", "EmbedLayerNormalization"), 0) => Some((Some(2), 0)),
        (("com.microsoft", "EmbedLayerNormalization"), 1) => Some((Some(4), 0)),
        (("com.microsoft", "EmbedLayerNormalization"), 8) => Some((Some(3), 0)),
        (("", "GatherND"), 1) | (("", "OneHot"), 0) => Some((None, 0)),
        _ => None,
    }
}

fn length_role(node: &Node, slot: usize) -> Option<LengthRole> {
    match (node.operator(), slot) {
        (("com.microsoft", "GroupQueryAttention"), 5) => Some(LengthRole::LastIndex),
        (("com.microsoft", "GroupQueryAttention"), 6) => Some(LengthRole::Total),
        _ => None,
    }
}
