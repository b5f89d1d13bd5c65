//! Exit codes, and the one error type that decides them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the program's exit code means. Documented in `docs/CLI.md`; scripts depend on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Ok = 0,
    /// A defect of ortscope or of the system under it.
    Internal = 1,
    Usage = 2,
    /// The model, or ONNX Runtime itself, cannot load or run.
    Model = 3,
    /// The inputs do not fit the model.
    Input = 4,
    Permission = 5,
    /// A provider that was asked for is not used.
    Provider = 6,
    /// A recording is damaged or data was lost.
    DataLost = 20,
    /// Interrupted with nothing measured.
    Interrupted = 130,
}

impl Exit {
    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: i32) -> Option<Self> {
        [
            Self::Ok,
            Self::Internal,
            Self::Usage,
            Self::Model,
            Self::Input,
            Self::Permission,
            Self::Provider,
            Self::DataLost,
            Self::Interrupted,
        ]
        .into_iter()
        .find(|exit| i32::from(exit.code()) == code)
    }
}

/// One clear sentence, what to do about it, and the exit code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub exit: Exit,
    pub message: String,
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    pub fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(Exit::Usage, message)
    }

    pub fn model(message: impl Into<String>) -> Self {
        Self::new(Exit::Model, message)
    }

    pub fn input(message: impl Into<String>) -> Self {
        Self::new(Exit::Input, message)
    }

    pub fn internal(error: impl fmt::Display) -> Self {
        Self::new(Exit::Internal, error.to_string())
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// An I/O error that stopped a command: permission has its own exit code.
impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        let exit = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Exit::Permission,
            std::io::ErrorKind::NotFound => Exit::Usage,
            _ => Exit::Internal,
        };
        Self::new(exit, error.to_string())
    }
}
