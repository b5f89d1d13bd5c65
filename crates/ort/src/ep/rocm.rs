//! AMD GPUs through ROCm (up to 1.22). In 1.15 only the device number can be chosen.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct Rocm;

impl ExecutionProvider for Rocm {
    fn aliases(&self) -> &'static [&'static str] {
        &["rocm"]
    }

    fn ort_name(&self) -> &'static str {
        "ROCMExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Gpu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        if target.minor() >= 16 {
            target.rocm(options)
        } else {
            target.exported("OrtSessionOptionsAppendExecutionProvider_ROCM", options)
        }
    }
}
