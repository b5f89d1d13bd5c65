//! Cycles of a process from processor counters, where the machine exposes them.
//!
//! Off by default: the kernel saves and loads the counters at every switch of the watched threads, which costs them
//! about a microsecond each.

use std::io::Read as _;

use super::files;
use super::process::Process;
use crate::sampler::Missing;
use crate::sys::perf_open::{self, Counter};

/// Limit for threads with a counter; it includes the threads that they start.
const MAX_THREADS: usize = 4096;

/// Counters of the threads that existed when watching began. Threads that start later are counted with their creators.
#[derive(Debug)]
pub(super) struct Cycles {
    counters: Vec<std::fs::File>,
}

/// Why cycles are not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoCycles {
    NoCounters,
    NotAllowed,
    OldKernel,
    Gone,
}

impl Cycles {
    /// The second value is whether cycles in the kernel are included.
    pub fn open(
        process: &Process,
        counter: Counter,
        scratch: &mut Vec<u8>,
    ) -> Result<(Self, bool), NoCycles> {
        let tasks = process.open_directory(c"task").map_err(|_| NoCycles::Gone)?;
        let mut threads = Vec::new();
        files::each_number(std::os::fd::AsFd::as_fd(&tasks), scratch, |tid| {
            if threads.len() < MAX_THREADS {
                threads.push(tid);
            }
        })
        .map_err(|_| NoCycles::Gone)?;
        let (mut counters, mut kernel, mut reason) = (Vec::new(), true, NoCycles::Gone);
        for tid in threads {
            let opened = perf_open::open_counter(tid, counter, kernel).or_else(|error| {
                if kernel && is_refused(&error) {
                    kernel = false;
                    return perf_open::open_counter(tid, counter, false);
                }
                Err(error)
            });
            match opened {
                Ok(file) => counters.push(std::fs::File::from(file)),
                Err(error) => reason = refusal_reason(&error),
            }
        }
        if counters.is_empty() { Err(reason) } else { Ok((Self { counters }, kernel)) }
    }

    pub fn read(&mut self) -> Option<u64> {
        let mut sum = 0u64;
        for counter in &mut self.counters {
            let mut bytes = [0; 8];
            counter.read_exact(&mut bytes).ok()?;
            sum = sum.saturating_add(u64::from_ne_bytes(bytes));
        }
        Some(sum)
    }
}

fn is_refused(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
}

fn refusal_reason(error: &std::io::Error) -> NoCycles {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => NoCycles::NotAllowed,
        Some(libc::ESRCH) => NoCycles::Gone,
        Some(libc::EINVAL) => NoCycles::OldKernel,
        _ => NoCycles::NoCounters,
    }
}

impl NoCycles {
    /// The reason to report; `None` for a process that has exited.
    pub fn missing(self) -> Option<Missing> {
        let (why, hint) = match self {
            Self::NoCounters => ("this machine exposes no hardware counters (most virtual machines)", None),
            Self::NotAllowed => (
                "permission to read hardware counters of this process was denied",
                Some("run as its user with kernel.perf_event_paranoid at 2 or below, or with CAP_PERFMON"),
            ),
            Self::OldKernel => (
                "this kernel cannot count the threads of a process together",
                Some("requires Linux 5.13 or newer"),
            ),
            Self::Gone => return None,
        };
        Some(Missing::new("cpu_cycles", why, hint))
    }
}

/// Only cycles in user mode are counted.
pub(super) fn only_user() -> Missing {
    Missing::new(
        "cpu_cycles/kernel",
        "cycles in the kernel are not counted: kernel.perf_event_paranoid is above 1",
        Some("lower it, or run with CAP_PERFMON"),
    )
}
