//! Strings to and from C.
#![expect(unsafe_code, reason = "reads C strings and frees those of ONNX Runtime's allocator")]

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char};
use std::ptr;

use ort_sys as sys;

use crate::OrtError;
use crate::api::Api;

pub(crate) fn c_string(text: &str, what: &str) -> Result<CString, OrtError> {
    CString::new(text).map_err(|_| OrtError::Nul { what: format!("{what} {text:?}") })
}

/// Copies a C string; null is empty.
///
/// # Safety
/// `text` is null or a NUL-terminated string that stays valid during the call.
pub(crate) unsafe fn copy(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: not null, and terminated by this function's contract.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Copies a string that ONNX Runtime allocated with its default allocator, and frees it.
///
/// # Safety
/// As for [`copy`]; the string came from `allocator` and is not used afterwards.
pub(crate) unsafe fn take(
    api: Api,
    allocator: *mut sys::OrtAllocator,
    text: *mut c_char,
) -> Result<String, OrtError> {
    // SAFETY: by this function's contract; the text is copied before it is freed.
    unsafe {
        let copied = copy(text);
        if !text.is_null() {
            call!(api, AllocatorFree(allocator, text.cast()))?;
        }
        Ok(copied)
    }
}

/// The process-wide CPU allocator, which is never released.
pub(crate) fn default_allocator(api: Api) -> Result<*mut sys::OrtAllocator, OrtError> {
    let mut allocator = ptr::null_mut();
    // SAFETY: the out pointer is a local.
    unsafe { call!(api, GetAllocatorWithDefaultOptions(&raw mut allocator)) }?;
    Ok(allocator)
}

/// Copies key-value pairs; null is empty.
///
/// # Safety
/// `pairs` is null or valid during the call.
pub(crate) unsafe fn pairs(
    api: Api,
    pairs: *const sys::OrtKeyValuePairs,
) -> Result<BTreeMap<String, String>, OrtError> {
    if pairs.is_null() {
        return Ok(BTreeMap::new());
    }
    let (mut keys, mut values, mut count) = (ptr::null(), ptr::null(), 0usize);
    // SAFETY: valid by this function's contract; ONNX Runtime fills two arrays of `count` strings each.
    unsafe {
        call_plain!(api, GetKeyValuePairs(pairs, &raw mut keys, &raw mut values, &raw mut count))?;
        Ok((0..count).map(|index| (copy(*keys.add(index)), copy(*values.add(index)))).collect())
    }
}

/// Two parallel arrays of C strings, as the functions that take options want them.
#[derive(Debug)]
pub(crate) struct OptionArrays {
    _owned: Vec<(CString, CString)>,
    keys: Vec<*const c_char>,
    values: Vec<*const c_char>,
}

impl OptionArrays {
    pub(crate) fn new(options: &BTreeMap<String, String>) -> Result<Self, OrtError> {
        let owned = options
            .iter()
            .map(|(key, value)| Ok((c_string(key, "the option")?, c_string(value, "the option value")?)))
            .collect::<Result<Vec<_>, OrtError>>()?;
        let keys = owned.iter().map(|(key, _)| key.as_ptr()).collect();
        let values = owned.iter().map(|(_, value)| value.as_ptr()).collect();
        Ok(Self { _owned: owned, keys, values })
    }

    pub(crate) fn keys(&self) -> *const *const c_char {
        self.keys.as_ptr()
    }

    pub(crate) fn values(&self) -> *const *const c_char {
        self.values.as_ptr()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }
}
