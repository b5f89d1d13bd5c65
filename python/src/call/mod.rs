//! The native wrappers of ONNX Runtime's `run` methods.
//!
//! Each is a native method that calls ONNX Runtime's own with the same arguments ([`running`]). A run with more than
//! its times to record is passed to [`unusual`] ([`detailed_run`]), and so are all Python callbacks ([`hooks`]). The
//! exception of a failed run passes through untouched.
#![expect(unsafe_code, reason = "speaks the interpreter's calling convention")]

mod arguments;
mod detailed_run;
pub mod hooks;
pub mod hot;
mod running;
pub mod session_counters;

use std::ffi::{CString, c_int};
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::probe::Probe;
use crate::{ndarray, symbols};
use arguments::{Arguments, invoke};
use detailed_run::monitored;
use hooks::attach;
use hot::{HOT, METHODS, SLOTS};

type Method = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    isize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// The calling conventions since Python 3.7; the stable interface names them from 3.10 on.
const METH_FASTCALL: c_int = 0x0080;
const METH_KEYWORDS: c_int = 0x0002;

/// Looks up what the hot path needs; called once when the module is loaded.
pub fn prepare(py: Python<'_>) {
    if let Some(address) = symbols::find(py, "PyObject_Vectorcall") {
        HOT.vectorcall.store(address.cast_mut(), Ordering::Release);
    }
    symbols::at_fork_in_child(forget_ring);
    // Kept for ever: both are as old as the module.
    HOT.probe_name.store(pyo3::intern!(py, "_ortscope_probe").clone().into_ptr(), Ordering::Release);
    HOT.probe_type.store(py.get_type::<Probe>().into_ptr().cast(), Ordering::Release);
}

/// In a child of `fork`, before anything else of it runs.
extern "C" fn forget_ring() {
    HOT.forget_ring();
}

/// Creates the replacement of a session's method `name`: a native method that calls `original`. `derived`
/// distinguishes our own class from ONNX Runtime's; `text` is its documentation, with the signature as the
/// interpreter reads it.
///
/// Created by hand, because PyO3 packs arguments into a tuple with the stable interface of 3.8. It accepts any
/// object: ONNX Runtime rejects those that are not sessions.
#[pyfunction]
pub fn method<'py>(
    py: Python<'py>,
    name: &str,
    original: &Bound<'py, PyAny>,
    derived: bool,
    text: &str,
) -> PyResult<Bound<'py, PyAny>> {
    ndarray::learn(py);
    let Some(kind) = METHODS.iter().position(|known| *known == name) else {
        return Err(PyValueError::new_err(format!("{name} is not a method that can be monitored")));
    };
    let slot = kind + if derived { METHODS.len() } else { 0 };
    let terminated =
        |text: &str| CString::new(text).map_err(|error| PyValueError::new_err(error.to_string()));
    let (name, text) = (terminated(name)?, terminated(text)?);
    HOT.forget_probes();
    let before = HOT.originals[slot].swap(original.clone().into_ptr(), Ordering::AcqRel);
    // Another thread may be inside the old one, so its reference is never released.
    let _ = before;
    // SAFETY: with the flags below the interpreter calls the pointer with exactly the arguments of its type.
    let function = unsafe { std::mem::transmute::<Method, ffi::PyCFunction>(SLOT_METHODS[slot]) };
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: METH_FASTCALL | METH_KEYWORDS,
        ml_doc: text.into_raw(),
    }));
    // SAFETY: the definition and its texts live for ever; an error is set where null is returned.
    unsafe {
        let object = &raw mut ffi::PyBaseObject_Type;
        Bound::from_owned_ptr_or_err(py, ffi::PyDescr_NewMethod(object, definition))
    }
}

const SLOT_METHODS: [Method; SLOTS] = [
    running::method::<0>,
    running::method::<1>,
    running::method::<2>,
    running::method::<3>,
    running::method::<4>,
    running::method::<5>,
    running::method::<6>,
    running::method::<7>,
];

/// ONNX Runtime's own method with these arguments, recorded with all details.
///
/// # Safety
/// The GIL is held, and everything is valid for the length of this call.
#[cold]
unsafe fn unusual<const SLOT: usize>(arguments: Arguments) -> *mut ffi::PyObject {
    let original = HOT.originals[SLOT].load(Ordering::Relaxed);
    // SAFETY: the caller's.
    unsafe {
        if !HOT.is_recording() && !HOT.has_hooks.load(Ordering::Relaxed) {
            return invoke(original, arguments);
        }
        let Some(held) = probe_of(arguments.session) else {
            return invoke(original, arguments);
        };
        // The session may lose its probe while it runs; this reference keeps it.
        let result = monitored::<SLOT>(&*held.probe, original, arguments);
        ffi::Py_DECREF(held.object);
        result
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
    // SAFETY: valid objects and the GIL, as in `unusual`; only an object of exactly the probe's type is taken for one.
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
