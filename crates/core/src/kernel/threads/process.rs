//! The account of one process: its threads, also those that ended a moment ago.

use super::thread::ThreadKey;
use crate::kernel::ThreadName;

/// One life of a process.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    /// With the pid the identity: the start of its first thread; `None` if that was not seen.
    pub start_ns: Option<u64>,
    pub parent_pid: Option<u32>,
    pub name: ThreadName,
    pub ended_ns: Option<u64>,
    pub exit_code: Option<i32>,
    /// Threads that have not ended.
    pub live_threads: u32,
    /// CPU time of threads that are not kept any more.
    pub forgotten_run_ns: u64,
    pub(super) threads: Vec<ThreadKey>,
}

impl Process {
    pub(super) fn new(pid: u32) -> Self {
        Self {
            pid,
            start_ns: None,
            parent_pid: None,
            name: ThreadName::default(),
            ended_ns: None,
            exit_code: None,
            live_threads: 0,
            forgotten_run_ns: 0,
            threads: Vec::new(),
        }
    }

    /// Every thread that is kept, also those that have ended.
    pub fn threads(&self) -> &[ThreadKey] {
        &self.threads
    }
}
