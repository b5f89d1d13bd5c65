//! GPUs and NPUs on Windows: adapters by DXCore, their use by what they tell of themselves (DXCore), by counters of the
//! system (PDH), and at last by the kernel's statistics (D3DKMT). The functions of the system stand behind [`AdapterApi`],
//! [`StateApi`] and [`CounterApi`], so that everything else is tested on every system.

mod reader;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use ortscope_decode::gpu_counters::AdapterId;

use self::reader::Adapters;
use super::{Found, Missing};

/// Windows from which on an NPU has figures (24H2).
pub const NPU_SINCE_BUILD: u32 = 26100;

/// What DXCore says about an adapter.
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

/// Adapters of the system; the text says why they cannot be told.
pub trait AdapterApi {
    fn adapters(&mut self) -> Result<Vec<Adapter>, String>;
    /// The build of Windows.
    fn build(&self) -> Option<u32>;
    /// Who tells how busy an adapter is, the best first.
    fn states(&mut self) -> Vec<Box<dyn StateApi>>;
}

/// What an adapter tells of itself at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct AdapterState {
    /// Nanoseconds in which each engine worked since some moment; empty if that is not told.
    pub engines_ns: Vec<u64>,
    /// In its own memory, and in that of the machine.
    pub used_bytes: Option<u64>,
    pub celsius: Option<f64>,
    /// Of its fastest engine now.
    pub hertz: Option<f64>,
}

pub trait StateApi: Send {
    /// `dxcore`, `d3dkmt`.
    fn source(&self) -> &'static str;
    /// Whether it is asked only where counters of the system say nothing.
    fn is_last_resort(&self) -> bool;
    /// `None` for an adapter that it does not know, or that tells nothing.
    fn state(&mut self, id: u64) -> Option<AdapterState>;
    /// What processes do on an adapter; `None` if it does not tell that.
    fn processes(&mut self, _id: u64) -> Option<Vec<ProcessState>> {
        None
    }
}

/// What one process does on an adapter.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProcessState {
    pub pid: u32,
    /// Nanoseconds in which each engine worked for it.
    pub engines_ns: Vec<u64>,
    /// Resident, in the adapter's own memory and in that of the machine.
    pub used_bytes: Option<u64>,
    pub committed_bytes: Option<u64>,
}

/// Which counter set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CounterSet {
    EnginePercent,
    AdapterDedicated,
    AdapterShared,
    ProcessCommitted,
    ProcessLocal,
    /// Of the processors: what the system allows of their clock, in percent.
    PerformanceLimit,
    /// Of the processors: their clock now, in percent of the nominal one.
    PerformancePercent,
    /// Of the processors: their nominal clock in megahertz.
    NominalMegahertz,
    /// In kelvins.
    ThermalZone,
}

/// Counters of the system, collected together.
pub trait CounterApi: Send {
    /// Takes new values of all counters.
    fn collect(&mut self) -> Result<(), String>;
    /// Instances and their values.
    fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String>;
}

/// Names adapters `gpuN` and `npuN`. `nvidia`: so many GPUs have names already, by NVIDIA's library. Without an adapter the
/// counters of processors are read all the same.
pub fn find(
    api: &mut dyn AdapterApi,
    counters: Result<Box<dyn CounterApi>, String>,
    nvidia: usize,
    found: &mut Found,
) {
    let missing = |what, why: String, hint: &str| Missing { what, why, hint: hint.to_owned() };
    let adapters = api.adapters().unwrap_or_else(|why| {
        let hint = "Windows 10 2004 and newer tell their adapters (DXCore)";
        let lacking = if nvidia == 0 { &["gpu", "npu"][..] } else { &["npu"][..] };
        found.missing.extend(lacking.iter().map(|what| missing(what, why.clone(), hint)));
        Vec::new()
    });
    let is_told = !found.missing.iter().any(|missing| missing.what == "npu");
    let (mut names, mut described, mut totals) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (mut gpus, mut npus, mut of_nvidia) = (nvidia, 0, 0);
    // NVIDIA's library tells more of these: only their processes are told here.
    let mut told_elsewhere = BTreeSet::new();
    for adapter in adapters.into_iter().filter(|adapter| !adapter.is_software) {
        let id = AdapterId(adapter.id);
        if names.contains_key(&id) {
            continue;
        }
        let device = if adapter.is_npu {
            npus += 1;
            format!("npu{}", npus - 1)
        } else if of_nvidia < nvidia && adapter.name.to_ascii_uppercase().contains("NVIDIA") {
            of_nvidia += 1;
            let device = format!("gpu{}", of_nvidia - 1);
            told_elsewhere.insert(device.clone());
            device
        } else {
            gpus += 1;
            format!("gpu{}", gpus - 1)
        };
        let driver = adapter.driver.map(|driver| format!(", driver {driver}")).unwrap_or_default();
        described.push(format!("{device} {}{driver}", adapter.name));
        // An NPU has no memory of its own: 0 would not be what it uses.
        let total = adapter.dedicated_bytes.filter(|bytes| *bytes > 0).or(adapter.shared_bytes);
        totals.extend(total.map(|bytes| (device.clone(), bytes as f64)));
        names.insert(id, device);
    }
    if gpus == 0 && is_told {
        found.missing.push(missing(
            "gpu",
            "Windows shows no GPU".to_owned(),
            "a driver of its maker brings it; in a virtual machine pass one on",
        ));
    }
    if npus == 0 && is_told {
        let why = match api.build() {
            Some(build) if build < NPU_SINCE_BUILD => format!(
                "this is build {build} of Windows: figures of an NPU come with 24H2 (build {NPU_SINCE_BUILD})"
            ),
            _ => "Windows shows no NPU".to_owned(),
        };
        let hint = "Windows 11 24H2 (build 26100) or newer and the NPU's own driver (an MCDM driver) show it";
        found.missing.push(missing("npu", why, hint));
    }
    let counters = match counters {
        Ok(counters) => Some(counters),
        Err(why) => {
            let hint =
                "`lodctr /R` as administrator repairs the counters; `typeperf -q \"GPU Engine\"` lists them";
            let lacking = ["gpu_processes", "throttling", "temperature", "cpu_frequency"];
            found.missing.extend(lacking.map(|what| missing(what, why.clone(), hint)));
            None
        }
    };
    let states = if names.is_empty() { Vec::new() } else { api.states() };
    if counters.is_none() && states.is_empty() {
        return;
    }
    let mut reader = Adapters::new(names, described, totals, told_elsewhere, states, counters);
    found.missing.extend(reader.probe());
    found.readers.push(Box::new(reader));
}
