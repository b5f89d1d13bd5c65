//! `perf_event_open`: events of one processor as a ring of records or for a program, and counters of threads.
#![expect(unsafe_code, reason = "perf_event_open has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd};

/// `struct perf_event_attr`, version 3, which every kernel with our records accepts.
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

/// Flag bits in the order of the structure's bit field.
mod flag {
    pub const INHERIT: u64 = 1 << 1;
    pub const EXCLUDE_KERNEL: u64 = 1 << 5;
    pub const EXCLUDE_HYPERVISOR: u64 = 1 << 6;
    pub const EXCLUDE_IDLE: u64 = 1 << 7;
    pub const MMAP: u64 = 1 << 8;
    pub const FREQUENCY: u64 = 1 << 10;
    pub const MMAP2: u64 = 1 << 23;
    pub const BUILD_ID: u64 = 1 << 34;
    pub const INHERIT_THREAD: u64 = 1 << 35;
    pub const COMM: u64 = 1 << 9;
    pub const TASK: u64 = 1 << 13;
    pub const WATERMARK: u64 = 1 << 14;
    pub const SAMPLE_ID_ALL: u64 = 1 << 18;
    pub const COMM_EXEC: u64 = 1 << 24;
    pub const USE_CLOCK: u64 = 1 << 25;
    pub const CONTEXT_SWITCH: u64 = 1 << 26;
}

const SOFTWARE: u32 = 1;

/// Switch, start, exit and name records of one processor, with monotonic timestamps. There are no wake-ups: the ring is
/// drained periodically.
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
    open(attributes, None, cpu)
}

/// How processors are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    pub hertz: u64,
    /// Include kernel frames.
    pub kernel: bool,
    /// Registers and stack bytes to copy; `None` for frame pointers only.
    pub stack: Option<(u64, u32)>,
    /// Request build ids, which kernels before 5.12 do not support.
    pub build_ids: bool,
    pub sample_type: u64,
}

/// Samples on one processor: of one thread and everything it starts, or of all threads.
pub fn open_samples(thread: Option<u32>, cpu: u32, sampling: &Sampling) -> io::Result<OwnedFd> {
    const CPU_CLOCK: u64 = 0;
    let (user_registers, user_stack) = sampling.stack.unwrap_or_default();
    let when = |wanted: bool, flag: u64| if wanted { flag } else { 0 };
    let attributes = Attributes {
        config: CPU_CLOCK,
        // A rate in samples per second, as the flag below states.
        sample_period: sampling.hertz,
        sample_type: sampling.sample_type,
        flags: flag::EXCLUDE_HYPERVISOR
            | flag::EXCLUDE_IDLE
            | flag::MMAP
            | flag::MMAP2
            | flag::COMM
            | flag::COMM_EXEC
            | flag::FREQUENCY
            | flag::TASK
            | flag::WATERMARK
            | flag::SAMPLE_ID_ALL
            | flag::USE_CLOCK
            | when(thread.is_some(), flag::INHERIT)
            | when(!sampling.kernel, flag::EXCLUDE_KERNEL)
            | when(sampling.build_ids, flag::BUILD_ID),
        wakeup_watermark: u32::MAX,
        user_registers,
        user_stack,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    open(attributes, thread, cpu)
}

/// Records of all code mappings on one processor, with build ids if the kernel supports them.
pub fn open_mappings(cpu: u32) -> io::Result<OwnedFd> {
    const DUMMY: u64 = 9;
    const TID_TIME_CPU: u64 = (1 << 1) | (1 << 2) | (1 << 7);
    let flags = flag::MMAP | flag::MMAP2 | flag::WATERMARK | flag::SAMPLE_ID_ALL | flag::USE_CLOCK;
    let attributes = Attributes {
        config: DUMMY,
        sample_type: TID_TIME_CPU,
        flags,
        wakeup_watermark: u32::MAX,
        clock: libc::CLOCK_MONOTONIC,
        ..Attributes::default()
    };
    match open(Attributes { flags: flags | flag::BUILD_ID, ..attributes }, None, cpu) {
        // Kernels before 5.12 do not support build ids.
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => open(attributes, None, cpu),
        answer => answer,
    }
}

/// Redirects an event to the ring of another one on the same processor.
pub fn share_ring(event: &OwnedFd, ring_of: &OwnedFd) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_OUTPUT`.
    const SET_OUTPUT: libc::Ioctl = 0x2405;
    // SAFETY: this request takes a file descriptor by value and accesses none of our memory.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT, ring_of.as_raw_fd()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Minor or major page faults on one processor, for a program.
pub fn open_faults(cpu: u32, major: bool) -> io::Result<OwnedFd> {
    const MINOR_FAULTS: u64 = 5;
    const MAJOR_FAULTS: u64 = 6;
    let config = if major { MAJOR_FAULTS } else { MINOR_FAULTS };
    open(Attributes { config, sample_period: 1, ..Attributes::default() }, None, cpu)
}

/// What a counter counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counter {
    Cycles,
    /// Nanoseconds on a processor, which every kernel counts, for tests without the hardware.
    #[cfg_attr(not(test), expect(dead_code, reason = "replaces the hardware in tests"))]
    TaskClock,
}

/// A count for a thread and the threads of its process that it starts, with or without kernel code. A read returns one
/// number.
pub fn open_counter(thread: u32, counter: Counter, kernel: bool) -> io::Result<OwnedFd> {
    const HARDWARE: u32 = 0;
    const CPU_CYCLES: u64 = 0;
    const TASK_CLOCK: u64 = 1;
    let (event_type, config) = match counter {
        Counter::Cycles => (HARDWARE, CPU_CYCLES),
        Counter::TaskClock => (SOFTWARE, TASK_CLOCK),
    };
    let only_user = if kernel { 0 } else { flag::EXCLUDE_KERNEL };
    let flags = flag::INHERIT | flag::INHERIT_THREAD | flag::EXCLUDE_HYPERVISOR | only_user;
    open_any(Attributes { event_type, config, flags, ..Attributes::default() }, Some(thread), -1)
}

/// An event by its type and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub kind: u32,
    pub config: u64,
}

impl Event {
    /// `PERF_TYPE_HARDWARE`.
    pub const fn hardware(config: u64) -> Self {
        Self { kind: 0, config }
    }

    /// `PERF_TYPE_RAW`: a vendor-specific number.
    pub const fn raw(config: u64) -> Self {
        Self { kind: 4, config }
    }

    /// `PERF_TYPE_HW_CACHE`: reads of a cache (0: L1 data, 2: last level), all or only misses.
    pub const fn cache(cache: u64, misses: bool) -> Self {
        Self { kind: 3, config: cache | if misses { 1 << 16 } else { 0 } }
    }
}

/// Value, time since opening, and time during which it was counted.
const TIMES: u64 = 1 | 2;

/// A count for a process and everything it starts from now on, without kernel code if that is not permitted. A read
/// returns three numbers.
pub fn open_process(pid: u32, event: Event) -> io::Result<OwnedFd> {
    open_process_grouped(pid, event, None)
}

/// The same, counted exactly when `leader` is: a multiplexing processor schedules both together, so that their ratio is
/// meaningful.
pub fn open_process_grouped(pid: u32, event: Event, leader: Option<BorrowedFd<'_>>) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        event_type: event.kind,
        config: event.config,
        read_format: TIMES,
        flags: flag::INHERIT | flag::EXCLUDE_HYPERVISOR,
        ..Attributes::default()
    };
    match open_in(attributes, Some(pid), -1, leader) {
        Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => open_in(
            Attributes { flags: attributes.flags | flag::EXCLUDE_KERNEL, ..attributes },
            Some(pid),
            -1,
            leader,
        ),
        answer => answer,
    }
}

/// A count of one processor that represents its package. A read returns three numbers.
pub fn open_machine(cpu: u32, event: Event) -> io::Result<OwnedFd> {
    let attributes = Attributes {
        event_type: event.kind,
        config: event.config,
        read_format: TIMES,
        ..Attributes::default()
    };
    open_any(attributes, None, cpu as libc::c_int)
}

/// `thread`: only this one; `None`: everything on the processor.
fn open(attributes: Attributes, thread: Option<u32>, cpu: u32) -> io::Result<OwnedFd> {
    open_any(Attributes { event_type: SOFTWARE, ..attributes }, thread, cpu as libc::c_int)
}

/// `cpu`: -1 for all.
fn open_any(attributes: Attributes, thread: Option<u32>, cpu: libc::c_int) -> io::Result<OwnedFd> {
    open_in(attributes, thread, cpu, None)
}

fn open_in(
    attributes: Attributes,
    thread: Option<u32>,
    cpu: libc::c_int,
    leader: Option<BorrowedFd<'_>>,
) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    let attributes = Attributes { bytes: size_of::<Attributes>() as u32, ..attributes };
    let group: libc::c_int = leader.map_or(-1, |leader| leader.as_raw_fd());
    let target = thread.map_or(-1, |thread| thread as libc::pid_t);
    // SAFETY: the structure states its own length and outlives the call, which only reads it.
    let answer = unsafe {
        let attributes = std::ptr::from_ref(&attributes);
        libc::syscall(libc::SYS_perf_event_open, attributes, target, cpu, group, CLOSE_ON_EXEC)
    };
    match i32::try_from(answer) {
        // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
        Ok(raw) if raw >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Runs a program at every event.
pub fn set_program(event: &OwnedFd, program: &OwnedFd) -> io::Result<()> {
    /// `PERF_EVENT_IOC_SET_BPF`.
    const SET_BPF: libc::Ioctl = 0x4004_2408;
    // SAFETY: this request takes a file descriptor by value and accesses none of our memory.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_BPF, program.as_raw_fd()) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
