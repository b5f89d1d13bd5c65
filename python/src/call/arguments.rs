//! The arguments of a call as the interpreter gives them, and as they are passed on.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::Ordering;

use pyo3::ffi;

use super::hot::HOT;

type Vectorcall = unsafe extern "C" fn(
    *mut ffi::PyObject,
    *const *mut ffi::PyObject,
    usize,
    *mut ffi::PyObject,
) -> *mut ffi::PyObject;

/// Arguments that are passed on without an allocation.
const MAX_ARGUMENTS: usize = 12;

/// The arguments of one call, as the interpreter gave them.
#[derive(Clone, Copy)]
pub struct Arguments {
    pub session: *mut ffi::PyObject,
    pub values: *const *mut ffi::PyObject,
    pub positional: usize,
    pub keywords: *mut ffi::PyObject,
}

/// An argument by its position or name; null if it was not given. The reference is the caller's.
#[inline]
pub unsafe fn argument(arguments: Arguments, position: usize, name: &CStr) -> *mut ffi::PyObject {
    // SAFETY: the interpreter gives `positional` values and, behind them, one for each name in `keywords`.
    unsafe {
        if position < arguments.positional {
            return *arguments.values.add(position);
        }
        if arguments.keywords.is_null() {
            return null_mut();
        }
        for index in 0..ffi::PyTuple_Size(arguments.keywords) {
            let key = ffi::PyTuple_GetItem(arguments.keywords, index);
            if !key.is_null() && ffi::PyUnicode_CompareWithASCIIString(key, name.as_ptr()) == 0 {
                return *arguments.values.add(arguments.positional + index as usize);
            }
        }
        null_mut()
    }
}

/// Calls ONNX Runtime's own method with the arguments as they came.
#[inline]
pub unsafe fn invoke(original: *mut ffi::PyObject, arguments: Arguments) -> *mut ffi::PyObject {
    // SAFETY: the array contains the session and then the values in the order of the calling convention; the pointer
    // was looked up under the name of a function of this type.
    unsafe {
        let named =
            if arguments.keywords.is_null() { 0 } else { ffi::PyTuple_Size(arguments.keywords) as usize };
        let given = arguments.positional + named;
        let vectorcall = HOT.vectorcall.load(Ordering::Relaxed);
        if vectorcall.is_null() || given >= MAX_ARGUMENTS {
            return invoke_packed(original, arguments, named);
        }
        let vectorcall = std::mem::transmute::<*mut c_void, Vectorcall>(vectorcall);
        if given == 2 {
            // As most call it: `run(None, feed)`. To copy as many as there are is a call and a loop of its own.
            let row = [arguments.session, *arguments.values, *arguments.values.add(1)];
            return vectorcall(original, row.as_ptr(), arguments.positional + 1, arguments.keywords);
        }
        let mut row = [null_mut(); MAX_ARGUMENTS];
        row[0] = arguments.session;
        std::ptr::copy_nonoverlapping(arguments.values, row.as_mut_ptr().add(1), given);
        vectorcall(original, row.as_ptr(), arguments.positional + 1, arguments.keywords)
    }
}

/// The same with a tuple and a dictionary: Python 3.8, and calls with absurdly many arguments.
#[cold]
unsafe fn invoke_packed(
    original: *mut ffi::PyObject,
    arguments: Arguments,
    named: usize,
) -> *mut ffi::PyObject {
    // SAFETY: as in `invoke`; SetItem takes over the reference that is made for it, SetItem of a dictionary does not.
    unsafe {
        let tuple = ffi::PyTuple_New(arguments.positional as isize + 1);
        if tuple.is_null() {
            return null_mut();
        }
        ffi::Py_INCREF(arguments.session);
        ffi::PyTuple_SetItem(tuple, 0, arguments.session);
        for index in 0..arguments.positional {
            let value = *arguments.values.add(index);
            ffi::Py_INCREF(value);
            ffi::PyTuple_SetItem(tuple, index as isize + 1, value);
        }
        let mut dictionary = null_mut();
        if named > 0 {
            dictionary = ffi::PyDict_New();
            for index in 0..named {
                let key = ffi::PyTuple_GetItem(arguments.keywords, index as isize);
                ffi::PyDict_SetItem(dictionary, key, *arguments.values.add(arguments.positional + index));
            }
        }
        let result = ffi::PyObject_Call(original, tuple, dictionary);
        ffi::Py_DECREF(tuple);
        ffi::Py_XDECREF(dictionary);
        result
    }
}
