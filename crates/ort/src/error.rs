//! Errors with actionable messages.
//!
//! Building an error never calls into ONNX Runtime: the text of a status is copied out first (see `api`), so that an
//! error can be created, moved and shown anywhere, even if the library misbehaves.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// `OrtErrorCode`, extensible for codes newer than this program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorCode {
    Fail,
    InvalidArgument,
    NoSuchFile,
    NoModel,
    EngineError,
    RuntimeException,
    InvalidProtobuf,
    ModelLoaded,
    NotImplemented,
    InvalidGraph,
    EpFail,
    ModelLoadCanceled,
    ModelRequiresCompilation,
    NotFound,
    DeviceReset,
    Other(i32),
}

impl ErrorCode {
    pub fn from_raw(code: i32) -> Self {
        match code {
            1 => Self::Fail,
            2 => Self::InvalidArgument,
            3 => Self::NoSuchFile,
            4 => Self::NoModel,
            5 => Self::EngineError,
            6 => Self::RuntimeException,
            7 => Self::InvalidProtobuf,
            8 => Self::ModelLoaded,
            9 => Self::NotImplemented,
            10 => Self::InvalidGraph,
            11 => Self::EpFail,
            12 => Self::ModelLoadCanceled,
            13 => Self::ModelRequiresCompilation,
            14 => Self::NotFound,
            15 => Self::DeviceReset,
            other => Self::Other(other),
        }
    }
}

impl std::fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Other(code) => write!(f, "error {code}"),
            named => write!(f, "{named:?}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OrtError {
    #[error(
        "no ONNX Runtime library found ({searched})\nhint: `pip install onnxruntime` (1.19 or newer on Linux), or name \
         the library with --ort-library or ORTSCOPE_ORT_LIBRARY"
    )]
    LibraryNotFound { searched: String },
    #[error("cannot load {}: {reason}", path.display())]
    LibraryLoad { path: PathBuf, reason: String },
    #[error(
        "{} is not an ONNX Runtime library: it has no OrtGetApiBase (Python's onnxruntime_pybind11_state is not one \
         either; take libonnxruntime.so or onnxruntime.dll beside it)",
        path.display()
    )]
    NotOnnxRuntime { path: PathBuf },
    #[error("ONNX Runtime {found} is too old: this program needs {minimum} or newer")]
    TooOld { found: String, minimum: &'static str },
    #[error("{function} needs ONNX Runtime 1.{needs_minor}, but {found} is loaded")]
    NeedsVersion { function: &'static str, needs_minor: u32, found: String },
    #[error("{message} ({function}: {code})")]
    Call { function: &'static str, code: ErrorCode, message: String },
    #[error("the execution provider {provider} cannot be used: {reason} (this library has {})", available.join(", "))]
    ProviderUnavailable { provider: String, available: Vec<String>, reason: String },
    #[error("{what} contains a NUL character, which ONNX Runtime cannot take")]
    Nul { what: String },
    #[error("{0}")]
    Unsupported(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_codes_are_kept() {
        assert_eq!(ErrorCode::from_raw(3), ErrorCode::NoSuchFile);
        assert_eq!(ErrorCode::from_raw(77), ErrorCode::Other(77));
        assert_eq!(ErrorCode::Other(77).to_string(), "error 77");
    }
}
