//! COM objects whose function tables are declared where they are used, as in the public headers.

use std::ffi::c_void;

use windows_sys::core::GUID;

/// The first and the other two functions of every table.
pub(super) type Query = unsafe extern "system" fn(*mut c_void, *const GUID, *mut *mut c_void) -> i32;
pub(super) type Count = unsafe extern "system" fn(*mut c_void) -> u32;

/// An object that is released on drop. `T` is its function table.
pub(super) struct Object<T> {
    pub pointer: *mut c_void,
    _table: std::marker::PhantomData<T>,
}

impl<T> Object<T> {
    /// `None` for a null pointer.
    ///
    /// # Safety
    /// The pointer must be null, or an owned COM object with this table.
    pub unsafe fn own(pointer: *mut c_void) -> Option<Self> {
        // Not `then_some`, which would create an object for null and release it on drop.
        (!pointer.is_null()).then(|| Self { pointer, _table: std::marker::PhantomData })
    }

    pub fn table(&self) -> &T {
        // SAFETY: an object begins with a pointer to its table, which lives as long as the library; it is never
        // unloaded.
        unsafe { &**self.pointer.cast::<*const T>() }
    }
}

// SAFETY: DXCore and WMI objects may be used by any thread of a free-threaded apartment; these are used by one at a time.
unsafe impl<T> Send for Object<T> {}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        /// Every table begins like this.
        #[repr(C)]
        struct Unknown {
            query: Query,
            add: Count,
            release: Count,
        }
        // SAFETY: as in `table`; every COM object has these three functions, and this reference is released once.
        unsafe { ((**self.pointer.cast::<*const Unknown>()).release)(self.pointer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: the null pointer at the end of a list was released, which crashed WMI queries.
    #[test]
    fn no_object_is_not_released() {
        // SAFETY: null is allowed.
        let none = unsafe { Object::<()>::own(std::ptr::null_mut()) };
        assert!(none.is_none());
    }
}
