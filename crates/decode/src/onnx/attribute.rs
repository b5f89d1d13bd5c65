//! `AttributeProto`: small values are kept, subgraphs are read, tensors keep their type and shape.

use super::error::OnnxError;
use super::model::{Attribute, AttributeValue, Graph, Node};
use super::read::Reader;
use super::tensor;
use super::wire::{Cursor, Payload};

/// A list that stops growing at its limit but continues counting.
#[derive(Debug)]
struct Bounded<T> {
    kept: Vec<T>,
    items: u64,
    limit: usize,
}

impl<T> Bounded<T> {
    fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), items: 0, limit }
    }

    fn push(&mut self, reader: &mut Reader<'_>, item: T) -> Result<(), OnnxError> {
        self.items += 1;
        if self.kept.len() < self.limit { reader.push(&mut self.kept, item) } else { Ok(()) }
    }

    fn value(self, keep: impl FnOnce(Vec<T>) -> AttributeValue) -> AttributeValue {
        if self.items > self.kept.len() as u64 {
            AttributeValue::Omitted { items: self.items }
        } else {
            keep(self.kept)
        }
    }
}

/// All fields of an attribute; its type, or the fields that are present, determine which one is used.
struct Partial<'a> {
    name: String,
    code: u64,
    float: Option<f32>,
    int: Option<i64>,
    text: Option<&'a [u8]>,
    floats: Bounded<f32>,
    ints: Bounded<i64>,
    texts: Bounded<String>,
    tensor: Option<tensor::Partial>,
    graph: Option<Graph>,
    others: u64,
    /// A reference to an attribute of the enclosing function.
    is_reference: bool,
}

impl Reader<'_> {
    pub fn attribute(
        &mut self,
        mut cursor: Cursor<'_>,
        node: &mut Node,
        depth: usize,
    ) -> Result<(), OnnxError> {
        let limit = self.limits().max_attribute_items;
        let mut graphs = Vec::new();
        let mut partial = Partial {
            name: String::new(),
            code: 0,
            float: None,
            int: None,
            text: None,
            floats: Bounded::new(limit),
            ints: Bounded::new(limit),
            texts: Bounded::new(limit),
            tensor: None,
            graph: None,
            others: 0,
            is_reference: false,
        };
        while let Some((number, payload)) = cursor.next()? {
            match (number, payload) {
                (1, Payload::Bytes(name)) => partial.name = self.text(name.bytes())?,
                (20, Payload::Varint(code)) => partial.code = code,
                (2, Payload::Fixed32(bits)) => partial.float = Some(f32::from_bits(bits)),
                (3, Payload::Varint(value)) => partial.int = Some(value as i64),
                (4, Payload::Bytes(text)) => partial.text = Some(text.bytes()),
                (5, Payload::Bytes(tensor)) => partial.tensor.get_or_insert_default().read(self, tensor)?,
                (6, Payload::Bytes(graph)) => {
                    self.graph(graph, partial.graph.get_or_insert_default(), depth + 1)?;
                }
                (7, Payload::Fixed32(bits)) => partial.floats.push(self, f32::from_bits(bits))?,
                (7, Payload::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        partial.floats.push(self, f32::from_bits(packed.fixed32()?))?;
                    }
                }
                (8, Payload::Varint(value)) => partial.ints.push(self, value as i64)?,
                (8, Payload::Bytes(mut packed)) => {
                    while !packed.is_empty() {
                        partial.ints.push(self, packed.varint()? as i64)?;
                    }
                }
                (9, Payload::Bytes(text)) => {
                    if partial.texts.kept.len() < limit && text.bytes().len() <= limit {
                        let text = self.text(text.bytes())?;
                        partial.texts.push(self, text)?;
                    } else {
                        partial.texts.items += 1;
                    }
                }
                // Read because of the external data that they may refer to.
                (10, Payload::Bytes(tensor)) => {
                    tensor::initializer(self, tensor)?;
                    partial.others += 1;
                }
                (22 | 23, Payload::Bytes(tensor)) => {
                    tensor::sparse(self, tensor)?;
                    partial.others += 1;
                }
                (11, Payload::Bytes(field)) => {
                    let mut graph = Graph::default();
                    self.graph(field, &mut graph, depth + 1)?;
                    self.push(&mut graphs, graph)?;
                }
                (21, Payload::Bytes(reference)) => partial.is_reference = !reference.is_empty(),
                (14 | 15, Payload::Bytes(_)) => partial.others += 1,
                _ => {}
            }
        }
        let name = std::mem::take(&mut partial.name);
        for graph in partial.graph.take().into_iter().chain(graphs) {
            self.charge(name.len())?;
            self.push(&mut node.subgraphs, (name.clone(), graph))?;
        }
        match self.value(partial)? {
            Some(value) => self.push(&mut node.attributes, Attribute { name, value }),
            None => Ok(()),
        }
    }

    /// `None` for graphs, which are stored elsewhere, and for references to a function's attribute.
    fn value(&mut self, partial: Partial<'_>) -> Result<Option<AttributeValue>, OnnxError> {
        let limit = self.limits().max_attribute_items;
        // Before IR version 2 attributes had no type.
        let code = match partial.code {
            0 if partial.float.is_some() => 1,
            0 if partial.int.is_some() => 2,
            0 if partial.text.is_some() => 3,
            0 if partial.tensor.is_some() => 4,
            0 if partial.floats.items > 0 => 6,
            0 if partial.ints.items > 0 => 7,
            0 if partial.texts.items > 0 => 8,
            code => code,
        };
        // A tensor is completed even if unused, because of the external data that it may refer to.
        let tensor = partial.tensor.map(|tensor| tensor.finish(self)).transpose()?;
        if partial.is_reference {
            return Ok(None);
        }
        Ok(Some(match code {
            1 => AttributeValue::Float(partial.float.unwrap_or_default()),
            2 => AttributeValue::Int(partial.int.unwrap_or_default()),
            3 => match partial.text.unwrap_or_default() {
                text if text.len() > limit => AttributeValue::Omitted { items: text.len() as u64 },
                text => AttributeValue::Text(self.text(text)?),
            },
            4 => match tensor {
                Some(tensor) => AttributeValue::Tensor(tensor),
                None => return Ok(None),
            },
            6 => partial.floats.value(AttributeValue::Floats),
            7 => partial.ints.value(AttributeValue::Ints),
            8 => partial.texts.value(AttributeValue::Texts),
            _ if partial.others > 0 => AttributeValue::Omitted { items: partial.others },
            _ => return Ok(None),
        }))
    }
}
