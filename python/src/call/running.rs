//! Plain runs: those about which nothing but times and shapes is to be told, which are nearly all.
//!
//! The wrapper in Python calls [`begin`], ONNX Runtime's own method and [`end`]. It is a function in Python and not one of
//! ours around the call, because the interpreter goes from one Python function to the next without leaving its loop; a
//! call through native code starts the loop anew.
//!
//! A model pushes everything else out of the caches, so that not instructions count but how much memory they reach for.
//! Therefore nothing is done before a run that can be done behind it: [`begin`] looks at two lines of [`HOT`] and at the
//! clock, and the inputs are looked at when ONNX Runtime has just done so.

use std::ptr::null_mut;

use ortscope_channel::fetch_for_write;
use ortscope_core::clock::now_nanos;
use pyo3::ffi;
use pyo3::prelude::*;

use super::hooks::{keeping_exception, tell_error};
use super::hot::HOT;
use super::probe_of;
use super::telling::new_shapes;
use crate::ndarray;
use crate::probe::{Context, Probe};

/// `begin(session)`: the time, or `None` if the run is not a plain one.
///
/// # Safety
/// Called by the interpreter with METH_O, so with the GIL held and a valid object.
pub unsafe extern "C" fn begin(
    _module: *mut ffi::PyObject,
    session: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function.
    unsafe {
        if HOT.has_plain_runs() && HOT.passes_plainly(session) {
            ffi::PyLong_FromUnsignedLongLong(now_nanos())
        } else {
            none()
        }
    }
}

/// `begin(session)` of a method whose runs are never profiled.
///
/// # Safety
/// As for [`begin`].
pub unsafe extern "C" fn begin_unprofiled(
    _module: *mut ffi::PyObject,
    session: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function.
    unsafe {
        if HOT.has_plain_runs() && !HOT.probe_of(session).is_null() {
            ffi::PyLong_FromUnsignedLongLong(now_nanos())
        } else {
            none()
        }
    }
}

/// `end(session, start)` or `end(session, start, input_feed)`: the run succeeded.
///
/// # Safety
/// Called by the interpreter with METH_FASTCALL, so with the GIL held and `count` valid objects.
pub unsafe extern "C" fn end(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    let now = now_nanos();
    fetch_for_write();
    // SAFETY: by the contract of this function; a probe that is known is alive.
    unsafe {
        if !(2..=3).contains(&count) {
            return wrong_call();
        }
        let nanos = (ffi::PyLong_AsUnsignedLongLong(*values.add(1)), now);
        let feed = if count == 3 { *values.add(2) } else { null_mut() };
        let probe = HOT.probe_of(*values);
        if probe.is_null() {
            record_unknown(*values, feed, nanos, null_mut());
        } else {
            record(&*probe, feed, nanos, null_mut());
        }
        none()
    }
}

/// `failed(session, start, exception)` or `failed(session, start, exception, input_feed)`: the run raised.
///
/// # Safety
/// As for [`end`].
pub unsafe extern "C" fn failed(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    let now = now_nanos();
    // SAFETY: by the contract of this function.
    unsafe {
        if !(3..=4).contains(&count) {
            return wrong_call();
        }
        let nanos = (ffi::PyLong_AsUnsignedLongLong(*values.add(1)), now);
        let feed = if count == 4 { *values.add(3) } else { null_mut() };
        record_unknown(*values, feed, nanos, ffi::Py_TYPE(*values.add(2)).cast());
        none()
    }
}

/// Writes the record. `feed` may be null; `raised` is the type of the run's exception, null if it had none.
#[inline]
unsafe fn record(probe: &Probe, feed: *mut ffi::PyObject, nanos: (u64, u64), raised: *mut ffi::PyObject) {
    // SAFETY: the callers': valid objects and the GIL.
    unsafe {
        let sequence = probe.next();
        let mut context = Context::default();
        if !feed.is_null() {
            context.batch_size = match ndarray::same_shapes(feed, &probe.shapes) {
                Some(batch_size) => batch_size,
                None => new_shapes(probe, sequence, feed),
            };
        }
        probe.record(Python::assume_attached(), sequence, nanos, raised.is_null(), context);
        if !raised.is_null() {
            tell_error(probe, sequence, nanos.1, raised);
        }
    }
}

/// The same where the session's probe must be asked for: it failed, or was forgotten meanwhile.
#[cold]
unsafe fn record_unknown(
    session: *mut ffi::PyObject,
    feed: *mut ffi::PyObject,
    nanos: (u64, u64),
    raised: *mut ffi::PyObject,
) {
    let mut held = None;
    // SAFETY: the session lives as long as the wrapper that was called with it. Looking for the probe may set and clear
    // exceptions, so one that is set is put aside.
    keeping_exception(|| held = unsafe { probe_of(session) });
    let Some(held) = held else { return };
    // SAFETY: the reference that was given is given back.
    unsafe {
        record(&*held.probe, feed, nanos, raised);
        ffi::Py_DECREF(held.object);
    }
}

#[inline]
unsafe fn none() -> *mut ffi::PyObject {
    // SAFETY: `None` lives for ever; the reference is the caller's.
    unsafe {
        let none = ffi::Py_None();
        ffi::Py_INCREF(none);
        none
    }
}

#[cold]
unsafe fn wrong_call() -> *mut ffi::PyObject {
    // SAFETY: the GIL is held; the text ends with a zero.
    unsafe { ffi::PyErr_SetString(ffi::PyExc_TypeError, c"other arguments are needed".as_ptr()) };
    null_mut()
}
