//! Settings of Windows kernel sessions for Python, and why one cannot be started.

use ortscope_sources::etw::{EtwError, KernelFlags, Settings};
use ortscope_sources::kernel::{TraceError, TraceOptions};
use ortscope_sources::{KernelTrace, etw_functions};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// A dictionary with these keys.
#[derive(Debug, FromPyObject)]
#[pyo3(from_item_all)]
pub struct Arguments {
    name: String,
    buffer_kilobytes: u32,
    minimum_buffers: u32,
    maximum_buffers: u32,
    kernel_flags: Vec<String>,
    samples_per_second: u32,
    stacks: bool,
}

/// The settings of a session, or the error in the arguments.
pub fn settings(arguments: Arguments) -> PyResult<Settings> {
    let Arguments { name, buffer_kilobytes, minimum_buffers, maximum_buffers, .. } = arguments;
    if minimum_buffers > maximum_buffers {
        let text = format!("min_buffers {minimum_buffers} is more than max_buffers {maximum_buffers}");
        return Err(PyValueError::new_err(text));
    }
    let mut kernel = KernelFlags::default();
    for flag in arguments.kernel_flags {
        let flag: KernelFlags = flag.parse().map_err(|error: ortscope_sources::etw::UnknownFlag| {
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
        samples_per_second: arguments.samples_per_second,
        stacks: arguments.stacks,
        ..Settings::default()
    })
}

/// Starts a session with these settings and ends it again: `None` if that works, otherwise the kind of refusal
/// (`access`, `session`, `provider` or `unsupported`) and its message.
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
