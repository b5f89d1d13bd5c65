//! Exit codes, and the one error type that decides them.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What the program's exit code means. Documented in `docs/CLI.md`; scripts depend on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    Ok,
    /// A defect of ortscope or of the system under it.
    Internal,
    Usage,
    /// The model, or ONNX Runtime itself, cannot load or run.
    Model,
    /// The inputs do not fit the model.
    Input,
    Permission,
    /// A provider that was asked for is not used.
    Provider,
    /// B is worse than A by more than the margin.
    Regression,
    /// The machine is too noisy to tell, and the user wants to know.
    Inconclusive,
    /// No baseline, or one of another machine.
    NotComparable,
    /// A recording is damaged or data was lost.
    DataLost,
    /// Interrupted with nothing measured.
    Interrupted,
    /// `ortscope record`: the code of the program it ran.
    Program(u8),
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Self::Ok => 0,
            Self::Internal => 1,
            Self::Usage => 2,
            Self::Model => 3,
            Self::Input => 4,
            Self::Permission => 5,
            Self::Provider => 6,
            Self::Regression => 10,
            Self::Inconclusive => 11,
            Self::NotComparable => 12,
            Self::DataLost => 20,
            Self::Interrupted => 130,
            Self::Program(code) => code,
        }
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
            Self::Regression,
            Self::Inconclusive,
            Self::NotComparable,
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
