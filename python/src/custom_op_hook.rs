//! Access to the C API of the ONNX Runtime inside its Python package, which cannot be found by name.
//!
//! ONNX Runtime loads a library of custom operators by its path and calls its `RegisterCustomOps` with the table of
//! its C API. This extension is such a library, without operators. With the table, the operator profiler can be
//! enabled for single runs (since 1.25), which Python's `RunOptions` does not offer.
#![expect(unsafe_code, reason = "is called by ONNX Runtime and calls its C API")]

use std::ffi::{CStr, CString, c_char};
use std::path::PathBuf;
use std::ptr::{addr_of, null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use ort_sys as sys;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::{errors, output};

/// The first version with profiles of single runs.
const PROFILES_SINCE_MINOR: u32 = 25;
/// The newest table that `ort-sys` knows.
const NEWEST_MINOR: u32 = 31;

static BASE: AtomicPtr<sys::OrtApiBase> = AtomicPtr::new(null_mut());
static NEXT_PROFILE: AtomicU64 = AtomicU64::new(0);

/// Called by ONNX Runtime when it loads this library.
#[unsafe(no_mangle)]
pub extern "system" fn RegisterCustomOps(
    _options: *mut sys::OrtSessionOptions,
    base: *const sys::OrtApiBase,
) -> *mut sys::OrtStatus {
    BASE.store(base.cast_mut(), Ordering::SeqCst);
    null_mut()
}

struct Api {
    table: *const sys::OrtApi,
    minor: u32,
    version: String,
}

/// The table of the loaded ONNX Runtime; `None` before the hook was opened.
fn api() -> Option<Api> {
    let base = BASE.load(Ordering::SeqCst);
    if base.is_null() {
        return None;
    }
    // SAFETY: given by ONNX Runtime, whose library Python never unloads; both functions exist in every version.
    let (version, table) = unsafe {
        let version = CStr::from_ptr(((*base).GetVersionString)()).to_string_lossy().into_owned();
        let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
        let table = ((*base).GetApi)(minor.min(NEWEST_MINOR));
        (version, table)
    };
    let minor = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).unwrap_or(0);
    (!table.is_null()).then_some(Api { table, minor, version })
}

/// Reads a slot of the table; the caller has checked its version.
macro_rules! slot {
    ($api:expr, $function:ident) => {
        addr_of!((*$api.table).$function).read()
    };
}

impl Api {
    fn check(&self, status: sys::OrtStatusPtr) -> PyResult<()> {
        if status.0.is_null() {
            return Ok(());
        }
        // SAFETY: a status that this table's functions returned; the message is copied before it is released.
        let message = unsafe {
            let message =
                CStr::from_ptr(slot!(self, GetErrorMessage)(status.0)).to_string_lossy().into_owned();
            slot!(self, ReleaseStatus)(status.0);
            message
        };
        Err(errors::monitor(message))
    }
}

/// The C++ object inside a pybind11 object: the first word after the header.
unsafe fn inner(object: &Bound<'_, PyAny>) -> *mut sys::OrtRunOptions {
    // SAFETY: the caller's: an instance of a pybind11 class with one base.
    unsafe {
        object.as_ptr().cast::<u8>().add(size_of::<ffi::PyObject>()).cast::<*mut sys::OrtRunOptions>().read()
    }
}

/// Opens the hook: `path` is this library's. Says whether runs can be profiled, or why not.
#[pyfunction]
pub fn open_custom_op_hook(py: Python<'_>, path: &str) -> PyResult<Option<String>> {
    if api().is_none() {
        let options = py.import("onnxruntime")?.getattr("SessionOptions")?.call0()?;
        options.call_method1("register_custom_ops_library", (path,))?;
    }
    let Some(api) = api() else {
        return Ok(Some("ONNX Runtime did not hand out its C API".into()));
    };
    if api.minor < PROFILES_SINCE_MINOR {
        return Ok(Some(format!("ONNX Runtime {} has no profiles of single runs; 1.25 has", api.version)));
    }
    Ok((!is_layout_known(py, &api)?).then(|| "RunOptions has another layout than is known".into()))
}

/// Whether the C API reads from the inner object what Python wrote, which confirms the assumed layout.
fn is_layout_known(py: Python<'_>, api: &Api) -> PyResult<bool> {
    let tag = "ortscope-layout-check";
    let options = py.import("onnxruntime")?.getattr("RunOptions")?.call0()?;
    options.setattr("logid", tag)?;
    let mut read: *const c_char = null();
    // SAFETY: the function exists since 1.15. It only reads; on the supported versions the word is the object's pointer.
    let status = unsafe {
        let pointer = inner(&options);
        if pointer.is_null() || !pointer.is_aligned() {
            return Ok(false);
        }
        slot!(api, RunOptionsGetRunTag)(pointer, (&raw mut read).cast())
    };
    api.check(status)?;
    // SAFETY: a text that belongs to `options`, which is alive.
    Ok(!read.is_null() && unsafe { CStr::from_ptr(read) }.to_bytes() == tag.as_bytes())
}

/// Version of the ONNX Runtime behind the hook.
#[pyfunction]
pub fn ort_version() -> Option<String> {
    api().map(|api| api.version)
}

/// Switches the operator profiler of runs with these options on; files begin with `prefix`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn profile_run(options: &Bound<'_, PyAny>, prefix: PathBuf) -> PyResult<()> {
    let Some(api) = api().filter(|api| api.minor >= PROFILES_SINCE_MINOR) else {
        return Err(errors::monitor("runs cannot be profiled: open_custom_op_hook says why"));
    };
    let path = Encoded::of(&prefix)?;
    // SAFETY: the version has the function; the layout was checked when the hook was opened; the text outlives the
    // call, which copies it.
    let status = unsafe { slot!(api, RunOptionsEnableProfiling)(inner(options), path.as_ptr().cast()) };
    api.check(status)
}

/// A path as ONNX Runtime takes it: bytes, or UTF-16 on Windows.
enum Encoded {
    Bytes(CString),
    Wide(Vec<u16>),
}

impl Encoded {
    fn of(path: &std::path::Path) -> PyResult<Self> {
        let text = path.to_str().ok_or_else(|| errors::monitor("the path of a profile is not Unicode"))?;
        if cfg!(target_family = "windows") {
            return Ok(Self::Wide(text.encode_utf16().chain([0]).collect()));
        }
        CString::new(text).map(Self::Bytes).map_err(errors::monitor)
    }

    fn as_ptr(&self) -> *const u8 {
        match self {
            Self::Bytes(text) => text.as_ptr().cast(),
            Self::Wide(text) => text.as_ptr().cast(),
        }
    }
}

/// Options for a profiled run and the beginning of its file's name; `None` while nothing is recorded.
pub fn options_for(py: Python<'_>, session: u16, sequence: u64) -> PyResult<Option<(Py<PyAny>, PathBuf)>> {
    let Some(directory) = output::profile_directory() else {
        return Ok(None);
    };
    // The name that ONNX Runtime gives has only milliseconds: two runs could overwrite each other.
    let number = NEXT_PROFILE.fetch_add(1, Ordering::Relaxed);
    let prefix = directory.join(format!("profile-{session}-{sequence}-{number}-"));
    let options = py.import("onnxruntime")?.getattr("RunOptions")?.call0()?;
    profile_run(&options, prefix.clone())?;
    Ok(Some((options.unbind(), prefix)))
}
