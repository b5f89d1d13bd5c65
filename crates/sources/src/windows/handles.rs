//! Figures of watched processes and their threads that are available only through handles.

use std::mem::{size_of, zeroed};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use ortscope_decode::nt;
use windows_sys::Wdk::System::Threading::NtQueryInformationThread;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_ACCESS_DENIED, FILETIME, GetLastError, HANDLE, SetLastError, WAIT_OBJECT_0,
};
use windows_sys::Win32::System::Memory::{MEM_IMAGE, MEMORY_BASIC_INFORMATION, VirtualQueryEx};
use windows_sys::Win32::System::ProcessStatus::K32GetMappedFileNameW;
use windows_sys::Win32::System::Threading::{
    GetExitCodeProcess, GetProcessAffinityMask, GetProcessInformation, GetProcessIoCounters, GetProcessTimes,
    GetThreadTimes, IO_COUNTERS, OpenProcess, OpenThread, PROCESS_POWER_THROTTLING_CURRENT_VERSION,
    PROCESS_POWER_THROTTLING_EXECUTION_SPEED, PROCESS_POWER_THROTTLING_STATE, PROCESS_QUERY_INFORMATION,
    PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_SYNCHRONIZE, ProcessPowerThrottling,
    THREAD_QUERY_LIMITED_INFORMATION, WaitForSingleObject,
};
use windows_sys::Win32::System::WindowsProgramming::{QueryProcessCycleTime, QueryThreadCycleTime};

use super::native::{self, NoAnswer};
use super::ticks;
use crate::sampler::ReadError;

/// Limit for open thread handles; further threads have neither cycles nor a name.
const MAX_THREAD_HANDLES: usize = 16_384;
/// A command line has at most 32,767 characters.
const COMMAND_LINE_WORDS: usize = 66_000 / size_of::<u64>();
/// Longer thread names are not read.
const THREAD_NAME_WORDS: usize = 64;

static THREAD_HANDLES: AtomicUsize = AtomicUsize::new(0);

/// Closed on drop.
#[derive(Debug)]
struct Handle(HANDLE);

// SAFETY: a kernel handle may be used and closed by any thread.
unsafe impl Send for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by the creator of this value, and is closed once.
        unsafe { CloseHandle(self.0) };
    }
}

/// Times of a process in units of 100 ns.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub created: u64,
    pub kernel: u64,
    pub user: u64,
}

/// `VM_COUNTERS_EX`, as far as rows have columns for it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    pub virtual_bytes: u64,
    pub page_faults: u32,
    pub peak_working_set_bytes: u64,
    pub working_set_bytes: u64,
    pub paged_pool_bytes: u64,
    pub non_paged_pool_bytes: u64,
    pub private_bytes: u64,
}

#[derive(Debug)]
pub(super) struct ProcessHandle {
    handle: Handle,
    /// Opened with full query rights: its windows and memory may be queried.
    is_full: bool,
}

impl ProcessHandle {
    /// Opens exactly this process, with the most rights that are granted.
    pub fn open(pid: u32, create_time: u64) -> Result<Self, ReadError> {
        let rights = [
            PROCESS_QUERY_INFORMATION | PROCESS_SYNCHRONIZE,
            PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_SYNCHRONIZE,
        ];
        let mut denied = false;
        for (index, rights) in rights.into_iter().enumerate() {
            // SAFETY: no pointers are passed; a null handle is checked below.
            let handle = unsafe { OpenProcess(rights, 0, pid) };
            if !handle.is_null() {
                let opened = Self { handle: Handle(handle), is_full: index == 0 };
                let same = opened.times().is_some_and(|times| times.created == create_time);
                return if same { Ok(opened) } else { Err(ReadError::Gone) };
            }
            // SAFETY: reads the calling thread's error code.
            denied |= unsafe { GetLastError() } == ERROR_ACCESS_DENIED;
        }
        Err(if denied { ReadError::Denied } else { ReadError::Gone })
    }

    pub fn times(&self) -> Option<Times> {
        let (mut created, mut exited, mut kernel, mut user) = (NO_TIME, NO_TIME, NO_TIME, NO_TIME);
        // SAFETY: a live handle with query rights and four live FILETIMEs.
        let known =
            unsafe { GetProcessTimes(self.handle.0, &mut created, &mut exited, &mut kernel, &mut user) } != 0;
        known.then(|| Times { created: ticks(created), kernel: ticks(kernel), user: ticks(user) })
    }

    /// Waits for its exit with a timeout.
    pub fn has_ended(&self, wait_millis: u32) -> bool {
        // SAFETY: a live handle that was opened with the right to wait.
        unsafe { WaitForSingleObject(self.handle.0, wait_millis) == WAIT_OBJECT_0 }
    }

    /// Exit code as shown by Windows: 0xC0000005 is an access violation.
    pub fn exit_code(&self) -> Option<i64> {
        let mut code = 0;
        // SAFETY: a live handle with query rights and a live u32.
        let known = unsafe { GetExitCodeProcess(self.handle.0, &mut code) } != 0;
        known.then_some(i64::from(code))
    }

    pub fn cycles(&self) -> Option<u64> {
        let mut cycles = 0;
        // SAFETY: a live handle with query rights and a live u64.
        let known = unsafe { QueryProcessCycleTime(self.handle.0, &mut cycles) } != 0;
        known.then_some(cycles).filter(|cycles| *cycles > 0)
    }

    fn query<const WORDS: usize>(&self, class: i32, bytes: usize) -> Result<[u64; WORDS], NoAnswer> {
        let mut buffer = [0; WORDS];
        native::process_information(self.handle.0, class, &mut buffer, bytes)?;
        Ok(buffer)
    }

    pub fn memory(&self) -> Option<Memory> {
        const VM_COUNTERS: i32 = 3;
        let words: [u64; 12] = self.query(VM_COUNTERS, 96).ok()?;
        Some(Memory {
            virtual_bytes: words[1],
            page_faults: words[2] as u32,
            peak_working_set_bytes: words[3],
            working_set_bytes: words[4],
            paged_pool_bytes: words[6],
            non_paged_pool_bytes: words[8],
            private_bytes: words[11],
        })
    }

    pub fn io(&self) -> Option<nt::IoCounters> {
        // SAFETY: all-zero counters are a valid value of plain integers.
        let mut io: IO_COUNTERS = unsafe { zeroed() };
        // SAFETY: a live handle with query rights and live counters.
        let known = unsafe { GetProcessIoCounters(self.handle.0, &mut io) } != 0;
        known.then_some(nt::IoCounters {
            read_operations: io.ReadOperationCount,
            write_operations: io.WriteOperationCount,
            other_operations: io.OtherOperationCount,
            read_bytes: io.ReadTransferCount,
            write_bytes: io.WriteTransferCount,
            other_bytes: io.OtherTransferCount,
        })
    }

    /// Bytes received and sent; requires Windows 11 24H2 or newer.
    pub fn network(&self) -> Result<(u64, u64), ReadError> {
        const NETWORK_COUNTERS: i32 = 114;
        let [received, sent]: [u64; 2] =
            self.query(NETWORK_COUNTERS, 16).map_err(|_| ReadError::Unsupported)?;
        Ok((received, sent))
    }

    /// Peak number of open handles.
    pub fn peak_handles(&self) -> Option<u64> {
        const HANDLE_COUNT: i32 = 20;
        let [counts]: [u64; 1] = self.query(HANDLE_COUNT, 8).ok()?;
        Some(counts >> 32)
    }

    /// `None` for a process that runs in several groups of 64 processors.
    pub fn affinity_mask(&self) -> Option<u64> {
        let (mut of_process, mut of_system) = (0, 0);
        // SAFETY: a live handle with query rights and two live numbers.
        let known = unsafe { GetProcessAffinityMask(self.handle.0, &mut of_process, &mut of_system) } != 0;
        known.then_some(of_process as u64).filter(|mask| *mask != 0)
    }

    /// GDI and USER objects. Zero is valid: a program without windows has none.
    pub fn gui_objects(&self) -> Option<(u64, u64)> {
        type GuiResources = unsafe extern "system" fn(HANDLE, u32) -> u32;
        static FUNCTION: OnceLock<Option<GuiResources>> = OnceLock::new();
        let function = (*FUNCTION.get_or_init(|| {
            let function = native::system_library("user32.dll", c"GetGuiResources")?;
            // SAFETY: this is the function's documented signature.
            Some(unsafe { std::mem::transmute::<native::Function, GuiResources>(function) })
        }))?;
        let count = |kind: u32| {
            // SAFETY: a live handle; the error code distinguishes zero objects from a failure.
            let (count, error) = unsafe {
                SetLastError(0);
                (function(self.handle.0, kind), GetLastError())
            };
            (count > 0 || error == 0).then_some(u64::from(count))
        };
        count(0).zip(count(1)).filter(|_| self.is_full)
    }

    /// Whether Windows runs it in efficiency mode (EcoQoS).
    pub fn is_eco(&self) -> Option<bool> {
        let mut state = PROCESS_POWER_THROTTLING_STATE {
            Version: PROCESS_POWER_THROTTLING_CURRENT_VERSION,
            ControlMask: 0,
            StateMask: 0,
        };
        // SAFETY: a live handle with query rights and a live structure of the passed size.
        let known = unsafe {
            GetProcessInformation(
                self.handle.0,
                ProcessPowerThrottling,
                (&raw mut state).cast(),
                size_of::<PROCESS_POWER_THROTTLING_STATE>() as u32,
            )
        } != 0;
        let mask = state.ControlMask & state.StateMask;
        known.then_some(mask & PROCESS_POWER_THROTTLING_EXECUTION_SPEED != 0)
    }

    pub fn command_line(&self) -> Option<Vec<Vec<u8>>> {
        const COMMAND_LINE: i32 = 60;
        let mut buffer = vec![0u64; COMMAND_LINE_WORDS];
        let bytes = size_of_val(&buffer[..]);
        let length = native::process_information(self.handle.0, COMMAND_LINE, &mut buffer, bytes).ok()?;
        let line = nt::unicode_string_after_header(native::as_bytes(&buffer).get(..length)?)?;
        Some(nt::split_command_line(&line)).filter(|arguments| !arguments.is_empty())
    }

    /// Start address of a thread in the notation of debuggers: `onnxruntime.dll+0x1a2b0`.
    pub fn place_of(&self, address: u64) -> Option<String> {
        let pointer = std::ptr::with_exposed_provenance(usize::try_from(address).ok()?);
        // SAFETY: an all-zero MEMORY_BASIC_INFORMATION is a valid value of plain numbers and null pointers.
        let mut region: MEMORY_BASIC_INFORMATION = unsafe { zeroed() };
        // SAFETY: a live handle; the address belongs to the other process and is never dereferenced.
        let length = unsafe {
            VirtualQueryEx(self.handle.0, pointer, &mut region, size_of::<MEMORY_BASIC_INFORMATION>())
        };
        if length == 0 || region.Type != MEM_IMAGE {
            return None;
        }
        let mut path = [0u16; 512];
        // SAFETY: a live handle and a live buffer of the passed length.
        let length =
            unsafe { K32GetMappedFileNameW(self.handle.0, pointer, path.as_mut_ptr(), path.len() as u32) };
        let path = String::from_utf16_lossy(path.get(..length as usize)?);
        let file = path.rsplit(['\\', '/']).next().filter(|file| !file.is_empty())?;
        let offset = address.checked_sub(region.AllocationBase.addr() as u64)?;
        Some(format!("{file}+{offset:#x}"))
    }
}

#[derive(Debug)]
pub(super) struct ThreadHandle(Handle);

impl ThreadHandle {
    /// Opens exactly this thread. `None` if it is not accessible, has exited, or too many are open.
    pub fn open(tid: u32, create_time: u64) -> Option<Self> {
        if THREAD_HANDLES.fetch_add(1, Ordering::Relaxed) >= MAX_THREAD_HANDLES {
            THREAD_HANDLES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        // SAFETY: no pointers are passed; a null handle is checked below.
        let handle = unsafe { OpenThread(THREAD_QUERY_LIMITED_INFORMATION, 0, tid) };
        if handle.is_null() {
            THREAD_HANDLES.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let thread = Self(Handle(handle));
        let (mut created, mut exited, mut kernel, mut user) = (NO_TIME, NO_TIME, NO_TIME, NO_TIME);
        // SAFETY: a live handle with query rights and four live FILETIMEs.
        let known =
            unsafe { GetThreadTimes(thread.0.0, &mut created, &mut exited, &mut kernel, &mut user) } != 0;
        (known && ticks(created) == create_time).then_some(thread)
    }

    pub fn cycles(&self) -> Option<u64> {
        let mut cycles = 0;
        // SAFETY: a live handle with query rights and a live u64.
        let known = unsafe { QueryThreadCycleTime(self.0.0, &mut cycles) } != 0;
        known.then_some(cycles).filter(|cycles| *cycles > 0)
    }

    /// The name that the program set.
    pub fn name(&self) -> Option<String> {
        const NAME: i32 = 38;
        let mut buffer = [0u64; THREAD_NAME_WORDS];
        let (bytes, mut length) = (size_of_val(&buffer), 0);
        // SAFETY: a live handle with query rights and a live buffer of the passed length.
        let status = unsafe {
            NtQueryInformationThread(self.0.0, NAME, buffer.as_mut_ptr().cast(), bytes as u32, &mut length)
        };
        if status < 0 {
            return None;
        }
        let name = nt::unicode_string_after_header(native::as_bytes(&buffer))?;
        String::from_utf8(name).ok().filter(|name| !name.is_empty())
    }
}

impl Drop for ThreadHandle {
    fn drop(&mut self) {
        THREAD_HANDLES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// CPU time of the calling thread, in nanoseconds.
pub(super) fn own_thread_ns() -> Option<u64> {
    let (mut created, mut exited, mut kernel, mut user) = (NO_TIME, NO_TIME, NO_TIME, NO_TIME);
    // SAFETY: the pseudo handle of this thread and four live FILETIMEs.
    let known = unsafe {
        GetThreadTimes(
            windows_sys::Win32::System::Threading::GetCurrentThread(),
            &mut created,
            &mut exited,
            &mut kernel,
            &mut user,
        )
    } != 0;
    known.then(|| (ticks(kernel) + ticks(user)) * 100)
}

const NO_TIME: FILETIME = FILETIME { dwLowDateTime: 0, dwHighDateTime: 0 };
