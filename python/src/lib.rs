//! The native half of the Python package `ortscope`.
//!
//! ```text
//! session.run ─► call: before and after ONNX Runtime's own run ─► probe ─► output: this process's channel
//! observer: pipeline in Rust threads: channel, process sampler ─► recording, live statistics
//! ```
//! Python decides what is monitored; everything that happens per inference or in the background is here. No
//! background thread ever takes the GIL.

mod arrow;
mod call;
mod custom_op_hook;
mod errors;
mod etw;
mod keys;
mod live;
mod ndarray;
mod observer;
mod output;
mod probe;
mod process_sampler;
mod rows;
mod symbols;
mod table;
mod verdicts;

use pyo3::prelude::*;

// What `call` keeps for the hot path is guarded by the GIL: an interpreter without one must switch it on.
#[pymodule(gil_used = true)]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add("CHANNEL_VARIABLE", ortscope_sources::programs::CHANNEL_VARIABLE)?;
    errors::add_to(module)?;
    call::prepare(module.py());
    module.add_class::<probe::Probe>()?;
    module.add_class::<observer::Observer>()?;
    module.add_class::<process_sampler::ProcessSampling>()?;
    module.add_class::<table::TableData>()?;
    module.add_function(wrap_pyfunction!(call::method, module)?)?;
    module.add_function(wrap_pyfunction!(call::hooks::set_hooks, module)?)?;
    module.add_function(wrap_pyfunction!(call::hooks::set_batch_source, module)?)?;
    module.add_function(wrap_pyfunction!(custom_op_hook::open_custom_op_hook, module)?)?;
    module.add_function(wrap_pyfunction!(custom_op_hook::ort_version, module)?)?;
    module.add_function(wrap_pyfunction!(custom_op_hook::profile_run, module)?)?;
    module.add_function(wrap_pyfunction!(output::write_to, module)?)?;
    module.add_function(wrap_pyfunction!(output::stop_writing, module)?)?;
    module.add_function(wrap_pyfunction!(output::is_writing, module)?)?;
    module.add_function(wrap_pyfunction!(output::after_fork, module)?)?;
    module.add_function(wrap_pyfunction!(output::send_message, module)?)?;
    module.add_function(wrap_pyfunction!(output::profile_directory, module)?)?;
    module.add_function(wrap_pyfunction!(output::remove_profile, module)?)?;
    module.add_function(wrap_pyfunction!(output::now_ns, module)?)?;
    module.add_function(wrap_pyfunction!(output::own_memory_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(output::stream_number, module)?)?;
    module.add_function(wrap_pyfunction!(process_sampler::overhead_limit, module)?)?;
    module.add_function(wrap_pyfunction!(etw::etw_refusal, module)?)?;
    module.add_function(wrap_pyfunction!(rows::is_recorded_encrypted, module)?)?;
    module.add_function(wrap_pyfunction!(rows::key_file_of, module)?)?;
    module.add_function(wrap_pyfunction!(rows::list_recordings, module)?)?;
    module.add_function(wrap_pyfunction!(rows::read_table, module)?)?;
    module.add_function(wrap_pyfunction!(rows::table_names, module)?)?;
    module.add_function(wrap_pyfunction!(rows::store_directory, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::block_figures, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::calls_needed, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::judge_blocks, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::judge_rounds, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::second_goes_first, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::machine, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::machine_differences, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::gate_settings, module)?)?;
    Ok(())
}
