//! Devices other than processors: utilization, power and temperature.
//!
//! Each device family has a reader. [`find`] probes every family and records, for each one that is absent, the reason
//! and what would make it available. All readers share one thread. System files are read below a root directory that
//! tests replace.

mod accelerators;
pub mod adapters;
mod amd_smi;
mod amdxdna;
mod bandwidth;
pub mod battery;
mod clients;
mod cores;
mod energy_meter;
mod files;
mod heat;
mod load;
pub mod meters;
mod nvml;
mod plausible;
mod poller;
mod rapl;
mod source;
mod vendor_library;

use std::path::Path;

pub use amd_smi::{AmdLibrary, AmdSmi, NoLibrary, PciAddress, SmiProcess};
pub(crate) use amdxdna::DriverQuery;
pub use load::{MachineTimes, machine_load};
pub use nvml::NvmlLibrary;
pub use source::DeviceSource;

/// One value of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'a> {
    /// Monotonic clock.
    pub at_ns: u64,
    pub device: &'a str,
    /// The name ends with the unit.
    pub metric: &'a str,
    pub value: f64,
    pub source: &'a str,
}

/// Something that cannot be read, with the reason and a hint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// `energy`, `battery`, `temperature`, `throttling`, `cpu_frequency`, `cpu_counters`, `l2_hit_ratio`, `memory_bandwidth`, `gpu`,
    /// `gpu_energy`, `gpu_processes`, `npu`.
    pub what: &'static str,
    pub why: String,
    pub hint: String,
}

impl Missing {
    pub fn new(what: &'static str, why: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what, why: why.into(), hint: hint.into() }
    }
}

/// An outage that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovered {
    /// As it was reported when the outage began.
    pub missing: Missing,
    pub from_ns: u64,
    pub to_ns: u64,
}

/// Whether a reading is available; reports its loss and its return once.
#[derive(Debug, Default)]
struct Presence(Option<(u64, Missing)>);

impl Presence {
    pub fn is_lost(&self) -> bool {
        self.0.is_some()
    }

    /// Records that a read failed; only the first failure is added to `lost`.
    pub fn lose(&mut self, at_ns: u64, missing: impl FnOnce() -> Missing, lost: &mut Vec<Missing>) {
        if self.0.is_none() {
            let missing = missing();
            lost.push(missing.clone());
            self.0 = Some((at_ns, missing));
        }
    }

    /// Records a successful read.
    pub fn find(&mut self, at_ns: u64, back: &mut Vec<Recovered>) {
        if let Some((from_ns, missing)) = self.0.take() {
            back.push(Recovered { missing, from_ns, to_ns: at_ns });
        }
    }
}

/// A device, or several of one family, that can be read.
pub trait Reader: Send {
    /// Description for people: `package-0 (RAPL)`.
    fn describe(&self) -> String;
    /// Reads once. `at_ns` is on the monotonic clock. Readings that are no longer available are added to `lost`.
    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>);
    /// Adds the outages that have ended since the last call.
    fn take_recovered(&mut self, _back: &mut Vec<Recovered>) {}
    /// Shortest useful time between two readings.
    fn period_ns(&self) -> u64 {
        100_000_000
    }
}

/// Readable devices of a machine, and the reasons for the others.
#[derive(Default)]
pub struct Found {
    pub readers: Vec<Box<dyn Reader>>,
    pub missing: Vec<Missing>,
}

impl std::fmt::Debug for Found {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let readers: Vec<String> = self.readers.iter().map(|reader| reader.describe()).collect();
        f.debug_struct("Found").field("readers", &readers).field("missing", &self.missing).finish()
    }
}

/// Finds everything that can be read on this machine.
pub fn find() -> Found {
    match std::env::consts::OS {
        "linux" => find_with(Path::new("/"), &NvmlLibrary::System, &AmdLibrary::System),
        os => {
            let mut found = Found::default();
            let nvidia = nvml::find(&NvmlLibrary::System, &mut found).unwrap_or(0);
            let seen = crate::sys::find_devices(nvidia, &mut found);
            for what in ["energy", "temperature", "throttling", "gpu", "npu"] {
                if !seen.contains(&what) {
                    found.missing.push(Missing {
                        what,
                        why: format!("ortscope does not support it on {os} yet"),
                        hint: "supported on Linux; processes, memory and kernel events are recorded here too"
                            .to_owned(),
                    });
                }
            }
            found
        }
    }
}

/// Adds processor counters (instructions, cycles, caches) of the given processes.
pub fn process_counters(pids: &[u32], found: &mut Found) {
    match crate::sys::hardware_counters(pids) {
        Ok(reader) => found.readers.push(reader),
        Err(missing) => found.missing.push(missing),
    }
}

/// Like [`find`], for a file tree laid out like Linux and an NVIDIA library, without AMD's library.
pub fn find_in(root: &Path, nvidia: &NvmlLibrary) -> Found {
    find_with(root, nvidia, &AmdLibrary::None)
}

/// Like [`find_in`], with an AMD library.
pub fn find_with(root: &Path, nvidia: &NvmlLibrary, amd: &AmdLibrary) -> Found {
    let mut found = Found::default();
    rapl::find(root, &mut found);
    cores::battery(root, &mut found);
    heat::find(root, &mut found);
    cores::clocks(root, &mut found);
    bandwidth::find(root, &mut found);
    let nvidia = nvml::find(nvidia, &mut found);
    accelerators::find(root, nvidia, amd, &mut found);
    found
}
