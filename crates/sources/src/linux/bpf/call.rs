//! bpf(2): the one system call behind maps, programs, attaching and running them.
#![expect(unsafe_code, reason = "bpf(2) has no safe wrapper")]

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};

use super::asm::Instruction;

/// Commands of bpf(2).
#[derive(Debug, Clone, Copy)]
enum Command {
    MapCreate = 0,
    MapTakeBatch = 25,
    ProgramLoad = 5,
    ProgramRun = 10,
    InfoByDescriptor = 15,
    TracepointOpen = 17,
    EnableStats = 32,
}

/// How a program is attached, with the kernel's numbers for its type and its way of attaching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// At a tracepoint, with typed arguments.
    Tracepoint,
    /// At perf events, which it must be given to.
    PerfEvent,
    /// Nowhere: run by [`run`].
    Call,
}

impl ProgramKind {
    fn numbers(self) -> (u32, u32, u32) {
        const PERF_EVENT: u32 = 7;
        const TRACING: u32 = 26;
        const SYSCALL: u32 = 31;
        const SLEEPABLE: u32 = 1 << 4;
        match self {
            Self::Tracepoint => (TRACING, 23, 0),
            Self::PerfEvent => (PERF_EVENT, 0, 0),
            Self::Call => (SYSCALL, 0, SLEEPABLE),
        }
    }
}

#[repr(C)]
#[derive(Debug, Default)]
struct MapCreate {
    map_type: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    flags: u32,
    inner_map: u32,
    numa_node: u32,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Debug, Default)]
struct MapBatch {
    from: u64,
    to: u64,
    keys: u64,
    values: u64,
    count: u32,
    map: u32,
    entry_flags: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct ProgramLoad {
    program_type: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
    btf: u32,
    function_info_bytes: u32,
    function_info: u64,
    function_info_count: u32,
    line_info_bytes: u32,
    line_info: u64,
    line_info_count: u32,
    attach_btf_id: u32,
}

#[repr(C)]
#[derive(Debug, Default)]
struct ProgramRun {
    program: u32,
    answer: u32,
    rest: [u64; 9],
}

#[repr(C)]
#[derive(Debug, Default)]
struct TracepointOpen {
    name: u64,
    program: u32,
    padding: u32,
}

#[repr(C)]
#[derive(Debug, Default)]
struct InfoByDescriptor {
    descriptor: u32,
    info_bytes: u32,
    info: u64,
}

#[repr(C)]
#[derive(Debug, Default)]
struct EnableStats {
    kind: u32,
}

/// What the kernel counted of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    pub run_ns: u64,
    pub runs: u64,
    pub recursion_misses: u64,
}

fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<i64> {
    let bytes = size_of::<T>();
    // SAFETY: every attribute structure of this module is laid out as the kernel's for its command, and the kernel reads
    // and writes no more than `bytes` of it; memory that its fields point to outlives the call, as each caller says.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command as i64, std::ptr::from_mut(attributes), bytes) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn descriptor(answer: i64) -> io::Result<OwnedFd> {
    let raw = i32::try_from(answer).map_err(|_| io::Error::other("not a file descriptor"))?;
    // SAFETY: the kernel has just made this descriptor for us; nobody else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// At most 15 bytes of letters, digits and underscores.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(text.bytes()).for_each(|(to, from)| *to = from);
    name
}

/// An array that we can map into our memory.
pub fn create_array(label: &str, value_bytes: u32, entries: u32) -> io::Result<OwnedFd> {
    const ARRAY: u32 = 2;
    const CAN_BE_MAPPED: u32 = 1 << 10;
    descriptor(bpf(
        Command::MapCreate,
        &mut MapCreate {
            map_type: ARRAY,
            key_bytes: 4,
            value_bytes,
            entries,
            flags: CAN_BE_MAPPED,
            name: name(label),
            ..MapCreate::default()
        },
    )?)
}

/// A table by key. With `forgets` the least used entries make room for new ones.
pub fn create_hash(
    label: &str,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    forgets: bool,
) -> io::Result<OwnedFd> {
    const HASH: u32 = 1;
    const LRU_HASH: u32 = 9;
    let map_type = if forgets { LRU_HASH } else { HASH };
    let name = name(label);
    descriptor(bpf(
        Command::MapCreate,
        &mut MapCreate { map_type, key_bytes, value_bytes, entries, name, ..MapCreate::default() },
    )?)
}

/// Takes entries out of a table, as many as there is room for; how many there were, and whether nothing is left. The
/// table's keys and values must have been created with these numbers of words.
///
/// `cursor` begins as `None` and goes on from call to call.
pub fn take_batch<const KEY: usize, const VALUE: usize>(
    map: &OwnedFd,
    cursor: &mut Option<u32>,
    keys: &mut [[u64; KEY]],
    values: &mut [[u64; VALUE]],
) -> io::Result<(usize, bool)> {
    let room = u32::try_from(keys.len().min(values.len())).unwrap_or(u32::MAX);
    let mut position = cursor.unwrap_or(0);
    // All of them outlive the call, and there is room for so many keys and values.
    let mut batch = MapBatch {
        from: if cursor.is_some() { std::ptr::from_mut(&mut position) as u64 } else { 0 },
        to: std::ptr::from_mut(&mut position) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: room,
        map: map.as_raw_fd() as u32,
        ..MapBatch::default()
    };
    let is_last = match bpf(Command::MapTakeBatch, &mut batch) {
        Ok(_) => false,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
        Err(error) => return Err(error),
    };
    *cursor = Some(position);
    Ok((batch.count.min(room) as usize, is_last))
}

/// Loads a program; with a log, the kernel's verifier writes into it what it thinks.
pub fn load_program(
    label: &str,
    kind: ProgramKind,
    attach_to: u32,
    code: &[Instruction],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let (program_type, attach_type, flags) = kind.numbers();
    // The kernel lets only programs under this licence call most of its functions; it concerns the program alone.
    let license = c"GPL";
    let count = u32::try_from(code.len()).map_err(|_| io::Error::other("the program is too long"))?;
    // `code`, `license` and `log` outlive the call.
    let mut load = ProgramLoad {
        program_type,
        instruction_count: count,
        instructions: code.as_ptr() as u64,
        license: license.as_ptr() as u64,
        flags,
        name: name(label),
        attach_type,
        attach_btf_id: attach_to,
        ..ProgramLoad::default()
    };
    if !log.is_empty() {
        load.log_level = 1;
        load.log_bytes = u32::try_from(log.len()).unwrap_or(u32::MAX);
        load.log = log.as_mut_ptr() as u64;
    }
    descriptor(bpf(Command::ProgramLoad, &mut load)?)
}

/// Attaches a program where it was loaded for; it is detached when the answer is dropped.
pub fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    descriptor(bpf(Command::TracepointOpen, &mut TracepointOpen { program, ..TracepointOpen::default() })?)
}

/// Runs a program once; what it returned.
pub fn run(program: &OwnedFd) -> io::Result<u32> {
    let mut run = ProgramRun { program: program.as_raw_fd() as u32, ..ProgramRun::default() };
    bpf(Command::ProgramRun, &mut run)?;
    Ok(run.answer)
}

/// What the kernel counted of a program; times only while [`enable_stats`] is held.
pub fn program_counts(program: &OwnedFd) -> io::Result<ProgramCounts> {
    // `struct bpf_prog_info` up to `recursion_misses`, in words; older kernels fill less of it.
    let mut info = [0u64; 27];
    bpf(
        Command::InfoByDescriptor,
        &mut InfoByDescriptor {
            descriptor: program.as_raw_fd() as u32,
            info_bytes: size_of_val(&info) as u32,
            // `info` outlives the call.
            info: info.as_mut_ptr() as u64,
        },
    )?;
    Ok(ProgramCounts { run_ns: info[24], runs: info[25], recursion_misses: info[26] })
}

/// Lets the kernel measure the run time of programs until the answer is dropped.
pub fn enable_stats() -> io::Result<OwnedFd> {
    descriptor(bpf(Command::EnableStats, &mut EnableStats::default())?)
}
