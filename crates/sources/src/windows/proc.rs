//! The process sampler on Windows: one handle per process and documented functions only. What needs a snapshot of the
//! whole system (threads, parents, page faults, cycles) is said to be missing.

use std::mem::{size_of, zeroed};

use ortscope_core::metric::Availability;
use ortscope_core::schema::{ProcessSampleRow, SystemSampleRow};
use windows_sys::Win32::Foundation::{CloseHandle, ERROR_ACCESS_DENIED, FILETIME, GetLastError, HANDLE};
use windows_sys::Win32::System::ProcessStatus::K32EnumProcesses;
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{
    GetCurrentThread, GetExitCodeProcess, GetProcessHandleCount, GetProcessIoCounters, GetSystemTimes,
    GetThreadTimes, IO_COUNTERS, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};

use super::{ticks, usage};
use crate::process::{ProcessUsage, UsageError};
use crate::sampler::{Missing, ProcessBackend, ProcessFacts, ReadError, ThreadReading};

/// 100 ns units between 1601 and 1970.
const UNIX_EPOCH_TICKS: u64 = 116_444_736_000_000_000;
/// Processes that are listed at most; further ones are not seen.
const MAX_LISTED: usize = 65_536;

const NO_TIME: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };

/// A handle with the right to ask, closed when it is let go.
#[derive(Debug)]
struct Process {
    pid: u32,
    start: u64,
    handle: HANDLE,
}

// SAFETY: a handle of the kernel may be used and closed by any thread.
unsafe impl Send for Process {}

impl Drop for Process {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `open` and is closed once.
        unsafe { CloseHandle(self.handle) };
    }
}

impl Process {
    fn open(pid: u32) -> Result<Self, ReadError> {
        // SAFETY: no pointers are passed; a null handle is checked below.
        let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
        if handle.is_null() {
            // SAFETY: reads the calling thread's error code.
            let denied = unsafe { GetLastError() } == ERROR_ACCESS_DENIED;
            return Err(if denied { ReadError::Denied } else { ReadError::Gone });
        }
        Ok(Self { pid, start: 0, handle })
    }

    fn usage(&self) -> Result<ProcessUsage, ReadError> {
        let usage = usage(self.pid, self.handle).map_err(|error| match error {
            UsageError::NoSuchProcess(_) => ReadError::Gone,
            UsageError::Permission { .. } => ReadError::Denied,
            other => ReadError::Failed(other.to_string()),
        })?;
        if self.start != 0 && usage.identity.start != self.start { Err(ReadError::Gone) } else { Ok(usage) }
    }

    /// The file name of the program.
    fn name(&self, name: &mut Vec<u8>) {
        let mut path = [0u16; 1024];
        let mut length = path.len() as u32;
        // SAFETY: the buffer is live and `length` is its size.
        let known = unsafe { QueryFullProcessImageNameW(self.handle, 0, path.as_mut_ptr(), &mut length) } != 0;
        let path = String::from_utf16_lossy(&path[..if known { length as usize } else { 0 }]);
        name.clear();
        name.extend_from_slice(path.rsplit('\\').next().unwrap_or_default().as_bytes());
    }
}

#[derive(Debug, Default)]
pub struct HandleBackend {
    slots: Vec<Option<Process>>,
    /// Idle, kernel (idle included) and user time of all processors.
    before: Option<[u64; 3]>,
}

impl HandleBackend {
    fn process(&self, slot: usize) -> Result<&Process, ReadError> {
        self.slots.get(slot).and_then(Option::as_ref).ok_or(ReadError::Gone)
    }
}

impl ProcessBackend for HandleBackend {
    fn name(&self) -> &'static str {
        "process handles"
    }

    fn probe(&mut self) -> Availability {
        Availability::Ready
    }

    fn never(&self) -> Vec<Missing> {
        let why = "this backend asks process by process, and Windows tells this only in a snapshot of the system";
        ["context_switches", "page_faults", "hard_faults", "thread_count", "virtual_bytes", "cpu_cycles", "priority"]
            .map(|track| Missing::new(track, why, None))
            .into()
    }

    fn list(&mut self, pids: &mut Vec<u32>) -> Result<(), ReadError> {
        let mut room = 1024;
        loop {
            pids.resize(room, 0);
            let bytes = (room * size_of::<u32>()) as u32;
            let mut filled = 0;
            // SAFETY: the buffer is live and has `bytes` bytes.
            if unsafe { K32EnumProcesses(pids.as_mut_ptr(), bytes, &mut filled) } == 0 {
                return Err(ReadError::Failed("EnumProcesses failed".into()));
            }
            if filled < bytes || room >= MAX_LISTED {
                pids.truncate(filled as usize / size_of::<u32>());
                return Ok(());
            }
            room *= 4;
        }
    }

    fn look(&mut self, pid: u32, facts: &mut ProcessFacts) -> Result<(), ReadError> {
        let process = Process::open(pid)?;
        let usage = process.usage()?;
        process.name(&mut facts.name);
        facts.pid = pid;
        facts.start = usage.identity.start;
        facts.parent_pid = None;
        facts.os_session = None;
        facts.create_time_unix_ns =
            usage.identity.start.checked_sub(UNIX_EPOCH_TICKS).map(|ticks| ticks.saturating_mul(100));
        facts.kernel_thread = false;
        Ok(())
    }

    fn watch(&mut self, slot: usize, facts: &ProcessFacts) -> Result<(), ReadError> {
        let mut process = Process::open(facts.pid)?;
        process.start = facts.start;
        process.usage()?;
        if self.slots.len() <= slot {
            self.slots.resize_with(slot + 1, || None);
        }
        self.slots[slot] = Some(process);
        Ok(())
    }

    fn forget(&mut self, slot: usize) {
        if let Some(process) = self.slots.get_mut(slot) {
            *process = None;
        }
    }

    fn command_line(&mut self, _slot: usize) -> Option<Vec<Vec<u8>>> {
        None
    }

    fn exit_code(&mut self, slot: usize) -> Option<i64> {
        let mut code = 0;
        // SAFETY: a live handle with query rights and a live u32.
        let known = unsafe { GetExitCodeProcess(self.process(slot).ok()?.handle, &mut code) } != 0;
        // As Windows shows it: 0xC0000005 is an access violation.
        known.then_some(i64::from(code))
    }

    fn cpu(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        row.cpu_time_ns = self.process(slot)?.usage()?.cpu_time_nanos;
        Ok(())
    }

    fn memory(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let usage = self.process(slot)?.usage()?;
        row.working_set_bytes = usage.working_set_bytes;
        row.peak_working_set_bytes = usage.peak_working_set_bytes;
        row.private_bytes = usage.private_bytes;
        Ok(())
    }

    fn io(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let handle = self.process(slot)?.handle;
        // SAFETY: all-zero counters are a valid value of plain integers.
        let mut io: IO_COUNTERS = unsafe { zeroed() };
        // SAFETY: a live handle with query rights and live counters.
        if unsafe { GetProcessIoCounters(handle, &mut io) } == 0 {
            return Err(ReadError::Denied);
        }
        row.read_operations = Some(io.ReadOperationCount);
        row.write_operations = Some(io.WriteOperationCount);
        row.other_operations = Some(io.OtherOperationCount);
        row.read_bytes = Some(io.ReadTransferCount);
        row.write_bytes = Some(io.WriteTransferCount);
        Ok(())
    }

    fn details(&mut self, slot: usize, row: &mut ProcessSampleRow) -> Result<(), ReadError> {
        let mut count = 0;
        // SAFETY: a live handle with query rights and a live u32.
        if unsafe { GetProcessHandleCount(self.process(slot)?.handle, &mut count) } == 0 {
            return Err(ReadError::Denied);
        }
        row.handle_count = Some(u64::from(count));
        Ok(())
    }

    fn threads(
        &mut self,
        _slot: usize,
        _row: &mut ProcessSampleRow,
        _tell: &mut dyn FnMut(&ThreadReading<'_>),
    ) -> Result<(), ReadError> {
        Err(ReadError::Unsupported)
    }

    fn system(&mut self, row: &mut SystemSampleRow) -> Result<(), ReadError> {
        // SAFETY: an all-zero MEMORYSTATUSEX is a valid value of plain integers.
        let mut memory: MEMORYSTATUSEX = unsafe { zeroed() };
        memory.dwLength = size_of::<MEMORYSTATUSEX>() as u32;
        // SAFETY: the structure is live and `dwLength` is its size.
        if unsafe { GlobalMemoryStatusEx(&mut memory) } != 0 {
            row.memory_total_bytes = Some(memory.ullTotalPhys);
            row.memory_used_bytes = memory.ullTotalPhys.checked_sub(memory.ullAvailPhys);
        }
        let (mut idle, mut kernel, mut user) = (NO_TIME, NO_TIME, NO_TIME);
        // SAFETY: three live FILETIMEs.
        if unsafe { GetSystemTimes(&mut idle, &mut kernel, &mut user) } != 0 {
            let now = [ticks(idle), ticks(kernel), ticks(user)];
            row.cpu_percent = self.before.and_then(|before| busy_percent(before, now));
            self.before = Some(now);
        }
        Ok(())
    }

    fn own_cpu_nanos(&mut self) -> Option<u64> {
        let (mut created, mut exited, mut kernel, mut user) = (NO_TIME, NO_TIME, NO_TIME, NO_TIME);
        // SAFETY: the pseudo handle of this thread and four live FILETIMEs.
        let known = unsafe {
            GetThreadTimes(GetCurrentThread(), &mut created, &mut exited, &mut kernel, &mut user)
        } != 0;
        known.then(|| (ticks(kernel) + ticks(user)) * 100)
    }

    fn own_memory_bytes(&mut self) -> Option<u64> {
        super::own_usage().ok().map(|usage| usage.working_set_bytes)
    }
}

fn busy_percent(before: [u64; 3], now: [u64; 3]) -> Option<f64> {
    let passed = |index: usize| now[index].checked_sub(before[index]);
    let (idle, total) = (passed(0)?, passed(1)?.checked_add(passed(2)?).filter(|total| *total > 0)?);
    Some(100.0 * total.saturating_sub(idle) as f64 / total as f64)
}
