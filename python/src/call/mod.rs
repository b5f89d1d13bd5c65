//! The hot path: method descriptors that stand in for the `run` methods of ONNX Runtime's session class.
//!
//! A descriptor made by `PyDescr_NewMethod` is what C types have for methods: the interpreter calls it without making a
//! bound method and without packing arguments. It times ONNX Runtime's own method, which it calls with the very same
//! arguments ([`arguments`]), and hands the times to the session's probe. A run about which there is more to tell than
//! its times leaves the hot path ([`telling`]), and so does everything that Python has to do with it ([`hooks`]). The
//! exception of a failed run passes through untouched.
#![expect(unsafe_code, reason = "speaks the interpreter's calling convention")]

mod arguments;
pub mod hooks;
pub mod hot;
mod telling;

use std::ffi::{CString, c_int};
use std::sync::atomic::Ordering;

use ortscope_core::clock::now_nanos;
use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use crate::probe::{Context, Probe};
use crate::{ndarray, symbols};
use arguments::{Arguments, argument, invoke};
use hooks::{attach, keeping_exception, tell_error};
use hot::{HOT, METHODS, SLOTS};
use telling::monitored;

type FastCall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    isize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The calling convention since Python 3.7; the stable interface names it from 3.10 on.
const METH_FASTCALL: c_int = 0x0080;
const METH_KEYWORDS: c_int = 0x0002;

/// Looks up what the hot path needs; called once when the module is loaded.
pub fn prepare(py: Python<'_>) {
    if let Some(address) = symbols::find(py, "PyObject_Vectorcall") {
        HOT.vectorcall.store(address.cast_mut(), Ordering::Release);
    }
    // Kept for ever: both are as old as the module.
    HOT.probe_name.store(pyo3::intern!(py, "_ortscope_probe").clone().into_ptr(), Ordering::Release);
    HOT.probe_type.store(py.get_type::<Probe>().into_ptr().cast(), Ordering::Release);
}

/// A descriptor for `owner.name` that calls `original`. `derived` tells our own class from ONNX Runtime's.
#[pyfunction]
pub fn method<'py>(
    owner: &Bound<'py, PyType>,
    name: &str,
    original: &Bound<'py, PyAny>,
    signature: &str,
    derived: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = owner.py();
    ndarray::learn(py);
    let Some(kind) = METHODS.iter().position(|known| *known == name) else {
        return Err(PyValueError::new_err(format!("{name} is not a method that can be monitored")));
    };
    let slot = kind + if derived { METHODS.len() } else { 0 };
    HOT.forget_probes();
    let before = HOT.originals[slot].swap(original.clone().into_ptr(), Ordering::AcqRel);
    // Another thread may be inside of the old one: its reference is never given back.
    let _ = before;
    let text = |text: String| CString::new(text).map_err(|error| PyValueError::new_err(error.to_string()));
    let doc = original.getattr("__doc__").and_then(|doc| doc.extract::<String>()).unwrap_or_default();
    // SAFETY: with the flags below the interpreter calls the pointer with exactly the arguments of `FastCall`.
    let entry = unsafe { std::mem::transmute::<FastCall, ffi::PyCFunction>(ENTRIES[slot]) };
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: text(name.to_owned())?.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: entry },
        ml_flags: METH_FASTCALL | METH_KEYWORDS,
        ml_doc: text(format!("{name}{signature}\n--\n\n{doc}").replace('\0', " "))?.into_raw(),
    }));
    // SAFETY: the type is valid, the definition lives for ever; an error is set where null is returned.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(owner.as_ptr().cast(), definition)) }
}

const ENTRIES: [FastCall; SLOTS] =
    [entry::<0>, entry::<1>, entry::<2>, entry::<3>, entry::<4>, entry::<5>, entry::<6>, entry::<7>];

/// # Safety
/// Called by the interpreter as a method with METH_FASTCALL | METH_KEYWORDS, so with the GIL held and valid objects.
unsafe extern "C" fn entry<const SLOT: usize>(
    session: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: isize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    let arguments = Arguments { session, values, positional: positional as usize, keywords };
    // SAFETY: everything is valid for the length of this call, by the contract of this function.
    unsafe {
        let original = HOT.originals[SLOT].load(Ordering::Relaxed);
        if !HOT.is_recording() && !HOT.has_hooks.load(Ordering::Relaxed) {
            return invoke(original, arguments);
        }
        let probe = HOT.probe_of(session);
        if !probe.is_null()
            && let Some(batch_size) = plain_run::<SLOT>(probe, arguments)
        {
            return measured(probe, batch_size, original, arguments);
        }
        let Some(held) = probe_of(session) else {
            return invoke(original, arguments);
        };
        // The session may lose its probe while it runs; this reference keeps it.
        let result = monitored::<SLOT>(&*held.probe, original, arguments);
        ffi::Py_DECREF(held.object);
        result
    }
}

/// The batch size of a run about which nothing but its times is to be told: no new shapes, no listeners, no profile.
#[inline]
unsafe fn plain_run<const SLOT: usize>(probe: *const Probe, arguments: Arguments) -> Option<u32> {
    if HOT.has_hooks.load(Ordering::Relaxed) || HOT.open_batches.load(Ordering::Relaxed) > 0 {
        return None;
    }
    // SAFETY: as in `entry`; a probe that is known is alive.
    unsafe {
        if !SLOT.is_multiple_of(METHODS.len()) {
            return Some(0);
        }
        let feed = argument(arguments, 1, c"input_feed");
        let batch_size = if feed.is_null() { 0 } else { ndarray::same_shapes(feed, &(*probe).shapes)? };
        (*probe).passes_unprofiled().then_some(batch_size)
    }
}

/// A plain run. No reference is taken: whether the probe has outlived the run is asked behind it.
#[inline]
unsafe fn measured(
    probe: *const Probe,
    batch_size: u32,
    original: *mut ffi::PyObject,
    arguments: Arguments,
) -> *mut ffi::PyObject {
    // SAFETY: as in `entry`; the probe is not touched behind the run unless it is still known, and so alive.
    unsafe {
        let sequence = (*probe).next();
        let start = now_nanos();
        let result = invoke(original, arguments);
        let end = now_nanos();
        let context = Context { batch_size, ..Context::default() };
        if HOT.probe_of(arguments.session) != probe || result.is_null() {
            record_unusual(probe, sequence, (start, end), result.is_null(), context, arguments);
            return result;
        }
        (*probe).record(Python::assume_attached(), sequence, (start, end), true, context);
        result
    }
}

/// The record of a plain run that failed, or whose session was forgotten meanwhile: perhaps it has another probe now.
#[cold]
unsafe fn record_unusual(
    before: *const Probe,
    sequence: u64,
    (start, end): (u64, u64),
    failed: bool,
    context: Context,
    arguments: Arguments,
) {
    let mut held = None;
    // SAFETY: as in `entry`. Looking for the probe may set and clear exceptions, so the one that is set is put aside.
    keeping_exception(|| held = unsafe { probe_of(arguments.session) });
    let Some(held) = held else { return };
    // SAFETY: the reference that was given is given back below.
    unsafe {
        let probe = &*held.probe;
        let sequence = if held.probe == before { sequence } else { probe.next() };
        probe.record(Python::assume_attached(), sequence, (start, end), !failed, context);
        if failed {
            tell_error(probe, sequence, end);
        }
        ffi::Py_DECREF(held.object);
    }
}

/// # Safety
/// `object` is a probe, and the GIL is held.
unsafe fn inside(object: *mut ffi::PyObject) -> *const Probe {
    // SAFETY: the caller's.
    unsafe { Borrowed::from_ptr(Python::assume_attached(), object).cast_unchecked::<Probe>().get() }
}

struct Held {
    object: *mut ffi::PyObject,
    probe: *const Probe,
}

/// The session's probe with a reference to it; a session without one gets one.
#[cold]
unsafe fn probe_of(session: *mut ffi::PyObject) -> Option<Held> {
    // SAFETY: valid objects and the GIL, as in `entry`; only an object of exactly the probe's type is taken for one.
    unsafe {
        let known = HOT.object_of(session);
        if !known.is_null() {
            ffi::Py_INCREF(known);
            return Some(Held { object: known, probe: inside(known) });
        }
        let mut object = ffi::PyObject_GetAttr(session, HOT.probe_name.load(Ordering::Relaxed));
        if object.is_null() {
            ffi::PyErr_Clear();
            attach(session);
            object = ffi::PyObject_GetAttr(session, HOT.probe_name.load(Ordering::Relaxed));
            if object.is_null() {
                ffi::PyErr_Clear();
                return None;
            }
        }
        if ffi::Py_TYPE(object) != HOT.probe_type.load(Ordering::Relaxed) {
            ffi::Py_DECREF(object);
            return None;
        }
        // The reference that was just given is not the only one: the session has its own, and with it the probe lives.
        let probe = inside(object);
        HOT.remember(session, object, probe);
        Some(Held { object, probe })
    }
}
