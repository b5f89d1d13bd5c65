//! The graph that was run, joined with the rows of its profile: the computation of each operator, and its dependencies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use ortscope_analyze::flops::{
    self, AttributeFact, FlopCount, Method, OpFacts, ReportedTensor, TensorFacts, align_inputs,
    element_by_runtime_name,
};
use ortscope_analyze::operators::fusion::{GraphFacts, GraphNode};
use ortscope_core::schema::{OperatorRow, Text};
use ortscope_decode::onnx::{self, AttributeValue, Graph, Limits, Node};

/// The graph as ONNX Runtime ran it, or the file's own if it could not be written.
#[derive(Debug)]
pub struct RunGraph {
    graph: Graph,
    /// Node names may occur twice; sub-graphs are included.
    by_name: HashMap<String, Vec<Place>>,
    parameters: HashMap<String, TensorFacts>,
    counted: HashMap<CountKey, FlopCount>,
}

/// Dependencies between nodes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// (writer, reader)
    pub known: Vec<(u64, u64)>,
    /// Whether every node of the profile was found: only then is a missing edge certain.
    pub is_complete: bool,
}

/// The path to a node: indices of nodes and their sub-graphs.
type Place = Vec<(usize, usize)>;
type CountKey = (Text, Text, Option<Text>, Option<Text>);

/// Maximum number of cached counts, for profiles with very many shapes.
const MAX_COUNTED: usize = 1_000_000;

impl RunGraph {
    pub fn read(path: &Path) -> Result<Self, String> {
        let bytes = fs_err::read(path).map_err(|error| error.to_string())?;
        let model = onnx::read_model(&bytes, &Limits::default()).map_err(|error| error.to_string())?;
        Ok(Self::new(model.graph))
    }

    pub fn new(graph: Graph) -> Self {
        let mut read = Self {
            by_name: HashMap::new(),
            parameters: HashMap::new(),
            counted: HashMap::new(),
            graph: Graph::default(),
        };
        read.index(&graph, &mut Vec::new());
        read.graph = graph;
        read
    }

    fn index(&mut self, graph: &Graph, at: &mut Place) {
        for tensor in &graph.initializers {
            let facts = TensorFacts::parameter(tensor.element, &tensor.dims);
            self.parameters.insert(tensor.name.clone(), facts);
        }
        for (number, node) in graph.nodes.iter().enumerate() {
            // Constants that the optimizer did not turn into initializers are weights, too.
            if let (Some(AttributeValue::Tensor(tensor)), "Constant") =
                (node.attribute("value"), node.op_type.as_str())
                && let Some(output) = node.outputs.first()
            {
                let facts = TensorFacts::parameter(tensor.element, &tensor.dims);
                self.parameters.insert(output.clone(), facts);
            }
            at.push((number, 0));
            self.by_name.entry(node.name.clone()).or_default().push(at.clone());
            for (body, (_, subgraph)) in node.subgraphs.iter().enumerate() {
                if let Some(last) = at.last_mut() {
                    last.1 = body;
                }
                self.index(subgraph, at);
            }
            at.pop();
        }
    }

    fn node(&self, place: &Place) -> Option<&Node> {
        let mut graph = &self.graph;
        let (last, way) = place.split_last()?;
        for (node, body) in way {
            graph = &graph.nodes.get(*node)?.subgraphs.get(*body)?.1;
        }
        graph.nodes.get(last.0)
    }

    /// Nodes that a row may describe. A node without a name is profiled as `TYPE_INDEX`.
    fn candidates(&self, row: &OperatorRow) -> Vec<&Node> {
        let named = self.by_name.get(&*row.name).filter(|_| !row.name.is_empty());
        let is_index = |text: &str| text.strip_prefix('_').is_some_and(|index| index.parse::<u64>().is_ok());
        let unnamed = || {
            let is_made = row.name.strip_prefix(&*row.op_type).is_some_and(is_index);
            self.by_name.get("").filter(|_| is_made || row.name.is_empty())
        };
        let places = named.or_else(unnamed).map_or(&[][..], Vec::as_slice);
        places
            .iter()
            .filter_map(|place| self.node(place))
            .filter(|node| node.op_type == *row.op_type)
            .collect()
    }

    /// FLOPs and bytes of the operator of a row.
    pub fn count(&mut self, row: &OperatorRow) -> FlopCount {
        let key = (
            Text::clone(&row.name),
            Text::clone(&row.op_type),
            row.input_shapes.clone(),
            row.output_shapes.clone(),
        );
        if let Some(counted) = self.counted.get(&key) {
            return counted.clone();
        }
        let counted = self.count_anew(row);
        if self.counted.len() < MAX_COUNTED {
            self.counted.insert(key, counted.clone());
        }
        counted
    }

    fn count_anew(&self, row: &OperatorRow) -> FlopCount {
        let reported = reported(row.input_types.as_deref(), row.input_shapes.as_deref());
        let outputs = reported_outputs(row);
        let candidates = self.candidates(row);
        if candidates.is_empty() {
            let why = "the node is not in the graph: the provider compiled it, or it was made while loading";
            return unknown(why);
        }
        let mut answers: Vec<FlopCount> = Vec::new();
        for node in candidates {
            let known: Vec<Option<TensorFacts>> = node
                .inputs
                .iter()
                .map(|name| {
                    (!name.is_empty()).then(|| self.parameters.get(name).cloned().unwrap_or_default())
                })
                .collect();
            let Some(inputs) = align_inputs(&known, &reported) else { continue };
            let (domain, op_type) = node.operator();
            let facts = OpFacts {
                domain: domain.to_owned(),
                op_type: op_type.to_owned(),
                inputs,
                outputs: outputs.clone(),
                attributes: attributes(node),
            };
            let count = flops::count(&facts);
            if !answers.contains(&count) {
                answers.push(count);
            }
        }
        match answers.len() {
            0 => unknown("the profile's tensors do not fit the inputs of the node"),
            1 => answers.swap_remove(0),
            // Several nodes with this name have different counts: the right one is unknown.
            _ => unknown("several nodes have this name, and they compute different amounts"),
        }
    }

    /// The main graph, for comparing optimization states.
    pub fn facts(&self) -> GraphFacts {
        graph_facts(&self.graph)
    }

    pub fn node_count(&self) -> u64 {
        self.graph.nodes.len() as u64
    }

    /// Dependencies by the profile's numbers of the nodes in the main graph. Nodes that cannot be identified have none: those
    /// without a name, and those created while loading.
    pub fn edges<'r>(&self, rows: impl Iterator<Item = (&'r str, &'r str, u64)>) -> Edges {
        let mut number_of: BTreeMap<usize, u64> = BTreeMap::new();
        let mut is_complete = true;
        for (name, op_type, node_index) in rows {
            let of_type = |place: &&Place| {
                place.len() == 1 && self.node(place).is_some_and(|node| node.op_type == op_type)
            };
            let named = self.by_name.get(name).filter(|_| !name.is_empty());
            let mut places = named.into_iter().flatten().filter(of_type);
            match (places.next().and_then(|place| place.first()), places.next()) {
                (Some((at, _)), None) => drop(number_of.insert(*at, node_index)),
                _ => is_complete = false,
            }
        }
        let mut writer: HashMap<&str, usize> = HashMap::new();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            writer.extend(node.outputs.iter().map(|output| (output.as_str(), at)));
        }
        let mut edges = BTreeSet::new();
        for (at, node) in self.graph.nodes.iter().enumerate() {
            let Some(to) = number_of.get(&at) else { continue };
            let mut read = BTreeSet::new();
            reads(node, &mut read);
            for name in read {
                if let Some(from) = writer.get(name).and_then(|from| number_of.get(from)) {
                    edges.insert((*from, *to));
                }
            }
        }
        Edges { known: edges.into_iter().collect(), is_complete }
    }

    /// Whether the model has loops: their profile has more events than the graph has nodes.
    pub fn has_loops(graph: &Graph) -> bool {
        graph.nodes.iter().any(|node| {
            matches!(node.op_type.as_str(), "Loop" | "Scan")
                || node.subgraphs.iter().any(|(_, subgraph)| Self::has_loops(subgraph))
        })
    }
}

/// The inputs of a node and the outer values that its sub-graphs read.
fn reads<'g>(node: &'g Node, into: &mut BTreeSet<&'g str>) {
    into.extend(node.inputs.iter().map(String::as_str));
    for (_, subgraph) in &node.subgraphs {
        for inner in &subgraph.nodes {
            reads(inner, into);
        }
    }
}

pub fn graph_facts(graph: &Graph) -> GraphFacts {
    let texts = |names: &[String]| names.iter().map(|name| name.as_str().into()).collect();
    let nodes = graph.nodes.iter().map(|node| GraphNode {
        name: node.name.as_str().into(),
        op_type: node.op_type.as_str().into(),
        domain: node.operator().0.into(),
        inputs: texts(&node.inputs),
        outputs: texts(&node.outputs),
    });
    GraphFacts {
        nodes: nodes.collect(),
        parameters: graph.initializers.iter().map(|tensor| tensor.name.as_str().into()).collect(),
        outputs: graph.outputs.iter().map(|value| value.name.as_str().into()).collect(),
    }
}

fn unknown(why: &str) -> FlopCount {
    FlopCount {
        flops: None,
        macs: None,
        method: Method::Unknown { why: why.to_owned() },
        note: None,
        bytes_moved: None,
        weight_bytes: None,
    }
}

fn reported(types: Option<&str>, shapes: Option<&str>) -> Vec<ReportedTensor> {
    let types: Vec<String> = types.and_then(|types| serde_json::from_str(types).ok()).unwrap_or_default();
    let shapes: Vec<Vec<u64>> =
        shapes.and_then(|shapes| serde_json::from_str(shapes).ok()).unwrap_or_default();
    let named = |(index, shape): (usize, Vec<u64>)| ReportedTensor {
        element: types.get(index).and_then(|name| element_by_runtime_name(name)),
        shape,
    };
    shapes.into_iter().enumerate().map(named).collect()
}

fn reported_outputs(row: &OperatorRow) -> Vec<Option<TensorFacts>> {
    reported(row.output_types.as_deref(), row.output_shapes.as_deref())
        .into_iter()
        .map(|tensor| {
            Some(TensorFacts { shape: Some(tensor.shape), element: tensor.element, ..TensorFacts::default() })
        })
        .collect()
}

fn attributes(node: &Node) -> BTreeMap<String, AttributeFact> {
    let fact = |value: &AttributeValue| match value {
        AttributeValue::Int(value) => AttributeFact::Int(*value),
        AttributeValue::Float(value) => AttributeFact::Float(f64::from(*value)),
        AttributeValue::Text(value) => AttributeFact::Text(value.clone()),
        AttributeValue::Ints(values) => AttributeFact::Ints(values.clone()),
        AttributeValue::Floats(values) => {
            AttributeFact::Floats(values.iter().map(|value| f64::from(*value)).collect())
        }
        AttributeValue::Texts(values) => AttributeFact::Other { items: values.len() as u64 },
        AttributeValue::Tensor(tensor) => AttributeFact::Other { items: tensor.elements() },
        AttributeValue::Omitted { items } => AttributeFact::Other { items: *items },
    };
    node.attributes.iter().map(|attribute| (attribute.name.clone(), fact(&attribute.value))).collect()
}

#[cfg(test)]
mod tests {
    use ortscope_core::tensor::ElementType;
    use ortscope_decode::onnx::Initializer;

    use super::*;

    fn node(name: &str, op_type: &str, inputs: &[&str], output: &str) -> Node {
        Node {
            name: name.into(),
            op_type: op_type.into(),
            inputs: inputs.iter().map(|input| (*input).to_owned()).collect(),
            outputs: vec![output.into()],
            ..Node::default()
        }
    }

    fn weight(name: &str, dims: &[u64]) -> Initializer {
        Initializer {
            name: name.into(),
            element: ElementType::Float32,
            dims: dims.to_vec(),
            bytes: dims.iter().product::<u64>() * 4,
            sparse: false,
            external: None,
        }
    }

    fn row(name: &str, op_type: &str, inputs: &str, outputs: &str) -> OperatorRow {
        OperatorRow {
            name: name.into(),
            op_type: op_type.into(),
            input_shapes: Some(inputs.into()),
            input_types: Some(r#"["float","float"]"#.into()),
            output_shapes: Some(outputs.into()),
            output_types: Some(r#"["float"]"#.into()),
            ..OperatorRow::default()
        }
    }

    /// Kernels pack the weights of a product, and the profile does not list them; the graph has them.
    #[test]
    fn packed_weights_are_counted() {
        let graph = Graph {
            nodes: vec![node("m", "MatMul", &["x", "w"], "y")],
            initializers: vec![weight("w", &[8, 16])],
            ..Graph::default()
        };
        let mut graph = RunGraph::new(graph);
        let counted = graph.count(&row("m", "MatMul", "[[4,8]]", "[[4,16]]"));
        assert_eq!((counted.macs, counted.weight_bytes), (Some(4 * 8 * 16), Some(8 * 16 * 4)));
        assert!(graph.count(&row("other", "MatMul", "[[4,8]]", "[[4,16]]")).flops.is_none());
    }

    #[test]
    fn duplicate_names_are_distinguished_by_shape_or_not_at_all() {
        let graph = Graph {
            nodes: vec![node("m", "MatMul", &["x", "w"], "y"), node("m", "MatMul", &["y", "v"], "z")],
            initializers: vec![weight("w", &[8, 16]), weight("v", &[16, 3])],
            ..Graph::default()
        };
        let mut graph = RunGraph::new(graph);
        let listed = graph.count(&row("m", "MatMul", "[[4,8],[8,16]]", "[[4,16]]"));
        assert_eq!(listed.macs, Some(512));
        assert_eq!(graph.edges([("m", "MatMul", 0)].into_iter()), Edges::default());
    }

    #[test]
    fn edges_go_through_sub_graphs() {
        let body = Graph { nodes: vec![node("inner", "Relu", &["a"], "b")], ..Graph::default() };
        let mut branch = node("if", "If", &["c"], "d");
        branch.subgraphs.push(("then_branch".into(), body));
        let graph = Graph { nodes: vec![node("first", "Relu", &["x"], "a"), branch], ..Graph::default() };
        let graph = RunGraph::new(graph);
        let rows = [("first", "Relu", 4), ("if", "If", 9)];
        assert_eq!(graph.edges(rows.into_iter()), Edges { known: vec![(4, 9)], is_complete: true });
        let rows = [("first", "Relu", 4), ("if", "If", 9), ("made_by_loading", "Mul", 10)];
        assert_eq!(graph.edges(rows.into_iter()), Edges { known: vec![(4, 9)], is_complete: false });
    }

    #[test]
    fn unnamed_nodes_are_found_by_their_type() {
        let graph = Graph { nodes: vec![node("", "Relu", &["x"], "y")], ..Graph::default() };
        let mut graph = RunGraph::new(graph);
        let found = graph.count(&OperatorRow {
            input_types: Some(r#"["float"]"#.into()),
            ..row("Relu_7", "Relu", "[[10]]", "[[10]]")
        });
        assert_eq!(found.flops, Some(10));
    }
}
