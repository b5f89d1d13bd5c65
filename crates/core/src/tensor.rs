//! Element types, signatures and values of models, shared by the file readers and the runtime.
//!
//! Values keep their bytes in ONNX Runtime's layout (little endian, row major, 4-bit types packed two to a byte), so
//! that no element is converted on the way to a session.

use serde::{Deserialize, Serialize};

/// An ONNX tensor element type. The discriminants are ONNX's own codes (`TensorProto.DataType`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(i32)]
pub enum ElementType {
    Float32 = 1,
    Uint8 = 2,
    Int8 = 3,
    Uint16 = 4,
    Int16 = 5,
    Int32 = 6,
    Int64 = 7,
    String = 8,
    Bool = 9,
    Float16 = 10,
    Float64 = 11,
    Uint32 = 12,
    Uint64 = 13,
    Complex64 = 14,
    Complex128 = 15,
    BFloat16 = 16,
    Float8E4M3Fn = 17,
    Float8E4M3Fnuz = 18,
    Float8E5M2 = 19,
    Float8E5M2Fnuz = 20,
    Uint4 = 21,
    Int4 = 22,
    Float4E2M1 = 23,
    Float8E8M0 = 24,
    Uint2 = 25,
    Int2 = 26,
}

/// Every element type, in the order of ONNX's codes.
pub const ELEMENT_TYPES: [ElementType; 26] = [
    ElementType::Float32,
    ElementType::Uint8,
    ElementType::Int8,
    ElementType::Uint16,
    ElementType::Int16,
    ElementType::Int32,
    ElementType::Int64,
    ElementType::String,
    ElementType::Bool,
    ElementType::Float16,
    ElementType::Float64,
    ElementType::Uint32,
    ElementType::Uint64,
    ElementType::Complex64,
    ElementType::Complex128,
    ElementType::BFloat16,
    ElementType::Float8E4M3Fn,
    ElementType::Float8E4M3Fnuz,
    ElementType::Float8E5M2,
    ElementType::Float8E5M2Fnuz,
    ElementType::Uint4,
    ElementType::Int4,
    ElementType::Float4E2M1,
    ElementType::Float8E8M0,
    ElementType::Uint2,
    ElementType::Int2,
];

impl ElementType {
    /// The type behind an ONNX code, which is also ONNX Runtime's code except for the newest types.
    pub fn from_onnx(code: i32) -> Option<Self> {
        ELEMENT_TYPES.into_iter().find(|element| *element as i32 == code)
    }

    /// The usual name, as in numpy if numpy has the type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float32 => "float32",
            Self::Uint8 => "uint8",
            Self::Int8 => "int8",
            Self::Uint16 => "uint16",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::String => "string",
            Self::Bool => "bool",
            Self::Float16 => "float16",
            Self::Float64 => "float64",
            Self::Uint32 => "uint32",
            Self::Uint64 => "uint64",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::BFloat16 => "bfloat16",
            Self::Float8E4M3Fn => "float8e4m3fn",
            Self::Float8E4M3Fnuz => "float8e4m3fnuz",
            Self::Float8E5M2 => "float8e5m2",
            Self::Float8E5M2Fnuz => "float8e5m2fnuz",
            Self::Uint4 => "uint4",
            Self::Int4 => "int4",
            Self::Float4E2M1 => "float4e2m1",
            Self::Float8E8M0 => "float8e8m0",
            Self::Uint2 => "uint2",
            Self::Int2 => "int2",
        }
    }

    /// Bits per element; `None` for strings, whose elements have no fixed size.
    pub fn bits(self) -> Option<u64> {
        Some(match self {
            Self::String => return None,
            Self::Uint2 | Self::Int2 => 2,
            Self::Uint4 | Self::Int4 | Self::Float4E2M1 => 4,
            Self::Uint8
            | Self::Int8
            | Self::Bool
            | Self::Float8E4M3Fn
            | Self::Float8E4M3Fnuz
            | Self::Float8E5M2
            | Self::Float8E5M2Fnuz
            | Self::Float8E8M0 => 8,
            Self::Uint16 | Self::Int16 | Self::Float16 | Self::BFloat16 => 16,
            Self::Float32 | Self::Int32 | Self::Uint32 => 32,
            Self::Int64 | Self::Float64 | Self::Uint64 | Self::Complex64 => 64,
            Self::Complex128 => 128,
        })
    }

    /// Bytes that `elements` elements occupy; `None` for strings and for sizes beyond 64 bits.
    pub fn bytes_for(self, elements: u64) -> Option<u64> {
        elements.checked_mul(self.bits()?).map(|bits| bits.div_ceil(8))
    }
}

impl std::fmt::Display for ElementType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// One dimension of a signature.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Dimension {
    Fixed(u64),
    /// Named in the model (`batch`, `seq`): equal names mean equal sizes.
    Symbolic(String),
    /// Neither a size nor a name.
    Unknown,
}

impl std::fmt::Display for Dimension {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(size) => write!(f, "{size}"),
            Self::Symbolic(name) => f.write_str(name),
            Self::Unknown => f.write_str("?"),
        }
    }
}

/// The type of a model's input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueType {
    Tensor {
        element: ElementType,
        /// `None` when not even the rank is known.
        shape: Option<Vec<Dimension>>,
    },
    SparseTensor {
        element: ElementType,
    },
    Sequence(Box<ValueType>),
    Map {
        key: ElementType,
        value: Box<ValueType>,
    },
    Optional(Box<ValueType>),
    /// A type this program does not know, by name.
    Other(String),
}

impl std::fmt::Display for ValueType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tensor { element, shape: None } => write!(f, "{element}[...]"),
            Self::Tensor { element, shape: Some(shape) } => {
                let dims: Vec<String> = shape.iter().map(Dimension::to_string).collect();
                write!(f, "{element}[{}]", dims.join(","))
            }
            Self::SparseTensor { element } => write!(f, "sparse {element}"),
            Self::Sequence(of) => write!(f, "sequence of {of}"),
            Self::Map { key, value } => write!(f, "map of {key} to {value}"),
            Self::Optional(of) => write!(f, "optional {of}"),
            Self::Other(what) => f.write_str(what),
        }
    }
}

/// A named input or output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ValueInfo {
    pub name: String,
    #[serde(rename = "type")]
    pub value_type: ValueType,
}

/// A dense tensor in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Tensor {
    pub element: ElementType,
    pub dims: Vec<u64>,
    pub data: TensorData,
}

#[derive(Debug, Clone, PartialEq)]
pub enum TensorData {
    /// Little endian, row major, `element.bytes_for(product of dims)` long.
    Bytes(Vec<u8>),
    /// Only for [`ElementType::String`].
    Strings(Vec<String>),
}

impl Tensor {
    /// Number of elements; `None` if it does not fit 64 bits.
    pub fn elements(&self) -> Option<u64> {
        element_count(&self.dims)
    }

    /// A tensor of zeros (or empty strings). `None` if its size does not fit memory's address range.
    pub fn zeros(element: ElementType, dims: Vec<u64>) -> Option<Self> {
        let elements = element_count(&dims)?;
        let data = match element {
            ElementType::String => TensorData::Strings(vec![String::new(); usize::try_from(elements).ok()?]),
            _ => TensorData::Bytes(vec![0; usize::try_from(element.bytes_for(elements)?).ok()?]),
        };
        Some(Self { element, dims, data })
    }

    /// Bytes of the payload (the text's length for strings).
    pub fn byte_len(&self) -> u64 {
        match &self.data {
            TensorData::Bytes(bytes) => bytes.len() as u64,
            TensorData::Strings(strings) => strings.iter().map(|s| s.len() as u64).sum(),
        }
    }
}

/// The product of the dimensions; `None` on overflow.
pub fn element_count(dims: &[u64]) -> Option<u64> {
    dims.iter().try_fold(1u64, |product, dim| product.checked_mul(*dim))
}

/// Anything a session takes or gives.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Tensor(Tensor),
    Sequence(Vec<Value>),
    /// Two tensors of equal length: keys (int64 or string) and values.
    Map {
        keys: Tensor,
        values: Tensor,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_round_trip() {
        for element in ELEMENT_TYPES {
            assert_eq!(ElementType::from_onnx(element as i32), Some(element));
        }
        assert_eq!(ElementType::from_onnx(0), None);
        assert_eq!(ElementType::from_onnx(99), None);
    }

    #[test]
    fn packed_types_round_up() {
        assert_eq!(ElementType::Int4.bytes_for(3), Some(2));
        assert_eq!(ElementType::Uint2.bytes_for(5), Some(2));
        assert_eq!(ElementType::String.bytes_for(3), None);
        assert_eq!(ElementType::Float64.bytes_for(u64::MAX), None);
    }

    #[test]
    fn absurd_sizes_are_refused() {
        assert_eq!(element_count(&[u64::MAX, 2]), None);
        assert!(Tensor::zeros(ElementType::Float32, vec![1 << 40, 1 << 40]).is_none());
    }
}
