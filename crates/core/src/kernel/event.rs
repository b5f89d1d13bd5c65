//! Kernel events as plain `Copy` values.

use std::fmt;

/// A thread and the process it belongs to. The idle loop of every processor is thread 0 of process 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Task {
    pub tid: u32,
    pub pid: u32,
}

impl Task {
    pub const IDLE: Self = Self { tid: 0, pid: 0 };

    pub fn is_idle(self) -> bool {
        self.tid == 0
    }
}

/// A kernel event. Sources may add kinds: match with a wildcard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelEvent {
    Switch(Switch),
    Wakeup(Wakeup),
    Migration(Migration),
    Start(Start),
    Exec(Exec),
    Exit(Exit),
    PageFault(PageFault),
    BlockIo(BlockIo),
    MemoryCall(MemoryCall),
}

impl KernelEvent {
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Switch(event) => event.at_ns,
            Self::Wakeup(event) => event.at_ns,
            Self::Migration(event) => event.at_ns,
            Self::Start(event) => event.at_ns,
            Self::Exec(event) => event.at_ns,
            Self::Exit(event) => event.at_ns,
            Self::PageFault(event) => event.at_ns,
            Self::BlockIo(event) => event.at_ns,
            Self::MemoryCall(event) => event.at_ns,
        }
    }

    /// The processor on which it happened.
    pub fn cpu(&self) -> u32 {
        match self {
            Self::Switch(event) => event.cpu,
            Self::Wakeup(event) => event.cpu,
            Self::Migration(event) => event.cpu,
            Self::Start(event) => event.cpu,
            Self::Exec(event) => event.cpu,
            Self::Exit(event) => event.cpu,
            Self::PageFault(event) => event.cpu,
            Self::BlockIo(event) => event.cpu,
            Self::MemoryCall(event) => event.cpu,
        }
    }
}

/// A processor goes from one thread to another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    pub at_ns: u64,
    pub cpu: u32,
    pub prev: Task,
    pub next: Task,
    /// Why the previous thread left.
    pub reason: SwitchReason,
    /// Total run time of the previous thread from the kernel's own account; it corrects for lost events.
    pub prev_run_ns: Option<u64>,
    /// Total time the previous thread was runnable but waiting for a processor, from the kernel's account.
    pub prev_wait_ns: Option<u64>,
    /// An opaque number. While it stays the same, the previous thread has not faulted and its process has not mapped
    /// or unmapped memory, so memory counters need not be read again.
    pub prev_memory_mark: Option<u64>,
}

/// Why a thread left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SwitchReason {
    /// It was still runnable: preempted, out of time, or yielded.
    Preempted,
    /// Interruptible wait: a lock, a timer, a socket.
    Sleeping,
    /// Uninterruptible wait, usually for a disk.
    Blocked,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended.
    Ended,
    /// The source does not report the reason.
    Unknown,
}

/// A waiting thread becomes runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// The thread that was running; an interrupt counts as the thread it interrupted.
    pub waker: Task,
}

/// A thread is moved to another processor's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migration {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub from_cpu: u32,
    pub to_cpu: u32,
}

/// A thread starts. If it is the first of its process, the process starts too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// The thread that started it.
    pub parent: Task,
    /// The start time that identifies the thread, as in system snapshots.
    pub start_ns: Option<u64>,
    /// Size of its stack, if the call that started it specifies one. The kernel does not know the start function.
    pub stack_bytes: Option<u64>,
}

impl Start {
    pub fn is_process(&self) -> bool {
        self.thread.tid == self.thread.pid
    }
}

/// A process runs another program, or a thread is renamed (`is_rename`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// The id of the thread before: a thread that is not the first one takes over the first one's id.
    pub old_tid: u32,
    pub name: ThreadName,
    pub is_rename: bool,
}

/// A thread ends; it keeps running until its last [`Switch`] with [`SwitchReason::Ended`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// As returned by `wait`: exit status × 256, or the signal number.
    pub code: Option<i32>,
    /// Whether it was the last thread of its process.
    pub is_last: Option<bool>,
    pub run_ns: Option<u64>,
    pub start_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Resolved in memory.
    Minor,
    /// Read from a disk.
    Major,
    /// The source reports faults before their kind is known.
    Unknown,
}

/// Access to a page that was not mapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PageFault {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub address: u64,
    pub kind: FaultKind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum BlockPhase {
    /// Submitted to the device.
    Issued,
    /// Completed by the device.
    Completed,
}

/// A disk request. Device and sector connect its two phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIo {
    pub at_ns: u64,
    pub cpu: u32,
    /// The running thread: the requester or a kernel thread when issued, any thread when completed.
    pub thread: Task,
    pub phase: BlockPhase,
    pub device: u32,
    pub sector: u64,
    pub bytes: u32,
    pub is_write: bool,
    /// When completed: time the device took.
    pub device_ns: Option<u64>,
    pub failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryCallKind {
    Map,
    Unmap,
    /// The program break moved: `address` is the new end, `bytes` the size of the whole heap.
    Heap,
}

/// A process allocated or released address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryCall {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub kind: MemoryCallKind,
    pub address: u64,
    pub bytes: u64,
}

/// At most 16 bytes up to the first NUL; they need not be UTF-8 and may hold blanks and newlines.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct ThreadName(pub [u8; 16]);

impl ThreadName {
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut name = [0; 16];
        for (to, from) in name.iter_mut().zip(bytes.iter().take_while(|byte| **byte != 0)) {
            *to = *from;
        }
        Self(name)
    }

    pub fn as_bytes(&self) -> &[u8] {
        let end = self.0.iter().position(|byte| *byte == 0).unwrap_or(self.0.len());
        &self.0[..end]
    }

    pub fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Display for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(self.as_bytes()))
    }
}

impl fmt::Debug for ThreadName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.as_bytes()))
    }
}

/// The state of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RunState {
    /// Running or runnable.
    Running,
    Sleeping,
    /// In uninterruptible sleep, usually waiting for a disk.
    Blocked,
    /// A kernel thread waiting for work.
    Idle,
    Stopped,
    /// Ended, but not yet collected by its parent.
    Ended,
    Unknown,
}

/// A thread in a snapshot. Counts are totals since its start; the times of a running thread can be one kernel tick
/// old.
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
    /// Time spent runnable but waiting for a processor; `None` where the kernel does not account for it.
    pub wait_ns: Option<u64>,
    /// User and kernel time, counted in ticks: their sum may differ from `run_ns`.
    pub user_ns: u64,
    pub system_ns: u64,
    /// Switches because the thread waited, and because it was preempted.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Bytes through read and write calls, and bytes that reached a disk; `None` where the kernel does not count them.
    pub io: Option<ThreadIo>,
    /// 0 (highest) to 139.
    pub priority: i32,
    /// Run time of threads of this process that have already ended; set only for the first thread, 0 for others.
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileOperation {
    Read,
    Write,
    Open,
    /// Waits until it is on the disk.
    Sync,
}

impl FileOperation {
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Open => "open",
            Self::Sync => "sync",
        }
    }
}

/// The kind of file behind a descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FileKind {
    Regular,
    Pipe,
    Socket,
    /// Terminals, /dev/null and the like.
    Character,
    Block,
    Directory,
    /// A kernel object such as an eventfd, or already closed.
    Other,
}

impl FileKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Regular => "file",
            Self::Pipe => "pipe",
            Self::Socket => "socket",
            Self::Character => "character device",
            Self::Block => "block device",
            Self::Directory => "directory",
            Self::Other => "other",
        }
    }
}

/// Totals of one thread for one operation on one kind of file since the last read. The kernel adds them up: a busy
/// server makes a million such calls per second, and one event each would cost more than the calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileIo {
    pub thread: Task,
    pub operation: FileOperation,
    pub kind: FileKind,
    pub calls: u64,
    pub failed: u64,
    /// Read or written; 0 for other operations.
    pub bytes: u64,
    /// From entering the kernel to leaving it.
    pub total_ns: u64,
    pub longest_ns: u64,
}

/// A file was mapped as code: a program or library was loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageLoad {
    pub at_ns: u64,
    pub pid: u32,
    pub address: u64,
    pub bytes: u64,
    pub path: Vec<u8>,
    pub build_id: Option<Vec<u8>>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventTally {
    pub switches: u64,
    pub wakeups: u64,
    pub migrations: u64,
    pub starts: u64,
    pub execs: u64,
    pub exits: u64,
    pub page_faults: u64,
    pub block_io: u64,
    pub memory_calls: u64,
}

impl EventTally {
    pub fn count(&mut self, event: &KernelEvent) {
        *match event {
            KernelEvent::Switch(_) => &mut self.switches,
            KernelEvent::Wakeup(_) => &mut self.wakeups,
            KernelEvent::Migration(_) => &mut self.migrations,
            KernelEvent::Start(_) => &mut self.starts,
            KernelEvent::Exec(_) => &mut self.execs,
            KernelEvent::Exit(_) => &mut self.exits,
            KernelEvent::PageFault(_) => &mut self.page_faults,
            KernelEvent::BlockIo(_) => &mut self.block_io,
            KernelEvent::MemoryCall(_) => &mut self.memory_calls,
        } += 1;
    }

    pub fn total(&self) -> u64 {
        let scheduling = self.switches + self.wakeups + self.migrations;
        scheduling
            + self.starts
            + self.execs
            + self.exits
            + self.page_faults
            + self.block_io
            + self.memory_calls
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadName;

    #[test]
    fn names_end_at_nul_and_may_hold_anything() {
        assert_eq!(ThreadName::from_bytes(b"a b\nc\0rest").to_string(), "a b\nc");
        assert_eq!(ThreadName::from_bytes(b"0123456789abcdefg").as_bytes(), b"0123456789abcdef");
        assert_eq!(ThreadName::from_bytes(b"\xff\xfe").to_string(), "\u{fffd}\u{fffd}");
        assert!(ThreadName::default().is_empty());
        assert_eq!(format!("{:6}|", ThreadName::from_bytes(b"ab")), "ab    |");
    }
}
