//! GPUs and NPUs on Windows through DirectML; the generic function knows it since 1.17.

use super::{DeviceClass, ExecutionProvider, ProviderOptions, Target};
use crate::OrtError;

pub(super) struct DirectMl;

impl ExecutionProvider for DirectMl {
    fn aliases(&self) -> &'static [&'static str] {
        &["dml", "directml"]
    }

    fn ort_name(&self) -> &'static str {
        "DmlExecutionProvider"
    }

    fn device_class(&self, options: &ProviderOptions) -> DeviceClass {
        match options.get("device_filter") {
            Some(filter) if filter.eq_ignore_ascii_case("npu") => DeviceClass::Npu,
            _ => DeviceClass::Gpu,
        }
    }

    fn append(&self, target: &Target<'_>, options: &ProviderOptions) -> Result<(), OrtError> {
        if target.minor() >= 17 { target.generic("DML", options) } else { target.directml_table(options) }
    }
}
