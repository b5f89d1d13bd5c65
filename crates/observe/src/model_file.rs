//! A model file before anything runs: read, checked, described.

use std::path::Path;

pub use ortscope_analyze::facts::ModelFacts;
use ortscope_decode::onnx::{self, InputHints, Limits, Model};
use ortscope_ort::external_data;

use ortscope_core::failure::Failure;
use ortscope_core::units;

/// What protobuf, and so ONNX Runtime, can read.
const MAX_MODEL_BYTES: u64 = (1 << 31) - 1;

/// A parsed model, with hints for generating inputs.
#[derive(Debug)]
pub struct OpenModel {
    pub facts: ModelFacts,
    pub model: Model,
    pub hints: InputHints,
    /// Notes for the user about the file.
    pub notes: Vec<String>,
}

pub fn open(path: &Path, allow_external_data: bool) -> Result<OpenModel, Failure> {
    let name = path
        .file_name()
        .map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    if path.is_dir() {
        return Err(Failure::model(format!("'{}' is a directory, not a model file", path.display())));
    }
    let cannot = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => Failure::model(format!("there is no file '{}'", path.display())),
        std::io::ErrorKind::PermissionDenied => error.into(),
        _ => Failure::model(error.to_string()),
    };
    let found = fs_err::metadata(path).map_err(cannot)?;
    // Reading a device or a pipe might never end.
    if !found.is_file() {
        return Err(Failure::model(format!("'{}' is not a regular file", path.display())));
    }
    if found.len() > MAX_MODEL_BYTES {
        let size = units::bytes(found.len() as f64);
        return Err(Failure::model(format!("'{name}' has {size}; a model file has less than 2 GiB"))
            .with_hint("larger weights belong in external data files next to the model"));
    }
    let bytes = fs_err::read(path).map_err(cannot)?;
    let model = onnx::read_model(&bytes, &Limits::default())
        .map_err(|error| Failure::model(format!("'{name}': {error}")).with_hint(read_hint(&error)))?;
    let external = external_data::check(path, &model, allow_external_data).map_err(|error| {
        Failure::model(format!("'{name}': {error}")).with_hint(
            "external data must be in the directory of the model; --allow-external-data lifts the rule",
        )
    })?;
    let facts = ModelFacts {
        name,
        path: path.to_owned(),
        bytes: bytes.len() as u64 + external.bytes,
        ir_version: model.ir_version,
        opset: model
            .opsets
            .iter()
            .find(|opset| opset.domain.is_empty() || opset.domain == "ai.onnx")
            .map(|opset| opset.version),
        producer: format!("{} {}", model.producer_name, model.producer_version).trim().to_owned(),
        nodes: model.node_count() as u64,
        total_nodes: model.total_node_count() as u64,
        parameters: model.parameter_count(),
        parameter_bytes: model.parameter_bytes(),
        external_files: model.external_locations().into_iter().map(Into::into).collect(),
        quantized: model.is_quantized(),
    };
    let notes = external
        .overridden
        .iter()
        .map(|file| format!("external data accepted against the rule: {file}"))
        .collect();
    Ok(OpenModel { hints: model.input_hints(), facts, model, notes })
}

fn read_hint(error: &onnx::OnnxError) -> &'static str {
    match error {
        onnx::OnnxError::Empty | onnx::OnnxError::Truncated { .. } => "download or copy the file again",
        onnx::OnnxError::NotOnnx { reason } if reason.contains("web page") || reason.contains("LFS") => {
            "download the model itself"
        }
        onnx::OnnxError::NotOnnx { .. } | onnx::OnnxError::NoGraph => {
            "export the model to ONNX first, e.g. torch.onnx.export or optimum-cli export onnx"
        }
        _ => "check the file with onnx.checker.check_model in Python",
    }
}
