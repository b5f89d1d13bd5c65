//! `ValueInfoProto` and `TypeProto`.

use ortscope_core::tensor::{Dimension, ElementType, ValueInfo, ValueType};

use super::error::OnnxError;
use super::read::Reader;
use super::wire::{Cursor, Payload};

impl Reader<'_> {
    pub fn value_info(&mut self, mut cursor: Cursor<'_>) -> Result<ValueInfo, OnnxError> {
        let mut info = ValueInfo {
            name: String::new(),
            value_type: ValueType::Other("a value without a type".to_owned()),
        };
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Bytes(name)) => info.name = self.text(name.bytes())?,
                (2, Payload::Bytes(value_type)) => info.value_type = self.value_type(value_type, 0)?,
                _ => {}
            }
        }
        Ok(info)
    }

    fn value_type(&mut self, mut cursor: Cursor<'_>, depth: usize) -> Result<ValueType, OnnxError> {
        self.check_depth(depth)?;
        self.charge(size_of::<ValueType>())?;
        let mut value_type = ValueType::Other("a value without a type".to_owned());
        while let Some((number, payload)) = cursor.next()? {
            let Payload::Bytes(field) = payload else { continue };
            value_type = match number {
                1 => self.tensor_type(field)?,
                4 => ValueType::Sequence(Box::new(self.element_type(field, 1, depth)?)),
                5 => self.map_type(field, depth)?,
                8 => match self.tensor_type(field)? {
                    ValueType::Tensor { element, .. } => ValueType::SparseTensor { element },
                    other => other,
                },
                9 => ValueType::Optional(Box::new(self.element_type(field, 1, depth)?)),
                7 => ValueType::Other("an opaque value".to_owned()),
                _ => value_type,
            };
        }
        Ok(value_type)
    }

    fn element_type(
        &mut self,
        mut cursor: Cursor<'_>,
        at: u32,
        depth: usize,
    ) -> Result<ValueType, OnnxError> {
        let mut value_type = ValueType::Other("a value without a type".to_owned());
        while let Some((number, payload)) = cursor.next()? {
            if let (true, Payload::Bytes(field)) = (number == at, payload) {
                value_type = self.value_type(field, depth + 1)?;
            }
        }
        Ok(value_type)
    }

    fn map_type(&mut self, cursor: Cursor<'_>, depth: usize) -> Result<ValueType, OnnxError> {
        let mut key = 0;
        let mut fields = cursor;
        while let Some(field) = fields.next()? {
            if let (1, Payload::Varint(code)) = field {
                key = code;
            }
        }
        let value = Box::new(self.element_type(cursor, 2, depth)?);
        Ok(match element(key) {
            Some(key) => ValueType::Map { key, value },
            None => ValueType::Other(format!("a map with keys of the unknown type {key}")),
        })
    }

    /// `TypeProto.Tensor`, which is identical to `TypeProto.SparseTensor`.
    fn tensor_type(&mut self, mut cursor: Cursor<'_>) -> Result<ValueType, OnnxError> {
        let mut code = 0;
        let mut shape = None;
        while let Some(field) = cursor.next()? {
            match field {
                (1, Payload::Varint(value)) => code = value,
                (2, Payload::Bytes(dims)) => self.shape(dims, shape.get_or_insert_default())?,
                _ => {}
            }
        }
        Ok(match element(code) {
            Some(element) => ValueType::Tensor { element, shape },
            None => ValueType::Other(format!("a tensor of the unknown element type {code}")),
        })
    }

    fn shape(&mut self, mut cursor: Cursor<'_>, shape: &mut Vec<Dimension>) -> Result<(), OnnxError> {
        while let Some(field) = cursor.next()? {
            if let (1, Payload::Bytes(dimension)) = field {
                let dimension = self.dimension(dimension)?;
                self.push(shape, dimension)?;
            }
        }
        Ok(())
    }

    /// Exporters write an unknown size as nothing, as -1 or as an empty name.
    fn dimension(&mut self, mut cursor: Cursor<'_>) -> Result<Dimension, OnnxError> {
        let mut dimension = Dimension::Unknown;
        while let Some(field) = cursor.next()? {
            dimension = match field {
                (1, Payload::Varint(value)) => {
                    u64::try_from(value as i64).map_or(Dimension::Unknown, Dimension::Fixed)
                }
                (2, Payload::Bytes(name)) if name.is_empty() => Dimension::Unknown,
                (2, Payload::Bytes(name)) => Dimension::Symbolic(self.text(name.bytes())?),
                _ => dimension,
            };
        }
        Ok(dimension)
    }
}

pub(super) fn element(code: u64) -> Option<ElementType> {
    i32::try_from(code).ok().and_then(ElementType::from_onnx)
}
