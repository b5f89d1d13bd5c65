//! Kernel sessions of Windows for Python: their settings, and why one cannot be had.

use ortscope_sources::etw::{EtwError, KernelFlags, Settings};
use ortscope_sources::kernel::{TraceError, TraceOptions};
use ortscope_sources::{KernelTrace, etw_functions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Name, kilobytes of a buffer, least and most buffers, flags, samples a second, stacks.
pub type Arguments = (String, u32, u32, u32, Vec<String>, u32, bool);

/// What a session is asked for, or what is wrong with the question.
pub fn settings(arguments: Arguments) -> PyResult<Settings> {
    let (name, buffer_kilobytes, minimum_buffers, maximum_buffers, names, samples_per_second, stacks) =
        arguments;
    if minimum_buffers > maximum_buffers {
        let text = format!("min_buffers {minimum_buffers} is more than max_buffers {maximum_buffers}");
        return Err(PyValueError::new_err(text));
    }
    let mut kernel = KernelFlags::default();
    for name in names {
        let flag: KernelFlags = name.parse().map_err(|error: ortscope_sources::etw::UnknownFlag| {
            PyValueError::new_err(error.to_string().replace("\n  hint: ", "; hint: "))
        })?;
        kernel = kernel | flag;
    }
    Ok(Settings {
        name,
        buffer_kilobytes,
        minimum_buffers,
        maximum_buffers,
        kernel,
        samples_per_second,
        stacks,
        ..Settings::default()
    })
}

/// Starts a session with these settings and ends it again: `None` if that works, else the kind of refusal (`access`,
/// `session`, `provider` or `unsupported`) and its sentence.
#[pyfunction]
pub fn etw_refusal(py: Python<'_>, arguments: Arguments) -> PyResult<Option<(&'static str, String)>> {
    let settings = settings(arguments)?;
    if etw_functions().is_none() {
        return Ok(Some(("unsupported", "Event Tracing for Windows exists on Windows only".to_owned())));
    }
    let options = TraceOptions { etw: Some(settings), ..TraceOptions::default() };
    let refused = py.detach(|| KernelTrace::open(&options).err());
    Ok(refused.map(|error| (kind(&error), error.to_string().replace("\n  hint: ", "; hint: "))))
}

fn kind(error: &TraceError) -> &'static str {
    match error {
        TraceError::Permission { .. } => "access",
        TraceError::Session(EtwError::NotSupported { .. } | EtwError::TooOld { .. }) => "unsupported",
        _ => "session",
    }
}
