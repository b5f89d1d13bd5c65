//! Objects of COM whose tables of functions are declared where they are used, as the public headers have them.

use std::ffi::c_void;

use windows_sys::core::GUID;

/// The first and the other two functions of every table.
pub(super) type Query = unsafe extern "system" fn(*mut c_void, *const GUID, *mut *mut c_void) -> i32;
pub(super) type Count = unsafe extern "system" fn(*mut c_void) -> u32;

/// An object that is released when it is dropped. `T` is its table.
pub(super) struct Object<T> {
    pub pointer: *mut c_void,
    _table: std::marker::PhantomData<T>,
}

impl<T> Object<T> {
    /// `None` for no object.
    ///
    /// # Safety
    /// The pointer is null, or a COM object of this table that is given up to the caller.
    pub unsafe fn own(pointer: *mut c_void) -> Option<Self> {
        // Not `then_some`: an object that is made only to be thrown away is released, which null is not to be.
        (!pointer.is_null()).then(|| Self { pointer, _table: std::marker::PhantomData })
    }

    pub fn table(&self) -> &T {
        // SAFETY: an object begins with a pointer to its table, which lives as long as the library; it is never unloaded.
        unsafe { &**self.pointer.cast::<*const T>() }
    }
}

// SAFETY: DXCore's and WMI's objects may be used by any thread of a free-threaded apartment; these are used by one at a time.
unsafe impl<T> Send for Object<T> {}

impl<T> Drop for Object<T> {
    fn drop(&mut self) {
        /// Every table begins so.
        #[repr(C)]
        struct Unknown {
            query: Query,
            add: Count,
            release: Count,
        }
        // SAFETY: as in `table`; every COM object has these three functions, and this reference is given up once.
        unsafe { ((**self.pointer.cast::<*const Unknown>()).release)(self.pointer) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The end of every list is no object, and used to be released like one: WMI's answer ended with a fault.
    #[test]
    fn no_object_is_not_released() {
        // SAFETY: null is allowed.
        let none = unsafe { Object::<()>::own(std::ptr::null_mut()) };
        assert!(none.is_none());
    }
}
