//! What kind of machine this is: printed by `doctor` and kept with every measurement.

use std::collections::BTreeMap;

use serde::Serialize;

/// The facts that decide whether two measurements can be compared.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineFacts {
    pub os: String,
    pub os_version: Option<String>,
    pub architecture: String,
    pub cpu_model: Option<String>,
    pub logical_cpus: usize,
    pub memory_bytes: Option<u64>,
    /// The frequency governor or power plan; `None` where the system does not show one (most virtual machines).
    pub governor: Option<String>,
    /// The hypervisor, if the system says that it runs in one.
    pub virtual_machine: Option<bool>,
    /// Versions of the drivers of GPUs and NPUs, by name. A driver that is part of the kernel has the kernel's.
    pub drivers: BTreeMap<String, String>,
}

impl MachineFacts {
    /// What the standard library knows on every system.
    pub(crate) fn basic() -> Self {
        Self {
            os: std::env::consts::OS.to_owned(),
            os_version: None,
            architecture: std::env::consts::ARCH.to_owned(),
            cpu_model: None,
            logical_cpus: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_bytes: None,
            governor: None,
            virtual_machine: None,
            drivers: BTreeMap::new(),
        }
    }

    /// What decides whether measurements can be compared. Facts that the system does not tell are left out.
    pub fn fingerprint(&self) -> BTreeMap<String, String> {
        let facts = [
            ("os", Some(self.os.clone())),
            ("os_version", self.os_version.clone()),
            ("architecture", Some(self.architecture.clone())),
            ("cpu_model", self.cpu_model.clone()),
            ("logical_cpus", Some(self.logical_cpus.to_string())),
            ("memory_bytes", self.memory_bytes.map(|bytes| bytes.to_string())),
            ("governor", self.governor.clone()),
        ];
        let facts = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let drivers = self.drivers.iter().map(|(name, version)| (format!("driver_{name}"), version.clone()));
        facts.chain(drivers).collect()
    }
}

/// What this machine calls itself; each system has one of these.
pub fn host_name() -> Option<String> {
    let variables = ["COMPUTERNAME", "HOSTNAME"].iter().filter_map(|name| std::env::var(name).ok());
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let files = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    variables.chain(files).map(|name| name.trim().to_owned()).find(|name| !name.is_empty())
}

/// What kind of thing the machine is, as its firmware says.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MachineModel {
    /// `laptop`, `desktop`, `server`, `tablet`, `virtual machine`.
    pub kind: Option<&'static str>,
    pub maker: Option<String>,
    pub model: Option<String>,
}

impl MachineModel {
    /// The kind of a chassis by its number in the firmware's table (SMBIOS).
    pub(crate) fn kind_of(chassis: Option<u64>, is_virtual: bool) -> Option<&'static str> {
        if is_virtual {
            return Some("virtual machine");
        }
        match chassis? {
            3..=7 | 13 | 15 | 16 | 24 | 35 => Some("desktop"),
            8..=10 | 14 | 31 | 32 => Some("laptop"),
            11 | 30 => Some("tablet"),
            17 | 23 | 25 | 28 | 29 => Some("server"),
            34 | 36 => Some("embedded machine"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MachineModel;

    #[test]
    fn chassis_have_kinds() {
        assert_eq!(MachineModel::kind_of(Some(10), false), Some("laptop"));
        assert_eq!(MachineModel::kind_of(Some(1), true), Some("virtual machine"));
        assert_eq!((MachineModel::kind_of(Some(2), false), MachineModel::kind_of(None, false)), (None, None));
    }
}
