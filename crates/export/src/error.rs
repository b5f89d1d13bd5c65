//! What can go wrong in an export.

use std::io;
use std::path::Path;

use ::parquet::errors::ParquetError;
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::filter::FilterError;
use ortscope_core::tables::ReadError;

/// Why an export failed. Nothing was left under the final names.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// It was asked for something that cannot be done: a bad filter, a file that exists, formats that do not fit.
    #[error("{message}")]
    Usage { message: String, hint: Option<String> },
    #[error("{0}")]
    Io(io::Error),
    #[error("cannot read the recording: {0}")]
    Read(ReadError),
    #[error("cannot write Parquet: {0}")]
    Parquet(ParquetError),
    #[error("cannot write the database: {0}")]
    Sqlite(#[from] rusqlite::Error),
}

impl ExportError {
    pub(crate) fn usage(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self::Usage { message: message.into(), hint: Some(hint.into()) }
    }

    pub(crate) fn exists(path: &Path) -> Self {
        let hint = "choose another name, or overwrite it: --force";
        Self::usage(format!("{} exists already", path.display()), hint)
    }

    /// A problem with a file, which the message names.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Self {
        Self::Io(io::Error::new(error.kind(), format!("cannot write {}: {error}", path.display())))
    }

    /// An error of a stream, now that the file behind it is known.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Io(error) => Self::file(path, &error),
            other => other,
        }
    }

    /// What the user can do.
    pub fn hint(&self) -> Option<&str> {
        match self {
            Self::Usage { hint, .. } => hint.as_deref(),
            _ if self.is_storage_full() => {
                Some("free some space, choose another disk, or export less with a filter")
            }
            _ => None,
        }
    }

    fn is_storage_full(&self) -> bool {
        match self {
            Self::Io(error) => error.kind() == io::ErrorKind::StorageFull,
            Self::Sqlite(error) => error.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull),
            _ => false,
        }
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<FilterError> for ExportError {
    fn from(error: FilterError) -> Self {
        Self::Usage { message: error.to_string(), hint: error.hint().map(str::to_owned) }
    }
}

impl From<ParquetError> for ExportError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(source) => match source.downcast::<io::Error>() {
                Ok(source) => Self::Io(*source),
                Err(source) => Self::Parquet(ParquetError::External(source)),
            },
            error => Self::Parquet(error),
        }
    }
}

impl From<ExportError> for Failure {
    fn from(error: ExportError) -> Self {
        let denied = |error: &io::Error| {
            matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
        };
        let kind = match &error {
            ExportError::Usage { .. } => FailureKind::Usage,
            ExportError::Read(_) => FailureKind::DataLost,
            ExportError::Io(source) if denied(source) => FailureKind::Permission,
            _ => FailureKind::Internal,
        };
        Self::new(kind, error.to_string()).with_hint_of(error.hint())
    }
}
