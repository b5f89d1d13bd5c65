//! `SessionOptions` in ONNX Runtime's terms.
#![expect(unsafe_code, reason = "fills the C options")]

use ort_sys as sys;

use crate::handle::Handle;
use crate::os::OsPath;
use crate::{Environment, OrtError, text};
use ortscope_core::session::{Optimization, SessionOptions};

/// Options under construction.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) handle: Handle<sys::OrtSessionOptions>,
}

impl Setup {
    /// Everything but the providers.
    pub(crate) fn new(environment: &Environment, options: &SessionOptions) -> Result<Self, OrtError> {
        let api = environment.runtime().api();
        // SAFETY: the only argument is the out pointer.
        let handle = unsafe { create!(api, CreateSessionOptions(), ReleaseSessionOptions) }?;
        let raw = handle.as_ptr();
        // SAFETY: `raw` is alive, and every string outlives the call that copies it.
        unsafe {
            if let Some(threads) = options.intra_op_threads {
                call!(api, SetIntraOpNumThreads(raw, threads.try_into().unwrap_or(i32::MAX)))?;
            }
            if let Some(threads) = options.inter_op_threads {
                call!(api, SetInterOpNumThreads(raw, threads.try_into().unwrap_or(i32::MAX)))?;
            }
            let level = match options.optimization {
                Optimization::None => sys::GraphOptimizationLevel::ORT_DISABLE_ALL,
                Optimization::Basic => sys::GraphOptimizationLevel::ORT_ENABLE_BASIC,
                Optimization::Extended => sys::GraphOptimizationLevel::ORT_ENABLE_EXTENDED,
                Optimization::Layout => {
                    api.require("the optimization level 'layout'", 23)?;
                    sys::GraphOptimizationLevel::ORT_ENABLE_LAYOUT
                }
                Optimization::All => sys::GraphOptimizationLevel::ORT_ENABLE_ALL,
            };
            call!(api, SetSessionGraphOptimizationLevel(raw, level))?;
            if options.parallel {
                call!(api, SetSessionExecutionMode(raw, sys::ExecutionMode::ORT_PARALLEL))?;
            }
            match options.cpu_arena {
                Some(true) => call!(api, EnableCpuMemArena(raw))?,
                Some(false) => call!(api, DisableCpuMemArena(raw))?,
                None => (),
            }
            match options.memory_pattern {
                Some(true) => call!(api, EnableMemPattern(raw))?,
                Some(false) => call!(api, DisableMemPattern(raw))?,
                None => (),
            }
            if options.deterministic {
                call!(api, SetDeterministicCompute(raw, true))?;
            }
            if let Some(prefix) = &options.profiling_prefix {
                call!(api, EnableProfiling(raw, OsPath::new(prefix)?.as_ptr()))?;
            }
            if let Some(path) = &options.optimized_model_path {
                call!(api, SetOptimizedModelFilePath(raw, OsPath::new(path)?.as_ptr()))?;
            }
            for (name, size) in &options.free_dimension_overrides {
                let name = text::c_string(name, "the dimension")?;
                call!(api, AddFreeDimensionOverrideByName(raw, name.as_ptr(), *size))?;
            }
            // Placement without profiling. It comes first, so that the user's entry can switch it off.
            if api.minor() >= 24 {
                call!(
                    api,
                    AddSessionConfigEntry(
                        raw,
                        c"session.record_ep_graph_assignment_info".as_ptr(),
                        c"1".as_ptr()
                    )
                )?;
            }
            for (key, value) in &options.config_entries {
                let (key, value) =
                    (text::c_string(key, "the option")?, text::c_string(value, "the option value")?);
                call!(api, AddSessionConfigEntry(raw, key.as_ptr(), value.as_ptr()))?;
            }
        }
        Ok(Self { handle })
    }
}
