//! Differences between operating systems: paths as ONNX Runtime takes them (UTF-16 on Windows, bytes elsewhere, both
//! with a NUL at the end), library names, and the number of names of a file.

use std::fs::Metadata;
use std::path::Path;

use crate::OrtError;

/// A path that ends with NUL, alive as long as the call that reads it.
#[derive(Debug)]
pub(crate) struct OsPath(Vec<ort_sys::os_char>);

impl OsPath {
    pub(crate) fn new(path: &Path) -> Result<Self, OrtError> {
        let mut units = encode(path);
        if units.contains(&0) {
            return Err(OrtError::Nul { what: format!("the path {}", path.display()) });
        }
        units.push(0);
        Ok(Self(units))
    }

    pub(crate) fn as_ptr(&self) -> *const ort_sys::os_char {
        self.0.as_ptr()
    }
}

/// Whether [`crate::Session::profiling_start_ns`] counts from the start of the machine, as our own clock does, and not
/// since 1970.
pub const PROFILE_CLOCK_IS_MONOTONIC: bool = IS_WINDOWS;

cfg_select! {
    windows => {
        pub(crate) const IS_WINDOWS: bool = true;

        fn encode(path: &Path) -> Vec<ort_sys::os_char> {
            use std::os::windows::ffi::OsStrExt;
            path.as_os_str().encode_wide().collect()
        }

        /// Windows reports it only for open files.
        pub(crate) fn link_count(_: &Metadata) -> u64 {
            1
        }
    }
    _ => {
        pub(crate) const IS_WINDOWS: bool = false;

        fn encode(path: &Path) -> Vec<ort_sys::os_char> {
            use std::os::unix::ffi::OsStrExt;
            path.as_os_str().as_bytes().iter().map(|byte| byte.cast_signed()).collect()
        }

        /// How many names a file has.
        pub(crate) fn link_count(found: &Metadata) -> u64 {
            std::os::unix::fs::MetadataExt::nlink(found)
        }
    }
}
