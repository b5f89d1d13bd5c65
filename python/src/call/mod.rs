//! The wrappers of ONNX Runtime's `run` methods, as far as they are native.
//!
//! A wrapper is a function in Python (`ortscope._wrappers`) that calls ONNX Runtime's own method with the very same
//! arguments, and ours before and behind it ([`running`]). A run about which there is more to tell than its times is
//! handed to [`unusual`] as a whole ([`telling`]), and so is everything that Python has to do with it ([`hooks`]). The
//! exception of a failed run passes through untouched.
#![expect(unsafe_code, reason = "speaks the interpreter's calling convention")]

mod arguments;
pub mod hooks;
pub mod hot;
mod running;
pub mod seats;
mod telling;

use std::ffi::{CString, c_int};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

use crate::probe::Probe;
use crate::{ndarray, symbols};
use arguments::{Arguments, invoke};
use hooks::attach;
use hot::{HOT, METHODS, SLOTS};
use telling::monitored;

type FastCall =
    unsafe extern "C" fn(*mut ffi::PyObject, *const *mut ffi::PyObject, isize) -> *mut ffi::PyObject;
type FastCallWithKeywords = unsafe extern "C" fn(
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

/// A built-in function. Made by hand, because PyO3 packs arguments into a tuple where the stable interface is that of 3.8.
fn builtin<'py>(
    py: Python<'py>,
    name: &str,
    function: ffi::PyCFunction,
    flags: c_int,
) -> PyResult<Bound<'py, PyAny>> {
    let name = CString::new(name).map_err(|error| PyValueError::new_err(error.to_string()))?;
    let definition = Box::leak(Box::new(ffi::PyMethodDef {
        ml_name: name.into_raw(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: function },
        ml_flags: flags,
        ml_doc: std::ptr::null(),
    }));
    // SAFETY: the definition lives for ever; an error is set where null is returned.
    unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyCFunction_NewEx(definition, null_mut(), null_mut())) }
}

/// What a wrapper of the method `name` calls, instead of or around `original`: `begin`, `end`, `failed` and `unusual`.
/// `derived` tells our own class from ONNX Runtime's.
#[pyfunction]
pub fn wrapping<'py>(
    py: Python<'py>,
    name: &str,
    original: &Bound<'py, PyAny>,
    derived: bool,
) -> PyResult<[Bound<'py, PyAny>; 4]> {
    ndarray::learn(py);
    let Some(kind) = METHODS.iter().position(|known| *known == name) else {
        return Err(PyValueError::new_err(format!("{name} is not a method that can be monitored")));
    };
    let slot = kind + if derived { METHODS.len() } else { 0 };
    HOT.forget_probes();
    let before = HOT.originals[slot].swap(original.clone().into_ptr(), Ordering::AcqRel);
    // Another thread may be inside of the old one: its reference is never given back.
    let _ = before;
    // Only runs with a feed can be profiled.
    let begin: FastCall = if kind == 0 { running::begin } else { running::begin_unprofiled };
    // SAFETY: with the flags below the interpreter calls the pointers with exactly the arguments of their types.
    let (begin, end, failed, unusual) = unsafe {
        (
            std::mem::transmute::<FastCall, ffi::PyCFunction>(begin),
            std::mem::transmute::<FastCall, ffi::PyCFunction>(running::end),
            std::mem::transmute::<FastCall, ffi::PyCFunction>(running::failed),
            std::mem::transmute::<FastCallWithKeywords, ffi::PyCFunction>(UNUSUAL[slot]),
        )
    };
    Ok([
        builtin(py, "begin", begin, METH_FASTCALL)?,
        builtin(py, "end", end, METH_FASTCALL)?,
        builtin(py, "failed", failed, METH_FASTCALL)?,
        builtin(py, name, unusual, METH_FASTCALL | METH_KEYWORDS)?,
    ])
}

const UNUSUAL: [FastCallWithKeywords; SLOTS] = [
    unusual::<0>,
    unusual::<1>,
    unusual::<2>,
    unusual::<3>,
    unusual::<4>,
    unusual::<5>,
    unusual::<6>,
    unusual::<7>,
];

/// `unusual(session, …)`: ONNX Runtime's own method with these arguments, and all that there is to tell about the run.
///
/// # Safety
/// Called by the interpreter with METH_FASTCALL | METH_KEYWORDS, so with the GIL held and valid objects.
unsafe extern "C" fn unusual<const SLOT: usize>(
    _module: *mut ffi::PyObject,
    values: *const *mut ffi::PyObject,
    positional: isize,
    keywords: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: everything is valid for the length of this call, by the contract of this function.
    unsafe {
        if positional < 1 {
            ffi::PyErr_SetString(ffi::PyExc_TypeError, c"a session is needed".as_ptr());
            return null_mut();
        }
        let arguments = Arguments {
            session: *values,
            values: values.add(1),
            positional: positional as usize - 1,
            keywords,
        };
        let original = HOT.originals[SLOT].load(Ordering::Relaxed);
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
