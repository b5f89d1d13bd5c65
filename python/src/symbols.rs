//! Symbols looked up at run time: an interpreter function that exists since Python 3.9 but is in the stable interface
//! only since 3.12, for children of `fork`.

use std::ffi::c_void;

use pyo3::prelude::*;

/// The address of an exported function of the running interpreter, if it has it.
pub fn find(py: Python<'_>, name: &str) -> Option<*const c_void> {
    in_interpreter(py, name)
}

/// Has `child` called first thing in every child of `fork`, by whomever it is called.
pub fn at_fork_in_child(child: extern "C" fn()) {
    in_children(child);
}

std::cfg_select! {
    unix => {
        type Handler = Option<extern "C" fn()>;

        #[expect(unsafe_code, reason = "a function of the C library")]
        fn in_children(child: extern "C" fn()) {
            unsafe extern "C" {
                fn pthread_atfork(prepare: Handler, parent: Handler, child: Handler) -> std::ffi::c_int;
            }
            // SAFETY: the declaration is that of POSIX. It fails without memory only, in which case a child still has
            // `os.register_at_fork`.
            let _failed = unsafe { pthread_atfork(None, None, Some(child)) };
        }

        #[expect(unsafe_code, reason = "asks the dynamic linker")]
        fn in_interpreter(_py: Python<'_>, name: &str) -> Option<*const c_void> {
            let program = libloading::os::unix::Library::this();
            // SAFETY: the symbol is only looked up here; the caller knows its type.
            let symbol = unsafe { program.get::<*const c_void>(name.as_bytes()) }.ok()?;
            Some(*symbol).filter(|address| !address.is_null())
        }
    }
    windows => {
        fn in_children(_child: extern "C" fn()) {
            // `fork` does not exist here.
        }

        #[expect(unsafe_code, reason = "asks the dynamic linker")]
        fn in_interpreter(py: Python<'_>, name: &str) -> Option<*const c_void> {
            let version = py.version_info();
            let library = format!("python{}{}.dll", version.major, version.minor);
            let interpreter = libloading::os::windows::Library::open_already_loaded(library).ok()?;
            // SAFETY: the symbol is only looked up here; the caller knows its type.
            let symbol = unsafe { interpreter.get::<*const c_void>(name.as_bytes()) }.ok()?;
            Some(*symbol).filter(|address| !address.is_null())
        }
    }
    _ => {
        fn in_children(_child: extern "C" fn()) {}

        fn in_interpreter(_py: Python<'_>, _name: &str) -> Option<*const c_void> {
            None
        }
    }
}
