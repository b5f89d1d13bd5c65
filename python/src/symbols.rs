//! A function of the interpreter that is not in its stable interface before Python 3.12, although it exists since 3.9.

use std::ffi::c_void;

use pyo3::prelude::*;

/// The address of an exported function of the running interpreter, if it has it.
pub fn find(py: Python<'_>, name: &str) -> Option<*const c_void> {
    in_interpreter(py, name)
}

std::cfg_select! {
    unix => {
        #[expect(unsafe_code, reason = "asks the dynamic linker")]
        fn in_interpreter(_py: Python<'_>, name: &str) -> Option<*const c_void> {
            let program = libloading::os::unix::Library::this();
            // SAFETY: the symbol is only looked up here; whoever calls it knows its type.
            let symbol = unsafe { program.get::<*const c_void>(name.as_bytes()) }.ok()?;
            Some(*symbol).filter(|address| !address.is_null())
        }
    }
    windows => {
        #[expect(unsafe_code, reason = "asks the dynamic linker")]
        fn in_interpreter(py: Python<'_>, name: &str) -> Option<*const c_void> {
            let version = py.version_info();
            let library = format!("python{}{}.dll", version.major, version.minor);
            let interpreter = libloading::os::windows::Library::open_already_loaded(library).ok()?;
            // SAFETY: the symbol is only looked up here; whoever calls it knows its type.
            let symbol = unsafe { interpreter.get::<*const c_void>(name.as_bytes()) }.ok()?;
            Some(*symbol).filter(|address| !address.is_null())
        }
    }
    _ => {
        fn in_interpreter(_py: Python<'_>, _name: &str) -> Option<*const c_void> {
            None
        }
    }
}
