//! Energy meters: finds their devices and queries them with `DeviceIoControl`. Functions are resolved on demand.

use std::ffi::c_void;
use std::mem::transmute;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::{CloseHandle, GetLastError, HANDLE, INVALID_HANDLE_VALUE};
use windows_sys::core::GUID;

use super::native::{Function, system_library};
use crate::devices::meters::{MAX_BYTES, MeterApi, MeterDevice};

/// `GUID_DEVICE_ENERGY_METER`.
const ENERGY_METER: GUID = GUID {
    data1: 0x45BD_8344,
    data2: 0x7ED6,
    data3: 0x49CF,
    data4: [0xA4, 0x40, 0xC2, 0x76, 0xC9, 0x33, 0xB0, 0x53],
};
const GET_VERSION: u32 = 0x0022_4000;
const GET_METADATA_SIZE: u32 = 0x0022_4004;
const GET_METADATA: u32 = 0x0022_4008;
const GET_MEASUREMENT: u32 = 0x0022_400C;
/// Length of the device list in characters; a device has about a hundred.
const MAX_CHARACTERS: u32 = 1 << 20;

type ListSize = unsafe extern "system" fn(*mut u32, *const GUID, *const u16, u32) -> u32;
type List = unsafe extern "system" fn(*const GUID, *const u16, *mut u16, u32, u32) -> u32;
type CreateFile = unsafe extern "system" fn(*const u16, u32, u32, *const c_void, u32, u32, HANDLE) -> HANDLE;
type Control = unsafe extern "system" fn(
    HANDLE,
    u32,
    *const c_void,
    u32,
    *mut c_void,
    u32,
    *mut u32,
    *mut c_void,
) -> i32;

pub(super) struct WindowsMeters;

/// NUL-terminated paths of the present devices of a class.
fn interfaces(class: &GUID) -> Result<Vec<Vec<u16>>, String> {
    let absent = || "energy meters cannot be listed (cfgmgr32.dll lacks a function)".to_owned();
    let size = system_library("cfgmgr32.dll", c"CM_Get_Device_Interface_List_SizeW").ok_or_else(absent)?;
    let list = system_library("cfgmgr32.dll", c"CM_Get_Device_Interface_ListW").ok_or_else(absent)?;
    // SAFETY: these are the functions' documented signatures.
    let (size, list) = unsafe { (transmute::<Function, ListSize>(size), transmute::<Function, List>(list)) };
    let mut length = 0;
    // SAFETY: a live number and a live GUID; no device is named; 0 requests present devices.
    let answer = unsafe { size(&mut length, class, null(), 0) };
    if answer != 0 {
        return Err(format!("energy meters cannot be listed: CONFIGRET 0x{answer:X}"));
    }
    let mut buffer = vec![0u16; length.min(MAX_CHARACTERS) as usize];
    // SAFETY: the buffer is live and has the stated length.
    let answer = unsafe { list(class, null(), buffer.as_mut_ptr(), buffer.len() as u32, 0) };
    if answer != 0 {
        return Err(format!("energy meters cannot be listed: CONFIGRET 0x{answer:X}"));
    }
    let paths = buffer.split(|unit| *unit == 0).filter(|path| !path.is_empty());
    Ok(paths.map(|path| path.iter().copied().chain([0]).collect()).collect())
}

impl MeterApi for WindowsMeters {
    fn meters(&mut self) -> Result<Vec<Box<dyn MeterDevice>>, String> {
        let paths = interfaces(&ENERGY_METER)?;
        let mut meters: Vec<Box<dyn MeterDevice>> = Vec::new();
        let mut why = None;
        for path in &paths {
            match Device::open(path) {
                Ok(device) => meters.push(Box::new(device)),
                Err(error) => why = why.or(Some(error)),
            }
        }
        match why.filter(|_| meters.is_empty()) {
            Some(why) => Err(why),
            None => Ok(meters),
        }
    }
}

struct Device {
    handle: HANDLE,
    control: Control,
}

// SAFETY: a device handle may be used by any thread; it is used by one at a time.
unsafe impl Send for Device {}

impl Device {
    fn open(path: &[u16]) -> Result<Self, String> {
        const GENERIC_READ: u32 = 0x8000_0000;
        const SHARE_READ_WRITE: u32 = 3;
        const OPEN_EXISTING: u32 = 3;
        let absent = || "kernel32.dll lacks a function".to_owned();
        let create = system_library("kernel32.dll", c"CreateFileW").ok_or_else(absent)?;
        let control = system_library("kernel32.dll", c"DeviceIoControl").ok_or_else(absent)?;
        // SAFETY: these are the functions' documented signatures.
        let (create, control) =
            unsafe { (transmute::<Function, CreateFile>(create), transmute::<Function, Control>(control)) };
        // SAFETY: the path is live and NUL-terminated; the handle is checked and closed once, on drop.
        let handle = unsafe {
            create(path.as_ptr(), GENERIC_READ, SHARE_READ_WRITE, null(), OPEN_EXISTING, 0, null_mut())
        };
        if handle == INVALID_HANDLE_VALUE || handle.is_null() {
            // SAFETY: reads the calling thread's error code.
            return Err(format!("the energy meter cannot be opened: error {}", unsafe { GetLastError() }));
        }
        Ok(Self { handle, control })
    }

    fn query(&mut self, question: u32, name: &str, buffer: &mut [u8]) -> Result<usize, String> {
        let mut length = 0;
        // SAFETY: the handle is open; there is no input; the buffer is live and has the stated length; the call
        // is synchronous.
        let answer = unsafe {
            (self.control)(
                self.handle,
                question,
                null(),
                0,
                buffer.as_mut_ptr().cast(),
                buffer.len() as u32,
                &mut length,
                null_mut(),
            )
        };
        if answer == 0 {
            // SAFETY: reads the calling thread's error code.
            return Err(format!("the energy meter refuses {name}: error {}", unsafe { GetLastError() }));
        }
        Ok((length as usize).min(buffer.len()))
    }
}

impl MeterDevice for Device {
    fn version(&mut self) -> Result<u16, String> {
        let mut buffer = [0; 2];
        self.query(GET_VERSION, "its version", &mut buffer)?;
        Ok(u16::from_le_bytes(buffer))
    }

    fn description(&mut self) -> Result<Vec<u8>, String> {
        let mut size = [0; 4];
        self.query(GET_METADATA_SIZE, "the size of its description", &mut size)?;
        let mut buffer = vec![0; (u32::from_le_bytes(size) as usize).min(MAX_BYTES)];
        let length = self.query(GET_METADATA, "its description", &mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    }

    fn measurement(&mut self, channels: usize) -> Result<Vec<u8>, String> {
        let mut buffer = vec![0; channels.saturating_mul(16).min(MAX_BYTES)];
        let length = self.query(GET_MEASUREMENT, "a measurement", &mut buffer)?;
        buffer.truncate(length);
        Ok(buffer)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: the handle was opened by `open` and is closed once.
        unsafe { CloseHandle(self.handle) };
    }
}
