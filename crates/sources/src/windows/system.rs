//! The whole machine: processor times, memory, page files.

use std::mem::{size_of, zeroed};

use ortscope_core::schema::SystemSampleRow;
use ortscope_decode::nt::{self, Count32, ProcessorTimes};
use windows_sys::Win32::System::SystemInformation::{
    GetLogicalProcessorInformationEx, GlobalMemoryStatusEx, MEMORYSTATUSEX, RelationAll,
};
use windows_sys::Win32::System::Threading::GetActiveProcessorGroupCount;
use windows_sys::Win32::System::WindowsProgramming::QueryUnbiasedInterruptTime;

use super::native::{self, NoAnswer};
use crate::machine::{CoreKind, Processor};

/// Processors of one group; a group has at most 64.
const GROUP_PROCESSORS: usize = 64;
/// The largest answer about one processor.
const ENTRY_WORDS: usize = 6;
/// More groups than any Windows supports.
const MAX_GROUPS: u16 = 128;
/// Page files have names in the answer; enough for all sixteen.
const PAGE_FILE_WORDS: usize = 1024;
/// The topology answer of a machine with 2048 processors.
const MAX_LOGICAL_BYTES: usize = 4 << 20;
const PAGE_BYTES: u64 = 4096;
/// Interval for single processors: Windows counts in steps of up to 15.6 ms, which are 3% of this.
const PROCESSORS_NS: u64 = 500_000_000;

const PROCESSOR_TIMES: i32 = 8;
const PAGE_FILES: i32 = 18;
const INTERRUPTS: i32 = 23;

#[derive(Debug, Default)]
struct One {
    times: ProcessorTimes,
    /// Times at the last report of its ratio.
    last_reported: ProcessorTimes,
    switches: Count32,
    interrupts: Count32,
}

/// The previous readings.
#[derive(Debug, Default)]
pub(super) struct System {
    /// All processors, across all groups.
    before: Vec<One>,
    reported_ns: Option<u64>,
    /// Ratios that were not reported yet.
    busy: Vec<(u32, f64)>,
    buffer: Vec<u64>,
}

impl System {
    pub fn read(&mut self, now_ns: u64, row: &mut SystemSampleRow, is_wine: bool) {
        self.buffer.resize(GROUP_PROCESSORS * ENTRY_WORDS, 0);
        self.read_times(now_ns, row);
        if !is_wine {
            self.read_switches(row);
            row.swap_used_bytes = page_files_bytes();
        }
        if let Some(memory) = memory() {
            row.memory_total_bytes = Some(memory.ullTotalPhys);
            row.memory_used_bytes = memory.ullTotalPhys.checked_sub(memory.ullAvailPhys);
        }
    }

    fn read_times(&mut self, now_ns: u64, row: &mut SystemSampleRow) {
        let (mut sum_now, mut sum_before, mut interrupts) =
            (ProcessorTimes::default(), ProcessorTimes::default(), 0u64);
        let is_first = self.before.is_empty();
        let is_due = self.reported_ns.is_none_or(|at| now_ns.saturating_sub(at) >= PROCESSORS_NS);
        let (before, busy) = (&mut self.before, &mut self.busy);
        let mut nows = Vec::new();
        each_group(PROCESSOR_TIMES, &mut self.buffer, |first, bytes| {
            nt::each_processor_times(bytes, |index, now| nows.push((first + index, now)));
        });
        for (number, now) in nows.iter().copied() {
            if before.len() <= number {
                before.resize_with(number + 1, One::default);
            }
            let one = &mut before[number];
            interrupts = interrupts.saturating_add(one.interrupts.read(now.interrupts));
            (sum_now, sum_before) = (sum_now.and(now), sum_before.and(one.times));
            if is_due {
                let ratio = now.busy_ratio_since(one.last_reported).filter(|_| !is_first);
                busy.extend(ratio.map(|ratio| (number as u32, ratio)));
                one.last_reported = now;
            }
        }
        self.reported_ns = if is_due { Some(now_ns) } else { self.reported_ns };
        // Between two steps of the system's clock nothing is known, and the last ratio is kept.
        let share = sum_now.busy_ratio_since(sum_before);
        if share.is_some() {
            row.cpu_percent = share.filter(|_| !is_first).map(|ratio| 100.0 * ratio);
            nows.into_iter().for_each(|(number, now)| before[number].times = now);
        }
        // Wine reports zero.
        row.interrupts = Some(interrupts).filter(|count| *count > 0);
    }

    fn read_switches(&mut self, row: &mut SystemSampleRow) {
        let (before, mut sum) = (&mut self.before, None);
        each_group(INTERRUPTS, &mut self.buffer, |first, bytes| {
            nt::each_processor_switches(bytes, |index, now| {
                if let Some(one) = before.get_mut(first + index) {
                    sum = Some(sum.unwrap_or(0u64).saturating_add(one.switches.read(now)));
                }
            });
        });
        row.context_switches = sum.or(row.context_switches);
    }

    /// Busy ratios of single processors, each reported once.
    pub fn processors(&mut self, emit: &mut dyn FnMut(u32, f64)) {
        for (number, ratio) in self.busy.drain(..) {
            emit(number, ratio);
        }
    }
}

/// Queries every processor group; emits the answer with the number of the group's first processor.
fn each_group(class: i32, buffer: &mut [u64], mut emit: impl FnMut(usize, &[u8])) {
    // SAFETY: no pointers are passed.
    let groups = unsafe { GetActiveProcessorGroupCount() }.clamp(1, MAX_GROUPS);
    let mut first = 0;
    for group in 0..groups {
        let answer = match groups {
            1 => native::system_information(class, buffer),
            _ => native::system_information_of_group(class, group, buffer),
        };
        let Ok(length) = answer else { return };
        emit(first, native::as_bytes(buffer).get(..length).unwrap_or_default());
        first += processors_in(group);
    }
}

fn processors_in(group: u16) -> usize {
    // SAFETY: no pointers are passed.
    unsafe { windows_sys::Win32::System::Threading::GetActiveProcessorCount(group) as usize }
}

/// Time since boot, without sleep.
pub(super) fn awake_ns() -> Option<u64> {
    let mut ticks = 0u64;
    // SAFETY: the pointer is to a live u64.
    let known = unsafe { QueryUnbiasedInterruptTime(&mut ticks) } != 0;
    known.then(|| ticks.saturating_mul(100))
}

fn page_files_bytes() -> Option<u64> {
    let mut buffer = [0; PAGE_FILE_WORDS];
    let length = native::system_information(PAGE_FILES, &mut buffer).ok()?;
    let pages = nt::page_files_in_use_pages(native::as_bytes(&buffer).get(..length)?)?;
    Some(pages.saturating_mul(PAGE_BYTES))
}

pub(super) fn memory() -> Option<MEMORYSTATUSEX> {
    // SAFETY: an all-zero MEMORYSTATUSEX is a valid value of plain integers.
    let mut memory: MEMORYSTATUSEX = unsafe { zeroed() };
    memory.dwLength = size_of::<MEMORYSTATUSEX>() as u32;
    // SAFETY: the structure is live and `dwLength` is its size.
    let known = unsafe { GlobalMemoryStatusEx(&mut memory) } != 0;
    known.then_some(memory)
}

/// The processors with their kinds: the class with the best performance is performance, if there are several classes.
pub(super) fn processors_online() -> Vec<Processor> {
    let mut bytes = 0u32;
    // SAFETY: requests the size only.
    unsafe { GetLogicalProcessorInformationEx(RelationAll, std::ptr::null_mut(), &mut bytes) };
    let mut buffer = vec![0u64; (bytes as usize).min(MAX_LOGICAL_BYTES).div_ceil(size_of::<u64>())];
    let mut length = size_of_val(&buffer[..]) as u32;
    // SAFETY: the buffer is live, 8-byte aligned, and has the stated length.
    let known =
        unsafe { GetLogicalProcessorInformationEx(RelationAll, buffer.as_mut_ptr().cast(), &mut length) }
            != 0;
    if !known {
        return Vec::new();
    }
    let answer = native::as_bytes(&buffer);
    let processors = nt::parse_logical_processors(answer.get(..length as usize).unwrap_or_default());
    let classes = || processors.iter().map(|processor| processor.efficiency_class);
    let (best, worst) = (classes().max(), classes().min());
    let kind = |class: u8| match best == worst {
        true => CoreKind::Uniform,
        false if Some(class) == best => CoreKind::Performance,
        false => CoreKind::Efficiency,
    };
    let processor = |one: &nt::LogicalProcessor| Processor {
        number: one.number,
        kind: kind(one.efficiency_class),
        numa_node: one.numa_node,
        core: Some(one.core),
    };
    processors.iter().map(processor).collect()
}

/// The boot time, which does not depend on clock changes, with Windows' boot counter.
pub(super) fn boot_id() -> Option<String> {
    const TIME_OF_DAY: i32 = 3;
    let mut buffer = [0u64; 8];
    let answer: Result<usize, NoAnswer> = native::system_information(TIME_OF_DAY, &mut buffer[..6]);
    answer.ok().filter(|length| *length >= 40)?;
    let (started, set_since) = (buffer[0], buffer[4]);
    Some(format!("windows-{:x}-{:x}", started.wrapping_sub(set_since), boot_number()))
}

/// `KUSER_SHARED_DATA.BootId`, which every process can read at the same address.
fn boot_number() -> u32 {
    const BOOT_ID: usize = 0x7FFE_02C4;
    let place = std::ptr::with_exposed_provenance::<u32>(BOOT_ID);
    // SAFETY: Windows maps this page, readable, at this address into every process; the number is aligned.
    unsafe { place.read_volatile() }
}
