//! Why something could not be done with a recording, and what to do about it.

use std::io;
use std::path::Path;

use ortscope_channel::ChannelError;
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::tables::ReadError;

use crate::encryption::KEY_VARIABLE;

/// Errors of the store, one sentence each. [`StoreError::hint`] explains how to fix them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error(
        "'{place}' was written by a later version of ortscope (format {found}); this one reads up to {known}"
    )]
    NewerFormat { place: String, found: u32, known: u32 },
    #[error("{place}: {problem}")]
    Damaged { place: String, problem: String },
    #[error("there is no recording '{run}'")]
    Unknown {
        run: String,
        /// Similar names.
        close: Vec<String>,
    },
    #[error("'{run}' could be {}", candidates.join(", "))]
    Ambiguous { run: String, candidates: Vec<String> },
    #[error("{0}")]
    Argument(String),
    #[error("{0}")]
    Permission(String),
    #[error("{problem}")]
    Key { problem: String, hint: String },
    #[error("'{place}' is encrypted with the key {key}{}", other_keys(given))]
    NoKey {
        place: String,
        /// The id of the key that opens it.
        key: String,
        /// The ids of those there are.
        given: Vec<String>,
        /// It has a name or a tag.
        is_kept: bool,
    },
    #[error("{0}")]
    NoSpace(String),
    #[error("the recording '{0}' is being written by another process")]
    InUse(String),
    #[error("{0}")]
    Failed(String),
}

fn other_keys(given: &[String]) -> String {
    match given {
        [] => ", and there is none".into(),
        ids => format!("; there is only {}", ids.join(", ")),
    }
}

/// Category of an error, to choose an exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreErrorKind {
    /// The recording is of a later format: it cannot be read.
    NewerFormat,
    /// The recording cannot be read, or not all of it.
    Damaged,
    /// The request is invalid, or matches no recording, or more than one.
    Usage,
    /// Permission is missing, or the place is read-only.
    Permission,
    NoSpace,
    /// Another process writes the recording.
    InUse,
    /// A defect of ortscope or of the system under it.
    Internal,
}

impl StoreError {
    pub fn kind(&self) -> StoreErrorKind {
        match self {
            Self::NewerFormat { .. } => StoreErrorKind::NewerFormat,
            Self::Damaged { .. } => StoreErrorKind::Damaged,
            Self::Unknown { .. } | Self::Ambiguous { .. } | Self::Argument(_) => StoreErrorKind::Usage,
            Self::Permission(_) | Self::Key { .. } | Self::NoKey { .. } => StoreErrorKind::Permission,
            Self::NoSpace(_) => StoreErrorKind::NoSpace,
            Self::InUse(_) => StoreErrorKind::InUse,
            Self::Failed(_) => StoreErrorKind::Internal,
        }
    }

    /// How to fix the problem.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NewerFormat { .. } => "update ortscope, or read it with the version that wrote it".into(),
            Self::Damaged { .. } => "`ortscope runs repair` keeps what can be read".into(),
            Self::Unknown { close, .. } if close.is_empty() => {
                "`ortscope runs list` shows the recordings there are; `last` is the newest, and a path works too".into()
            }
            Self::Unknown { close, .. } => format!("did you mean {}?", close.join(" or ")),
            Self::Ambiguous { .. } => "give more characters of the one you mean".into(),
            Self::Key { hint, .. } => hint.clone(),
            Self::NoKey { .. } => format!(
                "name the file of that key with --key-file, set {KEY_VARIABLE}, or put it into the system's key store"
            ),
            Self::Permission(_) => "check who may write there, or choose another place".into(),
            Self::NoSpace(_) => "make room; `ortscope runs prune` removes old recordings".into(),
            Self::InUse(_) => "wait until it has ended, or end it".into(),
            Self::Argument(_) | Self::Failed(_) => return None,
        })
    }

    pub(crate) fn damaged(place: impl AsRef<Path>, problem: impl Into<String>) -> Self {
        Self::Damaged { place: place.as_ref().display().to_string(), problem: problem.into() }
    }

    fn by_kind(kind: io::ErrorKind, text: String) -> Self {
        match kind {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Permission(text),
            // A limit on the size of files counts as a full disk.
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge => {
                Self::NoSpace(text)
            }
            _ => Self::Failed(text),
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        Self::by_kind(error.kind(), error.to_string())
    }
}

impl From<ChannelError> for StoreError {
    fn from(error: ChannelError) -> Self {
        match error {
            ChannelError::Io(error) => error.into(),
            ChannelError::OtherFormat { path, found, known } if found > known => {
                Self::NewerFormat { place: path, found, known }
            }
            ChannelError::Sealed(path) => Self::Damaged { place: path, problem: "it is encrypted".into() },
            ChannelError::NotAJournal { path, problem } | ChannelError::NotARing { path, problem } => {
                Self::Damaged { place: path, problem }
            }
            ChannelError::BadJournalSize(_) | ChannelError::BadCapacity(_) => {
                Self::Argument(error.to_string())
            }
            // The next file of a journal is missing because it could not be allocated.
            ChannelError::NoNextFile(_) => Self::NoSpace(error.to_string()),
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> Self {
        match error {
            ReadError::Io(error) => error.into(),
            ReadError::Damaged { place, problem } => Self::Damaged { place, problem },
            other => Self::Failed(other.to_string()),
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode;
        let text = format!("the catalogue of recordings cannot be used: {error}");
        match error.sqlite_error_code() {
            Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
                Self::Permission(text)
            }
            Some(ErrorCode::DiskFull) => Self::NoSpace(text),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Self::Damaged { place: "catalogue.sqlite".into(), problem: text }
            }
            _ => Self::Failed(text),
        }
    }
}

impl From<zip::result::ZipError> for StoreError {
    fn from(error: zip::result::ZipError) -> Self {
        match error {
            zip::result::ZipError::Io(error) => error.into(),
            other => Self::Damaged { place: "the packed recording".into(), problem: other.to_string() },
        }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        let kind = match error.kind() {
            StoreErrorKind::Usage | StoreErrorKind::InUse => FailureKind::Usage,
            StoreErrorKind::Permission => FailureKind::Permission,
            StoreErrorKind::Damaged | StoreErrorKind::NewerFormat => FailureKind::DataLost,
            StoreErrorKind::NoSpace | StoreErrorKind::Internal => FailureKind::Internal,
        };
        Self::new(kind, error.to_string()).with_hint_of(error.hint())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_kind() {
        let io = |kind: io::ErrorKind| StoreError::from(io::Error::from(kind)).kind();
        assert_eq!(io(io::ErrorKind::PermissionDenied), StoreErrorKind::Permission);
        assert_eq!(io(io::ErrorKind::ReadOnlyFilesystem), StoreErrorKind::Permission);
        assert_eq!(io(io::ErrorKind::StorageFull), StoreErrorKind::NoSpace);
        assert_eq!(io(io::ErrorKind::QuotaExceeded), StoreErrorKind::NoSpace);
        assert_eq!(io(io::ErrorKind::FileTooLarge), StoreErrorKind::NoSpace);
        assert_eq!(io(io::ErrorKind::UnexpectedEof), StoreErrorKind::Internal);
        let of_channel = |error: ChannelError| StoreError::from(error).kind();
        let newer = ChannelError::OtherFormat { path: "x".into(), found: 9, known: 1 };
        assert_eq!(of_channel(newer), StoreErrorKind::NewerFormat);
        assert_eq!(of_channel(ChannelError::NoNextFile("full".into())), StoreErrorKind::NoSpace);
        assert_eq!(of_channel(ChannelError::BadJournalSize(1)), StoreErrorKind::Usage);
        let damaged = ReadError::Damaged { place: "x".into(), problem: "y".into() };
        assert_eq!(StoreError::from(damaged).kind(), StoreErrorKind::Damaged);
        let full =
            rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL), None);
        assert_eq!(StoreError::from(full).kind(), StoreErrorKind::NoSpace);
    }
}
