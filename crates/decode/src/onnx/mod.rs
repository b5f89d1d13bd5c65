//! ONNX models, read without their weights and without executing anything.
//!
//! The reader walks the protobuf wire format itself. A generated decoder would allocate first and ask later: a node
//! costs two bytes in a file and 170 in memory, so limits must hold while reading. It also leaves weights where they
//! are, so that a model of 2 GB costs what its graph costs, and it knows at which byte a file was cut off. Field
//! numbers are those of `onnx.proto` in onnx 1.23; fields set twice merge as protobuf says, so that this reader sees
//! the model that ONNX Runtime will see.

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

/// What the reader accepts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Nodes of all graphs and functions together. Default 2 000 000; beyond: [`OnnxError::TooManyNodes`].
    pub max_nodes: usize,
    /// Nesting of subgraphs and of types. Default 64, never more than 256; beyond: [`OnnxError::TooDeep`].
    pub max_depth: usize,
    /// Memory of the model as read (names, nodes, shapes; not weights). Default 2 GiB; beyond:
    /// [`OnnxError::TooLarge`].
    pub max_memory_bytes: u64,
    /// Items of a list attribute, and bytes of a text attribute. Default 1024; longer ones are kept as
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
        // Only a file that cannot be read is looked at for what else it may be: any magic may also occur in a model.
        match sniff::describe(bytes) {
            Some(reason) if error.is_about_bytes() => OnnxError::NotOnnx { reason },
            _ => error,
        }
    })
}
