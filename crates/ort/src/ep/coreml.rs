//! Apple hardware through Core ML; the key is known since 1.21.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct CoreMl;

impl ExecutionProvider for CoreMl {
    fn aliases(&self) -> &'static [&'static str] {
        &["coreml"]
    }

    fn ort_name(&self) -> &'static str {
        "CoreMLExecutionProvider"
    }

    fn device_class(&self, options: &ProviderOptions) -> DeviceClass {
        match options.get("MLComputeUnits").map(String::as_str) {
            Some("CPUOnly") => DeviceClass::Cpu,
            Some("CPUAndGPU") => DeviceClass::Gpu,
            _ => DeviceClass::Npu,
        }
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        target.generic_since("the Core ML provider", 21, "CoreML", options)
    }
}
