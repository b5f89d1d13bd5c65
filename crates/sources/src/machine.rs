//! What kind of machine this is: printed by `doctor` and kept with every measurement.

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
        }
    }
}
