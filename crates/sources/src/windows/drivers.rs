//! Driver versions of GPUs and NPUs from the registry: one key per device in its device class.

use std::collections::BTreeMap;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::ERROR_SUCCESS;
use windows_sys::Win32::System::Registry::{HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RegGetValueW};

/// Display adapters and compute accelerators.
const CLASSES: [&str; 2] =
    ["{4d36e968-e325-11ce-bfc1-08002be10318}", "{f01a9d53-3ff6-48d2-9f97-c8a7004be10c}"];
/// Limit for devices per class; removed ones leave gaps.
const MAX_DEVICES: usize = 16;
/// Length of a value in UTF-16 units.
const MAX_UNITS: usize = 256;

/// By device name.
pub fn versions() -> BTreeMap<String, String> {
    let keys = CLASSES.iter().flat_map(|class| {
        (0..MAX_DEVICES)
            .map(move |number| format!(r"SYSTEM\CurrentControlSet\Control\Class\{class}\{number:04}"))
    });
    keys.filter_map(|key| Some((text(&key, "DriverDesc")?, text(&key, "DriverVersion")?))).collect()
}

pub(super) fn text(key: &str, value: &str) -> Option<String> {
    let wide = |text: &str| text.encode_utf16().chain([0]).collect::<Vec<u16>>();
    let (key, value) = (wide(key), wide(value));
    let mut units = [0_u16; MAX_UNITS];
    let mut bytes = size_of_val(&units) as u32;
    // SAFETY: both names are NUL-terminated, the buffer is live and `bytes` is its size.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            value.as_ptr(),
            RRF_RT_REG_SZ,
            null_mut(),
            units.as_mut_ptr().cast(),
            &mut bytes,
        )
    };
    let length = units.iter().position(|unit| *unit == 0).unwrap_or(MAX_UNITS);
    let text = String::from_utf16_lossy(units.get(..length)?).trim().to_owned();
    (status == ERROR_SUCCESS && !text.is_empty()).then_some(text)
}
