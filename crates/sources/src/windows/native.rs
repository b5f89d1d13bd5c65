//! ntdll calls, and functions that are resolved on demand: not every Windows version has them, or their library should
//! not be loaded by a program without windows.

use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

use windows_sys::Wdk::System::SystemInformation::NtQuerySystemInformation;
use windows_sys::Wdk::System::Threading::NtQueryInformationProcess;
use windows_sys::Win32::Foundation::{
    HANDLE, HMODULE, NTSTATUS, STATUS_BUFFER_OVERFLOW, STATUS_BUFFER_TOO_SMALL, STATUS_INFO_LENGTH_MISMATCH,
};
use windows_sys::Win32::System::LibraryLoader::{
    GetModuleHandleW, GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};

/// Any function, to be cast to its type.
pub(super) type Function = unsafe extern "system" fn() -> isize;

/// Wine runs Windows programs on other systems; it supports the same calls and leaves many counters at zero.
pub(super) fn is_wine() -> bool {
    static WINE: OnceLock<bool> = OnceLock::new();
    *WINE.get_or_init(|| ntdll(c"wine_get_version").is_some())
}

/// A function of ntdll, which every process has loaded.
pub(super) fn ntdll(name: &CStr) -> Option<Function> {
    let library = wide("ntdll.dll");
    // SAFETY: the name is live and NUL-terminated; a null module is checked in `function`.
    function(unsafe { GetModuleHandleW(library.as_ptr()) }, name)
}

/// A function of a library in the system directory. The library stays loaded.
pub(super) fn system_library(library: &str, name: &CStr) -> Option<Function> {
    let library = wide(library);
    // SAFETY: the name is live and NUL-terminated; no file is passed; a null module is checked in `function`.
    let module =
        unsafe { LoadLibraryExW(library.as_ptr(), std::ptr::null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
    function(module, name)
}

fn function(module: HMODULE, name: &CStr) -> Option<Function> {
    if module.is_null() {
        return None;
    }
    // SAFETY: a loaded module and a live NUL-terminated name.
    unsafe { GetProcAddress(module, name.as_ptr().cast()) }
}

pub(super) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// Why a query failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NoAnswer {
    /// The required size according to the system; at least larger than the buffer.
    TooSmall(usize),
    Status(NTSTATUS),
}

fn checked(status: NTSTATUS, length: u32, buffer: usize) -> Result<usize, NoAnswer> {
    match status {
        STATUS_INFO_LENGTH_MISMATCH | STATUS_BUFFER_TOO_SMALL | STATUS_BUFFER_OVERFLOW => {
            Err(NoAnswer::TooSmall(length as usize))
        }
        0.. => Ok((length as usize).min(buffer)),
        status => Err(NoAnswer::Status(status)),
    }
}

/// Calls `NtQuerySystemInformation`; returns the length of the answer.
pub(super) fn system_information(class: i32, buffer: &mut [u64]) -> Result<usize, NoAnswer> {
    let bytes = size_of_val(buffer);
    let mut length = 0;
    // SAFETY: the buffer is live and `bytes` long (8-byte aligned, as the structures require); the system writes
    // plain numbers.
    let status =
        unsafe { NtQuerySystemInformation(class, buffer.as_mut_ptr().cast(), clamp_u32(bytes), &mut length) };
    checked(status, length, bytes)
}

/// The same for the processors of one group, on machines with several groups.
pub(super) fn system_information_of_group(
    class: i32,
    group: u16,
    buffer: &mut [u64],
) -> Result<usize, NoAnswer> {
    type QueryEx = unsafe extern "system" fn(i32, *const c_void, u32, *mut c_void, u32, *mut u32) -> NTSTATUS;
    const NOT_FOUND: NTSTATUS = 0xC000_0139_u32.cast_signed();
    static QUERY: OnceLock<Option<QueryEx>> = OnceLock::new();
    let query = QUERY.get_or_init(|| {
        let function = ntdll(c"NtQuerySystemInformationEx")?;
        // SAFETY: this is the function's signature since Windows 7.
        Some(unsafe { std::mem::transmute::<Function, QueryEx>(function) })
    });
    let query = query.ok_or(NoAnswer::Status(NOT_FOUND))?;
    let bytes = size_of_val(buffer);
    let (input, mut length) = ((&raw const group).cast(), 0);
    // SAFETY: the question is a live u16, the buffer is live and `bytes` long.
    let status = unsafe { query(class, input, 2, buffer.as_mut_ptr().cast(), clamp_u32(bytes), &mut length) };
    checked(status, length, bytes)
}

/// Calls `NtQueryInformationProcess`; returns the length of the answer.
pub(super) fn process_information(
    handle: HANDLE,
    class: i32,
    buffer: &mut [u64],
    bytes: usize,
) -> Result<usize, NoAnswer> {
    let bytes = bytes.min(size_of_val(buffer));
    let mut length = 0;
    // SAFETY: the caller's handle is live, the buffer is live and at least `bytes` long.
    let status = unsafe {
        NtQueryInformationProcess(handle, class, buffer.as_mut_ptr().cast(), clamp_u32(bytes), &mut length)
    };
    checked(status, length, bytes)
}

/// The bytes of a buffer that was allocated in units of its alignment.
pub(super) fn as_bytes(buffer: &[u64]) -> &[u8] {
    // SAFETY: the same memory, fully initialized, at a smaller alignment.
    unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast(), size_of_val(buffer)) }
}

fn clamp_u32(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
