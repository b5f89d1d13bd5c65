//! Why a file could not be imported.

use std::io;
use std::path::{Path, PathBuf};

use ortscope_core::failure::{Failure, FailureKind};
use ortscope_etl::EtlError;

/// The supported formats, as a hint to users.
pub const FORMATS: &str = "'ortscope import' reads profiles of ONNX Runtime (JSON, enable_profiling) and of QNN (CSV, QHAS), traces of chrome://tracing (JSON), of Windows (.etl) and of Linux (perf.data)";

/// Why a file could not be imported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImportError {
    #[error("there is no file '{}'", .0.display())]
    NotFound(PathBuf),
    #[error("'{}' is a directory, not a file", .0.display())]
    Directory(PathBuf),
    #[error("'{}' cannot be read: {error}", .path.display())]
    Io { path: PathBuf, error: io::Error },
    /// It is none of the supported formats, or has nothing to import.
    #[error("'{}' cannot be imported: {why}", .path.display())]
    Unsupported { path: PathBuf, why: String },
    #[error("'{}' has {size}, more than can be read at once", .path.display())]
    TooLarge { path: PathBuf, size: String, hint: &'static str },
    /// An ETL file that cannot be read any further.
    #[error("'{}': {error}", .path.display())]
    Damaged { path: PathBuf, error: EtlError },
    /// The pipeline was stopped before the end of the file.
    #[error("the import was stopped")]
    Stopped,
}

impl ImportError {
    pub(crate) fn io(path: &Path, error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound => Self::NotFound(path.to_owned()),
            _ => Self::Io { path: path.to_owned(), error },
        }
    }

    pub(crate) fn unsupported(path: &Path, why: &(impl ToString + ?Sized)) -> Self {
        Self::Unsupported { path: path.to_owned(), why: why.to_string() }
    }

    /// An ETL file that cannot be opened.
    pub(crate) fn not_opened(path: &Path, error: EtlError) -> Self {
        match error {
            EtlError::Io(error) => Self::io(path, error),
            EtlError::NotEtl(_) => Self::unsupported(path, &error),
            error => Self::Damaged { path: path.to_owned(), error },
        }
    }

    /// An ETL file that was opened and cannot be read to its end.
    pub(crate) fn damaged(path: &Path, error: EtlError) -> Self {
        Self::Damaged { path: path.to_owned(), error }
    }

    /// What the user can do about it.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Unsupported { .. } => Some(FORMATS),
            Self::TooLarge { hint, .. } => Some(hint),
            _ => None,
        }
    }
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        let kind = match &error {
            ImportError::Io { error, .. } if error.kind() == io::ErrorKind::PermissionDenied => {
                FailureKind::Permission
            }
            ImportError::Io { .. } => FailureKind::Input,
            ImportError::Damaged { .. } => FailureKind::DataLost,
            ImportError::Stopped => FailureKind::Internal,
            _ => FailureKind::Usage,
        };
        let failure = Self::new(kind, error.to_string());
        match error.hint() {
            Some(hint) => failure.with_hint(hint),
            None => failure,
        }
    }
}
