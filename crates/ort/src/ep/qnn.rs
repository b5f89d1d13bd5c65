//! Qualcomm NPUs (HTP) and GPUs through QNN.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct Qnn;

impl ExecutionProvider for Qnn {
    fn aliases(&self) -> &'static [&'static str] {
        &["qnn"]
    }

    fn ort_name(&self) -> &'static str {
        "QNNExecutionProvider"
    }

    fn device_class(&self, options: &ProviderOptions) -> DeviceClass {
        // The backend is named by library or, since 1.22, by type; the NPU is the default.
        let backend = options.get("backend_path").or_else(|| options.get("backend_type"));
        let backend = backend.map(|backend| backend.to_ascii_lowercase()).unwrap_or_default();
        let file = backend.rsplit(['/', '\\']).next().unwrap_or_default();
        if file.contains("gpu") {
            DeviceClass::Gpu
        } else if file.contains("cpu") {
            DeviceClass::Cpu
        } else {
            DeviceClass::Npu
        }
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        target.generic("QNN", options)
    }
}
