//! One thread in the process list: `SYSTEM_THREAD_INFORMATION`, and the additions of the extended list.

use super::bytes::Fixed;

/// `SYSTEM_THREAD_INFORMATION`.
pub(super) const PLAIN_BYTES: usize = 80;
/// `SYSTEM_EXTENDED_THREAD_INFORMATION`.
pub(super) const EXTENDED_BYTES: usize = 136;

/// The state of a thread, from `KTHREAD_STATE` and `KWAIT_REASON`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunState {
    Running,
    /// Runnable, or about to be.
    Ready,
    Waiting,
    /// Stopped by a debugger, a job, or the system for a frozen app.
    Suspended,
    /// Starting, exited, or a state of a newer Windows.
    Other,
}

/// One thread. Times are in units of 100 ns.
#[derive(Debug, Clone, Copy)]
pub struct Thread<'a>(Fixed<'a>);

impl Thread<'_> {
    pub fn kernel_ticks(&self) -> u64 {
        self.0.u64(0x00)
    }

    pub fn user_ticks(&self) -> u64 {
        self.0.u64(0x08)
    }

    /// Since 1601; identifies the thread together with its id.
    pub fn create_time(&self) -> u64 {
        self.0.u64(0x10)
    }

    /// Where the kernel starts it; for user threads always the same function of ntdll.
    pub fn start_address(&self) -> u64 {
        self.0.u64(0x20)
    }

    /// `None` for an impossible number.
    pub fn id(&self) -> Option<u32> {
        u32::try_from(self.0.u64(0x30)).ok()
    }

    pub fn priority(&self) -> i32 {
        self.0.i32(0x38)
    }

    pub fn base_priority(&self) -> i32 {
        self.0.i32(0x3C)
    }

    /// Wraps.
    pub fn context_switches(&self) -> u32 {
        self.0.u32(0x40)
    }

    pub fn state(&self) -> RunState {
        const SUSPENDED: u32 = 5;
        const SUSPENDED_IN_KERNEL: u32 = 12;
        let wait_reason = self.0.u32(0x48);
        match self.0.u32(0x44) {
            2 => RunState::Running,
            // Ready, standby, deferred ready.
            1 | 3 | 7 => RunState::Ready,
            5 if matches!(wait_reason, SUSPENDED | SUSPENDED_IN_KERNEL) => RunState::Suspended,
            // Waiting, transition (its kernel stack is paged out), gate wait, its process is paged out.
            5 | 6 | 8 | 9 => RunState::Waiting,
            _ => RunState::Other,
        }
    }

    /// The start function passed by the program. Only in the extended list.
    pub fn win32_start_address(&self) -> Option<u64> {
        self.extended(0x60)
    }

    fn extended(&self, at: usize) -> Option<u64> {
        (self.0.0.len() >= EXTENDED_BYTES).then(|| self.0.u64(at))
    }
}

/// The threads of one process.
#[derive(Debug, Clone)]
pub struct Threads<'a> {
    chunks: std::slice::ChunksExact<'a, u8>,
}

impl<'a> Threads<'a> {
    pub(super) fn new(bytes: &'a [u8], thread_bytes: usize) -> Self {
        Self { chunks: bytes.chunks_exact(thread_bytes) }
    }
}

impl<'a> Iterator for Threads<'a> {
    type Item = Thread<'a>;

    fn next(&mut self) -> Option<Thread<'a>> {
        self.chunks.next().map(|bytes| Thread(Fixed(bytes)))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.chunks.size_hint()
    }
}
