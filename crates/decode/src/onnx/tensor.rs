//! `TensorProto` and `SparseTensorProto`, without their weights.

use ortscope_core::tensor::{ElementType, element_count};

use super::error::{OnnxError, shown};
use super::model::{ExternalData, ExternalTensor, Initializer};
use super::read::Reader;
use super::types;
use super::wire::{Cursor, Payload};

/// A partly read tensor.
#[derive(Debug, Default)]
pub(super) struct Partial {
    name: String,
    dims: Vec<i64>,
    code: u64,
    text_bytes: u64,
    is_external: bool,
    entries: Vec<(String, String)>,
}

pub(super) fn initializer(reader: &mut Reader<'_>, cursor: Cursor<'_>) -> Result<Initializer, OnnxError> {
    let mut partial = Partial::default();
    partial.read(reader, cursor)?;
    partial.finish(reader)
}

impl Partial {
    /// May be called again for a tensor in several pieces.
    pub fn read(&mut self, reader: &mut Reader<'_>, mut cursor: Cursor<'_>) -> Result<(), OnnxError> {
        while let Some((number, payload)) = cursor.next()? {
            match (number, payload) {
                (1, payload) => dims(reader, payload, &mut self.dims)?,
                (2, Payload::Varint(code)) => self.code = code,
                (6, Payload::Bytes(text)) => self.text_bytes += text.bytes().len() as u64,
                (8, Payload::Bytes(name)) => self.name = reader.text(name.bytes())?,
                (13, Payload::Bytes(entry)) => {
                    let entry = reader.entry(entry)?;
                    reader.push(&mut self.entries, entry)?;
                }
                (14, Payload::Varint(location)) => self.is_external = location == 1,
                _ => {}
            }
        }
        Ok(())
    }

    pub fn finish(self, reader: &mut Reader<'_>) -> Result<Initializer, OnnxError> {
        let Some(element) = types::element(self.code) else {
            return Err(OnnxError::UnknownElementType { tensor: self.name, code: self.code as i64 });
        };
        let dims: Option<Vec<u64>> = self.dims.iter().map(|dim| u64::try_from(*dim).ok()).collect();
        let sizes = dims.and_then(|dims| {
            let elements = element_count(&dims)?;
            let bytes =
                if element == ElementType::String { self.text_bytes } else { element.bytes_for(elements)? };
            Some((dims, bytes))
        });
        let Some((dims, bytes)) = sizes else {
            return Err(OnnxError::BadDimension { tensor: self.name, dims: self.dims });
        };
        let external = if self.is_external { Some(external(&self.name, &self.entries)?) } else { None };
        if let Some(data) = &external {
            reader.charge(size_of::<ExternalTensor>() + self.name.len() + data.location.len())?;
            reader.external.push(ExternalTensor { tensor: self.name.clone(), bytes, data: data.clone() });
        }
        Ok(Initializer { name: self.name, element, dims, bytes, sparse: false, external })
    }
}

/// A sparse tensor has the name of its values.
pub(super) fn sparse(reader: &mut Reader<'_>, mut cursor: Cursor<'_>) -> Result<Initializer, OnnxError> {
    let (mut values, mut indices) = (Partial::default(), Partial { code: 7, ..Partial::default() });
    let mut dense = Vec::new();
    while let Some((number, payload)) = cursor.next()? {
        match (number, payload) {
            (1, Payload::Bytes(tensor)) => values.read(reader, tensor)?,
            (2, Payload::Bytes(tensor)) => indices.read(reader, tensor)?,
            (3, payload) => dims(reader, payload, &mut dense)?,
            _ => {}
        }
    }
    let values = values.finish(reader)?;
    let indices = indices.finish(reader)?;
    let shape: Option<Vec<u64>> = dense.iter().map(|dim| u64::try_from(*dim).ok()).collect();
    match shape.filter(|shape| element_count(shape).is_some()) {
        Some(shape) => Ok(Initializer {
            dims: shape,
            bytes: values.bytes.saturating_add(indices.bytes),
            sparse: true,
            ..values
        }),
        None => Err(OnnxError::BadDimension { tensor: values.name, dims: dense }),
    }
}

/// A packed or unpacked list of numbers.
fn dims(reader: &mut Reader<'_>, payload: Payload<'_>, dims: &mut Vec<i64>) -> Result<(), OnnxError> {
    match payload {
        Payload::Varint(dim) => reader.push(dims, dim as i64),
        Payload::Bytes(mut packed) => {
            while !packed.is_empty() {
                let dim = packed.varint()?;
                reader.push(dims, dim as i64)?;
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The last of equal keys wins, like in ONNX Runtime and onnx.
fn external(tensor: &str, entries: &[(String, String)]) -> Result<ExternalData, OnnxError> {
    let get = |name: &str| entries.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
    let bad = |what: String| OnnxError::BadExternalData { tensor: tensor.to_owned(), what };
    let number = |name: &str| match get(name) {
        None => Ok(None),
        Some(text) => {
            text.parse::<u64>().map(Some).map_err(|_| bad(format!("its {name} is \"{}\"", shown(text))))
        }
    };
    let location = get("location").filter(|location| !location.is_empty());
    let location = location.ok_or_else(|| bad("it names no file".to_owned()))?.to_owned();
    Ok(ExternalData { location, offset: number("offset")?.unwrap_or(0), length: number("length")? })
}
