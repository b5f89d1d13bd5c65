//! Facts about the machine and its processors, printed by `doctor` and stored with every measurement, and the CPU time and
//! memory of a process.

use std::collections::BTreeMap;

use ortscope_core::identity::ProcessIdentity;
use serde::Serialize;

/// Facts that determine whether two measurements are comparable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MachineFacts {
    pub os: String,
    pub os_version: Option<String>,
    pub architecture: String,
    pub cpu_model: Option<String>,
    pub logical_cpus: usize,
    pub memory_bytes: Option<u64>,
    /// Frequency governor or power plan; `None` if the system does not expose one (most virtual machines).
    pub governor: Option<String>,
    /// Whether the system reports that it runs in a virtual machine.
    pub virtual_machine: Option<bool>,
    /// Driver versions of GPUs and NPUs, by name. Drivers that are part of the kernel have its version.
    pub drivers: BTreeMap<String, String>,
}

impl MachineFacts {
    /// Facts available from the standard library on every system.
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

    /// The facts that determine comparability. Unknown facts are left out.
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

/// Name of this machine.
pub fn host_name() -> Option<String> {
    let variables = ["COMPUTERNAME", "HOSTNAME"].iter().filter_map(|name| std::env::var(name).ok());
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"];
    let files = files.iter().filter_map(|path| std::fs::read_to_string(path).ok());
    variables.chain(files).map(|name| name.trim().to_owned()).find(|name| !name.is_empty())
}

/// The kind of machine according to its firmware.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct MachineModel {
    /// `laptop`, `desktop`, `server`, `tablet`, `virtual machine`.
    pub kind: Option<&'static str>,
    pub maker: Option<String>,
    pub model: Option<String>,
}

impl MachineModel {
    /// The kind of a chassis by its SMBIOS number.
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

/// Facts from a slower source (WMI on Windows), for those that the quick ones do not provide.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    pub kind: Option<&'static str>,
    pub maker: Option<String>,
    pub model: Option<String>,
    pub cpu_model: Option<String>,
    pub memory_bytes: Option<u64>,
    pub drivers: BTreeMap<String, String>,
}

/// `PCSystemTypeEx` of the WMI class `Win32_ComputerSystem`. In the older `PCSystemType`, 8 does not mean tablet.
pub const SYSTEM_TYPES: [(u64, &str); 7] = [
    (1, "desktop"),
    (2, "laptop"),
    (3, "workstation"),
    (4, "server"),
    (5, "server"),
    (7, "server"),
    (8, "tablet"),
];

/// Timeout of [`complete`].
const QUERY_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(3);

impl Inventory {
    /// Fills missing facts; known ones are kept.
    fn fill(self, machine: &mut MachineFacts, model: &mut MachineModel) {
        machine.cpu_model = machine.cpu_model.take().or(self.cpu_model);
        machine.memory_bytes = machine.memory_bytes.or(self.memory_bytes);
        for (name, version) in self.drivers {
            machine.drivers.entry(name).or_insert(version);
        }
        model.kind = model.kind.or(self.kind);
        model.maker = model.maker.take().or(self.maker);
        model.model = model.model.take().or(self.model);
    }
}

/// Queries the system's slower source if facts are missing and such a source exists. The error explains why it failed.
pub fn complete(machine: &mut MachineFacts, model: &mut MachineModel) -> Result<(), String> {
    complete_by(machine, model, crate::sys::inventory)
}

fn complete_by(
    machine: &mut MachineFacts,
    model: &mut MachineModel,
    query: impl FnOnce() -> Option<Result<Inventory, String>> + Send + 'static,
) -> Result<(), String> {
    let is_complete = machine.cpu_model.is_some()
        && machine.memory_bytes.is_some()
        && !machine.drivers.is_empty()
        && model.kind.is_some()
        && model.maker.is_some()
        && model.model.is_some();
    if is_complete {
        return Ok(());
    }
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    // A service that hangs blocks its own thread, not this one.
    let thread = std::thread::Builder::new().name("inventory".to_owned());
    thread
        .spawn(move || sender.send(query()).ok())
        .map_err(|error| format!("the query thread could not be started: {error}"))?;
    match receiver.recv_timeout(QUERY_TIMEOUT) {
        Ok(None) => Ok(()),
        Ok(Some(Ok(inventory))) => {
            inventory.fill(machine, model);
            Ok(())
        }
        Ok(Some(Err(why))) => Err(why),
        Err(_) => Err(format!("WMI did not answer within {} s", QUERY_TIMEOUT.as_secs())),
    }
}

/// The kind of core of a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CoreKind {
    /// All cores are alike, or the machine does not distinguish them.
    Uniform,
    Performance,
    Efficiency,
}

/// One logical processor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Processor {
    pub number: u32,
    pub kind: CoreKind,
    /// NUMA node; `None` if unknown.
    pub numa_node: Option<u32>,
    /// Physical core within the machine, shared by processors with the same number.
    pub core: Option<u32>,
}

/// CPU time and memory of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProcessUsage {
    pub identity: ProcessIdentity,
    pub cpu_time_ns: u64,
    pub working_set_bytes: u64,
    pub peak_working_set_bytes: Option<u64>,
    pub private_bytes: Option<u64>,
    pub thread_count: Option<u64>,
}

/// Why a process could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UsageError {
    #[error("process {0} does not exist")]
    NoSuchProcess(u32),
    #[error("permission to read process {pid} was denied: {why}")]
    Permission { pid: u32, why: String },
    #[error("process {pid} could not be read: {why}")]
    Unreadable { pid: u32, why: String },
    #[error("reading processes is not supported on this system")]
    Unsupported,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> (MachineFacts, MachineModel) {
        (MachineFacts::basic(), MachineModel::default())
    }

    #[test]
    fn known_facts_are_kept_and_missing_ones_filled() {
        let (mut machine, mut model) = bare();
        machine.cpu_model = Some("from the registry".to_owned());
        machine.drivers.insert("GPU".to_owned(), "1".to_owned());
        let inventory = Inventory {
            kind: Some("laptop"),
            maker: Some("Maker".to_owned()),
            cpu_model: Some("from WMI".to_owned()),
            memory_bytes: Some(1 << 34),
            drivers: [("GPU", "2"), ("NPU", "3")].map(|(name, of)| (name.to_owned(), of.to_owned())).into(),
            ..Inventory::default()
        };
        assert_eq!(complete_by(&mut machine, &mut model, move || Some(Ok(inventory))), Ok(()));
        assert_eq!(
            (machine.cpu_model.as_deref(), machine.memory_bytes),
            (Some("from the registry"), Some(1 << 34))
        );
        assert_eq!((model.kind, model.maker.as_deref(), model.model), (Some("laptop"), Some("Maker"), None));
        assert_eq!((machine.drivers["GPU"].as_str(), machine.drivers["NPU"].as_str()), ("1", "3"));
    }

    #[test]
    fn a_refusing_or_hanging_service_is_an_error() {
        let (mut machine, mut model) = bare();
        let refused =
            complete_by(&mut machine, &mut model, || Some(Err("WMI refuses: 0x80041003".to_owned())));
        assert_eq!(refused, Err("WMI refuses: 0x80041003".to_owned()));
        let hangs = || {
            std::thread::sleep(QUERY_TIMEOUT * 2);
            None
        };
        let hung = complete_by(&mut machine, &mut model, hangs);
        assert_eq!(hung, Err("WMI did not answer within 3 s".to_owned()));
        assert_eq!((machine, model), bare());
    }

    #[test]
    fn chassis_numbers_have_kinds() {
        assert_eq!(MachineModel::kind_of(Some(10), false), Some("laptop"));
        assert_eq!(MachineModel::kind_of(Some(1), true), Some("virtual machine"));
        assert_eq!((MachineModel::kind_of(Some(2), false), MachineModel::kind_of(None, false)), (None, None));
    }
}
