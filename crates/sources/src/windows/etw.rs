//! The function table for live sessions, resolved from the system library on first use: a function that this Windows
//! version lacks is an error, and the program still starts.

use std::collections::HashMap;
use std::ffi::{CStr, c_void};
use std::mem::{size_of, transmute_copy, zeroed};
use std::ptr::{null, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

use ortscope_decode::etw::live::ProviderId;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_ALREADY_EXISTS, ERROR_NOT_ALL_ASSIGNED, GetLastError, HANDLE, LUID,
};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW, SE_PRIVILEGE_ENABLED,
    TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES, TOKEN_QUERY,
};
use windows_sys::Win32::System::Diagnostics::Etw::{
    EVENT_RECORD, EVENT_TRACE_LOGFILEW, EVENT_TRACE_PROPERTIES,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress, LoadLibraryW};
use windows_sys::Win32::System::Performance::QueryPerformanceFrequency;
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::Threading::{CreateMutexW, GetCurrentProcess, OpenProcessToken};

use crate::etw::{
    Code, Consumer, Control, EtwApi, InformationClass, RawRecord, Request, SessionHandle, SessionStatus,
    Settings, TraceHandle, codes,
};

const REAL_TIME: u32 = 0x100;
const TO_FILE: u32 = 0x1;
const SYSTEM_LOGGER: u32 = 0x0200_0000;
const WNODE_TRACED: u32 = 0x0002_0000;
const PERFORMANCE_COUNTER: u32 = 1;
/// In real time, as `EVENT_RECORD`s, with raw timestamps.
const HOW_TO_READ: u32 = 0x100 | 0x1000_0000 | 0x1000;
const NO_TRACE: u64 = u64::MAX;
const MAX_SESSIONS: usize = 128;
const NAME_UNITS: usize = 1024;
/// Capacity for the longest list: 256 KB, several thousand counters.
const INFORMATION_WORDS: usize = 32 << 10;
/// `EnableTraceEx2` returns at once; the provider reacts later.
const DO_NOT_WAIT: u32 = 0;

type StartTrace = unsafe extern "system" fn(*mut u64, *const u16, *mut EVENT_TRACE_PROPERTIES) -> u32;
type ControlTrace = unsafe extern "system" fn(u64, *const u16, *mut EVENT_TRACE_PROPERTIES, u32) -> u32;
type QueryAllTraces = unsafe extern "system" fn(*mut *mut EVENT_TRACE_PROPERTIES, u32, *mut u32) -> u32;
type SetInformation = unsafe extern "system" fn(u64, u32, *const c_void, u32) -> u32;
type QueryInformation = unsafe extern "system" fn(u64, u32, *mut c_void, u32, *mut u32) -> u32;
type EnableTrace =
    unsafe extern "system" fn(u64, *const ProviderBytes, u32, u8, u64, u64, u32, *const c_void) -> u32;
type OpenTrace = unsafe extern "system" fn(*mut EVENT_TRACE_LOGFILEW) -> u64;
type ProcessTrace = unsafe extern "system" fn(*const u64, u32, *const c_void, *const c_void) -> u32;
type CloseTrace = unsafe extern "system" fn(u64) -> u32;

/// A GUID in memory layout.
#[repr(C, align(4))]
struct ProviderBytes([u8; 16]);

/// The functions, and the consumers of open traces.
pub struct WindowsTable {
    start: Option<StartTrace>,
    control: Option<ControlTrace>,
    query_all: Option<QueryAllTraces>,
    set_information: Option<SetInformation>,
    query_information: Option<QueryInformation>,
    enable: Option<EnableTrace>,
    open: Option<OpenTrace>,
    process: Option<ProcessTrace>,
    close: Option<CloseTrace>,
    is_emulated: bool,
    /// A consumer must live while its trace may call it: until the trace is closed, and while a thread processes it.
    consumers: Mutex<HashMap<u64, Arc<Consumer>>>,
}

impl std::fmt::Debug for WindowsTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WindowsTable").field("is_emulated", &self.is_emulated).finish_non_exhaustive()
    }
}

/// A function of a loaded library.
fn function<F: Copy>(library: *mut c_void, name: &CStr) -> Option<F> {
    const { assert!(size_of::<F>() == size_of::<usize>()) };
    if library.is_null() {
        return None;
    }
    // SAFETY: the library is never unloaded, and the name is NUL-terminated.
    let found = unsafe { GetProcAddress(library, name.as_ptr().cast()) }?;
    // SAFETY: F is a function pointer; the types above are those that Windows documents for these names.
    Some(unsafe { transmute_copy(&found) })
}

impl WindowsTable {
    pub fn new() -> Self {
        // SAFETY: the names are NUL-terminated; both libraries stay loaded.
        let (advapi, ntdll) = unsafe {
            (LoadLibraryW(wide("advapi32.dll").as_ptr()), GetModuleHandleW(wide("ntdll.dll").as_ptr()))
        };
        Self {
            start: function(advapi, c"StartTraceW"),
            control: function(advapi, c"ControlTraceW"),
            query_all: function(advapi, c"QueryAllTracesW"),
            set_information: function(advapi, c"TraceSetInformation"),
            query_information: function(advapi, c"TraceQueryInformation"),
            enable: function(advapi, c"EnableTraceEx2"),
            open: function(advapi, c"OpenTraceW"),
            process: function(advapi, c"ProcessTrace"),
            close: function(advapi, c"CloseTrace"),
            is_emulated: function::<usize>(ntdll, c"wine_get_version").is_some(),
            consumers: Mutex::default(),
        }
    }

    fn consumers(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Arc<Consumer>>> {
        self.consumers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

fn answer(code: u32) -> Result<(), Code> {
    if code == 0 { Ok(()) } else { Err(Code(code)) }
}

/// `EVENT_TRACE_PROPERTIES` followed by space for both names.
#[repr(C)]
struct Properties {
    head: EVENT_TRACE_PROPERTIES,
    name: [u16; NAME_UNITS],
    file: [u16; NAME_UNITS],
}

impl Properties {
    fn new() -> Box<Self> {
        // SAFETY: all fields are numbers or handles, for which zero is valid.
        let mut properties: Box<Self> = unsafe { Box::new(zeroed()) };
        properties.head.Wnode.BufferSize = size_of::<Self>() as u32;
        properties.head.LoggerNameOffset = std::mem::offset_of!(Self, name) as u32;
        properties.head.LogFileNameOffset = std::mem::offset_of!(Self, file) as u32;
        properties
    }

    fn status(&self) -> SessionStatus {
        let text = |units: &[u16]| {
            let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
            String::from_utf16_lossy(&units[..end])
        };
        SessionStatus {
            name: text(&self.name),
            log_file: text(&self.file),
            buffer_kilobytes: self.head.BufferSize,
            buffers: self.head.NumberOfBuffers,
            free_buffers: self.head.FreeBuffers,
            minimum_buffers: self.head.MinimumBuffers,
            maximum_buffers: self.head.MaximumBuffers,
            buffers_written: self.head.BuffersWritten,
            events_lost: self.head.EventsLost,
            real_time_buffers_lost: self.head.RealTimeBuffersLost,
            log_buffers_lost: self.head.LogBuffersLost,
            mode: self.head.LogFileMode,
            kernel_flags: self.head.EnableFlags,
        }
    }
}

impl EtwApi for WindowsTable {
    fn is_emulated(&self) -> bool {
        self.is_emulated
    }

    fn is_service(&self) -> bool {
        let mut session = 1;
        // SAFETY: a live number.
        let is_known = unsafe { ProcessIdToSessionId(std::process::id(), &mut session) } != 0;
        // Services have session 0 to themselves since Windows Vista. Imitations such as Wine put everything
        // there.
        is_known && session == 0 && !self.is_emulated
    }

    fn ticks_per_second(&self) -> u64 {
        let mut frequency = 0;
        // SAFETY: a live number; it cannot fail since Windows XP.
        unsafe { QueryPerformanceFrequency(&mut frequency) };
        u64::try_from(frequency).unwrap_or(0).max(1)
    }

    fn enable_profile_privilege(&self) -> Result<(), Code> {
        let mut token: HANDLE = null_mut();
        // SAFETY: a pseudo handle of this process and live space for the token.
        if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &mut token) }
            == 0
        {
            return Err(last_error());
        }
        let mut id = LUID { LowPart: 0, HighPart: 0 };
        let name = wide("SeSystemProfilePrivilege");
        // SAFETY: a NUL-terminated name and live space for its number.
        let mut done = unsafe { LookupPrivilegeValueW(null(), name.as_ptr(), &mut id) } != 0;
        let mut code = last_error();
        if done {
            let privileges = TOKEN_PRIVILEGES {
                PrivilegeCount: 1,
                Privileges: [LUID_AND_ATTRIBUTES { Luid: id, Attributes: SE_PRIVILEGE_ENABLED }],
            };
            // SAFETY: a token with the right to adjust, one privilege, and no output.
            done = unsafe { AdjustTokenPrivileges(token, 0, &privileges, 0, null_mut(), null_mut()) } != 0;
            code = last_error();
            // The call also succeeds if it changed nothing.
            done &= code.0 != ERROR_NOT_ALL_ASSIGNED;
        }
        // SAFETY: opened above, closed once.
        unsafe { CloseHandle(token) };
        if done { Ok(()) } else { Err(code) }
    }

    fn start(&self, settings: &Settings) -> Result<SessionHandle, Code> {
        let function = self.start.ok_or(codes::PROC_NOT_FOUND)?;
        let name = wide(&settings.name);
        let mut properties = Properties::new();
        let head = &mut properties.head;
        head.Wnode.Flags = WNODE_TRACED;
        head.Wnode.ClientContext = PERFORMANCE_COUNTER;
        head.BufferSize = settings.buffer_kilobytes;
        let min_buffers = 2 * std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        head.MinimumBuffers = settings.minimum_buffers.max(min_buffers);
        head.MaximumBuffers = settings.maximum_buffers.max(head.MinimumBuffers + 2);
        head.FlushTimer = settings.flush_seconds;
        head.LogFileMode = REAL_TIME;
        if let Some(file) = &settings.log_file {
            head.LogFileMode = TO_FILE;
            let units = wide(&file.to_string_lossy());
            if units.len() > NAME_UNITS {
                return Err(codes::BAD_LENGTH);
            }
            properties.file[..units.len()].copy_from_slice(&units);
        } else {
            head.LogFileNameOffset = 0;
        }
        if settings.kernel.0 != 0 {
            properties.head.LogFileMode |= SYSTEM_LOGGER;
        }
        let mut handle = 0;
        // SAFETY: the pointers are live; the properties state their length.
        answer(unsafe { function(&mut handle, name.as_ptr(), &mut properties.head) })?;
        Ok(SessionHandle(handle))
    }

    fn control(&self, name: &str, what: Control) -> Result<SessionStatus, Code> {
        let function = self.control.ok_or(codes::PROC_NOT_FOUND)?;
        let units = wide(name);
        let mut properties = Properties::new();
        let number = match what {
            Control::Query => 0,
            Control::Stop => 1,
            Control::MaximumBuffers(buffers) => {
                properties.head.MaximumBuffers = buffers;
                // An empty name would change the log file.
                properties.head.LogFileNameOffset = 0;
                2
            }
            Control::Flush => 3,
        };
        // SAFETY: the pointers are live; the properties state their length.
        answer(unsafe { function(0, units.as_ptr(), &mut properties.head, number) })?;
        let status = properties.status();
        // Imitations leave the name empty.
        Ok(SessionStatus { name: name.to_owned(), ..status })
    }

    fn sessions(&self) -> Result<Vec<SessionStatus>, Code> {
        let function = self.query_all.ok_or(codes::PROC_NOT_FOUND)?;
        let mut all: Vec<Box<Properties>> = (0..MAX_SESSIONS).map(|_| Properties::new()).collect();
        let mut pointers: Vec<*mut EVENT_TRACE_PROPERTIES> =
            all.iter_mut().map(|properties| (&raw mut **properties).cast()).collect();
        let mut count = 0;
        // SAFETY: the stated number of live properties, each of which states its length.
        answer(unsafe { function(pointers.as_mut_ptr(), MAX_SESSIONS as u32, &mut count) })?;
        Ok(all.iter().take(count as usize).map(|properties| properties.status()).collect())
    }

    fn set_information(
        &self,
        session: Option<SessionHandle>,
        class: InformationClass,
        data: &[u8],
    ) -> Result<(), Code> {
        let function = self.set_information.ok_or(codes::PROC_NOT_FOUND)?;
        // 32-bit numbers are read from it.
        let words: Vec<u32> =
            data.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let handle = session.map_or(0, |session| session.0);
        // SAFETY: the buffer has the stated number of bytes.
        answer(unsafe { function(handle, class as u32, words.as_ptr().cast(), 4 * words.len() as u32) })
    }

    fn query_information(&self, class: InformationClass, question: &[u8]) -> Result<Vec<u8>, Code> {
        let function = self.query_information.ok_or(codes::PROC_NOT_FOUND)?;
        let mut words = vec![0u64; INFORMATION_WORDS];
        for (word, bytes) in words.iter_mut().zip(question.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            *word = u64::from_le_bytes(whole);
        }
        // Lists have a variable length; a number must be requested with its own length.
        let buffer = match class {
            InformationClass::MaxCounters => 4,
            InformationClass::SampleInterval => 8,
            _ => size_of_val(&words[..]) as u32,
        };
        let mut length = 0;
        // SAFETY: the buffer is live, aligned to eight bytes and at least as long as stated.
        answer(unsafe { function(0, class as u32, words.as_mut_ptr().cast(), buffer, &mut length) })?;
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        Ok(bytes.take(length.min(buffer) as usize).collect())
    }

    fn enable(
        &self,
        session: SessionHandle,
        provider: ProviderId,
        request: Request,
        level: u8,
        keywords: u64,
    ) -> Result<(), Code> {
        let function = self.enable.ok_or(codes::PROC_NOT_FOUND)?;
        let id = ProviderBytes(provider.to_bytes());
        let number = match request {
            Request::Disable => 0,
            Request::Enable => 1,
            Request::CaptureState => 2,
        };
        // SAFETY: a live GUID; no parameters are passed.
        answer(unsafe { function(session.0, &id, number, level, keywords, 0, DO_NOT_WAIT, null()) })
    }

    fn open(&self, name: &str, consumer: Arc<Consumer>) -> Result<TraceHandle, Code> {
        let function = self.open.ok_or(codes::PROC_NOT_FOUND)?;
        let mut units = wide(name);
        // SAFETY: all fields are numbers, pointers and optional functions, for which zero is valid.
        let mut log: EVENT_TRACE_LOGFILEW = unsafe { zeroed() };
        log.LoggerName = units.as_mut_ptr();
        log.Anonymous1.ProcessTraceMode = HOW_TO_READ;
        log.Anonymous2.EventRecordCallback = Some(on_record);
        log.Context = Arc::as_ptr(&consumer).cast_mut().cast();
        // SAFETY: a live structure; the context lives as long as the trace may be processed, see `consumers`.
        let handle = unsafe { function(&mut log) };
        if handle == NO_TRACE {
            return Err(last_error());
        }
        self.consumers().insert(handle, consumer);
        // Timestamps of another clock could not be converted to ours.
        if log.LogfileHeader.ReservedFlags != PERFORMANCE_COUNTER {
            self.close(TraceHandle(handle)).ok();
            return Err(codes::OTHER_CLOCK);
        }
        Ok(TraceHandle(handle))
    }

    fn process(&self, trace: TraceHandle) -> Result<(), Code> {
        let function = self.process.ok_or(codes::PROC_NOT_FOUND)?;
        // Kept until no callback can occur.
        let Some(_consumer) = self.consumers().get(&trace.0).cloned() else { return Err(codes::CANCELLED) };
        // SAFETY: one handle; no time range, because a range drops the initial rundown.
        answer(unsafe { function(&trace.0, 1, null(), null()) })
    }

    fn close(&self, trace: TraceHandle) -> Result<(), Code> {
        let function = self.close.ok_or(codes::PROC_NOT_FOUND)?;
        // SAFETY: a handle that was opened; closing twice is an error without further effect.
        let code = unsafe { function(trace.0) };
        self.consumers().remove(&trace.0);
        answer(code)
    }

    fn claim(&self, name: &str) -> Option<Box<dyn Send + Sync>> {
        let name = wide(&format!("Global\\ortscope-session-{}", name.replace('\\', "-")));
        // SAFETY: a NUL-terminated name; the handle is closed by Claim.
        let handle = unsafe { CreateMutexW(null(), 0, name.as_ptr()) };
        let exists = last_error().0 == ERROR_ALREADY_EXISTS;
        if handle.is_null() {
            // It belongs to another process, or the name is invalid; then the claim is skipped.
            return if exists { None } else { Some(Box::new(())) };
        }
        let claim = Claim(handle as usize);
        if exists { None } else { Some(Box::new(claim)) }
    }
}

/// A mutex that exists as long as the process that owns a session.
struct Claim(usize);

impl Drop for Claim {
    fn drop(&mut self) {
        // SAFETY: created by CreateMutexW, closed once.
        unsafe { CloseHandle(self.0 as HANDLE) };
    }
}

fn last_error() -> Code {
    // SAFETY: reads the calling thread's error code.
    Code(unsafe { GetLastError() })
}

/// Called by Windows for every record, on the thread that processes the trace.
unsafe extern "system" fn on_record(record: *mut EVENT_RECORD) {
    const {
        assert!(size_of::<RawRecord>() == size_of::<EVENT_RECORD>());
        assert!(std::mem::offset_of!(RawRecord, payload) == std::mem::offset_of!(EVENT_RECORD, UserData));
        assert!(
            std::mem::offset_of!(RawRecord, item_list) == std::mem::offset_of!(EVENT_RECORD, ExtendedData)
        );
        assert!(std::mem::offset_of!(RawRecord, context) == std::mem::offset_of!(EVENT_RECORD, UserContext));
    }
    // SAFETY: Windows passes a record that is valid until we return; ours has the same layout, as checked above.
    let Some(record) = (unsafe { record.cast::<RawRecord>().as_ref() }) else { return };
    // SAFETY: the context is the consumer that was passed to OpenTrace, which `process` keeps alive.
    let Some(consumer) = (unsafe { record.context.cast::<Consumer>().as_ref() }) else { return };
    // SAFETY: the record comes from Windows.
    unsafe { consumer.push(record) };
}
