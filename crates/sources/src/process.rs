//! One process at one moment.

use ortscope_core::identity::ProcessIdentity;

/// CPU time and memory of a process.
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
    #[error("there is no process {0}")]
    NoSuchProcess(u32),
    #[error("process {pid} may not be read: {why}")]
    Permission { pid: u32, why: String },
    #[error("process {pid} could not be read: {why}")]
    Unreadable { pid: u32, why: String },
    #[error("this system has no way to read a process that ortscope knows")]
    Unsupported,
}
