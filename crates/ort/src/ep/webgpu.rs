//! GPUs through WebGPU; the key is known since 1.20.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct WebGpu;

impl ExecutionProvider for WebGpu {
    fn aliases(&self) -> &'static [&'static str] {
        &["webgpu"]
    }

    fn ort_name(&self) -> &'static str {
        "WebGpuExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Gpu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        target.generic_since("the WebGPU provider", 20, "WebGPU", options)
    }
}
