//! Why kernel events cannot be had here, and what would change that.

use thiserror::Error;

use crate::etw::EtwError;

/// Every message ends with what to do.
#[derive(Debug, Error)]
pub enum TraceError {
    /// A right is missing.
    #[error("{what} needs {missing}\n  hint: {hint}")]
    Permission { what: String, missing: String, hint: String },
    /// The kernel does not have what it takes.
    #[error("{what} is not available: {why}\n  hint: {hint}")]
    Unsupported { what: String, why: String, hint: String },
    /// The kernel refused a program: its own words, shortened to the end where the reason stands.
    #[error("the kernel refused the program {program} ({source}):\n{log}")]
    Rejected { program: String, source: std::io::Error, log: String },
    /// A session of Windows' event tracing.
    #[error(transparent)]
    Session(EtwError),
    #[error("{what} failed: {source}")]
    System { what: String, source: std::io::Error },
    /// No way worked: the reason of each, best first.
    #[error("kernel events cannot be read here\n  by BPF: {bpf}\n  by perf rings: {perf}")]
    NoBackend { bpf: Box<TraceError>, perf: Box<TraceError> },
}

impl TraceError {
    /// Whether another user, or the same one with more rights, could do it.
    pub fn is_permission(&self) -> bool {
        match self {
            Self::Permission { .. } => true,
            Self::NoBackend { bpf, perf } => bpf.is_permission() || perf.is_permission(),
            _ => false,
        }
    }
}
