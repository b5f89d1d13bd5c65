//! GPUs and NPUs on Windows. DXCore lists the adapters; utilization comes from DXCore itself, from performance counters
//! (PDH), or as a last resort from the kernel's statistics (D3DKMT). The system functions are behind [`AdapterApi`],
//! [`StateApi`] and [`CounterApi`], so that everything else is testable on every system.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ortscope_decode::gpu_counters::AdapterId;

use self::reader::Adapters;
use super::{Found, Missing};

/// The first Windows build with NPU figures (24H2).
pub const NPU_SINCE_BUILD: u32 = 26100;

/// An adapter as described by DXCore.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Adapter {
    pub id: u64,
    pub name: String,
    pub is_npu: bool,
    pub is_integrated: Option<bool>,
    pub is_software: bool,
    pub driver: Option<String>,
    pub dedicated_bytes: Option<u64>,
    pub shared_bytes: Option<u64>,
}

/// Adapters of the system; errors explain why they cannot be listed.
pub trait AdapterApi {
    fn adapters(&mut self) -> Result<Vec<Adapter>, String>;
    /// The Windows build number.
    fn build(&self) -> Option<u32>;
    /// Providers of adapter states, best first.
    fn states(&mut self) -> Vec<Box<dyn StateApi>>;
}

/// State of an adapter at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdapterState {
    /// Busy time of each engine in nanoseconds since an arbitrary moment; empty if not reported.
    pub engines_ns: Vec<u64>,
    /// In local and in shared memory.
    pub used_bytes: Option<u64>,
    pub celsius: Option<f64>,
    /// Frequency of its fastest engine.
    pub hertz: Option<f64>,
}

pub trait StateApi: Send {
    /// `dxcore`, `d3dkmt`.
    fn source(&self) -> &'static str;
    /// Whether it is used only when the performance counters are unavailable.
    fn is_last_resort(&self) -> bool;
    /// `None` for an adapter that is unknown or reports nothing.
    fn state(&mut self, id: u64) -> Option<AdapterState>;
    /// State of the processes on an adapter; `None` if not reported.
    fn processes(&mut self, _id: u64) -> Option<Vec<ProcessState>> {
        None
    }
}

/// State of one process on an adapter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessState {
    pub pid: u32,
    /// Busy time of each engine for this process.
    pub engines_ns: Vec<u64>,
    /// Resident, in local and in shared memory.
    pub used_bytes: Option<u64>,
    pub committed_bytes: Option<u64>,
}

/// A performance counter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterSet {
    EnginePercent,
    AdapterDedicated,
    AdapterShared,
    ProcessCommitted,
    ProcessLocal,
    /// Processors: upper limit of the frequency set by the system, in percent.
    PerformanceLimit,
    /// Processors: current frequency, in percent of the nominal one.
    PerformancePercent,
    /// Processors: nominal frequency in megahertz.
    NominalMegahertz,
    /// In kelvins.
    ThermalZone,
}

/// Performance counters, collected together.
pub trait CounterApi: Send {
    /// Collects new values of all counters.
    fn collect(&mut self) -> Result<(), String>;
    /// Instances and their values.
    fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String>;
}

/// Names adapters `gpuN` and `npuN`. `nvidia` GPUs already have names from NVIDIA's library. Processor counters are read
/// even without an adapter.
pub fn find(
    api: &mut dyn AdapterApi,
    counters: Result<Box<dyn CounterApi>, String>,
    nvidia: usize,
    found: &mut Found,
) {
    let adapters = api.adapters().unwrap_or_else(|why| {
        let hint = "Windows 10 2004 and newer list their adapters (DXCore)";
        let lacking = if nvidia == 0 { &["gpu", "npu"][..] } else { &["npu"][..] };
        found.missing.extend(lacking.iter().map(|what| Missing::new(what, why.clone(), hint)));
        Vec::new()
    });
    let has_adapters = !found.missing.iter().any(|missing| missing.what == "npu");
    let (mut names, mut described, mut totals) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (mut gpus, mut npus, mut nvidia_named) = (nvidia, 0, 0);
    // NVML reports more about these; only their processes are reported here.
    let mut in_nvml = BTreeSet::new();
    for adapter in adapters.into_iter().filter(|adapter| !adapter.is_software) {
        let id = AdapterId(adapter.id);
        if names.contains_key(&id) {
            continue;
        }
        let device = if adapter.is_npu {
            npus += 1;
            format!("npu{}", npus - 1)
        } else if nvidia_named < nvidia && adapter.name.to_ascii_uppercase().contains("NVIDIA") {
            nvidia_named += 1;
            let device = format!("gpu{}", nvidia_named - 1);
            in_nvml.insert(device.clone());
            device
        } else {
            gpus += 1;
            format!("gpu{}", gpus - 1)
        };
        let driver = adapter.driver.map(|driver| format!(", driver {driver}")).unwrap_or_default();
        described.push(format!("{device} {}{driver}", adapter.name));
        // An NPU has no dedicated memory, and 0 would be misleading.
        let total = adapter.dedicated_bytes.filter(|bytes| *bytes > 0).or(adapter.shared_bytes);
        totals.extend(total.map(|bytes| (device.clone(), bytes as f64)));
        names.insert(id, device);
    }
    if gpus == 0 && has_adapters {
        found.missing.push(Missing::new(
            "gpu",
            "Windows lists no GPU",
            "install the vendor's driver; in a virtual machine, pass a GPU through",
        ));
    }
    if npus == 0 && has_adapters {
        let why = match api.build() {
            Some(build) if build < NPU_SINCE_BUILD => {
                format!("this is Windows build {build}; NPU figures require 24H2 (build {NPU_SINCE_BUILD})")
            }
            _ => "Windows lists no NPU".to_owned(),
        };
        let hint = "requires Windows 11 24H2 (build 26100) or newer and the NPU's own driver (MCDM)";
        found.missing.push(Missing::new("npu", why, hint));
    }
    let counters = match counters {
        Ok(counters) => Some(counters),
        Err(why) => {
            let hint =
                "`lodctr /R` as administrator repairs the counters; `typeperf -q \"GPU Engine\"` lists them";
            let lacking = ["gpu_processes", "throttling", "temperature", "cpu_frequency"];
            found.missing.extend(lacking.map(|what| Missing::new(what, why.clone(), hint)));
            None
        }
    };
    let states = if names.is_empty() { Vec::new() } else { api.states() };
    if counters.is_none() && states.is_empty() {
        return;
    }
    let mut reader = Adapters::new(names, described, totals, in_nvml, states, counters);
    found.missing.extend(reader.probe());
    found.readers.push(Box::new(reader));
}
