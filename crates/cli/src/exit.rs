//! Exit codes of the program.

pub use ortscope_core::failure::{Failure, FailureKind};

/// The meaning of the program's exit code. Documented in `docs/CLI.md`; scripts depend on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// A requested provider is not used.
    Provider,
    /// B is worse than A by more than the margin.
    Regression,
    /// Noise prevents a verdict, and the user asked for an exit code then.
    Inconclusive,
    /// There is no baseline, or it is from another machine.
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

/// Every kind of failure has its own exit code.
impl From<FailureKind> for Exit {
    fn from(kind: FailureKind) -> Self {
        match kind {
            FailureKind::Internal => Self::Internal,
            FailureKind::Usage => Self::Usage,
            FailureKind::Model => Self::Model,
            FailureKind::Input => Self::Input,
            FailureKind::Permission => Self::Permission,
            FailureKind::Provider => Self::Provider,
            FailureKind::NotComparable => Self::NotComparable,
            FailureKind::DataLost => Self::DataLost,
            FailureKind::Interrupted => Self::Interrupted,
        }
    }
}
