//! Calls that read, write, open and sync files: count, bytes and duration. One program records when a thread enters such
//! a call, another aggregates when it returns; no record is written for a single call.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::atomic::Ordering;

use ortscope_core::kernel::{FileIo, FileKind, FileOperation, Task};

use super::asm::{Assembler, Helper, Reg, Width};
use super::call::{self, ProgramKind};
use super::events::ProgramBuilder;
use super::layout::{Registers, Structure, tracepoint};
use super::program::Program;
use super::ring::lookup;
use crate::kernel::TraceError;
use crate::sys::rights;
use crate::sys::shared::SharedMemory;

use Reg::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use Width::{U32, U64};

/// Threads that can be inside such a call at the same time; beyond this the oldest are dropped.
const INSIDE: u32 = 16_384;
/// Limit for distinct sums between two reads: 16,384. Calls beyond it are counted as lost.
const SUMS: u32 = 16_384;
const KEY_WORDS: usize = 2;
const VALUE_WORDS: usize = 5;
/// Entries that are read at once.
const BATCH: usize = 1024;

/// Offsets on a program's stack.
mod stack {
    pub const CALLER: i16 = -8;
    pub const ENTERED: i16 = -16;
    /// Thread, process, operation, file kind.
    pub const KEY: i16 = -32;
    pub const SCRATCH: i16 = -40;
    pub const FRESH: i16 = -80;
}

/// Offsets in the sums.
mod at {
    pub const CALLS: i16 = 0;
    pub const FAILED: i16 = 8;
    pub const BYTES: i16 = 16;
    pub const TOTAL_NS: i16 = 24;
    pub const MAX_NS: i16 = 32;
}

const OPERATIONS: [FileOperation; 4] =
    [FileOperation::Read, FileOperation::Write, FileOperation::Open, FileOperation::Sync];

/// The calls, with the index of their operation in [`OPERATIONS`].
const CALLS: [(libc::c_long, i32); 14] = [
    (libc::SYS_read, 0),
    (libc::SYS_pread64, 0),
    (libc::SYS_readv, 0),
    (libc::SYS_preadv, 0),
    (libc::SYS_preadv2, 0),
    (libc::SYS_write, 1),
    (libc::SYS_pwrite64, 1),
    (libc::SYS_writev, 1),
    (libc::SYS_pwritev, 1),
    (libc::SYS_pwritev2, 1),
    (libc::SYS_openat, 2),
    (libc::SYS_openat2, 2),
    (libc::SYS_fsync, 3),
    (libc::SYS_fdatasync, 3),
];
const OPEN: i32 = 2;

/// The tables that the programs fill.
#[derive(Debug)]
pub struct FileIoSums {
    sums: OwnedFd,
    lost: SharedMemory,
    lost_before: u64,
}

/// Loads both programs.
pub fn open(builder: &ProgramBuilder<'_>) -> Result<(FileIoSums, Vec<Program>), TraceError> {
    let refused = |error| rights::bpf_error("aggregating file I/O", error);
    let inside = call::create_hash("ortscope_in", 8, 8, INSIDE, true).map_err(refused)?;
    let (key, value) = (8 * KEY_WORDS as u32, 8 * VALUE_WORDS as u32);
    let sums = call::create_hash("ortscope_io", key, value, SUMS, false).map_err(refused)?;
    let lost = call::create_array("ortscope_lost", 8, 1).map_err(refused)?;
    let programs = vec![leave(builder, &inside, &sums, &lost)?, enter(builder, &inside)?];
    let lost = SharedMemory::map(&lost, 4096)
        .map_err(|source| TraceError::System { what: "mapping a counter".to_owned(), source })?;
    Ok((FileIoSums { sums, lost, lost_before: 0 }, programs))
}

fn map_call(code: &mut Assembler, map: &OwnedFd, key: i16, helper: Helper) {
    code.load_map(R1, map.as_raw_fd());
    code.mov(R2, R10);
    code.add_immediate(R2, i32::from(key));
    code.call(helper);
}

fn enter(builder: &ProgramBuilder<'_>, inside: &OwnedFd) -> Result<Program, TraceError> {
    let (id, _) = tracepoint(builder.btf(), "sys_enter")?;
    let mut code = Assembler::default();
    let (wanted, out) = (code.label(), code.label());
    code.load(U64, R2, R1, 8);
    for (number, _) in CALLS {
        code.jump_if_equal(R2, number as i32, wanted);
    }
    code.jump(out);
    code.place(wanted);
    code.call(Helper::CurrentPidTgid);
    code.store(U64, R10, stack::CALLER, R0);
    code.call(Helper::KtimeGetNs);
    code.store(U64, R10, stack::ENTERED, R0);
    code.mov(R3, R10);
    code.add_immediate(R3, i32::from(stack::ENTERED));
    code.mov_immediate(R4, 0);
    map_call(&mut code, inside, stack::CALLER, Helper::MapUpdate);
    code.place(out);
    code.mov_immediate(R0, 0);
    code.exit();
    Program::load("sys_enter", ProgramKind::Tracepoint, id.0, code)
}

fn leave(
    builder: &ProgramBuilder<'_>,
    inside: &OwnedFd,
    sums: &OwnedFd,
    lost: &OwnedFd,
) -> Result<Program, TraceError> {
    let registers = Registers::find(builder.btf())?;
    let (id, _) = tracepoint(builder.btf(), "sys_exit")?;
    let mut code = Assembler::default();
    let (wanted, out, full) = (code.label(), code.label(), code.label());
    code.mov(R6, R1);
    code.load(U64, R2, R6, 0);
    code.load(U32, R2, R2, registers.number);
    for (number, operation) in CALLS {
        code.mov_immediate(R9, operation);
        code.jump_if_equal(R2, number as i32, wanted);
    }
    code.jump(out);
    code.place(wanted);
    code.call(Helper::CurrentPidTgid);
    code.store(U64, R10, stack::CALLER, R0);
    map_call(&mut code, inside, stack::CALLER, Helper::MapLookup);
    code.jump_if_zero(R0, out);
    code.load(U64, R7, R0, 0);
    map_call(&mut code, inside, stack::CALLER, Helper::MapDelete);
    code.call(Helper::KtimeGetNs);
    code.sub(R0, R7);
    code.mov(R7, R0);
    // The descriptor is the first argument, or the result of opening.
    let is_result = code.label();
    code.load(U64, R8, R6, 8);
    code.jump_if_equal(R9, OPEN, is_result);
    code.load(U64, R8, R6, 0);
    code.load(U64, R8, R8, registers.first);
    code.place(is_result);
    builder.store_current_to(&mut code, R10, stack::KEY);
    code.store(U32, R10, stack::KEY + 8, R9);
    code.store_immediate(U32, R10, stack::KEY + 12, 0);
    file_kind(builder, &mut code)?;
    map_call(&mut code, sums, stack::KEY, Helper::MapLookup);
    let known = code.label();
    code.jump_if_not_zero(R0, known);
    for word in 0..VALUE_WORDS as i16 {
        code.store_immediate(U64, R10, stack::FRESH + 8 * word, 0);
    }
    code.mov(R3, R10);
    code.add_immediate(R3, i32::from(stack::FRESH));
    code.mov_immediate(R4, 0);
    map_call(&mut code, sums, stack::KEY, Helper::MapUpdate);
    map_call(&mut code, sums, stack::KEY, Helper::MapLookup);
    code.jump_if_zero(R0, full);
    code.place(known);
    code.mov_immediate(R1, 1);
    code.atomic_add(R0, at::CALLS, R1);
    code.atomic_add(R0, at::TOTAL_NS, R7);
    let (shorter, fine) = (code.label(), code.label());
    code.load(U64, R1, R0, at::MAX_NS);
    code.jump_unless_above(R7, R1, shorter);
    code.store(U64, R0, at::MAX_NS, R7);
    code.place(shorter);
    code.load(U64, R1, R6, 8);
    code.jump_if_negative(R1, fine);
    // Only reads and writes return bytes.
    code.jump_if_above(R9, 1, out);
    code.atomic_add(R0, at::BYTES, R1);
    code.jump(out);
    code.place(fine);
    code.mov_immediate(R1, 1);
    code.atomic_add(R0, at::FAILED, R1);
    code.jump(out);
    code.place(full);
    code.mov_immediate(R1, 0);
    lookup(&mut code, lost, R1, out);
    code.mov_immediate(R1, 1);
    code.atomic_add(R0, 0, R1);
    code.place(out);
    code.mov_immediate(R0, 0);
    code.exit();
    Program::load("file_io", ProgramKind::Tracepoint, id.0, code)
}

/// Stores the type of the file behind descriptor R8 in the key; 0 if it cannot be read.
fn file_kind(builder: &ProgramBuilder<'_>, code: &mut Assembler) -> Result<(), TraceError> {
    const TYPE: i32 = 0xf000;
    let member =
        |structure: &'static str, path: &str| Structure::find(builder.btf(), structure)?.offset(path);
    let none = code.label();
    code.jump_if_above(R8, 1 << 20, none);
    code.call(Helper::CurrentTask);
    code.load(U64, R1, R0, member("task_struct", "files")?);
    code.jump_if_zero(R1, none);
    code.load(U64, R1, R1, member("files_struct", "fdt")?);
    code.jump_if_zero(R1, none);
    code.load(U64, R3, R1, member("fdtable", "fd")?);
    code.shift_left(R8, 3);
    code.add(R3, R8);
    // The file table, the file and its inode are read fault-tolerantly because the file may be closed meanwhile.
    let next = [Some(member("file", "f_inode")?), Some(member("inode", "i_mode")?), None];
    for (step, offset) in next.into_iter().enumerate() {
        code.store_immediate(U64, R10, stack::SCRATCH, 0);
        code.mov(R1, R10);
        code.add_immediate(R1, i32::from(stack::SCRATCH));
        code.mov_immediate(R2, if step == 2 { 2 } else { 8 });
        code.call(Helper::ReadKernel);
        code.load(U64, R3, R10, stack::SCRATCH);
        if let Some(offset) = offset {
            code.jump_if_zero(R3, none);
            code.add_immediate(R3, i32::from(offset));
        }
    }
    code.and_immediate(R3, TYPE);
    code.store(U32, R10, stack::KEY + 12, R3);
    code.place(none);
    Ok(())
}

impl FileIoSums {
    /// The sums since the last call, and the number of calls beyond the limit.
    pub fn take(&mut self) -> (Vec<FileIo>, u64) {
        let mut list = Vec::new();
        let (mut keys, mut values) = (vec![[0; KEY_WORDS]; BATCH], vec![[0; VALUE_WORDS]; BATCH]);
        let mut cursor = None;
        // Bounded by the capacity, because entries may be added meanwhile.
        for _ in 0..=SUMS as usize / BATCH {
            let taken = call::take_batch(&self.sums, &mut cursor, &mut keys, &mut values);
            let Ok((count, is_last)) = taken else { break };
            list.extend(keys.iter().zip(&values).take(count).filter_map(|(key, value)| sum(key, value)));
            if is_last {
                break;
            }
        }
        let lost = self.lost.word(0).load(Ordering::Relaxed);
        let new = lost.wrapping_sub(self.lost_before);
        self.lost_before = lost;
        (list, new)
    }
}

fn sum(key: &[u64; KEY_WORDS], value: &[u64; VALUE_WORDS]) -> Option<FileIo> {
    let [ids, what] = *key;
    let [calls, failed, bytes, total_ns, longest_ns] = *value;
    Some(FileIo {
        thread: Task { tid: ids as u32, pid: (ids >> 32) as u32 },
        operation: *OPERATIONS.get(what as u32 as usize)?,
        kind: match (what >> 32) as u32 {
            0x8000 => FileKind::Regular,
            0x1000 => FileKind::Pipe,
            0xc000 => FileKind::Socket,
            0x2000 => FileKind::Character,
            0x6000 => FileKind::Block,
            0x4000 => FileKind::Directory,
            _ => FileKind::Other,
        },
        calls,
        failed,
        bytes,
        total_ns,
        longest_ns,
    })
}
