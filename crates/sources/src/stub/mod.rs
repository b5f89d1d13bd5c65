//! Unsupported systems: everything compiles and reports that it is unsupported.

mod proc;

use crate::machine::MachineFacts;
use crate::machine::{ProcessUsage, UsageError};
use crate::sampler::ProcessBackend;

pub fn process_backend() -> Box<dyn ProcessBackend> {
    Box::new(proc::NoBackend)
}

pub fn terminal_closed_within(_wait: std::time::Duration) -> bool {
    false
}

/// The allocator does this by default.
pub fn release_memory_automatically() {}

pub fn release_memory_now() {}

pub fn prefer_this_thread() -> Option<i32> {
    None
}

pub fn pin_to_processor(_index: usize) -> Option<u32> {
    None
}

#[derive(Debug)]
pub struct Processors;

impl Processors {
    pub fn of_this_thread() -> Option<Self> {
        None
    }

    pub fn halves(&self) -> Option<(Self, Self)> {
        None
    }

    pub fn keep_this_thread(&self) -> bool {
        false
    }
}

pub fn processors_online() -> Vec<crate::machine::Processor> {
    Vec::new()
}

pub fn process_usage(_pid: u32) -> Result<ProcessUsage, UsageError> {
    Err(UsageError::Unsupported)
}

pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    Err(UsageError::Unsupported)
}

/// The name of kernel events on this system.
pub const KERNEL_EVENTS: &str = "kernel events";

/// This system does not identify its boots.
pub fn boot_id() -> Option<String> {
    None
}

/// Not exposed by this system.
pub fn environment_variable(_pid: u32, _name: &str) -> Option<String> {
    None
}

pub fn machine_facts() -> MachineFacts {
    MachineFacts::basic()
}

pub fn etw_functions() -> Option<std::sync::Arc<dyn crate::etw::EtwApi>> {
    None
}

pub fn amdxdna_query(_file: &std::path::Path) -> std::io::Result<crate::devices::DriverQuery> {
    Err(std::io::ErrorKind::Unsupported.into())
}

pub fn memory_bandwidth(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

pub fn machine_times() -> Option<crate::devices::MachineTimes> {
    None
}

pub fn energy_events(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

pub(crate) fn amd_smi(
    _library: &crate::devices::AmdLibrary,
) -> Result<Box<dyn crate::devices::AmdSmi>, crate::devices::NoLibrary> {
    Err(crate::devices::NoLibrary::NotInstalled)
}

pub fn hardware_counters(_pids: &[u32]) -> Result<Box<dyn crate::devices::Reader>, crate::devices::Missing> {
    Err(crate::devices::Missing {
        what: "cpu_counters",
        why: "processor counters are not supported on this system".to_owned(),
        hint: "they are on Linux".to_owned(),
    })
}

/// Returns the families that were searched for.
pub fn find_devices(_nvidia: usize, _found: &mut crate::devices::Found) -> &'static [&'static str] {
    &[]
}

pub fn inventory() -> Option<Result<crate::machine::Inventory, String>> {
    None
}

pub fn machine_model() -> crate::machine::MachineModel {
    crate::machine::MachineModel::default()
}

pub mod key_store {
    pub const NAME: &str = "the system's key store";

    const NONE: &str = "no key store is supported on this system";

    pub fn read(_name: &str) -> Result<Option<String>, String> {
        Err(NONE.into())
    }

    pub fn write(_name: &str, _secret: &str) -> Result<(), String> {
        Err(NONE.into())
    }

    pub fn remove(_name: &str) -> Result<bool, String> {
        Err(NONE.into())
    }
}

pub mod privileges {
    pub fn drop_unneeded(_writable: &[std::path::PathBuf], _no_new_privileges: bool) -> Result<u32, String> {
        Ok(0)
    }
}
