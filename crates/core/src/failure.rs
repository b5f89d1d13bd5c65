//! The one error type that reaches the user: a sentence, what to do about it, and its kind.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What kind of failure it is. The program's exit code follows from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FailureKind {
    /// A defect of ortscope or of the system under it.
    Internal,
    Usage,
    /// The model, or ONNX Runtime itself, cannot load or run.
    Model,
    /// The inputs do not fit the model.
    Input,
    Permission,
    /// A requested execution provider is not used.
    Provider,
    /// There is no baseline, or it is from another machine.
    NotComparable,
    /// A recording is damaged or data was lost.
    DataLost,
    /// Interrupted with nothing measured.
    Interrupted,
}

/// One clear sentence, what to do about it, and the kind of failure.
///
/// ```
/// use ortscope_core::failure::{Failure, FailureKind};
///
/// let failure = Failure::usage("--batch 0 is not a batch size").with_hint("use 1 or more");
/// assert_eq!(failure.kind, FailureKind::Usage);
/// assert_eq!(failure.to_string(), "--batch 0 is not a batch size");
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Called `exit` in error documents.
    #[serde(rename = "exit")]
    pub kind: FailureKind,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// [`Failure::with_hint`] for an error that may have no hint.
    pub fn with_hint_of(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.with_hint(hint),
            None => self,
        }
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Usage, message)
    }

    pub fn model(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Model, message)
    }

    pub fn input(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Input, message)
    }

    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(FailureKind::Internal, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An I/O error that stopped a command: missing permission is a kind of its own.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => FailureKind::Permission,
            std::io::ErrorKind::NotFound => FailureKind::Usage,
            _ => FailureKind::Internal,
        };
        Self::new(kind, error.to_string())
    }
}
