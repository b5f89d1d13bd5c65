//! AMD NPUs. The generic function knew the key up to 1.17 and again from 1.20; since 1.18 there is a function of its own.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct VitisAi;

impl ExecutionProvider for VitisAi {
    fn aliases(&self) -> &'static [&'static str] {
        &["vitisai"]
    }

    fn ort_name(&self) -> &'static str {
        "VitisAIExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Npu
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        if target.minor() >= 18 { target.vitisai(options) } else { target.generic("VitisAI", options) }
    }
}
