//! The parsed model: everything except the weights' bytes.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_core::tensor::{ElementType, ValueInfo};
use serde::Serialize;

/// A model without its weights.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Model {
    pub ir_version: i64,
    pub producer_name: String,
    pub producer_version: String,
    pub domain: String,
    pub model_version: i64,
    pub doc: String,
    pub opsets: Vec<Opset>,
    pub metadata: Vec<(String, String)>,
    pub functions: Vec<Function>,
    pub graph: Graph,
    /// Every tensor with external data, wherever it is: initializers, attributes, functions.
    pub external: Vec<ExternalTensor>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Opset {
    /// Empty for ONNX's own operators.
    pub domain: String,
    pub version: i64,
}

/// A model function: an operator defined by nodes.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Function {
    pub domain: String,
    pub name: String,
    pub nodes: Vec<Node>,
}

impl Function {
    /// Nodes of its body, without those of subgraphs.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Graph {
    pub name: String,
    /// Inputs that the caller provides, without those that have an initializer.
    pub inputs: Vec<ValueInfo>,
    pub outputs: Vec<ValueInfo>,
    pub nodes: Vec<Node>,
    pub initializers: Vec<Initializer>,
    /// Types of intermediate values, as far as the exporter wrote them.
    pub values: Vec<ValueInfo>,
}

#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Node {
    pub name: String,
    pub op_type: String,
    /// As written; empty and `ai.onnx` are equivalent, see [`Node::operator`].
    pub domain: String,
    /// An empty name is an omitted optional input.
    pub inputs: Vec<String>,
    pub outputs: Vec<String>,
    /// Bodies of `If`, `Loop` and `Scan`, with the attribute's name.
    pub subgraphs: Vec<(String, Graph)>,
    pub attributes: Vec<Attribute>,
}

impl Node {
    /// Domain (empty for ONNX's own) and type.
    pub fn operator(&self) -> (&str, &str) {
        let domain = if self.domain == "ai.onnx" { "" } else { self.domain.as_str() };
        (domain, self.op_type.as_str())
    }

    pub fn attribute(&self, name: &str) -> Option<&AttributeValue> {
        self.attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.value)
    }

    pub fn int(&self, name: &str) -> Option<i64> {
        match self.attribute(name)? {
            AttributeValue::Int(value) => Some(*value),
            _ => None,
        }
    }

    pub fn ints(&self, name: &str) -> Option<&[i64]> {
        match self.attribute(name)? {
            AttributeValue::Ints(values) => Some(values),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Attribute {
    pub name: String,
    pub value: AttributeValue,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum AttributeValue {
    Int(i64),
    Float(f32),
    Text(String),
    Ints(Vec<i64>),
    Floats(Vec<f32>),
    Texts(Vec<String>),
    /// Type and shape of a tensor, without its bytes.
    Tensor(Initializer),
    /// Too long ([`super::Limits::max_attribute_items`]), or of a kind that is not needed.
    Omitted {
        items: u64,
    },
}

/// A tensor of the model, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Initializer {
    pub name: String,
    pub element: ElementType,
    pub dims: Vec<u64>,
    /// Size of the payload from type and shape (from the content for strings and sparse tensors).
    pub bytes: u64,
    pub sparse: bool,
    pub external: Option<ExternalData>,
}

impl Initializer {
    pub fn elements(&self) -> u64 {
        self.dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim))
    }
}

/// Location of a tensor's data. It comes from the file and must be checked before it is opened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalData {
    pub location: String,
    pub offset: u64,
    pub length: Option<u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExternalTensor {
    pub tensor: String,
    /// Size required by type and shape.
    pub bytes: u64,
    pub data: ExternalData,
}

impl Model {
    /// Nodes of the top level.
    pub fn node_count(&self) -> usize {
        self.graph.nodes.len()
    }

    /// Nodes of the graph with those of all subgraphs, without the bodies of functions.
    pub fn total_node_count(&self) -> usize {
        let mut count = 0;
        self.visit_nodes(&mut |_| count += 1);
        count
    }

    /// Number of occurrences of each operator (domain, type), including subgraphs. ONNX's own domain is empty.
    pub fn operator_counts(&self) -> BTreeMap<(String, String), usize> {
        let mut borrowed: BTreeMap<(&str, &str), usize> = BTreeMap::new();
        visit_graph(&self.graph, &mut |node| {
            *borrowed.entry(node.operator()).or_default() += 1;
        });
        borrowed
            .into_iter()
            .map(|((domain, op), count)| ((domain.to_owned(), op.to_owned()), count))
            .collect()
    }

    /// Elements of all initializers and of all `Constant` tensors (some exporters keep weights there).
    pub fn parameter_count(&self) -> u64 {
        let mut count = 0u64;
        self.visit_parameters(&mut |tensor| count = count.saturating_add(tensor.elements()));
        count
    }

    /// Bytes of the parameters in [`Self::parameter_count`], including external data.
    pub fn parameter_bytes(&self) -> u64 {
        let mut bytes = 0u64;
        self.visit_parameters(&mut |tensor| bytes = bytes.saturating_add(tensor.bytes));
        bytes
    }

    /// The external data files of the model, as spelled in the model.
    pub fn external_locations(&self) -> BTreeSet<&str> {
        self.external.iter().map(|tensor| tensor.data.location.as_str()).collect()
    }

    /// The version of ONNX's own operator set, if the model imports it.
    pub fn opset(&self) -> Option<i64> {
        self.opsets
            .iter()
            .find(|opset| matches!(opset.domain.as_str(), "" | "ai.onnx"))
            .map(|opset| opset.version)
    }

    /// Calls `visit` for each node, including subgraphs, outer before inner.
    pub fn visit_nodes<'a>(&'a self, visit: &mut impl FnMut(&'a Node)) {
        visit_graph(&self.graph, visit);
    }

    pub(super) fn visit_parameters(&self, visit: &mut impl FnMut(&Initializer)) {
        fn visit_graph(graph: &Graph, visit: &mut impl FnMut(&Initializer)) {
            graph.initializers.iter().for_each(&mut *visit);
            for node in &graph.nodes {
                if node.operator() == ("", "Constant") {
                    for attribute in &node.attributes {
                        if let AttributeValue::Tensor(tensor) = &attribute.value {
                            visit(tensor);
                        }
                    }
                }
                for (_, subgraph) in &node.subgraphs {
                    visit_graph(subgraph, visit);
                }
            }
        }
        visit_graph(&self.graph, visit);
    }
}

// Recursion is bounded: the parser rejects deeper graphs.
pub(super) fn visit_graph<'a>(graph: &'a Graph, visit: &mut impl FnMut(&'a Node)) {
    for node in &graph.nodes {
        visit(node);
        for (_, subgraph) in &node.subgraphs {
            visit_graph(subgraph, visit);
        }
    }
}
