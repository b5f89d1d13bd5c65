//! Input value files: numpy's `.npy` and `.npz`, ONNX's `.pb` and JSON.
//!
//! Nothing in such a file is executed: arrays of Python objects, which are pickles, are rejected.

pub mod json;
mod minifloat;
pub mod npy;
pub mod npz;
pub mod pack;
pub mod pb;

use ortscope_core::tensor::{ELEMENT_TYPES, ElementType, Value, ValueInfo};

/// Values with their names in the file.
pub type NamedValues = Vec<(Option<String>, Value)>;

/// Limits of the parsers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorLimits {
    /// Limit for the unpacked values of a file. Default 4 GiB; beyond: [`TensorError::TooLarge`].
    pub max_bytes: u64,
}

impl Default for TensorLimits {
    fn default() -> Self {
        Self { max_bytes: 4 << 30 }
    }
}

/// Reads a file of any supported kind, recognized by its first bytes; `name` matters only if it ends in `.pb`.
pub fn read(
    bytes: &[u8],
    name: &str,
    signature: &[ValueInfo],
    limits: &TensorLimits,
) -> Result<NamedValues, TensorError> {
    if bytes.is_empty() {
        return Err(TensorError::Empty);
    }
    if bytes.starts_with(npy::MAGIC) {
        return Ok(vec![(None, Value::Tensor(npy::read(bytes, limits)?))]);
    }
    if bytes.starts_with(b"PK") {
        return npz::read(bytes, limits);
    }
    if name.to_ascii_lowercase().ends_with(".pb") {
        return Ok(vec![pb::read(bytes, limits)?]);
    }
    match bytes.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f') => json::read(bytes, signature, limits),
        _ => Err(TensorError::UnknownKind),
    }
}

/// The type with this name in ONNX, numpy or ml_dtypes.
pub fn element_from_name(name: &str) -> Option<ElementType> {
    let plain: String = name.chars().filter(|c| *c != '_').collect::<String>().to_ascii_lowercase();
    let plain = match plain.as_str() {
        "float" => "float32",
        "double" => "float64",
        "half" => "float16",
        "str" | "object" => "string",
        "boolean" => "bool",
        "float4e2m1fn" => "float4e2m1",
        "float8e8m0fnu" => "float8e8m0",
        plain => plain,
    };
    ELEMENT_TYPES.into_iter().find(|element| element.name() == plain)
}

/// Why a tensor file cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    #[error("the file is empty")]
    Empty,
    #[error("the file is not .npy, .npz, .pb (TensorProto) or JSON")]
    UnknownKind,
    #[error("the .npy header cannot be read: {0}")]
    NpyHeader(String),
    #[error(
        "the array holds Python objects, which are pickled code and never loaded; save it with a numeric or string dtype"
    )]
    PythonObjects,
    #[error("numpy's type '{0}' has no counterpart in ONNX")]
    NpyType(String),
    #[error("{element} values cannot be written as .npy, because numpy has no such type; use JSON")]
    NotInNumpy { element: ElementType },
    #[error("the data has {received} bytes, but shape {dims:?} of {element} needs {expected}")]
    Length { element: ElementType, dims: Vec<u64>, expected: u64, received: u64 },
    #[error("shape {0} is impossible")]
    Shape(String),
    #[error("the values are larger than the limit of {limit} bytes when unpacked")]
    TooLarge { limit: u64 },
    #[error("the .npz archive cannot be read: {0}")]
    Zip(String),
    #[error("'{entry}' in the .npz archive: {source}")]
    Entry { entry: String, source: Box<TensorError> },
    #[error("the file is not a TensorProto: {0}")]
    Protobuf(String),
    #[error("the tensor's data is in another file, which is not supported")]
    External,
    #[error("the JSON cannot be read: {0}")]
    Json(String),
    #[error("'{at}': {what}")]
    JsonValue { at: String, what: String },
}
