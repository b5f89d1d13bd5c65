//! Python callbacks outside the hot path: they create probes for sessions, return the caller's batch, and are
//! notified of inferences. Their failures never reach the caller's `run`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use pyo3::ffi;
use pyo3::prelude::*;

use super::hot::HOT;
use crate::probe::{Context, Probe};

static HOOKS: Mutex<Option<Hooks>> = Mutex::new(None);

/// Python's part of the slow path.
struct Hooks {
    /// Gives a session that has none a probe: `attach(session)`.
    attach: Py<PyAny>,
    /// `before(session)` and `after(session, seconds, ok)`; `None` without listeners.
    before: Option<Py<PyAny>>,
    after: Option<Py<PyAny>>,
    /// `batch()` gives `(batch_size, queue_depth)` of the batch that the caller is in, or `None`.
    batch: Py<PyAny>,
}

/// Sets the Python callbacks.
#[pyfunction]
pub fn set_hooks(attach: Py<PyAny>, batch: Py<PyAny>, before: Option<Py<PyAny>>, after: Option<Py<PyAny>>) {
    let has_hooks = before.is_some() || after.is_some();
    let hooks = Hooks { attach, before, after, batch };
    let old = HOOKS.lock().unwrap_or_else(PoisonError::into_inner).replace(hooks);
    HOT.has_hooks.store(has_hooks, Ordering::Release);
    drop(old);
}

/// The number of open batches: the caller's batch is queried only if there are any.
#[pyfunction]
pub fn set_batch_source(open: u32) {
    HOT.open_batches.store(open, Ordering::Release);
}

/// Runs Python's part. Whatever goes wrong there is reported as unraisable and never reaches the caller's run.
pub fn in_python(work: impl FnOnce(Python<'_>) -> PyResult<()>) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        Python::attach(|py| {
            if let Err(error) = work(py) {
                error.write_unraisable(py, None);
            }
        });
    }));
    // A panic has printed its message; it cannot be passed on.
    drop(outcome);
}

/// A hook as a reference of its own: it may be replaced while it runs.
fn hook(py: Python<'_>, pick: impl FnOnce(&Hooks) -> Option<&Py<PyAny>>) -> Option<Py<PyAny>> {
    let hooks = HOOKS.lock().unwrap_or_else(PoisonError::into_inner);
    hooks.as_ref().and_then(pick).map(|hook| hook.clone_ref(py))
}

/// # Safety
/// `object` is valid and the GIL is held.
pub unsafe fn borrowed<'py>(py: Python<'py>, object: *mut ffi::PyObject) -> Bound<'py, PyAny> {
    // SAFETY: the caller's.
    unsafe { Bound::from_borrowed_ptr(py, object) }
}

#[cold]
pub unsafe fn attach(session: *mut ffi::PyObject) {
    in_python(|py| {
        // SAFETY: as in `unusual`.
        let session = unsafe { borrowed(py, session) };
        hook(py, |hooks| Some(&hooks.attach)).map_or(Ok(()), |attach| attach.call1(py, (session,)).map(drop))
    });
}

#[cold]
pub unsafe fn before_in_python(session: *mut ffi::PyObject, context: &mut Context) {
    in_python(|py| {
        if HOT.open_batches.load(Ordering::Relaxed) > 0
            && let Some(batch) = hook(py, |hooks| Some(&hooks.batch))
        {
            let batch: Option<(u32, Option<u32>)> = batch.call0(py)?.extract(py)?;
            if let Some((batch_size, queue_depth)) = batch {
                *context = Context { batch_size, queue_depth, ..*context };
            }
        }
        // SAFETY: as in `unusual`.
        let session = unsafe { borrowed(py, session) };
        hook(py, |hooks| hooks.before.as_ref())
            .map_or(Ok(()), |before| before.call1(py, (session,)).map(drop))
    });
}

/// Hooks run after a failed inference too; its exception waits meanwhile.
#[cold]
pub unsafe fn after_in_python(session: *mut ffi::PyObject, nanos: u64, ok: bool) {
    keeping_exception(|| {
        in_python(|py| {
            // SAFETY: as in `unusual`.
            let session = unsafe { borrowed(py, session) };
            let seconds = nanos as f64 / 1e9;
            hook(py, |hooks| hooks.after.as_ref())
                .map_or(Ok(()), |after| after.call1(py, (session, seconds, ok)).map(drop))
        });
    });
}

/// Reports the type of the exception that is passed to the caller, which is not changed.
///
/// # Safety
/// `raised` is a valid type that lives as long as this call, or null, and the GIL is held.
#[cold]
pub unsafe fn report_error(probe: &Probe, sequence: u64, timestamp_ns: u64, raised: *mut ffi::PyObject) {
    if raised.is_null() {
        return;
    }
    // SAFETY: the caller's; the reference is given back below.
    unsafe { ffi::Py_INCREF(raised) };
    keeping_exception(|| {
        in_python(|py| {
            // SAFETY: a valid type, kept by the reference taken above.
            let name = unsafe { borrowed(py, raised) }.getattr("__name__")?.extract()?;
            probe.report_error(py, sequence, timestamp_ns, name);
            Ok(())
        });
    });
    // SAFETY: taken above.
    unsafe { ffi::Py_DECREF(raised) };
}

/// Does something while the exception that is set, if any, is put aside.
pub fn keeping_exception(work: impl FnOnce()) {
    let (mut kind, mut value, mut trace) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the GIL is held; the fetched exception is restored as it was, references included.
    unsafe { ffi::PyErr_Fetch(&raw mut kind, &raw mut value, &raw mut trace) };
    work();
    // SAFETY: as above.
    unsafe { ffi::PyErr_Restore(kind, value, trace) };
}
