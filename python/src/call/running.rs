//! Plain runs: those about which nothing but times and shapes is to be told, which are nearly all.
//!
//! The wrapper in Python calls [`begin`], ONNX Runtime's own method and [`end`]. It is a function in Python and not one of
//! ours around the call, because the interpreter goes from one Python function to the next without leaving its loop; a
//! call through native code starts the loop anew.
//!
//! A model pushes everything else out of the caches, so that not instructions count but how much memory they reach for.
//! Therefore [`begin`] looks at the inputs, which ONNX Runtime fetches next in any case, and [`end`] does not; and what
//! [`end`] needs stands in as few lines of the cache as it can: two of [`HOT`], one each of the channel's writer, of the
//! ring's and of the ring. The probe is not among them: a session's counters have a seat in [`HOT`].

use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use ortscope_core::clock::now_nanos;
use pyo3::ffi;
use pyo3::prelude::*;

use super::hooks::{keeping_exception, tell_error};
use super::hot::HOT;
use super::probe_of;
use super::seats::Seat;
use super::telling::batch_size_of;
use crate::ndarray;
use crate::probe::Probe;

/// When a run began, and whether it had the shapes that were remembered then: what `begin` gives to `end` through the
/// wrapper, as one number. Shapes that have been remembered since before the run are its own: the clock tells, where a count of
/// changes would need room.
#[derive(Clone, Copy)]
struct Beginning {
    start_nanos: u64,
    has_known_shapes: bool,
}

impl Beginning {
    /// The lowest bit tells the shapes. With it and the nanoseconds of 18 years a number of Python has two digits.
    fn to_number(self) -> u64 {
        self.start_nanos << 1 | u64::from(self.has_known_shapes)
    }

    fn from_number(number: u64) -> Self {
        Self { start_nanos: number >> 1, has_known_shapes: number & 1 != 0 }
    }

    /// Whether the run had the shapes that are remembered now.
    fn has_shapes_of(self, seat: &Seat) -> bool {
        self.has_known_shapes && seat.has_shapes_since(self.start_nanos)
    }
}

/// `begin(session, input_feed)`: the beginning, or `None` if the run is not a plain one.
///
/// # Safety
/// Called by the interpreter with METH_FASTCALL, so with the GIL held and `count` valid objects.
pub unsafe extern "C" fn begin(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function; a probe that is known is alive.
    unsafe {
        if count != 2 {
            return wrong_call();
        }
        // In this order: the second counts the run.
        if !HOT.has_plain_runs() {
            return none();
        }
        let probe = HOT.probe_of_plain_run(*values);
        if probe.is_null() {
            return none();
        }
        // In this order: shapes that change afterwards do so later than the run began.
        let has_known_shapes = ndarray::same_shapes(*values.add(1), &(*probe).shapes);
        let beginning = Beginning { start_nanos: now_nanos(), has_known_shapes };
        ffi::PyLong_FromUnsignedLongLong(beginning.to_number())
    }
}

/// `begin(session)` of a method whose runs are never profiled, and whose inputs are not looked at.
///
/// # Safety
/// As for [`begin`].
pub unsafe extern "C" fn begin_unprofiled(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function.
    unsafe {
        if count != 1 {
            return wrong_call();
        }
        if HOT.has_plain_runs() && !HOT.probe_of(*values).is_null() {
            let beginning = Beginning { start_nanos: now_nanos(), has_known_shapes: false };
            ffi::PyLong_FromUnsignedLongLong(beginning.to_number())
        } else {
            none()
        }
    }
}

/// `end(session, beginning)` or `end(session, beginning, input_feed)`: the run succeeded.
///
/// # Safety
/// As for [`begin`].
pub unsafe extern "C" fn end(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    let now = now_nanos();
    HOT.fetch_for_write();
    // SAFETY: by the contract of this function; a probe that is known is alive.
    unsafe {
        if !(2..=3).contains(&count) {
            return wrong_call();
        }
        let beginning = Beginning::from_number(ffi::PyLong_AsUnsignedLongLong(*values.add(1)));
        let nanos = (beginning.start_nanos, now);
        let feed = if count == 3 { *values.add(2) } else { null_mut() };
        match HOT.seat_of(*values) {
            Some(seat) if feed.is_null() => record_plain(seat, nanos, 0),
            Some(seat) if beginning.has_shapes_of(seat) => {
                record_plain(seat, nanos, seat.batch_size.load(Ordering::Relaxed));
            }
            _ => record_unknown(*values, feed, nanos, null_mut()),
        }
        none()
    }
}

/// `failed(session, beginning, exception)` or `failed(session, beginning, exception, input_feed)`: the run raised.
///
/// # Safety
/// As for [`begin`].
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
        let beginning = Beginning::from_number(ffi::PyLong_AsUnsignedLongLong(*values.add(1)));
        let feed = if count == 4 { *values.add(3) } else { null_mut() };
        record_unknown(*values, feed, (beginning.start_nanos, now), ffi::Py_TYPE(*values.add(2)).cast());
        none()
    }
}

#[inline]
fn record_plain(seat: &Seat, nanos: (u64, u64), batch_size: u32) {
    // SAFETY: the caller has the GIL.
    let py = unsafe { Python::assume_attached() };
    seat.record(py, seat.next(), nanos, true, batch_size);
}

/// Writes the record. `feed` may be null; `raised` is the type of the run's exception, null if it had none.
unsafe fn record(probe: &Probe, feed: *mut ffi::PyObject, nanos: (u64, u64), raised: *mut ffi::PyObject) {
    // SAFETY: the callers': valid objects and the GIL.
    unsafe {
        let sequence = probe.next();
        let batch_size = if feed.is_null() { 0 } else { batch_size_of(probe, sequence, feed) };
        probe.seat().record(Python::assume_attached(), sequence, nanos, raised.is_null(), batch_size);
        if !raised.is_null() {
            tell_error(probe, sequence, nanos.1, raised);
        }
    }
}

/// The same where the session's probe must be asked for: the run failed, has other shapes, or the probe was forgotten.
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
