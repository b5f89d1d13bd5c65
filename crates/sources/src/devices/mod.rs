//! Devices beside the processors: how busy they are, what they draw, how warm they get.
//!
//! Each family has a reader; [`find`] asks each of them what is there, and keeps for what is not the reason and what would
//! change it. All readers share one thread. Files of the system are read under a root that tests replace.

mod accelerators;
pub mod adapters;
mod amd_smi;
mod amdxdna;
mod asked;
mod bandwidth;
pub mod battery;
mod clients;
mod cores;
mod counted;
mod files;
mod heat;
mod load;
pub mod meters;
mod nvml;
mod plausible;
mod presence;
mod rapl;
mod rounds;
mod source;

use std::path::Path;

pub use amd_smi::{AmdLibrary, AmdSmi, NoLibrary, PciAddress, SmiProcess};
pub(crate) use amdxdna::Ask;
pub use load::{MachineTimes, load_of_machine};
pub use nvml::NvmlLibrary;
pub use presence::Back;
pub use source::DeviceSource;

/// One number of one device.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Reading<'a> {
    /// On the monotonic clock.
    pub at_ns: u64,
    pub device: &'a str,
    /// Its unit stands at the end of its name.
    pub metric: &'a str,
    pub value: f64,
    pub source: &'a str,
}

/// Something that cannot be read, why, and what would change that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// `energy`, `battery`, `temperature`, `throttling`, `cpu_frequency`, `cpu_counters`, `l2_hit_ratio`, `memory_bandwidth`, `gpu`,
    /// `gpu_energy`, `gpu_processes`, `npu`.
    pub what: &'static str,
    pub why: String,
    pub hint: String,
}

/// A device, or several of one family, that can be read.
pub trait Reader: Send {
    /// What it reads, in words: `package-0 (RAPL)`.
    fn describe(&self) -> String;
    /// Reads once; the moment is on the monotonic clock. What cannot be read any more is told in `lost`.
    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>);
    /// What could not be read for a while and can be again, since the last call.
    fn came_back(&mut self, _back: &mut Vec<Back>) {}
    /// Shortest useful time between two readings.
    fn period_ns(&self) -> u64 {
        100_000_000
    }
}

/// What a machine has.
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

/// Everything that can be read here.
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
                        why: format!("ortscope does not read it on {os} yet"),
                        hint: "on Linux it does; processes, memory and kernel events are read here too"
                            .to_owned(),
                    });
                }
            }
            found
        }
    }
}

/// Counters of the processor for some processes: instructions, cycles, caches.
pub fn counters_of(pids: &[u32], found: &mut Found) {
    match crate::sys::hardware_counters(pids) {
        Ok(reader) => found.readers.push(reader),
        Err(missing) => found.missing.push(missing),
    }
}

/// The same for a tree of files such as Linux has, and a library of NVIDIA's.
pub fn find_in(root: &Path, nvidia: &NvmlLibrary) -> Found {
    find_with(root, nvidia, &AmdLibrary::None)
}

/// And one of AMD's.
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
