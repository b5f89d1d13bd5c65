//! The moment a process ends, and its exit code: by process descriptors, which cost nothing while nothing ends.
#![expect(unsafe_code, reason = "the ioctl for exit codes has no safe wrapper")]

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::event::epoll;
use rustix::process::{Pid, PidfdFlags};

use super::files::{Budget, Kept};

/// Ends taken per call; the others come with the next one.
const MAX_ENDS: usize = 64;

/// Watches for ends. Not there on kernels before 5.3 and in sandboxes that forbid it: ends are then seen when a reading
/// fails.
#[derive(Debug)]
pub(super) struct Exits {
    epoll: Option<OwnedFd>,
}

impl Exits {
    pub fn new() -> Self {
        Self { epoll: epoll::create(epoll::CreateFlags::CLOEXEC).ok() }
    }

    /// A descriptor for the process that has this id now; `slot` is what [`Self::take`] will say.
    pub fn watch(&self, pid: u32, slot: usize, budget: &Budget) -> Option<Kept> {
        let epoll = self.epoll.as_ref().filter(|_| budget.has_room())?;
        let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
        let kept = budget.keep(rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?)?;
        let data = epoll::EventData::new_u64(slot as u64);
        // Told once; the descriptor is closed soon after.
        epoll::add(epoll, &kept, data, epoll::EventFlags::IN | epoll::EventFlags::ONESHOT).ok()?;
        Some(kept)
    }

    /// Slots whose processes have ended since the last call.
    pub fn take(&self, ended: &mut Vec<usize>) {
        let Some(epoll) = &self.epoll else {
            return;
        };
        let mut room = [const { MaybeUninit::uninit() }; MAX_ENDS];
        let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        if let Ok((events, _)) = epoll::wait(epoll, &mut room[..], Some(&now)) {
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

/// `PIDFD_INFO_EXIT`, since Linux 6.15: filled in once the parent has collected the process.
const INFO_EXIT: u64 = 1 << 3;
/// `PIDFD_GET_INFO` = `_IOWR(0xFF, 11, struct pidfd_info)`.
const GET_INFO: u32 = (3 << 30) | ((size_of::<PidfdInfo>() as u32) << 16) | (0xFF << 8) | 11;

/// How a process ended whose parent knows it already, as `wait` gives it. Needs no rights.
pub(super) fn exit_status(pidfd: &Kept) -> Option<i64> {
    let mut info = PidfdInfo { mask: INFO_EXIT, ..PidfdInfo::default() };
    // SAFETY: the request carries the size of the structure, which is live and which the kernel writes no further than;
    // kernels without this request refuse it.
    let result = unsafe { libc::ioctl(pidfd.as_fd().as_raw_fd(), GET_INFO as _, &raw mut info) };
    (result == 0 && info.mask & INFO_EXIT != 0).then_some(i64::from(info.exit_code))
}

/// What `wait` gives, as shells say it: the exit code, or 128 and the number of the signal.
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
    fn codes_are_those_of_shells() {
        assert_eq!((exit_code(0), exit_code(3 << 8), exit_code(9), exit_code(0x8b)), (0, 3, 137, 139));
    }

    #[test]
    fn the_structure_has_the_kernels_size() {
        assert_eq!(size_of::<PidfdInfo>(), 64);
        assert_eq!(GET_INFO, 0xC040_FF0B);
    }
}
