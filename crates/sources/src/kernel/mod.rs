//! Kernel events and thread snapshots, with the same interface on every system: options, results and errors. The
//! system's own half is selected in `lib.rs`.

mod options;

use thiserror::Error;

pub use self::options::{
    BackendChoice, Class, ClassUnavailable, CounterSum, DrainStats, ProgramCost, SampleCounts, SampleOptions,
    TraceBackend, TraceOptions, TraceWay,
};
use crate::etw::EtwError;

/// Every message ends with a hint.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A privilege is missing.
    #[error("{what} needs {missing}\n  hint: {hint}")]
    Permission { what: String, missing: String, hint: String },
    /// The kernel lacks a feature.
    #[error("{what} is not available: {why}\n  hint: {hint}")]
    Unsupported { what: String, why: String, hint: String },
    /// The kernel rejected a program: the end of its log, which has the reason.
    #[error("the kernel refused the program {program} ({source}):\n{log}")]
    Rejected { program: String, source: std::io::Error, log: String },
    /// An error of an event tracing session on Windows.
    #[error(transparent)]
    Session(EtwError),
    #[error("{what} failed: {source}")]
    System { what: String, source: std::io::Error },
    /// No backend worked: the reason of each, best first.
    #[error("kernel events cannot be read on this system\n  BPF: {bpf}\n  perf rings: {perf}")]
    NoBackend { bpf: Box<TraceError>, perf: Box<TraceError> },
}

impl TraceError {
    pub(crate) fn not_implemented(what: &str) -> Self {
        Self::Unsupported {
            what: what.to_owned(),
            why: "not implemented for this operating system".to_owned(),
            hint: "processes are still sampled without it".to_owned(),
        }
    }

    /// Whether another user, or more privileges, could succeed.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Permission { .. } => true,
            Self::NoBackend { bpf, perf } => bpf.is_permission() || perf.is_permission(),
            _ => false,
        }
    }
}
