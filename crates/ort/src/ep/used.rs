//! The hardware behind the providers of a session, as far as ONNX Runtime reports it.

use std::collections::BTreeMap;

use ortscope_core::session::UsedDevice;

use super::DeviceClass;
use crate::device::{DeviceKind, EpDevice};
use crate::{Environment, Session};

/// Keys that join a device with the data of its driver or the system.
const FACTS: &[&str] = &[
    "LUID",
    "DxgiAdapterNumber",
    "Description",
    "Discrete",
    "pci_bus_id",
    "card_idx",
    "accel_idx",
    "FULL_DEVICE_NAME",
    "DEVICE_ARCHITECTURE",
    "ov_device",
    "os_driver_version",
];

/// The devices of a session's providers other than the CPU.
pub fn used_devices(session: &Session) -> Vec<UsedDevice> {
    let asked = session.providers().iter().zip(session.device_classes());
    let asked: Vec<_> = asked.filter(|(name, _)| *name != "CPUExecutionProvider").collect();
    if asked.is_empty() {
        return Vec::new();
    }
    let offered = offered(session.environment());
    asked.into_iter().map(|(provider, class)| describe(provider, *class, &offered)).collect()
}

/// Versions before 1.22 do not report devices.
fn offered(environment: &Environment) -> Vec<EpDevice> {
    environment.devices().unwrap_or_default()
}

fn describe(provider: &str, class: DeviceClass, offered: &[EpDevice]) -> UsedDevice {
    let kind = match class {
        DeviceClass::Cpu => DeviceKind::Cpu,
        DeviceClass::Gpu => DeviceKind::Gpu,
        DeviceClass::Npu => DeviceKind::Npu,
    };
    let own = || offered.iter().filter(|device| device.ep_name == provider);
    let device = own().find(|device| device.kind == kind).or_else(|| own().next());
    let facts = device.map(|device| {
        let all = device.device_metadata.iter().chain(&device.ep_metadata);
        all.filter(|(key, _)| FACTS.contains(&key.as_str())).map(|(key, value)| (key.clone(), value.clone()))
    });
    let facts: BTreeMap<String, String> = facts.into_iter().flatten().collect();
    let name = ["FULL_DEVICE_NAME", "Description"].iter().find_map(|key| facts.get(*key)).cloned();
    UsedDevice {
        provider: provider.to_owned(),
        class,
        name,
        is_simulated: class != DeviceClass::Cpu && device.is_some_and(|found| found.kind == DeviceKind::Cpu),
        facts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(kind: DeviceKind, facts: &[(&str, &str)]) -> EpDevice {
        EpDevice {
            ep_name: "QNNExecutionProvider".to_owned(),
            ep_vendor: "Qualcomm".to_owned(),
            kind,
            vendor_id: 0,
            vendor: String::new(),
            device_id: 0,
            device_metadata: facts.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect(),
            ep_metadata: BTreeMap::new(),
            ep_options: BTreeMap::new(),
        }
    }

    #[test]
    fn a_device_is_found_by_its_kind_and_a_simulator_is_marked() {
        let offered = [
            device(DeviceKind::Cpu, &[]),
            device(DeviceKind::Npu, &[("LUID", "4711"), ("Description", "Hexagon"), ("secret", "x")]),
        ];
        let npu = describe("QNNExecutionProvider", DeviceClass::Npu, &offered);
        assert_eq!((npu.name.as_deref(), npu.is_simulated), (Some("Hexagon"), false));
        assert_eq!(npu.facts.keys().collect::<Vec<_>>(), ["Description", "LUID"]);
        // QNN's simulator is offered on the CPU.
        assert!(describe("QNNExecutionProvider", DeviceClass::Npu, &offered[..1]).is_simulated);
        let unknown = describe("OpenVINOExecutionProvider", DeviceClass::Gpu, &offered);
        assert_eq!((unknown.name, unknown.is_simulated, unknown.facts.len()), (None, false, 0));
    }
}
