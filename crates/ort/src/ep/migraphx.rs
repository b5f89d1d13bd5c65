//! AMD GPUs through MIGraphX. Before 1.23 its options struct changed its layout from version to version, so that only the device number, which has a function of its own, can be passed safely.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct MiGraphX;

impl ExecutionProvider for MiGraphX {
    fn aliases(&self) -> &'static [&'static str] {
        &["migraphx"]
    }

    fn ort_name(&self) -> &'static str {
        "MIGraphXExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Gpu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        if target.minor() >= 23 {
            target.generic("MIGraphX", options)
        } else {
            target.exported("OrtSessionOptionsAppendExecutionProvider_MIGraphX", options)
        }
    }
}
