//! The ways a provider gets into a session, each wrapped once.
#![expect(unsafe_code, reason = "calls the functions that append providers")]

use std::ffi::{CString, c_int};
use std::path::Path;
use std::ptr;

use ort_sys as sys;

use super::{DeviceClass, ProviderOptions};
use crate::api::Api;
use crate::device::{self, DeviceKind, EpDevice};
use crate::session_setup::Setup;
use crate::text::{self, OptionArrays};
use crate::{Environment, OrtError};

/// A session under construction, as providers see it.
#[derive(Debug)]
pub struct Target<'a> {
    environment: &'a Environment,
    setup: &'a Setup,
}

/// Creates an options struct, fills it from keys and values, appends it, and releases it.
macro_rules! append_by_struct {
    ($target:expr, $options:expr, $create:ident, $update:ident, $append:ident, $release:ident) => {{
        let (api, arrays) = ($target.api(), OptionArrays::new($options)?);
        // SAFETY: the struct lives until its handle drops; keys and values are as many as stated and outlive the call;
        // the session options are alive.
        unsafe {
            let made = create!(api, $create(), $release)?;
            call!(api, $update(made.as_ptr(), arrays.keys(), arrays.values(), arrays.len()))?;
            call!(api, $append($target.options(), made.as_ptr()))
        }
    }};
}

impl<'a> Target<'a> {
    pub(crate) fn new(environment: &'a Environment, setup: &'a Setup) -> Self {
        Self { environment, setup }
    }

    pub(crate) fn api(&self) -> Api {
        self.environment.runtime().api()
    }

    /// The minor version of the library.
    pub(crate) fn minor(&self) -> u32 {
        self.api().minor()
    }

    fn options(&self) -> *mut sys::OrtSessionOptions {
        self.setup.handle.as_ptr()
    }

    /// `SessionOptionsAppendExecutionProvider` with one of its keys.
    pub(crate) fn generic(&self, key: &str, options: &ProviderOptions) -> Result<(), OrtError> {
        let key = text::c_string(key, "the provider")?;
        let arrays = OptionArrays::new(options)?;
        // SAFETY: the session options are alive; all strings outlive the call, which copies them.
        unsafe {
            call!(
                self.api(),
                SessionOptionsAppendExecutionProvider(
                    self.options(),
                    key.as_ptr(),
                    arrays.keys(),
                    arrays.values(),
                    arrays.len()
                )
            )
        }
    }

    /// As [`Self::generic`], for a key that only newer versions accept.
    pub(crate) fn generic_since(
        &self,
        provider: &'static str,
        since: u32,
        key: &str,
        options: &ProviderOptions,
    ) -> Result<(), OrtError> {
        self.api().require(provider, since)?;
        self.generic(key, options)
    }

    pub(crate) fn cuda(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        append_by_struct!(
            self,
            options,
            CreateCUDAProviderOptions,
            UpdateCUDAProviderOptions,
            SessionOptionsAppendExecutionProvider_CUDA_V2,
            ReleaseCUDAProviderOptions
        )
    }

    pub(crate) fn tensorrt(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        append_by_struct!(
            self,
            options,
            CreateTensorRTProviderOptions,
            UpdateTensorRTProviderOptions,
            SessionOptionsAppendExecutionProvider_TensorRT_V2,
            ReleaseTensorRTProviderOptions
        )
    }

    /// Since 1.16.
    pub(crate) fn rocm(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        append_by_struct!(
            self,
            options,
            CreateROCMProviderOptions,
            UpdateROCMProviderOptions,
            SessionOptionsAppendExecutionProvider_ROCM,
            ReleaseROCMProviderOptions
        )
    }

    pub(crate) fn cann(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        append_by_struct!(
            self,
            options,
            CreateCANNProviderOptions,
            UpdateCANNProviderOptions,
            SessionOptionsAppendExecutionProvider_CANN,
            ReleaseCANNProviderOptions
        )
    }

    pub(crate) fn dnnl(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        append_by_struct!(
            self,
            options,
            CreateDnnlProviderOptions,
            UpdateDnnlProviderOptions,
            SessionOptionsAppendExecutionProvider_Dnnl,
            ReleaseDnnlProviderOptions
        )
    }

    /// 1.18 and newer.
    pub(crate) fn vitisai(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        let arrays = OptionArrays::new(options)?;
        // SAFETY: as in `generic`.
        unsafe {
            call!(
                self.api(),
                SessionOptionsAppendExecutionProvider_VitisAI(
                    self.options(),
                    arrays.keys(),
                    arrays.values(),
                    arrays.len()
                )
            )
        }
    }

    /// The struct that 1.15 takes for OpenVINO; it supports `device_type`, `device_id`, `cache_dir` and
    /// `num_of_threads`.
    pub(crate) fn openvino_struct(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        only(options, &["device_type", "device_id", "cache_dir", "num_of_threads", "enable_dynamic_shapes"])?;
        let string =
            |key: &str| options.get(key).map(|value| text::c_string(value, "the option value")).transpose();
        let (device_type, device_id, cache_dir) =
            (string("device_type")?, string("device_id")?, string("cache_dir")?);
        let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
        let raw = sys::OrtOpenVINOProviderOptions {
            device_type: pointer(&device_type),
            enable_npu_fast_compile: 0,
            device_id: pointer(&device_id),
            num_of_threads: number(options, "num_of_threads", 0)?,
            cache_dir: pointer(&cache_dir),
            context: ptr::null_mut(),
            enable_opencl_throttling: 0,
            enable_dynamic_shapes: number(options, "enable_dynamic_shapes", 0)?,
        };
        // SAFETY: the struct has the layout of 1.15, the only version it is used with, and its strings outlive the call.
        unsafe {
            call!(self.api(), SessionOptionsAppendExecutionProvider_OpenVINO(self.options(), &raw const raw))
        }
    }

    /// DirectML's own function table, for versions whose generic function does not know it.
    pub(crate) fn directml_table(&self, options: &ProviderOptions) -> Result<(), OrtError> {
        only(options, &["device_id"])?;
        let device_id: c_int = number(options, "device_id", 0)?;
        let mut table: *const std::ffi::c_void = ptr::null();
        // SAFETY: the table is static in ONNX Runtime, and its first member has this type in every version.
        unsafe {
            call!(self.api(), GetExecutionProviderApi(c"DML".as_ptr(), self.minor(), &raw mut table))?;
            let append = (&raw const (*table.cast::<sys::OrtDmlApi>())
                .SessionOptionsAppendExecutionProvider_DML)
                .read();
            self.api().check("SessionOptionsAppendExecutionProvider_DML", append(self.options(), device_id))
        }
    }

    /// One of the oldest functions, exported under its own name, which take only a device number.
    pub(crate) fn exported(&self, symbol: &'static str, options: &ProviderOptions) -> Result<(), OrtError> {
        type Append = unsafe extern "system" fn(*mut sys::OrtSessionOptions, c_int) -> sys::OrtStatusPtr;
        only(options, &["device_id"])?;
        let device_id: c_int = number(options, "device_id", 0)?;
        // SAFETY: the callers name functions of this signature; the session options are alive.
        unsafe {
            let append = self
                .environment
                .runtime()
                .library()
                .get::<Append>(symbol)
                .map_err(|_| OrtError::Unsupported(format!("this library does not export {symbol}")))?;
            self.api().check(symbol, append(self.options(), device_id))
        }
    }

    /// Loads a plug-in once, then appends its device. Returns the name that the provider has in profiles, and the device.
    ///
    /// Some plug-ins (QNN's) call their provider by the name they are registered with, others (OpenVINO's) have a name
    /// of their own: registering under ONNX Runtime's name gives the same for both.
    pub(crate) fn plugin(
        &self,
        ort_name: &str,
        library: &Path,
        options: &ProviderOptions,
    ) -> Result<(String, DeviceKind), OrtError> {
        let mut names = self.environment.ensure_registered(ort_name, library)?.into_iter();
        let name = match names.clone().find(|name| name == ort_name).or(names.next()) {
            Some(name) => name,
            None => ort_name.to_owned(),
        };
        let device = self.registered_plugin(&name, options)?;
        Ok((name, device))
    }

    /// Whether a registered provider of this name offers a device.
    pub(crate) fn has_devices_of(&self, ort_name: &str) -> bool {
        self.minor() >= 22
            && self
                .environment
                .devices()
                .is_ok_and(|devices| devices.iter().any(|device| device.ep_name == ort_name))
    }

    /// Appends one device of a registered plug-in. The option `device_type` (CPU, GPU or NPU) chooses among several;
    /// without it an NPU is preferred to a GPU, and that to a CPU.
    pub(crate) fn registered_plugin(
        &self,
        ort_name: &str,
        options: &ProviderOptions,
    ) -> Result<DeviceKind, OrtError> {
        let api = self.api();
        let wanted = requested_class(options);
        let mut options = options.clone();
        if wanted.is_some() {
            options.remove("device_type");
        }
        let arrays = OptionArrays::new(&options)?;
        // SAFETY: the environment is alive and nothing is unregistered, so the devices stay valid; strings outlive the
        // call, which copies them.
        unsafe {
            let mut best: Option<(u8, DeviceKind, *const sys::OrtEpDevice)> = None;
            let mut others = Vec::new();
            for raw in device::raw_devices(api, self.environment.as_ptr())? {
                let described = device::describe(api, raw)?;
                if described.ep_name != ort_name {
                    others.push(described);
                    continue;
                }
                let rank = match (described.kind, wanted) {
                    (DeviceKind::Npu, None | Some(DeviceClass::Npu)) => 3,
                    (DeviceKind::Gpu, None | Some(DeviceClass::Gpu)) => 2,
                    (DeviceKind::Cpu, None | Some(DeviceClass::Cpu)) => 1,
                    (_, None) => 0,
                    (_, Some(_)) => continue,
                };
                if best.is_none_or(|(other, _, _)| rank > other) {
                    best = Some((rank, described.kind, raw));
                }
            }
            let Some((_, kind, chosen)) = best else {
                let of = wanted.map_or(String::new(), |class| format!(" of type {class}"));
                return Err(OrtError::Unsupported(format!(
                    "{ort_name} offers no device{of} on this machine{}",
                    foreign_makers(ort_name, &others).unwrap_or_default()
                )));
            };
            call!(
                api,
                SessionOptionsAppendExecutionProvider_V2(
                    self.options(),
                    self.environment.as_ptr(),
                    &raw const chosen,
                    1,
                    arrays.keys(),
                    arrays.values(),
                    arrays.len()
                )
            )?;
            Ok(kind)
        }
    }
}

/// Intel's number on the PCI bus.
const INTEL: u32 = 0x8086;

/// OpenVINO's plug-in ignores all hardware that is not Intel's, including processors (`ov_factory.cc` in ONNX
/// Runtime's source compares the vendor); no option changes that.
fn foreign_makers(ort_name: &str, others: &[EpDevice]) -> Option<String> {
    let is_intel = others.iter().any(|device| device.vendor_id == INTEL);
    if ort_name != "OpenVINOExecutionProvider" || is_intel || others.is_empty() {
        return None;
    }
    let mut makers: Vec<String> =
        others.iter().map(|device| format!("{} ({})", device.kind.name(), device.vendor)).collect();
    makers.sort();
    makers.dedup();
    Some(format!(": its plug-in takes hardware of Intel only, and here is {}", makers.join(", ")))
}

/// The device class that the option `device_type` names, if it names one plainly.
pub(crate) fn requested_class(options: &ProviderOptions) -> Option<DeviceClass> {
    match options.get("device_type")?.to_ascii_uppercase().as_str() {
        "CPU" => Some(DeviceClass::Cpu),
        "GPU" => Some(DeviceClass::Gpu),
        "NPU" => Some(DeviceClass::Npu),
        _ => None,
    }
}

/// Refuses options that this way in cannot pass on: to drop them silently would measure something else.
fn only(options: &ProviderOptions, known: &[&str]) -> Result<(), OrtError> {
    match options.keys().find(|key| !known.contains(&key.as_str())) {
        Some(key) => Err(OrtError::Unsupported(format!(
            "this version of ONNX Runtime cannot take the option '{key}' (it can take {})",
            known.join(", ")
        ))),
        None => Ok(()),
    }
}

fn number<T: std::str::FromStr>(options: &ProviderOptions, key: &str, default: T) -> Result<T, OrtError> {
    match options.get(key) {
        Some(text) => {
            text.parse().map_err(|_| OrtError::Unsupported(format!("'{text}' is no number for '{key}'")))
        }
        None => Ok(default),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(pairs: &[(&str, &str)]) -> ProviderOptions {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn options_that_cannot_be_passed_on_are_rejected() {
        assert!(only(&options(&[("device_id", "1")]), &["device_id"]).is_ok());
        let error = only(&options(&[("fast", "1")]), &["device_id"]).expect_err("unknown");
        assert!(error.to_string().contains("'fast'"), "{error}");
        assert_eq!(number(&options(&[("n", "7")]), "n", 0), Ok(7));
        assert!(number::<i32>(&options(&[("n", "seven")]), "n", 0).is_err());
    }

    #[test]
    fn openvinos_plug_in_says_whose_hardware_it_leaves_out() {
        let device = |vendor_id, vendor: &str| EpDevice {
            ep_name: "CPUExecutionProvider".to_owned(),
            ep_vendor: "Microsoft".to_owned(),
            kind: DeviceKind::Cpu,
            vendor_id,
            vendor: vendor.to_owned(),
            device_id: 0,
            device_metadata: Default::default(),
            ep_metadata: Default::default(),
            ep_options: Default::default(),
        };
        let amd = device(0x1022, "AuthenticAMD");
        let why = foreign_makers("OpenVINOExecutionProvider", &[amd.clone(), amd.clone()]).expect("a reason");
        assert!(why.ends_with("Intel only, and here is CPU (AuthenticAMD)"), "{why}");
        let intel = device(INTEL, "GenuineIntel");
        assert_eq!(foreign_makers("OpenVINOExecutionProvider", &[intel, amd.clone()]), None);
        assert_eq!(foreign_makers("QNNExecutionProvider", &[amd]), None);
    }

    #[test]
    fn device_types() {
        assert_eq!(requested_class(&options(&[("device_type", "npu")])), Some(DeviceClass::Npu));
        assert_eq!(requested_class(&options(&[("device_type", "AUTO:GPU")])), None);
        assert_eq!(requested_class(&options(&[])), None);
    }
}
