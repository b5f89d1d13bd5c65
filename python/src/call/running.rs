//! Plain runs: those about which nothing but their times is to be told, which are nearly all.
//!
//! The wrapper in Python calls [`begin`], ONNX Runtime's own method and [`end`]. It is a function in Python and not one of
//! ours around the call, because the interpreter goes from one Python function to the next without leaving its loop; a
//! call through native code starts the loop anew, on a stack that a model has just pushed out of the caches, and costs a
//! run of 0.3 ms one percent. What is known of a run waits here meanwhile, in a place whose number is the token that the
//! wrapper carries: a small integer, which Python never allocates.

use std::ffi::c_long;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use ortscope_core::clock::now_nanos;
use pyo3::ffi;
use pyo3::prelude::*;

use super::hooks::{keeping_exception, tell_error};
use super::hot::HOT;
use super::probe_of;
use crate::ndarray;
use crate::probe::{Context, Probe};

/// Plain runs at the same time. One that finds no place is a run with more to tell, which needs none.
const PLACES: usize = u64::BITS as usize;

/// One bit for each place that is free. Like all of this it is only touched with the GIL held, so that plain loads and
/// stores are enough.
static FREE: AtomicU64 = AtomicU64::new(u64::MAX);
static RUNNING: [Running; PLACES] = [const { Running::nothing() }; PLACES];

#[repr(align(64))]
#[derive(Debug)]
struct Running {
    session: AtomicPtr<ffi::PyObject>,
    probe: AtomicPtr<Probe>,
    sequence: AtomicU64,
    start_nanos: AtomicU64,
    batch_size: AtomicU32,
}

impl Running {
    const fn nothing() -> Self {
        Self {
            session: AtomicPtr::new(null_mut()),
            probe: AtomicPtr::new(null_mut()),
            sequence: AtomicU64::new(0),
            start_nanos: AtomicU64::new(0),
            batch_size: AtomicU32::new(0),
        }
    }
}

/// What [`Running`] held.
struct Ended {
    session: *mut ffi::PyObject,
    probe: *const Probe,
    sequence: u64,
    nanos: (u64, u64),
    context: Context,
}

/// In a child of `fork`: the runs of the other threads are not here.
pub fn forget_running(_py: Python<'_>) {
    FREE.store(u64::MAX, Ordering::Relaxed);
}

/// `begin(session, output_names, input_feed)`: a token, or `None` if the run is not a plain one. What the caller of `run`
/// left out is `...`: ONNX Runtime says what is missing.
///
/// # Safety
/// Called by the interpreter with METH_FASTCALL, so with the GIL held and `count` valid objects.
pub unsafe extern "C" fn begin_with_feed(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function.
    unsafe {
        if count != 3 {
            return wrong_call();
        }
        let (session, names, feed) = (*values, *values.add(1), *values.add(2));
        // The type is compared first: asking for its flags is a call.
        let is_feed = ffi::Py_TYPE(feed) == &raw mut ffi::PyDict_Type || ffi::PyDict_Check(feed) != 0;
        if !is_feed || names == ffi::Py_Ellipsis() {
            return none();
        }
        begin(session, feed)
    }
}

/// `begin(session)`: the same for methods whose inputs are not looked at.
///
/// # Safety
/// Called by the interpreter with METH_O, so with the GIL held and a valid object.
pub unsafe extern "C" fn begin_without_feed(
    _module: *mut ffi::PyObject,
    session: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: by the contract of this function.
    unsafe { begin(session, null_mut()) }
}

#[inline]
unsafe fn begin(session: *mut ffi::PyObject, feed: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: the callers'; a probe that is known is alive.
    unsafe {
        let probe = HOT.probe_of(session);
        let free = FREE.load(Ordering::Relaxed);
        if probe.is_null() || free == 0 || !HOT.has_plain_runs() {
            return none();
        }
        let mut batch_size = 0;
        if !feed.is_null() {
            match ndarray::same_shapes(feed, &(*probe).shapes) {
                Some(known) if (*probe).passes_unprofiled() => batch_size = known,
                _ => return none(),
            }
        }
        let place = free.trailing_zeros() as usize;
        let running = &RUNNING[place];
        FREE.store(free & (free - 1), Ordering::Relaxed);
        running.session.store(session, Ordering::Relaxed);
        running.probe.store(probe.cast_mut(), Ordering::Relaxed);
        running.sequence.store((*probe).next(), Ordering::Relaxed);
        running.batch_size.store(batch_size, Ordering::Relaxed);
        let token = ffi::PyLong_FromLong(place as c_long);
        running.start_nanos.store(now_nanos(), Ordering::Relaxed);
        token
    }
}

/// `end(token)`: the run succeeded.
///
/// # Safety
/// Called by the interpreter with METH_O, so with the GIL held and a valid object.
pub unsafe extern "C" fn end(_module: *mut ffi::PyObject, token: *mut ffi::PyObject) -> *mut ffi::PyObject {
    let now = now_nanos();
    // SAFETY: by the contract of this function.
    unsafe {
        if let Some(ended) = take(token, now) {
            // No reference was taken: only a probe that is still known to be the session's is alive for sure.
            if HOT.probe_of(ended.session) == ended.probe {
                let py = Python::assume_attached();
                (*ended.probe).record(py, ended.sequence, ended.nanos, true, ended.context);
            } else {
                record_unusual(&ended, null_mut());
            }
        }
        none()
    }
}

/// `failed(token, exception)`: the run raised.
///
/// # Safety
/// As for [`begin_with_feed`].
pub unsafe extern "C" fn failed(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    count: isize,
) -> *mut ffi::PyObject {
    let now = now_nanos();
    // SAFETY: by the contract of this function.
    unsafe {
        if count != 2 {
            return wrong_call();
        }
        if let Some(ended) = take(*values, now) {
            record_unusual(&ended, ffi::Py_TYPE(*values.add(1)).cast());
        }
        none()
    }
}

/// What is known of the run with this token, whose place is free from now on; `None` for what is no such token.
#[inline]
unsafe fn take(token: *mut ffi::PyObject, now: u64) -> Option<Ended> {
    // SAFETY: the caller's: a valid object. What is no number sets an exception, which is cleared.
    let place = unsafe { ffi::PyLong_AsLong(token) } as usize;
    let free = FREE.load(Ordering::Relaxed);
    let Some(running) = RUNNING.get(place).filter(|_| free & (1 << place) == 0) else {
        // SAFETY: the GIL is held.
        unsafe { ffi::PyErr_Clear() };
        return None;
    };
    FREE.store(free | 1 << place, Ordering::Relaxed);
    Some(Ended {
        session: running.session.load(Ordering::Relaxed),
        probe: running.probe.load(Ordering::Relaxed),
        sequence: running.sequence.load(Ordering::Relaxed),
        nanos: (running.start_nanos.load(Ordering::Relaxed), now),
        context: Context { batch_size: running.batch_size.load(Ordering::Relaxed), ..Context::default() },
    })
}

/// The record of a plain run that failed (`raised` is the type of its exception, else null), or whose session was
/// forgotten meanwhile: perhaps it has another probe now.
#[cold]
unsafe fn record_unusual(ended: &Ended, raised: *mut ffi::PyObject) {
    let mut held = None;
    // SAFETY: the session lives as long as the wrapper that was called with it. Looking for the probe may set and clear
    // exceptions, so one that is set is put aside.
    keeping_exception(|| held = unsafe { probe_of(ended.session) });
    let Some(held) = held else { return };
    // SAFETY: the reference that was given is given back below.
    unsafe {
        let probe = &*held.probe;
        let sequence = if held.probe == ended.probe { ended.sequence } else { probe.next() };
        probe.record(Python::assume_attached(), sequence, ended.nanos, raised.is_null(), ended.context);
        if !raised.is_null() {
            tell_error(probe, sequence, ended.nanos.1, raised);
        }
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
    null::<ffi::PyObject>().cast_mut()
}
