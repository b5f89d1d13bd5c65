//! Windows: processes from system snapshots (`proc`), kernel events from sessions (`etw`, `kernel`), the machine
//! (`system`, `power`).
#![expect(unsafe_code, reason = "Win32 functions")]

mod com;
mod drivers;
mod dxcore;
mod emi;
mod etw;
mod handles;
pub mod key_store;
mod kmt;
mod missing;
mod native;
mod pdh;
mod power;
mod proc;
mod processors;
mod snapshot;
mod system;
mod threads;
mod wmi;

use std::mem::{size_of, zeroed};

use ortscope_core::identity::ProcessIdentity;
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_ACCESS_DENIED, ERROR_INVALID_PARAMETER, FILETIME, GetLastError, HANDLE,
};
use windows_sys::Win32::System::ProcessStatus::{
    K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS, PROCESS_MEMORY_COUNTERS_EX,
};
use windows_sys::Win32::System::SystemInformation::OSVERSIONINFOW;
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, GetProcessTimes, GetSystemTimes,
    OpenProcess, PROCESS_QUERY_LIMITED_INFORMATION, SetThreadAffinityMask, SetThreadPriority,
    THREAD_PRIORITY_HIGHEST,
};

pub use processors::Processors;

use crate::machine::MachineFacts;
use crate::machine::{ProcessUsage, UsageError};
use crate::sampler::ProcessBackend;

/// The backend of the process sampler; it needs no privileges.
pub fn process_backend() -> Box<dyn ProcessBackend> {
    Box::new(proc::SnapshotBackend::new())
}

pub fn processors_online() -> Vec<crate::machine::Processor> {
    system::processors_online()
}

pub fn etw_functions() -> Option<std::sync::Arc<dyn crate::etw::EtwApi>> {
    Some(std::sync::Arc::new(etw::WindowsTable::new()))
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
    // SAFETY: returns a pseudo handle that need not be closed.
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
        cpu_time_ns: (ticks(kernel) + ticks(user)) * 100,
        working_set_bytes: memory.WorkingSetSize as u64,
        peak_working_set_bytes: Some(memory.PeakWorkingSetSize as u64),
        // Zero if the system lacks this counter.
        private_bytes: Some(memory.PrivateUsage as u64).filter(|bytes| *bytes > 0),
        thread_count: None,
    })
}

/// Units of 100 ns.
fn ticks(time: FILETIME) -> u64 {
    (u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime)
}

/// Closing a console ends its programs.
pub fn terminal_closed_within(_wait: std::time::Duration) -> bool {
    false
}

/// The allocator does this by default.
pub fn release_memory_automatically() {}

pub fn release_memory_now() {}

/// Lets the calling thread run soon after it wakes, even next to a program that uses every processor.
pub fn prefer_this_thread() -> Option<i32> {
    // SAFETY: the pseudo handle of this thread, which need not be closed.
    let done = unsafe { SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_HIGHEST) };
    (done != 0).then_some(THREAD_PRIORITY_HIGHEST)
}

pub fn pin_to_processor(index: usize) -> Option<u32> {
    let (mut allowed, mut of_system) = (0, 0);
    // SAFETY: the pseudo handle of this process, which need not be closed, and two live numbers.
    if unsafe { GetProcessAffinityMask(GetCurrentProcess(), &mut allowed, &mut of_system) } == 0 {
        return None;
    }
    let numbers: Vec<u32> = (0..usize::BITS).filter(|number| allowed >> number & 1 == 1).collect();
    let number = *numbers.get(index.checked_rem(numbers.len())?)?;
    // SAFETY: the pseudo handle of this thread, which need not be closed.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), 1 << number) };
    (before != 0).then_some(number)
}

/// The name of kernel events on this system.
pub const KERNEL_EVENTS: &str = "etw events";

pub fn boot_id() -> Option<String> {
    system::boot_id()
}

/// Not exposed by this system.
pub fn environment_variable(_pid: u32, _name: &str) -> Option<String> {
    None
}

pub fn machine_facts() -> MachineFacts {
    MachineFacts {
        os_version: version(),
        cpu_model: std::env::var("PROCESSOR_IDENTIFIER").ok(),
        memory_bytes: system::memory().map(|memory| memory.ullTotalPhys),
        governor: power::plan(),
        drivers: drivers::versions(),
        ..MachineFacts::basic()
    }
}

/// The actual version: other functions return an older one to programs without a manifest.
fn version() -> Option<String> {
    // SAFETY: an all-zero OSVERSIONINFOW is a valid value of plain integers.
    let mut version: OSVERSIONINFOW = unsafe { zeroed() };
    version.dwOSVersionInfoSize = size_of::<OSVERSIONINFOW>() as u32;
    // SAFETY: the structure is live and states its size.
    let status = unsafe { RtlGetVersion(&mut version) };
    let wine = if native::is_wine() { " (Wine)" } else { "" };
    let (major, minor, build) = (version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
    (status == 0).then(|| format!("{major}.{minor}.{build}{wine}"))
}

/// Linux only.
pub fn amdxdna_query(_file: &std::path::Path) -> std::io::Result<crate::devices::DriverQuery> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Linux only.
pub fn memory_bandwidth(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

/// Times of all processors since boot, in units of 100 ns.
pub fn machine_times() -> Option<crate::devices::MachineTimes> {
    let none = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
    let (mut idle, mut kernel, mut user) = (none, none, none);
    // SAFETY: three live structures, which the function fills.
    if unsafe { GetSystemTimes(&mut idle, &mut kernel, &mut user) } == 0 {
        return None;
    }
    let units = |time: FILETIME| (u64::from(time.dwHighDateTime) << 32) | u64::from(time.dwLowDateTime);
    // Kernel time includes idle time.
    let busy = units(kernel).saturating_add(units(user)).checked_sub(units(idle))?;
    Some(crate::devices::MachineTimes { busy, idle: units(idle) })
}

/// Hint for features that Wine lacks, which no privilege or repair would provide.
const ON_WINDOWS: &str = "this is Wine: Windows itself has it";

/// Linux only.
pub fn energy_events(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

/// Linux only.
pub(crate) fn amd_smi(
    _library: &crate::devices::AmdLibrary,
) -> Result<Box<dyn crate::devices::AmdSmi>, crate::devices::NoLibrary> {
    Err(crate::devices::NoLibrary::NotInstalled)
}

pub fn hardware_counters(_pids: &[u32]) -> Result<Box<dyn crate::devices::Reader>, crate::devices::Missing> {
    if native::is_wine() {
        return Err(crate::devices::Missing {
            what: "cpu_counters",
            why: "Wine has no event tracing, which Windows uses to count instructions and cache events"
                .to_owned(),
            hint: ON_WINDOWS.to_owned(),
        });
    }
    Err(crate::devices::Missing {
        what: "cpu_counters",
        why: "Windows counts instructions and cache events only in event tracing, for administrators".to_owned(),
        hint: "`ortscope etl counters` lists them, `ortscope etl start --counters NAME` records them at every switch"
            .to_owned(),
    })
}

/// Energy meters, GPUs and NPUs, some of which NVIDIA's library already reported. Returns the families that were
/// searched for.
pub fn find_devices(nvidia: usize, found: &mut crate::devices::Found) -> &'static [&'static str] {
    crate::devices::meters::find(&mut emi::WindowsMeters, found);
    crate::devices::battery::find(Box::new(power::battery), found);
    let counters = pdh::Counters::open()
        .map(|counters| Box::new(counters) as Box<dyn crate::devices::adapters::CounterApi>);
    crate::devices::adapters::find(&mut dxcore::WindowsAdapters::default(), counters, nvidia, found);
    if native::is_wine() {
        found.missing.iter_mut().for_each(|missing| missing.hint = ON_WINDOWS.to_owned());
    }
    &["energy", "gpu", "npu", "temperature", "throttling"]
}

/// The Windows build number, for example 26100.
fn build() -> Option<u32> {
    version()?.split('.').nth(2)?.split(' ').next()?.parse().ok()
}

/// Facts from WMI, which may take seconds.
pub fn inventory() -> Option<Result<crate::machine::Inventory, String>> {
    Some(wmi::inventory())
}

pub fn machine_model() -> crate::machine::MachineModel {
    const BIOS: &str = r"HARDWARE\DESCRIPTION\System\BIOS";
    let (maker, model) =
        (drivers::text(BIOS, "SystemManufacturer"), drivers::text(BIOS, "SystemProductName"));
    let is_virtual = model.as_deref().is_some_and(|model| {
        ["Virtual Machine", "VMware", "VirtualBox", "KVM", "QEMU"].iter().any(|name| model.contains(name))
    });
    // The chassis type is not in the registry; the power source distinguishes the rest.
    let by_battery = || power::has_battery().map(|has| if has { "laptop" } else { "desktop or server" });
    let kind = crate::machine::MachineModel::kind_of(None, is_virtual).or_else(by_battery);
    crate::machine::MachineModel { kind, maker, model }
}

/// An administrator's process acquires each privilege on demand (`etw`), so there is nothing to drop.
pub mod privileges {
    pub fn drop_unneeded(_writable: &[std::path::PathBuf], _no_new_privileges: bool) -> Result<u32, String> {
        Ok(0)
    }
}
