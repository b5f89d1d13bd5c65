//! The account of one thread.

use super::slices::Slices;
use crate::kernel::{SwitchReason, Task, ThreadName};

/// Identifies one thread in the accounts: thread ids are reused, keys are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ThreadKey {
    pub(super) slot: u32,
    pub(super) life: u32,
}

/// State of a thread after the last event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Now {
    OnCpu {
        cpu: u32,
        since_ns: u64,
    },
    /// Runnable, waiting for a processor.
    Queued {
        since_ns: u64,
    },
    Off {
        since_ns: u64,
        reason: SwitchReason,
    },
    Unknown,
}

/// The account of one thread.
#[derive(Debug, Clone)]
pub struct Thread {
    pub key: ThreadKey,
    pub thread: Task,
    /// Identifies the thread together with its id; `None` if neither its start nor a snapshot of it was seen.
    pub start_ns: Option<u64>,
    pub parent: Option<Task>,
    pub name: ThreadName,
    pub now: Now,
    pub ended_ns: Option<u64>,
    pub exit_code: Option<i32>,
    /// Switches because the thread waited, and because it was preempted.
    pub voluntary_switches: u64,
    pub involuntary_switches: u64,
    pub migrations: u64,
    pub wakeups: u64,
    pub last_waker: Option<Task>,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Waiting time measured from events: wake-up or preemption to the switch to it.
    pub queued_ns: u64,
    pub queued_count: u64,
    pub queued_max_ns: u64,
    /// The kernel's own accounts at the last event that carried them.
    pub(super) kernel_run_ns: Option<u64>,
    pub(super) kernel_wait_ns: Option<u64>,
    /// The kernel's waiting time when the thread was first seen.
    pub(super) first_wait_ns: Option<u64>,
    pub(super) slices: Slices,
}

impl Thread {
    pub(super) fn new(key: ThreadKey, thread: Task) -> Self {
        Self {
            key,
            thread,
            start_ns: None,
            parent: None,
            name: ThreadName::default(),
            now: Now::Unknown,
            ended_ns: None,
            exit_code: None,
            voluntary_switches: 0,
            involuntary_switches: 0,
            migrations: 0,
            wakeups: 0,
            last_waker: None,
            minor_faults: 0,
            major_faults: 0,
            queued_ns: 0,
            queued_count: 0,
            queued_max_ns: 0,
            kernel_run_ns: None,
            kernel_wait_ns: None,
            first_wait_ns: None,
            slices: Slices::default(),
        }
    }

    /// Whether it can still run, that is, its last switch was not seen.
    pub fn is_open(&self) -> bool {
        !matches!(self.now, Now::Off { reason: SwitchReason::Ended, .. })
    }

    /// CPU time since tracking began, up to the thread's last switch.
    pub fn seen_run_ns(&self) -> u64 {
        self.slices.total_ns()
    }

    /// CPU time since the thread started, from the kernel's account at its last switch.
    pub fn run_ns(&self) -> Option<u64> {
        self.kernel_run_ns
    }

    /// Time it waited for a processor since tracking began: from the kernel's account if available, because that has
    /// no gaps, otherwise the sum of the observed waits.
    pub fn waited_ns(&self) -> u64 {
        match (self.kernel_wait_ns, self.first_wait_ns) {
            (Some(now_ns), Some(first_ns)) => now_ns.saturating_sub(first_ns),
            _ => self.queued_ns,
        }
    }

    /// CPU time in an interval, up to the last event for a thread that still runs.
    pub(super) fn cpu_ns(&self, from_ns: u64, to_ns: u64, running_until_ns: Option<u64>) -> u64 {
        if to_ns <= from_ns {
            return 0;
        }
        let closed_ns = self.slices.total_at(to_ns) - self.slices.total_at(from_ns);
        closed_ns + self.open_ns(from_ns, to_ns, running_until_ns)
    }

    /// The part of an interval in which the thread runs and has not been switched out yet.
    fn open_ns(&self, from_ns: u64, to_ns: u64, running_until_ns: Option<u64>) -> u64 {
        let (Some(until_ns), Now::OnCpu { since_ns, .. }) = (running_until_ns, self.now) else { return 0 };
        let begin_ns = since_ns.max(self.slices.last_end_ns().unwrap_or(0)).max(from_ns);
        until_ns.min(to_ns).saturating_sub(begin_ns)
    }

    /// Adds the CPU time of consecutive buckets from `from_ns` on to `into`.
    pub(super) fn add_buckets(
        &self,
        from_ns: u64,
        bucket_ns: u64,
        running_until_ns: Option<u64>,
        into: &mut [u32],
    ) {
        let mut begin_ns = from_ns;
        let mut before_ns = self.slices.total_at(begin_ns);
        let end_ns = self.slices.last_end_ns().unwrap_or(0).max(running_until_ns.unwrap_or(0));
        for bucket in into {
            if begin_ns >= end_ns {
                break;
            }
            let to_ns = begin_ns.saturating_add(bucket_ns);
            let total_ns = self.slices.total_at(to_ns);
            let ran_ns = total_ns - before_ns + self.open_ns(begin_ns, to_ns, running_until_ns);
            *bucket = bucket.saturating_add(u32::try_from(ran_ns).unwrap_or(u32::MAX));
            (begin_ns, before_ns) = (to_ns, total_ns);
        }
    }
}

/// One process from start to end.
#[derive(Debug, Clone)]
pub struct Process {
    pub pid: u32,
    /// Start of its first thread, which identifies the process together with the pid; `None` if it was not seen.
    pub start_ns: Option<u64>,
    pub parent_pid: Option<u32>,
    pub name: ThreadName,
    pub ended_ns: Option<u64>,
    pub exit_code: Option<i32>,
    /// Threads that have not ended.
    pub live_threads: u32,
    /// CPU time of threads that are no longer kept.
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

    /// Every thread that is kept, including ended ones.
    pub fn threads(&self) -> &[ThreadKey] {
        &self.threads
    }
}
