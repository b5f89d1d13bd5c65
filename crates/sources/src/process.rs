//! CPU time and memory of one process.

use ortscope_core::identity::ProcessIdentity;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    pub identity: ProcessIdentity,
    pub cpu_time_ns: u64,
    pub working_set_bytes: u64,
    pub peak_working_set_bytes: Option<u64>,
    pub private_bytes: Option<u64>,
    pub thread_count: Option<u64>,
}

/// Why a process could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("process {0} does not exist")]
    NoSuchProcess(u32),
    #[error("permission to read process {pid} was denied: {why}")]
    Permission { pid: u32, why: String },
    #[error("process {pid} could not be read: {why}")]
    Unreadable { pid: u32, why: String },
    #[error("reading processes is not supported on this system")]
    Unsupported,
}
