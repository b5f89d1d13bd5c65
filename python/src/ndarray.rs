//! Shapes of numpy arrays, read where they stand: asking Python for `array.shape` costs more than all the rest.
//!
//! The head of an array (data, number of dimensions, dimensions) has been the same since numpy 1.7 and is part of
//! numpy's binary interface. It is compared with what Python says once, before it is trusted; where it differs, shapes
//! are read through Python.
#![expect(unsafe_code, reason = "reads the head of numpy's array object")]

use std::sync::atomic::{AtomicPtr, Ordering};

use ortscope_sources::programs::NamedShape;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Numbers that a set of shapes is remembered by; more are cut off, which can only hide a change.
const MOST_NUMBERS: usize = 64;
/// No array has more dimensions (numpy 2; numpy 1 has 32).
const MOST_DIMENSIONS: i32 = 64;
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

/// `numpy.ndarray`, once its layout was found to be the known one.
static ARRAY_TYPE: AtomicPtr<ffi::PyTypeObject> = AtomicPtr::new(std::ptr::null_mut());

/// Checks the layout with an array that it makes. Without numpy nothing happens.
pub fn learn(py: Python<'_>) {
    if !ARRAY_TYPE.load(Ordering::Relaxed).is_null() {
        return;
    }
    let check = || -> PyResult<Option<*mut ffi::PyTypeObject>> {
        let numpy = py.import("numpy")?;
        let array = numpy.call_method1("empty", ((2, 3, 5, 7),))?;
        let array_type = numpy.getattr("ndarray")?;
        let pointer = array_type.as_ptr().cast::<ffi::PyTypeObject>();
        // SAFETY: an array object is far larger than the head read here; nothing is followed before the number of
        // dimensions is what was asked for and the pointer is not null.
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
        ARRAY_TYPE.store(pointer, Ordering::Release);
    }
}

/// The shapes of the values of a feed: for each value the number of its dimensions and their sizes.
#[derive(Debug)]
pub struct Shapes {
    numbers: [i64; MOST_NUMBERS],
    used: usize,
}

impl Shapes {
    /// # Safety
    /// `feed` is a valid object and the GIL is held. Runs no Python code and keeps no reference.
    #[inline]
    pub unsafe fn of(feed: *mut ffi::PyObject) -> Self {
        let mut shapes = Self { numbers: [0; MOST_NUMBERS], used: 0 };
        let array_type = ARRAY_TYPE.load(Ordering::Acquire);
        // SAFETY: the caller's; the dictionary cannot change meanwhile, because nothing here runs Python code.
        unsafe {
            if ffi::PyDict_Check(feed) == 0 {
                return shapes;
            }
            let (mut position, mut key, mut value) = (0, std::ptr::null_mut(), std::ptr::null_mut());
            while ffi::PyDict_Next(feed, &raw mut position, &raw mut key, &raw mut value) != 0 {
                shapes.add(sizes(value, array_type));
            }
        }
        shapes
    }

    #[inline]
    fn add(&mut self, sizes: Option<&[isize]>) {
        let Some(sizes) = sizes else {
            self.push(UNKNOWN);
            return;
        };
        self.push(sizes.len() as i64);
        for size in sizes {
            self.push(*size as i64);
        }
    }

    #[inline]
    fn push(&mut self, number: i64) {
        if let Some(slot) = self.numbers.get_mut(self.used) {
            *slot = number;
            self.used += 1;
        }
    }

    #[inline]
    pub fn code(&self) -> &[i64] {
        &self.numbers[..self.used]
    }

    /// The first dimension of the first input; 0 if it has none.
    #[inline]
    pub fn batch_size(&self) -> u32 {
        match self.code() {
            [dimensions, first, ..] if *dimensions >= 1 => u32::try_from(*first).unwrap_or(0),
            _ => 0,
        }
    }
}

/// # Safety
/// `value` is a valid object; `array_type` is null or the type whose layout was checked.
#[inline]
unsafe fn sizes<'a>(value: *mut ffi::PyObject, array_type: *mut ffi::PyTypeObject) -> Option<&'a [isize]> {
    // SAFETY: only objects of exactly the checked type are looked into; numpy keeps `sizes` valid for `dimensions`
    // entries as long as the object lives, which is longer than the caller looks at them.
    unsafe {
        if array_type.is_null() || ffi::Py_TYPE(value) != array_type {
            return None;
        }
        let head = &*value.cast::<ArrayHead>();
        match head.dimensions {
            0 => Some(&[]),
            1..=MOST_DIMENSIONS if !head.sizes.is_null() => {
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
