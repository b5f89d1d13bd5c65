//! NVIDIA GPUs through CUDA.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct Cuda;

impl ExecutionProvider for Cuda {
    fn aliases(&self) -> &'static [&'static str] {
        &["cuda"]
    }

    fn ort_name(&self) -> &'static str {
        "CUDAExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Gpu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        target.cuda(options)
    }
}
