//! Shapes of numpy arrays, read from memory directly: `array.shape` in Python costs more than everything else.
//!
//! The header of an array (data, number of dimensions, dimensions) has been the same since numpy 1.7 and is part of
//! numpy's binary interface. It is compared with Python's answer once before it is trusted; if it differs, shapes are
//! read through Python.
#![expect(unsafe_code, reason = "reads the head of numpy's array object")]

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use ortscope_sources::programs::NamedShape;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::call::hot::HOT;

/// Numbers that a set of shapes is remembered by; more are cut off, which can only hide a change.
const MAX_NUMBERS: usize = 64;
/// No array has more dimensions (numpy 2; numpy 1 has 32).
const MAX_DIMENSIONS: i32 = 64;
/// Stands for a value whose shape is not read.
const UNKNOWN: i64 = -1;

/// The head of numpy's `PyArrayObject`.
#[repr(C)]
struct ArrayHead {
    object: ffi::PyObject,
    data: *mut u8,
    dimensions: i32,
    sizes: *const isize,
}

/// Checks the layout with an array that it makes. Without numpy nothing happens.
pub fn learn(py: Python<'_>) {
    if !HOT.array_type.load(Ordering::Relaxed).is_null() {
        return;
    }
    let check = || -> PyResult<Option<*mut ffi::PyTypeObject>> {
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("empty", ((2, 3, 5, 7),))?;
        let array_type = numpy.getattr("ndarray")?;
        let pointer = array_type.as_ptr().cast::<ffi::PyTypeObject>();
        // SAFETY: an array object is far larger than the header read here; no pointer is followed before the number
        // of dimensions matches and the pointer is not null.
        let is_known = unsafe {
            let head = &*array.as_ptr().cast::<ArrayHead>();
            array.get_type_ptr() == pointer
                && head.dimensions == 4
                && !head.sizes.is_null()
                && std::slice::from_raw_parts(head.sizes, 4) == [2, 3, 5, 7]
        };
        if is_known {
            // Kept for ever, so that the address cannot become another type's.
            std::mem::forget(array_type);
        }
        Ok(is_known.then_some(pointer))
    };
    if let Ok(Some(pointer)) = check() {
        HOT.array_type.store(pointer, Ordering::Release);
    }
}

/// The shapes that a session had last: for each input the number of its dimensions and their sizes. Only touched with the
/// GIL held, which is why plain loads and stores are enough.
#[derive(Debug)]
pub struct LastShapes {
    used: AtomicUsize,
    numbers: [AtomicI64; MAX_NUMBERS],
}

impl Default for LastShapes {
    fn default() -> Self {
        // No feed has as many numbers: the first one is new.
        let used = AtomicUsize::new(usize::MAX);
        Self { used, numbers: [const { AtomicI64::new(0) }; MAX_NUMBERS] }
    }
}

/// Calls `each` with the numbers that identify a feed until it returns false; returns whether it never did.
///
/// # Safety
/// `feed` is a valid object and the GIL is held. `each` runs no Python code, so that the dictionary does not change.
#[inline]
unsafe fn all_numbers(feed: *mut ffi::PyObject, mut each: impl FnMut(i64) -> bool) -> bool {
    let array_type = HOT.array_type.load(Ordering::Relaxed);
    // SAFETY: the caller's.
    unsafe {
        // The type is compared first: asking for its flags is a call.
        if ffi::Py_TYPE(feed) != &raw mut ffi::PyDict_Type && ffi::PyDict_Check(feed) == 0 {
            return true;
        }
        let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
        while ffi::PyDict_Next(feed, &raw mut position, &raw mut key, &raw mut value) != 0 {
            let same = match sizes(value, array_type) {
                None => each(UNKNOWN),
                Some(sizes) => each(sizes.len() as i64) && sizes.iter().all(|size| each(*size as i64)),
            };
            if !same {
                return false;
            }
        }
    }
    true
}

/// Whether the shapes of a feed are those of last time.
///
/// # Safety
/// `feed` is a valid object and the GIL is held. Runs no Python code and keeps no reference.
#[inline]
pub unsafe fn same_shapes(feed: *mut ffi::PyObject, last: &LastShapes) -> bool {
    let mut position = 0;
    // SAFETY: the caller's.
    let same = unsafe {
        all_numbers(feed, |number| {
            let known = last.numbers.get(position);
            position += 1;
            known.is_none_or(|known| known.load(Ordering::Relaxed) == number)
        })
    };
    same && position.min(MAX_NUMBERS) == last.used.load(Ordering::Relaxed)
}

/// Remembers the shapes of a feed. Gives its batch size: the first dimension of the first input, 0 if it has none.
///
/// # Safety
/// As for [`same_shapes`].
pub unsafe fn remember(feed: *mut ffi::PyObject, last: &LastShapes) -> u32 {
    let mut used = 0;
    // SAFETY: the caller's.
    unsafe {
        all_numbers(feed, |number| {
            if let Some(slot) = last.numbers.get(used) {
                slot.store(number, Ordering::Relaxed);
                used += 1;
            }
            true
        });
    }
    let number = |at: usize| if at < used { last.numbers[at].load(Ordering::Relaxed) } else { 0 };
    last.used.store(used, Ordering::Relaxed);
    if number(0) >= 1 { u32::try_from(number(1)).unwrap_or(0) } else { 0 }
}

/// # Safety
/// `value` is a valid object; `array_type` is null or the type whose layout was checked.
#[inline]
unsafe fn sizes<'a>(value: *mut ffi::PyObject, array_type: *mut ffi::PyTypeObject) -> Option<&'a [isize]> {
    // SAFETY: only objects of exactly the checked type are read; numpy keeps `sizes` valid for `dimensions` entries
    // as long as the object lives, which is longer than the caller uses them.
    unsafe {
        if array_type.is_null() || ffi::Py_TYPE(value) != array_type {
            return None;
        }
        let head = &*value.cast::<ArrayHead>();
        match head.dimensions {
            0 => Some(&[]),
            1..=MAX_DIMENSIONS if !head.sizes.is_null() => {
                Some(std::slice::from_raw_parts(head.sizes, head.dimensions as usize))
            }
            _ => None,
        }
    }
}

/// The same with names, through Python: for the message when shapes have changed.
pub fn named(feed: &Bound<'_, PyAny>) -> Vec<NamedShape> {
    let Ok(feed) = feed.cast::<PyDict>() else { return Vec::new() };
    feed.iter()
        .map(|(name, value)| NamedShape {
            name: name.extract().unwrap_or_default(),
            dims: value.getattr("shape").and_then(|shape| shape.extract()).ok(),
        })
        .collect()
}
