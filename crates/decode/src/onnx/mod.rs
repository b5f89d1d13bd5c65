//! ONNX models, read without their weights and without executing anything.
//!
//! The parser processes the protobuf wire format itself. A generated decoder would allocate before any check: a node
//! takes two bytes in a file and 170 in memory, so limits must apply while reading. Weights are skipped, so that a model
//! of 2 GB costs only as much as its graph, and the offset of a truncation is known. Field numbers are those of
//! `onnx.proto` in onnx 1.23; repeated fields merge like in protobuf, so that this parser sees the same model as ONNX
//! Runtime.

mod attribute;
mod error;
mod hints;
mod kind;
mod model;
mod read;
mod sniff;
mod tensor;
mod types;
mod wire;

pub use error::{OnnxError, harmless, shown};
pub use hints::{ImageLayout, InputHint, InputHints, LengthRole};
pub use kind::{ModelKind, Quantization};
pub use model::{
    Attribute, AttributeValue, ExternalData, ExternalTensor, Function, Graph, Initializer, Model, Node, Opset,
};

/// Limits of the parser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Limit for nodes of all graphs and functions together. Default 2,000,000; beyond: [`OnnxError::TooManyNodes`].
    pub max_nodes: usize,
    /// Nesting of subgraphs and of types. Default 64, never more than 256; beyond: [`OnnxError::TooDeep`].
    pub max_depth: usize,
    /// Limit for the memory of the parsed model (names, nodes, shapes; not weights). Default 2 GiB; beyond:
    /// [`OnnxError::TooLarge`].
    pub max_memory_bytes: u64,
    /// Limit for items of a list attribute, and bytes of a text attribute. Default 1024; longer ones become
    /// [`AttributeValue::Omitted`].
    pub max_attribute_items: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_nodes: 2_000_000, max_depth: 64, max_memory_bytes: 2 << 30, max_attribute_items: 1024 }
    }
}

/// Reads a model from the bytes of its file.
pub fn read_model(bytes: &[u8], limits: &Limits) -> Result<Model, OnnxError> {
    if bytes.is_empty() {
        return Err(OnnxError::Empty);
    }
    read::read(bytes, limits).map_err(|error| {
        // Only unreadable files are checked for other formats: any magic number may also occur in a model.
        match sniff::describe(bytes) {
            Some(reason) if error.is_about_bytes() => OnnxError::NotOnnx { reason },
            _ => error,
        }
    })
}
