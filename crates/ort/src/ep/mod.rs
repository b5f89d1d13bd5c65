//! Execution providers: their names, the device behind them, and how each is added to a session.
//!
//! Each registration call is verified against ONNX Runtime's source (`provider_registration.cc`,
//! `provider_bridge_ort.cc`) for the versions it is used with, because it changed over time: an options struct, a generic
//! function with a key, a separate function, and since 1.22 a plug-in library.

mod append;
mod neighbors;
mod providers;
mod used;

use std::collections::BTreeMap;

pub use append::Target;
pub use neighbors::plugins_beside;
pub use ortscope_core::session::UsedDevice;
pub use providers::ExecutionProvider;
pub use used::used_devices;

use crate::device::DeviceKind;
use crate::session_setup::Setup;
use crate::{Environment, OrtError};
use ortscope_core::session::ProviderRequest;

/// Options of a provider, by their names.
pub type ProviderOptions = BTreeMap<String, String>;

pub use ortscope_core::session::DeviceClass;

/// All providers this program knows by name.
pub fn known() -> impl Iterator<Item = &'static ExecutionProvider> {
    providers::KNOWN.iter()
}

/// Finds a provider by short name or ONNX Runtime's name, ignoring case.
pub fn find(name: &str) -> Option<&'static ExecutionProvider> {
    known().find(|provider| {
        provider.ort_name.eq_ignore_ascii_case(name)
            || provider.aliases.iter().any(|alias| alias.eq_ignore_ascii_case(name))
    })
}

/// A request with the provider it means.
pub(crate) struct Resolved<'a> {
    request: &'a ProviderRequest,
    provider: Option<&'static ExecutionProvider>,
}

/// A provider that a session has accepted.
#[derive(Debug)]
pub(crate) struct Accepted {
    /// The name it has in profiles.
    pub(crate) name: String,
    pub(crate) device_class: DeviceClass,
}

pub(crate) fn resolve(request: &ProviderRequest) -> Resolved<'_> {
    Resolved { request, provider: find(&request.name) }
}

impl Resolved<'_> {
    pub(crate) fn ort_name(&self) -> &str {
        match self.provider {
            Some(provider) => provider.ort_name,
            None => &self.request.name,
        }
    }

    /// The class of the device a plug-in chose, or else the one that the options imply. A plug-in on a CPU may be a
    /// simulator (QNN's), so that there the options have the last word too.
    fn device_class(&self, chosen: Option<DeviceKind>) -> DeviceClass {
        match (chosen, self.provider) {
            (Some(DeviceKind::Gpu), _) => DeviceClass::Gpu,
            (Some(DeviceKind::Npu), _) => DeviceClass::Npu,
            (_, Some(provider)) => provider.device_class(&self.request.options),
            (_, None) => DeviceClass::Cpu,
        }
    }

    /// Adds the provider.
    pub(crate) fn append(&self, environment: &Environment, setup: &Setup) -> Result<Accepted, OrtError> {
        let target = Target::new(environment, setup);
        let (name, options) = (self.ort_name(), &self.request.options);
        let (name, chosen) = match (&self.request.library, self.provider) {
            (Some(library), _) => {
                let options = neighbors::with_backend(name, library, options);
                let (name, chosen) = target.plugin(name, library, &options)?;
                (name, Some(chosen))
            }
            (None, Some(provider)) => match provider.append(&target, options) {
                // Not compiled in, but its plug-in may have been registered by the caller.
                Err(_) if target.has_devices_of(name) => {
                    (name.to_owned(), Some(target.registered_plugin(name, options)?))
                }
                // Or installed next to ONNX Runtime.
                Err(error) => match neighbors::plugin_beside(environment.runtime().path(), name) {
                    Some(library) if target.minor() >= 22 => {
                        let options = neighbors::with_backend(name, &library, options);
                        let (name, chosen) = target.plugin(name, &library, &options)?;
                        (name, Some(chosen))
                    }
                    _ => return Err(error),
                },
                Ok(()) => (name.to_owned(), None),
            },
            (None, None) if target.has_devices_of(name) => {
                (name.to_owned(), Some(target.registered_plugin(name, options)?))
            }
            (None, None) => target.generic(name, options).map(|()| (name.to_owned(), None))?,
        };
        Ok(Accepted { name, device_class: self.device_class(chosen) })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_found() {
        let mut seen = BTreeSet::new();
        for provider in known() {
            for name in provider.aliases.iter().chain([&provider.ort_name]) {
                assert!(seen.insert(name.to_lowercase()), "{name} is used twice");
                assert_eq!(find(name).map(|found| found.ort_name), Some(provider.ort_name));
            }
        }
        for short in [
            "cpu", "cuda", "trt", "dml", "openvino", "qnn", "webgpu", "vitisai", "xnnpack", "migraphx",
            "rocm", "coreml",
        ] {
            assert!(find(short).is_some(), "{short}");
        }
        assert!(find("abacus").is_none());
    }

    fn class(name: &str, options: &[(&str, &str)]) -> DeviceClass {
        let options = options.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        find(name).expect("a known provider").device_class(&options)
    }

    #[test]
    fn options_decide_the_device() {
        assert_eq!(class("openvino", &[]), DeviceClass::Cpu);
        assert_eq!(class("openvino", &[("device_type", "GPU_FP16")]), DeviceClass::Gpu);
        assert_eq!(class("openvino", &[("device_type", "AUTO:NPU,CPU")]), DeviceClass::Npu);
        assert_eq!(class("qnn", &[("backend_path", "QnnGpu.dll")]), DeviceClass::Gpu);
        assert_eq!(class("qnn", &[("backend_path", "/opt/libQnnHtp.so")]), DeviceClass::Npu);
        assert_eq!(class("qnn", &[("backend_type", "cpu")]), DeviceClass::Cpu);
        assert_eq!(class("qnn", &[]), DeviceClass::Npu);
        assert_eq!(class("dml", &[("device_filter", "npu")]), DeviceClass::Npu);
        assert_eq!(class("dml", &[]), DeviceClass::Gpu);
        assert_eq!(class("coreml", &[("MLComputeUnits", "CPUAndGPU")]), DeviceClass::Gpu);
    }
}
