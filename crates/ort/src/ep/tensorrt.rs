//! NVIDIA GPUs through TensorRT.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct TensorRt;

impl ExecutionProvider for TensorRt {
    fn aliases(&self) -> &'static [&'static str] {
        &["trt", "tensorrt"]
    }

    fn ort_name(&self) -> &'static str {
        "TensorrtExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Gpu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        target.tensorrt(options)
    }
}
