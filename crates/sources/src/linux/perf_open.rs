//! `perf_event_open`: events of one processor, as a ring of records or for a program.
#![expect(unsafe_code, reason = "perf_event_open has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

/// `struct perf_event_attr` in its third version, which every kernel with our records accepts.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Attributes {
    event_type: u32,
    bytes: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint_type: u32,
    config_1: u64,
    config_2: u64,
    branch_sample_type: u64,
    user_registers: u64,
    user_stack: u32,
    clock: i32,
}

/// Bits of the flags, in the order of the structure's bit field.
mod flag {
    pub const COMM: u64 = 1 << 9;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCK: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
}

const SOFTWARE: u32 = 1;

/// Records of switches, starts, ends and names on one processor, stamped by the monotonic clock. Nobody is woken: the
/// ring is drained by time.
pub fn open_switches(cpu: u32) -> io::Result<OwnedFd> {
    const DUMMY: u64 = 9;
    const TID_TIME_CPU: u64 = (1 << 1) | (1 << 2) | (1 << 7);
    let attributes = Attributes {
        config: DUMMY,
        sample_type: TID_TIME_CPU,
        flags: flag::COMM
            | flag::TASK
            | flag::WATERMARK
            | flag::SAMPLE_ID_ALL
            | flag::COMM_EXEC
            | flag::USE_CLOCK
            | flag::CONTEXT_SWITCH,
        wakeup_watermark: u32::MAX,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    open(attributes, cpu)
}

/// Every page fault on one processor, minor or major ones, for a program.
pub fn open_faults(cpu: u32, major: bool) -> io::Result<OwnedFd> {
    const MINOR_FAULTS: u64 = 5;
    const MAJOR_FAULTS: u64 = 6;
    let config = if major { MAJOR_FAULTS } else { MINOR_FAULTS };
    open(Attributes { config, sample_period: 1, ..Attributes::default() }, cpu)
}

fn open(attributes: Attributes, cpu: u32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = Attributes { event_type: SOFTWARE, bytes: size_of::<Attributes>() as u32, ..attributes };
    let (every_process, no_group): (libc::pid_t, libc::c_int) = (-1, -1);
    // SAFETY: the structure is as long as it says and outlives the call, which only reads it.
    let answer = unsafe {
        let attributes = std::ptr::from_ref(&attributes);
        let cpu = cpu as libc::c_int;
        libc::syscall(libc::SYS_perf_event_open, attributes, every_process, cpu, no_group, CLOSE_ON_EXEC)
    };
    match i32::try_from(answer) {
        // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
        Ok(raw) if raw >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs a program at every event.
pub fn set_program(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_BPF`.
    const SET_BPF: libc::Ioctl = 0x4004_2408;
    // SAFETY: this request takes a file descriptor by value and touches no memory of ours.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
