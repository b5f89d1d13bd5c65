//! Input value files: numpy's `.npy` and `.npz`, ONNX's `.pb` and JSON.
//!
//! Nothing in such a file is executed: arrays of Python objects, which are pickles, are rejected.

mod error;
pub mod json;
mod minifloat;
pub mod npy;
pub mod npz;
pub mod pack;
pub mod pb;

pub use error::TensorError;
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
