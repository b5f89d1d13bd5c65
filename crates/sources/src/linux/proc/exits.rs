//! Detects exits and exit codes through process descriptors, which cost nothing while no process exits.
#![expect(unsafe_code, reason = "the ioctl for exit codes has no safe wrapper")]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags};

use super::files::{Budget, Kept};

/// Exits per call; the others follow in the next one.
const MAX_ENDS: usize = 64;

/// Watches for exits. Unavailable before Linux 5.3 and in sandboxes that forbid it; then a failing read reveals the
/// exit.
#[derive(Debug)]
pub(super) struct Exits {
    epoll: Option<OwnedFd>,
}

impl Exits {
    pub fn new() -> Self {
        Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC).ok() }
    }

    /// A descriptor for the process that has this id now; [`Self::take`] returns `slot` when it exits.
    pub fn watch(&self, pid: u32, slot: usize, budget: &Budget) -> Option<Kept> {
        let epoll = self.epoll.as_ref().filter(|_| budget.has_budget())?;
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let kept = budget.keep(rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?)?;
        let data = epoll::EventData::new_u64(slot as u64);
        // Reported once; the descriptor is closed soon after.
        epoll::add(epoll, &kept, data, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT).ok()?;
        Some(kept)
    }

    /// Slots of processes that have exited since the last call.
    pub fn take(&self, ended: &mut Vec<usize>) {
        let Some(epoll) = &self.epoll else {
            return;
        };
        let mut buffer = [const { MaybeUninit::uninit() }; MAX_ENDS];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Ok((events, _)) = epoll::wait(epoll, &mut buffer[..], Some(&now)) {
            ended.extend(events.iter().map(|event| event.data.u64() as usize));
        }
    }
}

/// `struct pidfd_info` of Linux 6.13, first version.
#[repr(C)]
#[derive(Default)]
struct PidfdInfo {
    mask: u64,
    control_group: u64,
    ids: [u32; 11],
    exit_code: i32,
}

/// `PIDFD_INFO_EXIT`, since Linux 6.15: filled in once the parent has reaped the process.
const INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO` = `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: u32 = (3 << 30) | ((size_of::<PidfdInfo>() as u32) << 16) | (0xFF << 8) | 11;

/// The `wait` status of a process that its parent has reaped. Needs no privileges.
pub(super) fn exit_status(pidfd: &Kept) -> Option<i64> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request encodes the size of the structure, which is live; kernels without this request reject it.
    let result = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO as _, &raw mut info) };
    (result == 0 && info.mask & INFO_EXIT != 0).then_some(i64::from(info.exit_code))
}

/// Converts a `wait` status like shells: the exit code, or 128 plus the signal.
pub(super) fn exit_code(status: i64) -> i64 {
    match status & 0x7f {
        0 => (status >> 8) & 0xff,
        signal => 128 + signal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_match_those_of_shells() {
        assert_eq!((exit_code(0), exit_code(3 << 8), exit_code(9), exit_code(0x8b)), (0, 3, 137, 139));
    }

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
        assert_eq!(GET_INFO, 0xC040_FF0B);
    }
}
