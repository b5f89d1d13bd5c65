//! Windows: documented functions of kernel32 only.
#![expect(unsafe_code, reason = "Win32 functions")]

mod proc;

use std::mem::{size_of, zeroed};

use ortscope_core::identity::ProcessIdentity;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, FILETIME, GetLastError, HANDLE,
};
use windows_sys::Win32::System::ProcessStatus::{
    K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS, PROCESS_MEMORY_COUNTERS_EX,
};
use windows_sys::Win32::System::SystemInformation::{GlobalMemoryStatusEx, MEMORYSTATUSEX};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetProcessTimes, OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION,
};

use crate::machine::MachineFacts;
use crate::process::{ProcessUsage, UsageError};
use crate::sampler::ProcessBackend;

/// The backend of the process sampler: a handle per process.
pub fn process_backend() -> Box<dyn ProcessBackend> {
    Box::new(proc::HandleBackend::default())
}

/// Not read on this system yet.
pub fn processors_online() -> Vec<crate::processors::Processor> {
    Vec::new()
}

pub fn process_usage(pid: u32) -> Result<ProcessUsage, UsageError> {
    // SAFETY: no pointers are passed; a null handle is checked below.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    if handle.is_null() {
        // SAFETY: reads the calling thread's error code.
        return Err(match unsafe { GetLastError() } {
            ERROR_INVALID_PARAMETER => UsageError::NoSuchProcess(pid),
            ERROR_ACCESS_DENIED => UsageError::Permission {
                pid,
                why: "access denied; run as the same user or as administrator".into(),
            },
            code => UsageError::Unreadable { pid, why: format!("OpenProcess failed with error {code}") },
        });
    }
    let usage = usage(pid, handle);
    // SAFETY: the handle was opened above and is closed once.
    unsafe { CloseHandle(handle) };
    usage
}

pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    // SAFETY: returns a pseudo handle that needs no closing.
    usage(std::process::id(), unsafe { GetCurrentProcess() })
}

fn usage(pid: u32, handle: HANDLE) -> Result<ProcessUsage, UsageError> {
    let unreadable = |function: &str| UsageError::Unreadable { pid, why: format!("{function} failed") };
    let zero = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    let (mut created, mut exited, mut kernel, mut user) = (zero, zero, zero, zero);
    // SAFETY: four live FILETIMEs and a handle with query rights.
    if unsafe { GetProcessTimes(handle, &mut created, &mut exited, &mut kernel, &mut user) } == 0 {
        return Err(unreadable("GetProcessTimes"));
    }
    if ticks(exited) != 0 {
        return Err(UsageError::NoSuchProcess(pid));
    }
    // SAFETY: an all-zero PROCESS_MEMORY_COUNTERS_EX is a valid value of plain integers.
    let mut memory: PROCESS_MEMORY_COUNTERS_EX = unsafe { zeroed() };
    memory.cb = size_of::<PROCESS_MEMORY_COUNTERS_EX>() as u32;
    let counters = (&raw mut memory).cast::<PROCESS_MEMORY_COUNTERS>();
    // SAFETY: the structure is live and `cb` is its size; the EX form begins with the plain one.
    if unsafe { K32GetProcessMemoryInfo(handle, counters, memory.cb) } == 0 {
        return Err(unreadable("GetProcessMemoryInfo"));
    }
    Ok(ProcessUsage {
        identity: ProcessIdentity { pid, start: ticks(created) },
        cpu_time_nanos: (ticks(kernel) + ticks(user)) * 100,
        working_set_bytes: memory.WorkingSetSize as u64,
        peak_working_set_bytes: Some(memory.PeakWorkingSetSize as u64),
        // Zero is what a system without this counter says.
        private_bytes: Some(memory.PrivateUsage as u64).filter(|bytes| *bytes > 0),
        thread_count: None,
    })
}

/// 100 ns units.
fn ticks(time: FILETIME) -> u64 {
    (u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime)
}

/// This system does not name its boots.
pub fn boot_id() -> Option<String> {
    None
}

pub fn machine_facts() -> MachineFacts {
    // SAFETY: an all-zero MEMORYSTATUSEX is a valid value of plain integers.
    let mut memory: MEMORYSTATUSEX = unsafe { zeroed() };
    memory.dwLength = size_of::<MEMORYSTATUSEX>() as u32;
    // SAFETY: the structure is live and `dwLength` is its size.
    let known = unsafe { GlobalMemoryStatusEx(&mut memory) } != 0;
    MachineFacts {
        cpu_model: std::env::var("PROCESSOR_IDENTIFIER").ok(),
        memory_bytes: known.then_some(memory.ullTotalPhys),
        ..MachineFacts::basic()
    }
}
