//! CPU clocks of other processes: nanoseconds for the whole process in one call, without privileges and files.
#![expect(unsafe_code, reason = "clocks of other processes have no safe wrapper")]

use std::mem::MaybeUninit;

use crate::sampler::ReadError;

/// `CPUCLOCK_SCHED`: the scheduler's exact count; for a running thread as of its last tick.
const SCHEDULER: i32 = 2;

/// `PID_MAX_LIMIT`: no kernel assigns larger ids.
const MAX_PID: i32 = 1 << 22;

/// CPU time of all threads of a process, including exited ones.
pub(super) fn process_cpu_ns(pid: u32) -> Result<u64, ReadError> {
    // Zero is the caller, and clock ids have no bits for larger ids.
    let pid = i32::try_from(pid).ok().filter(|pid| (1..=MAX_PID).contains(pid)).ok_or(ReadError::Gone)?;
    // The kernel's numbering (clock_getcpuclockid(3)): the complement of the id, above three bits that select the
    // clock.
    read((!pid << 3) | SCHEDULER).ok_or(ReadError::Gone)
}

/// CPU time of the calling thread.
pub(super) fn thread_cpu_ns() -> Option<u64> {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: the pointer is to space for a timespec, which the call fills if it returns zero; any clock id may be
    // passed.
    let time = unsafe {
        if libc::clock_gettime(clock, time.as_mut_ptr()) != 0 {
            return None;
        }
        time.assume_init()
    };
    let (seconds, nanos) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_clock_is_not_behind_its_thread() {
        let thread = thread_cpu_ns().unwrap();
        let process = process_cpu_ns(std::process::id()).unwrap();
        // The clock of a running thread may be as old as its last tick; 20 ms is longer than any.
        assert!(process + 20_000_000 >= thread, "{process} {thread}");
    }

    #[test]
    fn invalid_pids_have_no_clock() {
        for pid in [0, u32::MAX, u32::MAX - 7, i32::MAX as u32, 1 << 28, (1 << 28) | std::process::id()] {
            assert_eq!(process_cpu_ns(pid), Err(ReadError::Gone), "{pid}");
        }
    }
}
