//! The CPU provider, which is part of every session and comes last by itself.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct Cpu;

impl ExecutionProvider for Cpu {
    fn aliases(&self) -> &'static [&'static str] {
        &["cpu"]
    }

    fn ort_name(&self) -> &'static str {
        "CPUExecutionProvider"
    }

    fn device_class(&self, _options: &ProviderOptions) -> DeviceClass {
        DeviceClass::Cpu
    }

    fn append(&self, _target: &Target<'_>, _options: &ProviderOptions) -> Result<(), OrtError> {
        Ok(())
    }
}
