//! Intel CPUs, GPUs and NPUs through OpenVINO; the generic function knows it since 1.16.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct OpenVino;

impl ExecutionProvider for OpenVino {
    fn aliases(&self) -> &'static [&'static str] {
        &["openvino"]
    }

    fn ort_name(&self) -> &'static str {
        "OpenVINOExecutionProvider"
    }

    fn device_class(&self, options: &ProviderOptions) -> DeviceClass {
        // "GPU", "GPU_FP32", "AUTO:NPU,CPU", "HETERO:GPU,CPU": what it prefers to the CPU counts.
        let device = options.get("device_type").map(|device| device.to_ascii_uppercase()).unwrap_or_default();
        if device.contains("NPU") {
            DeviceClass::Npu
        } else if device.contains("GPU") {
            DeviceClass::Gpu
        } else {
            DeviceClass::Cpu
        }
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        if target.minor() >= 16 {
            target.generic("OpenVINO", options)
        } else {
            target.openvino_struct(options)
        }
    }
}
