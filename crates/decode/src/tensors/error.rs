//! Why a tensor file cannot be used.

use ortscope_core::tensor::ElementType;

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
