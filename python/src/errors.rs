//! Exceptions of the package. Each explains the problem in one sentence and, if possible, how to fix it.

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

create_exception!(ortscope, OrtscopeError, PyRuntimeError, "Base of the exceptions that ortscope raises.");
create_exception!(ortscope, MonitorError, OrtscopeError, "Monitoring could not start, or has no answer.");
create_exception!(ortscope, RecordingError, OrtscopeError, "A recording could not be written or read.");

pub fn add_to(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add("OrtscopeError", py.get_type::<OrtscopeError>())?;
    module.add("MonitorError", py.get_type::<MonitorError>())?;
    module.add("RecordingError", py.get_type::<RecordingError>())
}

pub fn monitor(error: impl std::fmt::Display) -> PyErr {
    MonitorError::new_err(error.to_string())
}

pub fn recording(error: impl std::fmt::Display) -> PyErr {
    RecordingError::new_err(error.to_string())
}

/// An error of the store with its way out.
pub fn store(error: ortscope_store::StoreError) -> PyErr {
    match error.hint() {
        Some(hint) => RecordingError::new_err(format!("{error}; hint: {hint}")),
        None => recording(error),
    }
}
