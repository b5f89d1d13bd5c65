//! The events, as plain values that are copied around.

use super::name::ThreadName;

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

/// One thing that happened in the kernel. More kinds come with more sources: match with a wildcard.
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
    /// All the time the previous thread ever ran, from the kernel's own account: what makes a lost event heal.
    pub prev_run_ns: Option<u64>,
    /// All the time the previous thread ever waited for a processor although it could run, from the kernel's account.
    pub prev_wait_ns: Option<u64>,
    /// A number without meaning of its own: while it stays the same, the previous thread has not faulted and its
    /// process has not mapped or unmapped anything, so that its memory need not be read again.
    pub prev_memory_mark: Option<u64>,
}

/// Why a thread left its processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SwitchReason {
    /// It could run on: another thread was preferred, its time was up, or it yielded.
    Preempted,
    /// It waits for something and can be interrupted: a lock, a timer, a socket.
    Sleeping,
    /// It waits without being interruptible: usually for a disk.
    Blocked,
    /// Stopped by a signal or a debugger.
    Stopped,
    /// It has ended and will never run again.
    Ended,
    /// Left for a reason that the source does not tell: it does not run, more is not known.
    Unknown,
}

/// A thread that waited may run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wakeup {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// Who ran when it was woken; an interrupt wakes in the name of the thread that it interrupted.
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

/// A thread starts; a process does when the thread is its first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Start {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// The thread that started it.
    pub parent: Task,
    /// The start time that identifies the thread, as the system's snapshots tell it too.
    pub start_ns: Option<u64>,
    /// Room of its stack, where the call that started it says so. Which function it begins with is not told to a kernel.
    pub stack_bytes: Option<u64>,
}

impl Start {
    pub fn is_process(&self) -> bool {
        self.thread.tid == self.thread.pid
    }
}

/// A process continues with another program, or a thread gets another name (`is_rename`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exec {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// The id of the thread before: a thread that is not the first one takes the first one's id.
    pub old_tid: u32,
    pub name: ThreadName,
    pub is_rename: bool,
}

/// A thread ends; it still runs a little, up to its last [`Switch`] with [`SwitchReason::Ended`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    /// As `wait` tells it: exit status × 256, or the number of the signal.
    pub code: Option<i32>,
    /// Whether it was the last thread of its process.
    pub is_last: Option<bool>,
    pub run_ns: Option<u64>,
    pub start_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FaultKind {
    /// Solved in memory.
    Minor,
    /// Something had to be read from a disk.
    Major,
    /// The source tells of faults before it is known.
    Unknown,
}

/// A page that was touched was not there.
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
    /// Handed to the device.
    Issued,
    /// Answered by the device.
    Completed,
}

/// A request to a disk. The pair of device and sector connects its two phases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BlockIo {
    pub at_ns: u64,
    pub cpu: u32,
    /// Who ran: the requester or a thread of the kernel when issued, anyone when completed.
    pub thread: Task,
    pub phase: BlockPhase,
    pub device: u32,
    pub sector: u64,
    pub bytes: u32,
    pub is_write: bool,
    /// When completed: from being handed to the device to its answer.
    pub device_ns: Option<u64>,
    pub failed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MemoryCallKind {
    Map,
    Unmap,
    /// The end of the heap moved: `address` is the new end, `bytes` the size of the whole heap.
    Heap,
}

/// A process asked for address space or gave it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryCall {
    pub at_ns: u64,
    pub cpu: u32,
    pub thread: Task,
    pub kind: MemoryCallKind,
    pub address: u64,
    pub bytes: u64,
}
