//! The gate in front of `OrtApi`: no slot is read before its since-version is checked.
//!
//! [`call!`] is for the functions that return an `OrtStatus`, [`call_plain!`] for the few that do not. Both need an
//! `unsafe` block around them, because only the caller knows whether the arguments are valid; the macros only guarantee
//! the slot.
#![expect(unsafe_code, reason = "reads function pointers out of ONNX Runtime's table")]

use std::ffi::CStr;

use ort_sys as sys;

use crate::{ErrorCode, OrtError};

/// The function table of one loaded library. Libraries are never unloaded, so a copy of it is valid for ever.
#[derive(Clone, Copy)]
pub(crate) struct Api {
    raw: *const sys::OrtApi,
    /// The minor version the gates are checked against.
    minor: u32,
    version: &'static str,
}

// SAFETY: the table is immutable static data of a library that is never unloaded, and ONNX Runtime documents its
// functions as callable from any thread; objects with narrower rules are guarded where they are wrapped.
unsafe impl Send for Api {}
// SAFETY: as above.
unsafe impl Sync for Api {}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("minor", &self.minor).finish_non_exhaustive()
    }
}

impl Api {
    /// # Safety
    /// `raw` is what `GetApi(minor)` of a library returned that stays loaded until the process ends.
    pub(crate) unsafe fn new(raw: *const sys::OrtApi, minor: u32, version: &'static str) -> Self {
        Self { raw, minor, version }
    }

    pub(crate) fn raw(&self) -> *const sys::OrtApi {
        self.raw
    }

    pub(crate) fn minor(&self) -> u32 {
        self.minor
    }

    /// Fails unless the library has the slots of `since`. Folds to nothing for slots every supported version has.
    #[inline(always)]
    pub(crate) fn require(&self, function: &'static str, since: u32) -> Result<(), OrtError> {
        if since > crate::OLDEST_MINOR && self.minor < since {
            return Err(self.too_old_for(function, since));
        }
        Ok(())
    }

    #[cold]
    fn too_old_for(&self, function: &'static str, needs_minor: u32) -> OrtError {
        OrtError::NeedsVersion { function, needs_minor, found: self.version.to_owned() }
    }

    /// Turns a status into a result, and releases it.
    ///
    /// # Safety
    /// `status` was returned by a function of this table and is not used afterwards.
    #[inline(always)]
    pub(crate) unsafe fn check(
        &self,
        function: &'static str,
        status: sys::OrtStatusPtr,
    ) -> Result<(), OrtError> {
        if status.0.is_null() {
            return Ok(());
        }
        // SAFETY: not null, and ours by this function's contract.
        Err(unsafe { self.failure(function, status.0) })
    }

    #[cold]
    unsafe fn failure(&self, function: &'static str, status: *mut sys::OrtStatus) -> OrtError {
        // A code newer than ort-sys knows must not become an invalid enum value, hence the integer signature.
        type GetErrorCode = unsafe extern "system" fn(*const sys::OrtStatus) -> i32;
        // SAFETY: the three slots exist in every version; `status` is valid until released below, and the message is
        // copied before that. The transmute only changes the return type from a repr(i32) enum to its integer.
        unsafe {
            let get_code = (&raw const (*self.raw).GetErrorCode).read();
            let get_code = std::mem::transmute::<
                unsafe extern "system" fn(*const sys::OrtStatus) -> sys::OrtErrorCode,
                GetErrorCode,
            >(get_code);
            let get_message = (&raw const (*self.raw).GetErrorMessage).read();
            let release = (&raw const (*self.raw).ReleaseStatus).read();
            let message = get_message(status);
            let message = if message.is_null() {
                String::new()
            } else {
                CStr::from_ptr(message).to_string_lossy().into_owned()
            };
            let code = ErrorCode::from_raw(get_code(status));
            release(status);
            OrtError::Call { function, code, message }
        }
    }
}

/// Reads a slot after checking its gate: `Result<fn pointer, OrtError>`.
macro_rules! slot {
    ($api:expr, $function:ident) => {{
        let api: $crate::api::Api = $api;
        api.require(stringify!($function), const { $crate::gates::since(stringify!($function)) })
            .map(|()| (&raw const (*api.raw()).$function).read())
    }};
}

/// Calls a function that returns a status: `Result<(), OrtError>`.
macro_rules! call {
    ($api:expr, $function:ident ( $($argument:expr),* $(,)? )) => {{
        let api: $crate::api::Api = $api;
        match slot!(api, $function) {
            Ok(function) => api.check(stringify!($function), function($($argument),*)),
            Err(error) => Err(error),
        }
    }};
}

/// Calls a function that returns no status: `Result<its value, OrtError>`, an error only if the library lacks it.
macro_rules! call_plain {
    ($api:expr, $function:ident ( $($argument:expr),* $(,)? )) => {{
        let api: $crate::api::Api = $api;
        slot!(api, $function).map(|function| function($($argument),*))
    }};
}
