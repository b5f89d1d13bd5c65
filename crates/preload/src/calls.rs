//! The functions in place of ONNX Runtime's: each calls the original with the very same arguments and records the call.
#![expect(unsafe_code, reason = "is called through ONNX Runtime's table and calls the original functions")]

use std::ffi::{CStr, CString, OsStr, c_char, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

use ort_sys as sys;

use crate::sessions::{self, Begun};
use crate::table;

/// Reads a slot of the library's own table; every caller is in a slot of that version.
macro_rules! original {
    ($function:ident) => {
        (&raw const (*table::real::<N>()).$function).read()
    };
}

/// Recording must not end the program: a panic has printed its message and ends here.
fn guarded<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok().flatten()
}

fn is_ok(status: &sys::OrtStatusPtr) -> bool {
    status.0.is_null()
}

/// # Safety
/// By the contract of the C API: a path that ends with zero.
unsafe fn name_of_path(path: *const sys::os_char) -> String {
    if path.is_null() {
        return "model".into();
    }
    // SAFETY: the caller's. On this system `os_char` is a byte.
    let path = unsafe { CStr::from_ptr(path.cast::<c_char>()) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    path.file_stem().map_or_else(|| "model".into(), |name| name.to_string_lossy().into_owned())
}

/// The name that the graph of a session has.
///
/// # Safety
/// `session` is alive.
unsafe fn name_of_graph<const N: usize>(session: *const sys::OrtSession) -> String {
    // SAFETY: these functions exist in every version; what they give is checked before it is used, copied, and released.
    let name = unsafe {
        let (mut metadata, mut allocator, mut text) = (null_mut(), null_mut(), null_mut::<c_char>());
        let release = original!(ReleaseStatus);
        let check = |status: sys::OrtStatusPtr| {
            let ok = status.0.is_null();
            if !ok {
                release(status.0);
            }
            ok
        };
        if !check(original!(GetAllocatorWithDefaultOptions)(&raw mut allocator))
            || !check(original!(SessionGetModelMetadata)(session, &raw mut metadata))
        {
            return "model".into();
        }
        let mut name = String::new();
        if check(original!(ModelMetadataGetGraphName)(metadata, allocator, &raw mut text)) && !text.is_null()
        {
            name = CStr::from_ptr(text).to_string_lossy().into_owned();
            check(original!(AllocatorFree)(allocator, text.cast()));
        }
        original!(ReleaseModelMetadata)(metadata);
        name
    };
    if name.is_empty() { "model".into() } else { name }
}

/// # Safety
/// If `status` is a success, `out` points to the session that the call created.
unsafe fn note_session<const N: usize>(
    status: sys::OrtStatusPtr,
    out: *mut *mut sys::OrtSession,
    name: impl FnOnce(*mut sys::OrtSession) -> String,
) -> sys::OrtStatusPtr {
    if is_ok(&status) && !out.is_null() {
        // SAFETY: the caller's.
        let session = unsafe { *out };
        guarded(|| sessions::made(session.addr(), name(session), table::version::<N>()));
    }
    status
}

/// # Safety
/// As ONNX Runtime's `CreateSession`.
pub unsafe extern "system" fn create_session<const N: usize>(
    env: *const sys::OrtEnv,
    path: *const sys::os_char,
    options: *const sys::OrtSessionOptions,
    out: *mut *mut sys::OrtSession,
) -> sys::OrtStatusPtr {
    // SAFETY: the same arguments for the function they were meant for.
    unsafe {
        let status = original!(CreateSession)(env, path, options, out);
        note_session::<N>(status, out, |_| name_of_path(path))
    }
}

/// # Safety
/// As ONNX Runtime's `CreateSessionFromArray`.
pub unsafe extern "system" fn create_session_from_array<const N: usize>(
    env: *const sys::OrtEnv,
    data: *const c_void,
    length: usize,
    options: *const sys::OrtSessionOptions,
    out: *mut *mut sys::OrtSession,
) -> sys::OrtStatusPtr {
    // SAFETY: the same arguments for the function they were meant for.
    unsafe {
        let status = original!(CreateSessionFromArray)(env, data, length, options, out);
        note_session::<N>(status, out, |session| name_of_graph::<N>(session))
    }
}

/// # Safety
/// As ONNX Runtime's `CreateSessionWithPrepackedWeightsContainer`.
pub unsafe extern "system" fn create_session_with_container<const N: usize>(
    env: *const sys::OrtEnv,
    path: *const sys::os_char,
    options: *const sys::OrtSessionOptions,
    container: *mut sys::OrtPrepackedWeightsContainer,
    out: *mut *mut sys::OrtSession,
) -> sys::OrtStatusPtr {
    // SAFETY: the same arguments for the function they were meant for.
    unsafe {
        let create = original!(CreateSessionWithPrepackedWeightsContainer);
        let status = create(env, path, options, container, out);
        note_session::<N>(status, out, |_| name_of_path(path))
    }
}

/// # Safety
/// As ONNX Runtime's `CreateSessionFromArrayWithPrepackedWeightsContainer`.
pub unsafe extern "system" fn create_session_from_array_with_container<const N: usize>(
    env: *const sys::OrtEnv,
    data: *const c_void,
    length: usize,
    options: *const sys::OrtSessionOptions,
    container: *mut sys::OrtPrepackedWeightsContainer,
    out: *mut *mut sys::OrtSession,
) -> sys::OrtStatusPtr {
    // SAFETY: the same arguments for the function they were meant for.
    unsafe {
        let create = original!(CreateSessionFromArrayWithPrepackedWeightsContainer);
        let status = create(env, data, length, options, container, out);
        note_session::<N>(status, out, |session| name_of_graph::<N>(session))
    }
}

/// # Safety
/// As ONNX Runtime's `ReleaseSession`.
pub unsafe extern "system" fn release_session<const N: usize>(session: *mut sys::OrtSession) {
    guarded(|| {
        sessions::gone(session.addr());
        Some(())
    });
    // SAFETY: the same argument for the function it was meant for.
    unsafe { original!(ReleaseSession)(session) }
}

/// # Safety
/// `session` is alive.
unsafe fn begin<const N: usize>(session: *const sys::OrtSession) -> Option<Begun> {
    guarded(|| {
        sessions::begin(session.addr(), || {
            // SAFETY: the caller's: the session is alive.
            (unsafe { name_of_graph::<N>(session) }, table::version::<N>())
        })
    })
}

fn end(begun: Option<Begun>, ok: bool, profile: Option<PathBuf>) {
    guarded(|| {
        begun?.end(ok, profile);
        Some(())
    });
}

/// Options of our own that have a run profiled: for runs without options, of libraries that can.
struct ProfileOptions<const N: usize> {
    options: *mut sys::OrtRunOptions,
    prefix: PathBuf,
}

impl<const N: usize> ProfileOptions<N> {
    fn of(begun: &mut Option<Begun>, given: *const sys::OrtRunOptions) -> Option<Self> {
        if !given.is_null() || !table::can_profile_runs::<N>() {
            return None;
        }
        let begun = begun.as_mut()?;
        let prefix = begun.profile_prefix()?;
        let text = CString::new(prefix.as_os_str().as_bytes()).ok()?;
        let mut options = null_mut();
        // SAFETY: the version has these functions; the text outlives the call, which copies it; what fails is released.
        let made = unsafe {
            let release = original!(ReleaseStatus);
            let status = original!(CreateRunOptions)(&raw mut options);
            if !status.0.is_null() {
                release(status.0);
                return None;
            }
            let made = Self { options, prefix };
            let status = original!(RunOptionsEnableProfiling)(options, text.as_ptr().cast());
            if !status.0.is_null() {
                release(status.0);
                return None;
            }
            made
        };
        begun.start_now();
        Some(made)
    }
}

impl<const N: usize> Drop for ProfileOptions<N> {
    fn drop(&mut self) {
        // SAFETY: made above, used by a run that is over.
        unsafe { original!(ReleaseRunOptions)(self.options) }
    }
}

/// # Safety
/// As ONNX Runtime's `Run`.
pub unsafe extern "system" fn run<const N: usize>(
    session: *mut sys::OrtSession,
    options: *const sys::OrtRunOptions,
    input_names: *const *const c_char,
    inputs: *const *const sys::OrtValue,
    input_count: usize,
    output_names: *const *const c_char,
    output_count: usize,
    outputs: *mut *mut sys::OrtValue,
) -> sys::OrtStatusPtr {
    // SAFETY: the same arguments for the function they were meant for; where there were no options there may be ours.
    unsafe {
        let mut begun = begin::<N>(session);
        let profile = guarded(|| ProfileOptions::<N>::of(&mut begun, options));
        let options = profile.as_ref().map_or(options, |profile| profile.options.cast_const());
        let status = original!(Run)(
            session,
            options,
            input_names,
            inputs,
            input_count,
            output_names,
            output_count,
            outputs,
        );
        end(begun, is_ok(&status), profile.as_ref().map(|profile| profile.prefix.clone()));
        status
    }
}

/// # Safety
/// As ONNX Runtime's `RunWithBinding`.
pub unsafe extern "system" fn run_with_binding<const N: usize>(
    session: *mut sys::OrtSession,
    options: *const sys::OrtRunOptions,
    binding: *const sys::OrtIoBinding,
) -> sys::OrtStatusPtr {
    // SAFETY: as in `run`.
    unsafe {
        let mut begun = begin::<N>(session);
        let profile = guarded(|| ProfileOptions::<N>::of(&mut begun, options));
        let options = profile.as_ref().map_or(options, |profile| profile.options.cast_const());
        let status = original!(RunWithBinding)(session, options, binding);
        end(begun, is_ok(&status), profile.as_ref().map(|profile| profile.prefix.clone()));
        status
    }
}

/// State for the callback of an asynchronous run.
struct Waiting {
    begun: Option<Begun>,
    callback: sys::RunAsyncCallbackFn,
    user_data: *mut c_void,
}

/// # Safety
/// As ONNX Runtime's `RunAsync`.
pub unsafe extern "system" fn run_async<const N: usize>(
    session: *mut sys::OrtSession,
    options: *const sys::OrtRunOptions,
    input_names: *const *const c_char,
    inputs: *const *const sys::OrtValue,
    input_count: usize,
    output_names: *const *const c_char,
    output_count: usize,
    outputs: *mut *mut sys::OrtValue,
    callback: sys::RunAsyncCallbackFn,
    user_data: *mut c_void,
) -> sys::OrtStatusPtr {
    // SAFETY: the original function with the same arguments, except for the callback, which is called once and then
    // calls the program's callback with the program's data. If the run is rejected, it is not called, and its state
    // is freed here.
    unsafe {
        let run_async = original!(RunAsync);
        if callback.is_none() {
            return run_async(
                session,
                options,
                input_names,
                inputs,
                input_count,
                output_names,
                output_count,
                outputs,
                callback,
                user_data,
            );
        }
        let waiting = Box::into_raw(Box::new(Waiting { begun: begin::<N>(session), callback, user_data }));
        let status = run_async(
            session,
            options,
            input_names,
            inputs,
            input_count,
            output_names,
            output_count,
            outputs,
            Some(finished),
            waiting.cast(),
        );
        if !is_ok(&status) {
            let refused = Box::from_raw(waiting);
            end(refused.begun, false, None);
        }
        status
    }
}

/// # Safety
/// Called once by ONNX Runtime with what [`run_async`] gave it.
unsafe extern "C" fn finished(
    waiting: *mut c_void,
    outputs: *mut *mut sys::OrtValue,
    count: usize,
    status: sys::OrtStatusPtr,
) {
    // SAFETY: the caller's.
    let Waiting { begun, callback, user_data } = *unsafe { Box::from_raw(waiting.cast::<Waiting>()) };
    end(begun, is_ok(&status), None);
    if let Some(callback) = callback {
        // SAFETY: the program's own callback with the arguments it expects.
        unsafe { callback(user_data, outputs, count, status) }
    }
}
