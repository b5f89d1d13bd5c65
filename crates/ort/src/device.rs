//! The devices that providers offer (`GetEpDevices`, since 1.22).
#![expect(unsafe_code, reason = "reads device descriptions from C objects")]

use std::collections::BTreeMap;
use std::ptr;

use ort_sys as sys;
use serde::{Deserialize, Serialize};

use crate::api::Api;
use crate::{OrtError, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DeviceKind {
    Cpu,
    Gpu,
    Npu,
    Other,
}

impl DeviceKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "CPU",
            Self::Gpu => "GPU",
            Self::Npu => "NPU",
            Self::Other => "another device",
        }
    }
}

/// One device as one provider offers it; a device appears once per provider that can use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EpDevice {
    pub ep_name: String,
    pub ep_vendor: String,
    pub kind: DeviceKind,
    pub vendor_id: u32,
    pub vendor: String,
    pub device_id: u32,
    /// The device's own facts: `LUID`, `pci_bus_id`, `Description` and the like.
    pub device_metadata: BTreeMap<String, String>,
    pub ep_metadata: BTreeMap<String, String>,
    pub ep_options: BTreeMap<String, String>,
}

/// The raw devices, owned by the environment.
///
/// # Safety
/// `environment` is alive. The pointers are valid until a provider library is unregistered or the environment released.
pub(crate) unsafe fn raw_devices(
    api: Api,
    environment: *const sys::OrtEnv,
) -> Result<Vec<*const sys::OrtEpDevice>, OrtError> {
    let (mut devices, mut count) = (ptr::null(), 0usize);
    // SAFETY: alive by contract; ONNX Runtime fills an array of `count` pointers that it owns.
    unsafe {
        call!(api, GetEpDevices(environment, &raw mut devices, &raw mut count))?;
        Ok((0..count).map(|index| *devices.add(index)).collect())
    }
}

/// # Safety
/// `device` came from [`raw_devices`] and is still valid.
pub(crate) unsafe fn ep_name(api: Api, device: *const sys::OrtEpDevice) -> Result<String, OrtError> {
    // SAFETY: valid by contract.
    unsafe { call_plain!(api, EpDevice_EpName(device)).map(|name| text::copy(name)) }
}

/// # Safety
/// `device` came from [`raw_devices`] and is still valid.
pub(crate) unsafe fn describe(api: Api, device: *const sys::OrtEpDevice) -> Result<EpDevice, OrtError> {
    type TypeOf = unsafe extern "system" fn(*const sys::OrtHardwareDevice) -> i32;
    type RawTypeOf = unsafe extern "system" fn(*const sys::OrtHardwareDevice) -> sys::OrtHardwareDeviceType;
    // SAFETY: valid by contract; all strings and maps belong to the device and are copied. The transmute reads the
    // repr(i32) enum as its integer, because a newer library may have more kinds.
    unsafe {
        let hardware = call_plain!(api, EpDevice_Device(device))?;
        let type_of = std::mem::transmute::<RawTypeOf, TypeOf>(slot!(api, HardwareDevice_Type)?);
        Ok(EpDevice {
            ep_name: ep_name(api, device)?,
            ep_vendor: text::copy(call_plain!(api, EpDevice_EpVendor(device))?),
            kind: match type_of(hardware) {
                0 => DeviceKind::Cpu,
                1 => DeviceKind::Gpu,
                2 => DeviceKind::Npu,
                _ => DeviceKind::Other,
            },
            vendor_id: call_plain!(api, HardwareDevice_VendorId(hardware))?,
            vendor: text::copy(call_plain!(api, HardwareDevice_Vendor(hardware))?),
            device_id: call_plain!(api, HardwareDevice_DeviceId(hardware))?,
            device_metadata: text::pairs(api, call_plain!(api, HardwareDevice_Metadata(hardware))?)?,
            ep_metadata: text::pairs(api, call_plain!(api, EpDevice_EpMetadata(device))?)?,
            ep_options: text::pairs(api, call_plain!(api, EpDevice_EpOptions(device))?)?,
        })
    }
}
