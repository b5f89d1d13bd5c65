//! Systems that ortscope does not know: everything above still compiles and says so.

pub mod key_store;
pub mod privileges;
mod proc;

use crate::machine::MachineFacts;
use crate::process::{ProcessUsage, UsageError};
use crate::sampler::ProcessBackend;

pub fn process_backend() -> Box<dyn ProcessBackend> {
    Box::new(proc::NoBackend)
}

/// Not asked on this system.
pub fn terminal_gone_within(_wait: std::time::Duration) -> bool {
    false
}

/// This system's allocator does it by itself.
pub fn give_back_freed_memory() {}

pub fn give_back_freed_memory_now() {}

/// Not asked on this system.
pub fn prefer_this_thread() -> Option<i32> {
    None
}

pub fn keep_on_processor(_index: usize) -> Option<u32> {
    None
}

/// Not asked on this system.
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

/// Not read on this system yet.
pub fn processors_online() -> Vec<crate::processors::Processor> {
    Vec::new()
}

pub fn process_usage(_pid: u32) -> Result<ProcessUsage, UsageError> {
    Err(UsageError::Unsupported)
}

pub fn own_usage() -> Result<ProcessUsage, UsageError> {
    Err(UsageError::Unsupported)
}

/// This system does not name its boots.
pub fn boot_id() -> Option<String> {
    None
}

pub fn machine_facts() -> MachineFacts {
    MachineFacts::basic()
}

/// Event tracing of this kind is Windows'.
pub fn etw_functions() -> Option<std::sync::Arc<dyn crate::etw::EtwApi>> {
    None
}

/// Questions to a driver of Linux.
pub fn amdxdna_questions(_file: &std::path::Path) -> std::io::Result<crate::devices::Ask> {
    Err(std::io::ErrorKind::Unsupported.into())
}

/// Counters of memory controllers are read on Linux.
pub fn memory_bandwidth(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

/// Not known here.
pub fn machine_times() -> Option<crate::devices::MachineTimes> {
    None
}

/// Energy events are Linux'.
pub fn energy_events(_root: &std::path::Path, _found: &mut crate::devices::Found) {}

/// AMD's management libraries are for Linux.
pub(crate) fn amd_smi(
    _library: &crate::devices::AmdLibrary,
) -> Result<Box<dyn crate::devices::AmdSmi>, crate::devices::NoLibrary> {
    Err(crate::devices::NoLibrary::NotInstalled)
}

pub fn hardware_counters(_pids: &[u32]) -> Result<Box<dyn crate::devices::Reader>, crate::devices::Missing> {
    Err(crate::devices::Missing {
        what: "cpu_counters",
        why: "ortscope does not read counters of processors on this system".to_owned(),
        hint: "on Linux it does".to_owned(),
    })
}

/// Devices are not known here; the answer names what was looked for.
pub fn find_devices(_nvidia: usize, _found: &mut crate::devices::Found) -> &'static [&'static str] {
    &[]
}

/// There is nobody else to ask.
pub fn inventory() -> Option<Result<crate::machine::Inventory, String>> {
    None
}

pub fn machine_model() -> crate::machine::MachineModel {
    crate::machine::MachineModel::default()
}
