//! One thread in a snapshot of all threads.

use super::event::Task;
use super::name::ThreadName;

/// What a thread does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// Runs, or could.
    Running,
    Sleeping,
    /// Waits without being interruptible, usually for a disk.
    Blocked,
    /// A thread of the kernel that waits for work.
    Idle,
    Stopped,
    /// Ended, not yet collected by its parent.
    Ended,
    Unknown,
}

/// A thread as a snapshot found it. Counts are since its start; a thread that runs right now has times that are up to
/// one tick of the kernel old.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadState {
    pub thread: Task,
    /// The process that started this one.
    pub parent_pid: u32,
    pub start_ns: u64,
    pub name: ThreadName,
    pub state: RunState,
    pub is_kernel_thread: bool,
    /// Where it ran last.
    pub cpu: u32,
    pub run_ns: u64,
    /// Waited for a processor although it could run; `None` where the kernel keeps no account.
    pub wait_ns: Option<u64>,
    /// In user code and in the kernel, counted by ticks: their sum may differ from `run_ns`.
    pub user_ns: u64,
    pub system_ns: u64,
    /// Switches because it waited, and because others were preferred.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Bytes through read and write calls, and bytes that reached a disk; `None` where the kernel does not count them.
    pub io: Option<ThreadIo>,
    /// 0 (highest) to 139.
    pub priority: i32,
    /// Run time of the threads of this process that have ended already: only with the first thread, 0 with others.
    pub ended_threads_run_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ThreadIo {
    pub read_call_bytes: u64,
    pub write_call_bytes: u64,
    pub read_calls: u64,
    pub write_calls: u64,
    pub disk_read_bytes: u64,
    pub disk_write_bytes: u64,
}
