//! `ModelProto`, `GraphProto`, `NodeProto` and `FunctionProto`.

use std::collections::HashSet;

use super::error::OnnxError;
use super::model::{ExternalTensor, Function, Graph, Model, Node, Opset};
use super::wire::{Cursor, Payload, WireError, WireErrorKind};
use super::{Limits, tensor};

/// Hard limit that protects the parser's stack, whatever the caller allows.
const DEPTH_CAP: usize = 256;

/// No IR version so far is above 14; a larger number indicates another schema.
const IR_VERSION_CAP: u64 = 10_000;

/// Counts of the current parse.
pub(super) struct Reader<'a> {
    limits: &'a Limits,
    max_depth: usize,
    nodes: usize,
    memory: u64,
    pub external: Vec<ExternalTensor>,
}

pub(super) fn read(bytes: &[u8], limits: &Limits) -> Result<Model, OnnxError> {
    let max_depth = limits.max_depth.min(DEPTH_CAP);
    Reader { limits, max_depth, nodes: 0, memory: 0, external: Vec::new() }.model(bytes)
}

impl Reader<'_> {
    pub fn limits(&self) -> &Limits {
        self.limits
    }

    /// Counts memory before it is used.
    pub fn charge(&mut self, bytes: usize) -> Result<(), OnnxError> {
        self.memory = self.memory.saturating_add(bytes as u64);
        if self.memory > self.limits.max_memory_bytes {
            return Err(OnnxError::TooLarge { limit: self.limits.max_memory_bytes });
        }
        Ok(())
    }

    pub fn push<T>(&mut self, list: &mut Vec<T>, item: T) -> Result<(), OnnxError> {
        self.charge(size_of::<T>())?;
        list.push(item);
        Ok(())
    }

    /// Names are UTF-8 by specification; ONNX Runtime also accepts other encodings of old exporters.
    pub fn text(&mut self, bytes: &[u8]) -> Result<String, OnnxError> {
        self.charge(bytes.len())?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    pub fn check_depth(&self, depth: usize) -> Result<(), OnnxError> {
        if depth > self.max_depth {
            return Err(OnnxError::TooDeep { limit: self.max_depth });
        }
        Ok(())
    }

    fn model(mut self, bytes: &[u8]) -> Result<Model, OnnxError> {
        check_outline(bytes)?;
        let mut cursor = Cursor::new(bytes);
        let mut model = Model::default();
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Varint(value)) => model.ir_version = value as i64,
                (2, Payload::Bytes(field)) => model.producer_name = self.text(field.bytes())?,
                (3, Payload::Bytes(field)) => model.producer_version = self.text(field.bytes())?,
                (4, Payload::Bytes(field)) => model.domain = self.text(field.bytes())?,
                (5, Payload::Varint(value)) => model.model_version = value as i64,
                (6, Payload::Bytes(field)) => model.doc = self.text(field.bytes())?,
                (7, Payload::Bytes(field)) => self.graph(field, &mut model.graph, 0)?,
                (8, Payload::Bytes(field)) => {
                    let opset = self.opset(field)?;
                    self.push(&mut model.opsets, opset)?;
                }
                (14, Payload::Bytes(field)) => {
                    let entry = self.entry(field)?;
                    self.push(&mut model.metadata, entry)?;
                }
                (25, Payload::Bytes(field)) => {
                    let function = self.function(field)?;
                    self.push(&mut model.functions, function)?;
                }
                _ => {}
            }
        }
        if model.opsets.is_empty() && model.ir_version >= 3 {
            return Err(OnnxError::NoOpset);
        }
        without_initialized(&mut model.graph);
        model.external = self.external;
        Ok(model)
    }

    /// `StringStringEntryProto`.
    pub fn entry(&mut self, mut cursor: Cursor<'_>) -> Result<(String, String), OnnxError> {
        let mut entry = (String::new(), String::new());
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(key)) => entry.0 = self.text(key.bytes())?,
                (2, Payload::Bytes(value)) => entry.1 = self.text(value.bytes())?,
                _ => {}
            }
        }
        Ok(entry)
    }

    fn opset(&mut self, mut cursor: Cursor<'_>) -> Result<Opset, OnnxError> {
        let mut opset = Opset::default();
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(domain)) => opset.domain = self.text(domain.bytes())?,
                (2, Payload::Varint(version)) => opset.version = version as i64,
                _ => {}
            }
        }
        Ok(opset)
    }

    fn function(&mut self, mut cursor: Cursor<'_>) -> Result<Function, OnnxError> {
        let mut function = Function::default();
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(name)) => function.name = self.text(name.bytes())?,
                (10, Payload::Bytes(domain)) => function.domain = self.text(domain.bytes())?,
                (7, Payload::Bytes(node)) => {
                    let node = self.node(node, 0)?;
                    self.push(&mut function.nodes, node)?;
                }
                _ => {}
            }
        }
        function
            .nodes
            .iter_mut()
            .flat_map(|node| &mut node.subgraphs)
            .for_each(|(_, g)| without_initialized(g));
        Ok(function)
    }

    /// Reads into `graph`, so that a graph in two pieces is merged.
    pub fn graph(
        &mut self,
        mut cursor: Cursor<'_>,
        graph: &mut Graph,
        depth: usize,
    ) -> Result<(), OnnxError> {
        self.check_depth(depth)?;
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(node)) => {
                    let node = self.node(node, depth)?;
                    self.push(&mut graph.nodes, node)?;
                }
                (2, Payload::Bytes(name)) => graph.name = self.text(name.bytes())?,
                (5, Payload::Bytes(tensor)) => {
                    let initializer = tensor::initializer(self, tensor)?;
                    self.push(&mut graph.initializers, initializer)?;
                }
                (15, Payload::Bytes(tensor)) => {
                    let initializer = tensor::sparse(self, tensor)?;
                    self.push(&mut graph.initializers, initializer)?;
                }
                (11, Payload::Bytes(value)) => {
                    let value = self.value_info(value)?;
                    self.push(&mut graph.inputs, value)?;
                }
                (12, Payload::Bytes(value)) => {
                    let value = self.value_info(value)?;
                    self.push(&mut graph.outputs, value)?;
                }
                (13, Payload::Bytes(value)) => {
                    let value = self.value_info(value)?;
                    self.push(&mut graph.values, value)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn node(&mut self, mut cursor: Cursor<'_>, depth: usize) -> Result<Node, OnnxError> {
        self.nodes += 1;
        if self.nodes > self.limits.max_nodes {
            return Err(OnnxError::TooManyNodes { limit: self.limits.max_nodes });
        }
        let mut node = Node::default();
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(name)) => {
                    let name = self.text(name.bytes())?;
                    self.push(&mut node.inputs, name)?;
                }
                (2, Payload::Bytes(name)) => {
                    let name = self.text(name.bytes())?;
                    self.push(&mut node.outputs, name)?;
                }
                (3, Payload::Bytes(name)) => node.name = self.text(name.bytes())?,
                (4, Payload::Bytes(op_type)) => node.op_type = self.text(op_type.bytes())?,
                (7, Payload::Bytes(domain)) => node.domain = self.text(domain.bytes())?,
                (5, Payload::Bytes(attribute)) => self.attribute(attribute, &mut node, depth)?,
                _ => {}
            }
        }
        Ok(node)
    }
}

/// Before IR version 4 every initializer was also an input.
fn without_initialized(graph: &mut Graph) {
    if !graph.inputs.is_empty() && !graph.initializers.is_empty() {
        let known: HashSet<&str> = graph.initializers.iter().map(|tensor| tensor.name.as_str()).collect();
        graph.inputs.retain(|input| !known.contains(input.name.as_str()));
    }
    for node in &mut graph.nodes {
        for (_, subgraph) in &mut node.subgraphs {
            without_initialized(subgraph);
        }
    }
}

/// Checks for a complete model before reading anything: other protobuf files have the same field numbers.
fn check_outline(bytes: &[u8]) -> Result<(), OnnxError> {
    let mut cursor = Cursor::new(bytes);
    let (mut has_version, mut has_graph) = (false, false);
    loop {
        match cursor.next() {
            Ok(Some((1, Payload::Varint(version)))) => has_version = (1..IR_VERSION_CAP).contains(&version),
            Ok(Some((7, Payload::Bytes(_)))) => has_graph = true,
            Ok(Some(_)) => {}
            Ok(None) if !has_version => return Err(not_onnx()),
            Ok(None) if !has_graph => return Err(OnnxError::NoGraph),
            Ok(None) => return Ok(()),
            Err(error) => return Err(top_level_error(error, has_version)),
        }
    }
}

fn not_onnx() -> OnnxError {
    OnnxError::NotOnnx { reason: "it does not begin like one, and its kind was not recognized".to_owned() }
}

/// Top-level lengths end at the end of the file, so a field that is too long means that the file is too short, provided
/// that it began like a model.
fn top_level_error(error: WireError, has_version: bool) -> OnnxError {
    if !has_version {
        return not_onnx();
    }
    match error.kind {
        WireErrorKind::CutField { missing } => OnnxError::Truncated { at: error.at as u64, missing },
        WireErrorKind::CutNumber => OnnxError::Truncated { at: error.at as u64, missing: 1 },
        _ => error.into(),
    }
}
