//! Arrow's C data interface, as far as a table needs it: three structures that carry their own release.
//!
//! A consumer copies the structure and clears `release` in the original; an unconsumed structure is released when it
//! is dropped. Columns can be moved out of their table, so each holds a reference to it.
#![expect(unsafe_code, reason = "structures that C code takes over and releases")]

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use ortscope_core::schema::ColumnData;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;
use crate::table::{Form, Packed, PackedColumn};

const NULLABLE: i64 = 2;

#[repr(C)]
struct ArrowSchema {
    format: *const c_char,
    name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    n_children: i64,
    children: *mut *mut ArrowSchema,
    dictionary: *mut ArrowSchema,
    release: Option<unsafe extern "C" fn(*mut ArrowSchema)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArray {
    length: i64,
    null_count: i64,
    offset: i64,
    n_buffers: i64,
    n_children: i64,
    buffers: *mut *const c_void,
    children: *mut *mut ArrowArray,
    dictionary: *mut ArrowArray,
    release: Option<unsafe extern "C" fn(*mut ArrowArray)>,
    private_data: *mut c_void,
}

#[repr(C)]
struct ArrowArrayStream {
    get_schema: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowSchema) -> c_int,
    get_next: unsafe extern "C" fn(*mut ArrowArrayStream, *mut ArrowArray) -> c_int,
    get_last_error: unsafe extern "C" fn(*mut ArrowArrayStream) -> *const c_char,
    release: Option<unsafe extern "C" fn(*mut ArrowArrayStream)>,
    private_data: *mut c_void,
}

/// Private data of a schema.
struct SchemaParts {
    _format: CString,
    _name: CString,
    children: Vec<*mut ArrowSchema>,
}

/// Private data of an array. The buffers belong to the table.
struct ArrayParts {
    buffers: Vec<*const c_void>,
    children: Vec<*mut ArrowArray>,
    _table: Arc<Packed>,
}

/// Private data of a stream: one array, then none.
struct StreamParts {
    table: Arc<Packed>,
    is_read: bool,
}

/// Drops the private data of a structure, and the children that were not moved out.
macro_rules! releases {
    ($name:ident, $structure:ident, $parts:ident, |$behind:ident| $children:expr) => {
        /// # Safety
        /// Called once, with a structure that was made here and not released yet.
        unsafe extern "C" fn $name(structure: *mut $structure) {
            // SAFETY: the contract above; the parts were leaked from a box when the structure was made.
            unsafe {
                let $behind = Box::from_raw((*structure).private_data.cast::<$parts>());
                for child in $children {
                    drop(Box::from_raw(child));
                }
                (*structure).release = None;
                (*structure).private_data = null_mut();
            }
        }

        impl Drop for $structure {
            fn drop(&mut self) {
                if let Some(release) = self.release {
                    // SAFETY: it was not consumed, or `release` would be null.
                    unsafe { release(self) }
                }
            }
        }

        // SAFETY: its private data is exclusive or an `Arc` of immutable data.
        unsafe impl Send for $structure {}
    };
}

releases!(release_schema, ArrowSchema, SchemaParts, |parts| parts.children.iter().copied());
releases!(release_array, ArrowArray, ArrayParts, |parts| parts.children.iter().copied());
releases!(release_stream, ArrowArrayStream, StreamParts, |_parts| std::iter::empty::<*mut ArrowSchema>());

impl ArrowSchema {
    fn new(format: &CStr, name: &str, nullable: bool, children: Vec<Self>) -> Self {
        // Names of our columns have no zero bytes.
        let name = CString::new(name).unwrap_or_default();
        let format = format.to_owned();
        let (format_text, name_text) = (format.as_ptr(), name.as_ptr());
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let parts = Box::leak(Box::new(SchemaParts { _format: format, _name: name, children }));
        Self {
            format: format_text,
            name: name_text,
            metadata: null(),
            flags: if nullable { NULLABLE } else { 0 },
            n_children: parts.children.len() as i64,
            children: parts.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_schema),
            private_data: (&raw mut *parts).cast(),
        }
    }

    fn of(table: &Packed) -> Self {
        let columns =
            table.batch.table().def().columns.iter().zip(table.batch.columns()).zip(table.columns());
        let children = columns.map(|((definition, column), packed)| {
            let format = match (&column.data, &packed.form) {
                (ColumnData::U64(_), _) => c"L",
                (ColumnData::I64(_), _) => c"l",
                (ColumnData::F64(_), _) => c"g",
                (ColumnData::Bool(_), _) => c"b",
                (ColumnData::Text(_), Form::LargeText(..)) => c"U",
                (ColumnData::Text(_), _) => c"u",
            };
            Self::new(format, definition.name, definition.nullable, Vec::new())
        });
        // A table is a structure with its columns as parts.
        Self::new(c"+s", "", false, children.collect())
    }
}

impl ArrowArray {
    fn new(table: &Arc<Packed>, missing: usize, buffers: Vec<*const c_void>, children: Vec<Self>) -> Self {
        let children = children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect();
        let parts = Box::leak(Box::new(ArrayParts { buffers, children, _table: Arc::clone(table) }));
        Self {
            length: table.batch.len() as i64,
            null_count: missing as i64,
            offset: 0,
            n_buffers: parts.buffers.len() as i64,
            n_children: parts.children.len() as i64,
            buffers: parts.buffers.as_mut_ptr(),
            children: parts.children.as_mut_ptr(),
            dictionary: null_mut(),
            release: Some(release_array),
            private_data: (&raw mut *parts).cast(),
        }
    }

    fn of(table: &Arc<Packed>) -> Self {
        let columns = table.batch.columns().iter().zip(table.columns());
        let children = columns.map(|(column, packed)| {
            Self::new(table, packed.missing, buffers(&column.data, packed), Vec::new())
        });
        let children = children.collect();
        Self::new(table, 0, vec![null()], children)
    }
}

/// Validity, then the values; of texts first where they begin.
fn buffers(data: &ColumnData, packed: &PackedColumn) -> Vec<*const c_void> {
    let validity = packed.validity.as_ref().map_or(null(), |bits| bits.as_ptr().cast());
    match (data, &packed.form) {
        (ColumnData::U64(values), _) => vec![validity, values.as_ptr().cast()],
        (ColumnData::I64(values), _) => vec![validity, values.as_ptr().cast()],
        (ColumnData::F64(values), _) => vec![validity, values.as_ptr().cast()],
        (_, Form::Bits(bits)) => vec![validity, bits.as_ptr().cast()],
        (_, Form::Text(begins, bytes)) => vec![validity, begins.as_ptr().cast(), bytes.as_ptr().cast()],
        (_, Form::LargeText(begins, bytes)) => vec![validity, begins.as_ptr().cast(), bytes.as_ptr().cast()],
        (ColumnData::Bool(_) | ColumnData::Text(_), Form::Numbers) => {
            unreachable!("packing gives truth values and texts a form of their own")
        }
    }
}

/// # Safety
/// As specified by the interface: `stream` is not released, `out` points to memory for a schema.
unsafe extern "C" fn get_schema(stream: *mut ArrowArrayStream, out: *mut ArrowSchema) -> c_int {
    // SAFETY: the contract above; `out` is not initialized, so it is not dropped.
    unsafe {
        let parts = &*(*stream).private_data.cast::<StreamParts>();
        out.write(ArrowSchema::of(&parts.table));
    }
    0
}

/// # Safety
/// As specified by the interface: `stream` is not released, `out` points to memory for an array.
unsafe extern "C" fn get_next(stream: *mut ArrowArrayStream, out: *mut ArrowArray) -> c_int {
    // SAFETY: the contract above. An array without `release` marks the end.
    unsafe {
        let parts = &mut *(*stream).private_data.cast::<StreamParts>();
        if std::mem::replace(&mut parts.is_read, true) {
            out.write_bytes(0, 1);
        } else {
            out.write(ArrowArray::of(&parts.table));
        }
    }
    0
}

/// Nothing can go wrong once there is a stream.
unsafe extern "C" fn get_last_error(_stream: *mut ArrowArrayStream) -> *const c_char {
    null()
}

pub fn schema_capsule<'py>(py: Python<'py>, table: &Packed) -> PyResult<Bound<'py, PyCapsule>> {
    PyCapsule::new_with_value(py, ArrowSchema::of(table), c"arrow_schema").map_err(errors::recording)
}

pub fn stream_capsule<'py>(py: Python<'py>, table: &Arc<Packed>) -> PyResult<Bound<'py, PyCapsule>> {
    let parts = Box::new(StreamParts { table: Arc::clone(table), is_read: false });
    let stream = ArrowArrayStream {
        get_schema,
        get_next,
        get_last_error,
        release: Some(release_stream),
        private_data: Box::into_raw(parts).cast(),
    };
    PyCapsule::new_with_value(py, stream, c"arrow_array_stream").map_err(errors::recording)
}
