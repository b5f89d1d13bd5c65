//! bpf(2): the system call for creating maps and for loading, attaching and running programs.
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

/// How a program is attached, with the kernel's program and attach types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramKind {
    /// At a tracepoint, with typed arguments.
    Tracepoint,
    /// At perf events, which it is assigned to.
    PerfEvent,
    /// Not attached: executed by [`run`].
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

/// The kernel's statistics of a program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProgramCounts {
    pub run_ns: u64,
    pub runs: u64,
    pub recursion_misses: u64,
}

fn bpf<T>(command: Command, attributes: &mut T) -> io::Result<i64> {
    let bytes = size_of::<T>();
    // SAFETY: every attribute structure of this module has the kernel's layout for its command, and the kernel
    // accesses at most `bytes` of it; memory that its fields point to outlives the call, as stated by each caller.
    let answer =
        unsafe { libc::syscall(libc::SYS_bpf, command as i64, std::ptr::from_mut(attributes), bytes) };
    if answer < 0 { Err(io::Error::last_os_error()) } else { Ok(answer) }
}

fn descriptor(answer: i64) -> io::Result<OwnedFd> {
    let raw = i32::try_from(answer).map_err(|_| io::Error::other("not a file descriptor"))?;
    // SAFETY: the kernel has just created this descriptor, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(raw) })
}

/// At most 15 letters, digits and underscores.
fn name(text: &str) -> [u8; 16] {
    let mut name = [0; 16];
    name.iter_mut().take(15).zip(text.bytes()).for_each(|(to, from)| *to = from);
    name
}

/// An array that can be mapped into our memory.
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

/// A hash table. With `evicts` the least recently used entries are replaced when it is full.
pub fn create_hash(
    label: &str,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
    evicts: bool,
) -> io::Result<OwnedFd> {
    const HASH: u32 = 1;
    const LRU_HASH: u32 = 9;
    let map_type = if evicts { LRU_HASH } else { HASH };
    let name = name(label);
    descriptor(bpf(
        Command::MapCreate,
        &mut MapCreate { map_type, key_bytes, value_bytes, entries, name, ..MapCreate::default() },
    )?)
}

/// Removes entries from a table, up to the capacity of `keys` and `values`. Returns their number and whether the table
/// is empty. The table's keys and values must have been created with these word counts.
///
/// `cursor` starts as `None` and is passed from call to call.
pub fn take_batch<const KEY: usize, const VALUE: usize>(
    map: &OwnedFd,
    cursor: &mut Option<u32>,
    keys: &mut [[u64; KEY]],
    values: &mut [[u64; VALUE]],
) -> io::Result<(usize, bool)> {
    let capacity = u32::try_from(keys.len().min(values.len())).unwrap_or(u32::MAX);
    let mut position = cursor.unwrap_or(0);
    // All of them outlive the call and have the stated capacity.
    let mut batch = MapBatch {
        from: if cursor.is_some() { std::ptr::from_mut(&mut position) as u64 } else { 0 },
        to: std::ptr::from_mut(&mut position) as u64,
        keys: keys.as_mut_ptr() as u64,
        values: values.as_mut_ptr() as u64,
        count: capacity,
        map: map.as_raw_fd() as u32,
        ..MapBatch::default()
    };
    let is_last = match bpf(Command::MapTakeBatch, &mut batch) {
        Ok(_) => false,
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => true,
        Err(error) => return Err(error),
    };
    *cursor = Some(position);
    Ok((batch.count.min(capacity) as usize, is_last))
}

/// Loads a program; the kernel's verifier writes its messages to the log, if there is one.
pub fn load_program(
    label: &str,
    kind: ProgramKind,
    attach_to: u32,
    code: &[Instruction],
    log: &mut [u8],
) -> io::Result<OwnedFd> {
    let (program_type, attach_type, flags) = kind.numbers();
    // The kernel restricts most of its functions to programs with this license; it applies only to the program.
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

/// Attaches a program to the target it was loaded for, until the returned descriptor is dropped.
pub fn attach(program: &OwnedFd) -> io::Result<OwnedFd> {
    let program = program.as_raw_fd() as u32;
    descriptor(bpf(Command::TracepointOpen, &mut TracepointOpen { program, ..TracepointOpen::default() })?)
}

/// Runs a program once and returns its result.
pub fn run(program: &OwnedFd) -> io::Result<u32> {
    let mut run = ProgramRun { program: program.as_raw_fd() as u32, ..ProgramRun::default() };
    bpf(Command::ProgramRun, &mut run)?;
    Ok(run.answer)
}

/// Statistics of a program; times only while [`enable_stats`] is held.
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

/// Makes the kernel measure the run time of programs until the returned descriptor is dropped.
pub fn enable_stats() -> io::Result<OwnedFd> {
    descriptor(bpf(Command::EnableStats, &mut EnableStats::default())?)
}
