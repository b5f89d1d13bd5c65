//! Owning pointers to ONNX Runtime's objects.
#![expect(unsafe_code, reason = "owns and releases C objects")]

use std::ptr::NonNull;

use crate::OrtError;

/// An object that is released when dropped.
pub(crate) struct Handle<T> {
    pointer: NonNull<T>,
    release: unsafe extern "system" fn(*mut T),
}

impl<T> Handle<T> {
    /// Takes the result of a create function.
    ///
    /// # Safety
    /// `pointer` is null or an object that is not released elsewhere and that `release` is made for.
    pub(crate) unsafe fn new(
        function: &'static str,
        pointer: *mut T,
        release: unsafe extern "system" fn(*mut T),
    ) -> Result<Self, OrtError> {
        match NonNull::new(pointer) {
            Some(pointer) => Ok(Self { pointer, release }),
            None => Err(OrtError::Unsupported(format!("{function} reported success but made nothing"))),
        }
    }

    #[inline(always)]
    pub(crate) fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: by `new`'s contract the object is ours, alive, and of the type `release` takes.
        unsafe { (self.release)(self.pointer.as_ptr()) }
    }
}

impl<T> std::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.pointer.fmt(f)
    }
}

// SAFETY: ONNX Runtime's objects are not bound to the thread that made them. Sharing is safe because everything that
// changes an object takes `&mut` of its wrapper or is documented by ONNX Runtime as thread safe (sessions, environments).
unsafe impl<T> Send for Handle<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Handle<T> {}

/// Creates an object: `create!(api, CreateRunOptions(), ReleaseRunOptions)`; the out pointer is appended.
macro_rules! create {
    ($api:expr, $create:ident ( $($argument:expr),* $(,)? ), $release:ident) => {{
        let mut pointer = std::ptr::null_mut();
        let made = call!($api, $create($($argument,)* &raw mut pointer));
        match made.and_then(|()| slot!($api, $release)) {
            Ok(release) => $crate::handle::Handle::new(stringify!($create), pointer, release),
            Err(error) => Err(error),
        }
    }};
}
