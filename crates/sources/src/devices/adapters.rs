//! GPUs and NPUs on Windows: adapters by DXCore, their use by counters (PDH). The functions of the system stand behind
//! [`AdapterApi`] and [`CounterApi`], so that everything else is tested on every system.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_decode::gpu_counters::{AdapterId, Busy, add_memory};

use super::{Found, Missing, Reader, Reading};

const SOURCE: &str = "pdh";
/// Processes that are told each round; the busiest come first by nature of who opens a GPU.
const MOST_PROCESSES: usize = 256;
/// Windows from which on an NPU has figures (24H2).
const NPU_SINCE_BUILD: u32 = 26100;

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
}

/// Counters of the system, collected together.
pub trait CounterApi: Send {
    /// Takes new values of all counters.
    fn collect(&mut self) -> Result<(), String>;
    /// Instances and their values.
    fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String>;
}

struct Adapters {
    names: BTreeMap<AdapterId, String>,
    described: Vec<String>,
    totals: Vec<(String, f64)>,
    /// NVIDIA's library tells more of these: only their processes are told here.
    told_elsewhere: BTreeSet<String>,
    counters: Box<dyn CounterApi>,
    told: bool,
}

/// Names adapters `gpuN` and `npuN`. `nvidia`: so many GPUs have names already, by NVIDIA's library.
pub fn find(
    api: &mut dyn AdapterApi,
    counters: Result<Box<dyn CounterApi>, String>,
    nvidia: usize,
    found: &mut Found,
) {
    let missing = |what, why: String, hint: &str| Missing { what, why, hint: hint.to_owned() };
    let adapters = match api.adapters() {
        Ok(adapters) => adapters,
        Err(why) => {
            let hint = "Windows 10 2004 and newer tell their adapters (DXCore)";
            found.missing.extend(["gpu", "npu"].map(|what| missing(what, why.clone(), hint)));
            return;
        }
    };
    let (mut names, mut described, mut totals) = (BTreeMap::new(), Vec::new(), Vec::new());
    let (mut gpus, mut npus, mut of_nvidia) = (nvidia, 0, 0);
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
            format!("gpu{}", of_nvidia - 1)
        } else {
            gpus += 1;
            format!("gpu{}", gpus - 1)
        };
        if !adapter.is_npu
            && device.trim_start_matches("gpu").parse::<usize>().is_ok_and(|number| number < nvidia)
        {
            told_elsewhere.insert(device.clone());
        }
        let driver = adapter.driver.map(|driver| format!(", driver {driver}")).unwrap_or_default();
        described.push(format!("{device} {}{driver}", adapter.name));
        // An NPU has no memory of its own: 0 would not be what it uses.
        let total = adapter.dedicated_bytes.filter(|bytes| *bytes > 0).or(adapter.shared_bytes);
        totals.extend(total.map(|bytes| (device.clone(), bytes as f64)));
        names.insert(id, device);
    }
    if gpus == 0 {
        found.missing.push(missing(
            "gpu",
            "Windows shows no GPU".to_owned(),
            "a driver of its maker brings it; in a virtual machine pass one on",
        ));
    }
    if npus == 0 {
        let why = match api.build() {
            Some(build) if build < NPU_SINCE_BUILD => format!(
                "this is build {build} of Windows: figures of an NPU come with 24H2 (build {NPU_SINCE_BUILD})"
            ),
            _ => "Windows shows no NPU".to_owned(),
        };
        let hint = "Windows 11 24H2 or newer and the NPU's own driver (an MCDM driver) show it";
        found.missing.push(missing("npu", why, hint));
    }
    if names.is_empty() {
        return;
    }
    match counters {
        Ok(counters) => {
            found.readers.push(Box::new(Adapters {
                names,
                described,
                totals,
                told_elsewhere,
                counters,
                told: false,
            }));
        }
        Err(why) => {
            let hint =
                "`lodctr /R` as administrator repairs the counters; `typeperf -q \"GPU Engine\"` lists them";
            found.missing.push(missing("gpu", why, hint));
        }
    }
}

impl Reader for Adapters {
    fn describe(&self) -> String {
        format!("{} (DXCore, PDH)", self.described.join("; "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut tell =
            |device: &str, metric, value| out(Reading { at_ns, device, metric, value, source: SOURCE });
        if let Err(why) = self.counters.collect() {
            if !std::mem::replace(&mut self.told, true) {
                lost.push(Missing {
                    what: "gpu",
                    why: format!("the counters of GPUs and NPUs cannot be read: {why}"),
                    hint: "`typeperf \"\\GPU Engine(*)\\Utilization Percentage\" -sc 1` says more".to_owned(),
                });
            }
            return;
        }
        let mut busy = Busy::default();
        let answered =
            self.counters.values(CounterSet::EnginePercent, &mut |name, value| busy.add(name, value));
        if answered.is_ok() {
            self.told = false;
            let adapters = busy.adapters();
            for (id, device) in self.names.iter().filter(|(_, device)| !self.told_elsewhere.contains(*device))
            {
                // An adapter that nobody uses has no instances: it is idle.
                tell(device, "utilization_ratio", adapters.get(id).copied().unwrap_or(0.0));
                for (kind, ratio) in busy.engine_types(*id).into_iter().filter(|(kind, _)| !kind.is_empty()) {
                    tell(&format!("{device}/{kind}"), "utilization_ratio", ratio);
                }
            }
            let processes = busy.processes();
            let busiest = processes.iter().filter(|(_, ratio)| **ratio > 0.0).take(MOST_PROCESSES);
            for ((pid, id), ratio) in busiest {
                if let Some(device) = self.names.get(id) {
                    tell(&format!("process-{pid}/{device}"), "utilization_ratio", *ratio);
                }
            }
        } else if let Err(why) = answered
            && !std::mem::replace(&mut self.told, true)
        {
            lost.push(Missing {
                what: "gpu",
                why,
                hint: "a driver with WDDM 2.0 or MCDM has these counters; in a virtual machine they may be missing".to_owned(),
            });
        }
        let mut used: BTreeMap<(Option<u32>, AdapterId), f64> = BTreeMap::new();
        let mut add = |name: &str, value: f64| {
            add_memory(&mut used, name, value);
        };
        // Dedicated and shared: an NPU and integrated graphics have only the second.
        let sets = [CounterSet::AdapterDedicated, CounterSet::AdapterShared];
        let has_adapters = sets.map(|set| self.counters.values(set, &mut add).is_ok()).contains(&true);
        for ((pid, id), bytes) in &used {
            if let Some(device) = self
                .names
                .get(id)
                .filter(|device| has_adapters && pid.is_none() && !self.told_elsewhere.contains(*device))
            {
                tell(device, "memory_used_bytes", *bytes);
            }
        }
        for (set, metric) in [
            (CounterSet::ProcessLocal, "memory_used_bytes"),
            (CounterSet::ProcessCommitted, "memory_committed_bytes"),
        ] {
            let mut processes: BTreeMap<(Option<u32>, AdapterId), f64> = BTreeMap::new();
            let mut add = |name: &str, value: f64| {
                add_memory(&mut processes, name, value);
            };
            if self.counters.values(set, &mut add).is_err() {
                continue;
            }
            let holders = processes.iter().filter(|(_, bytes)| **bytes > 0.0).take(MOST_PROCESSES);
            for ((pid, id), bytes) in holders {
                if let (Some(pid), Some(device)) = (pid, self.names.get(id)) {
                    tell(&format!("process-{pid}/{device}"), metric, *bytes);
                }
            }
        }
        for (device, bytes) in self.totals.iter().filter(|(device, _)| !self.told_elsewhere.contains(device))
        {
            tell(device, "memory_total_bytes", *bytes);
        }
        let mut limit: Option<f64> = None;
        let mut lowest = |name: &str, percent: f64| {
            if !name.contains("_Total") && percent > 0.0 {
                limit = Some(limit.map_or(percent, |known: f64| known.min(percent)));
            }
        };
        if self.counters.values(CounterSet::PerformanceLimit, &mut lowest).is_ok()
            && let Some(percent) = limit
        {
            tell("package-0", "frequency_limit_ratio", (percent / 100.0).min(1.0));
            tell("package-0", "throttled_ratio", if percent < 100.0 { 1.0 } else { 0.0 });
        }
    }

    fn period_nanos(&self) -> u64 {
        500_000_000
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Api(Result<Vec<Adapter>, String>, u32);

    impl AdapterApi for Api {
        fn adapters(&mut self) -> Result<Vec<Adapter>, String> {
            self.0.clone()
        }

        fn build(&self) -> Option<u32> {
            Some(self.1)
        }
    }

    #[derive(Default)]
    struct Counters {
        fails: bool,
    }

    impl CounterApi for Counters {
        fn collect(&mut self) -> Result<(), String> {
            if self.fails { Err("0xC0000BB8".to_owned()) } else { Ok(()) }
        }

        fn values(&mut self, set: CounterSet, each: &mut dyn FnMut(&str, f64)) -> Result<(), String> {
            let rows: &[(&str, f64)] = match set {
                CounterSet::EnginePercent => &[
                    ("pid_7_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", 30.0),
                    ("pid_8_luid_0x00000000_0x0000C85A_phys_0_eng_0_engtype_3D", 20.0),
                    ("pid_7_luid_0x00000000_0x0000C85A_phys_0_eng_1_engtype_Copy", 40.0),
                    ("pid_7_luid_0x00000000_0x0000D000_phys_0_eng_0_engtype_Neural", 90.0),
                ],
                CounterSet::AdapterDedicated => &[("luid_0x00000000_0x0000C85A_phys_0", 1000.0)],
                CounterSet::AdapterShared => {
                    &[("luid_0x00000000_0x0000C85A_phys_0", 24.0), ("luid_0x00000000_0x0000D000_phys_0", 5.0)]
                }
                CounterSet::ProcessLocal => &[("pid_7_luid_0x00000000_0x0000C85A_phys_0", 600.0)],
                CounterSet::ProcessCommitted => return Err("PDH_NO_DATA".to_owned()),
                CounterSet::PerformanceLimit => &[("0,0", 100.0), ("0,1", 80.0), ("_Total", 0.0)],
            };
            rows.iter().for_each(|(name, value)| each(name, *value));
            Ok(())
        }
    }

    fn adapters() -> Vec<Adapter> {
        let gpu =
            Adapter { id: 0xC85A, name: "RTX".to_owned(), dedicated_bytes: Some(8), ..Adapter::default() };
        let npu = Adapter {
            id: 0xD000,
            name: "AI Boost".to_owned(),
            is_npu: true,
            driver: Some("32.0.1".to_owned()),
            dedicated_bytes: Some(0),
            shared_bytes: Some(16),
            ..Adapter::default()
        };
        let software =
            Adapter { id: 3, name: "Basic Render".to_owned(), is_software: true, ..Adapter::default() };
        vec![gpu.clone(), gpu, npu, software]
    }

    fn read(found: &mut Found) -> (Vec<String>, Vec<Missing>) {
        let (mut told, mut lost) = (Vec::new(), Vec::new());
        let mut out = |reading: Reading<'_>| {
            told.push(format!("{} {} {}", reading.device, reading.metric, reading.value))
        };
        found.readers[0].read(1, &mut out, &mut lost);
        (told, lost)
    }

    #[test]
    fn a_gpu_and_an_npu_by_their_counters() {
        let mut found = Found::default();
        find(&mut Api(Ok(adapters()), 26100), Ok(Box::new(Counters::default())), 0, &mut found);
        assert_eq!(found.readers[0].describe(), "gpu0 RTX; npu0 AI Boost, driver 32.0.1 (DXCore, PDH)");
        let (told, lost) = read(&mut found);
        let expected = [
            "gpu0 utilization_ratio 0.5",
            "gpu0/3D utilization_ratio 0.5",
            "gpu0/Copy utilization_ratio 0.4",
            "npu0 utilization_ratio 0.9",
            "process-7/gpu0 utilization_ratio 0.4",
            "process-8/gpu0 utilization_ratio 0.2",
            "process-7/npu0 utilization_ratio 0.9",
            "gpu0 memory_used_bytes 1024",
            "npu0 memory_used_bytes 5",
            "process-7/gpu0 memory_used_bytes 600",
            "gpu0 memory_total_bytes 8",
            "npu0 memory_total_bytes 16",
            "package-0 throttled_ratio 1",
        ];
        for line in expected {
            assert!(told.iter().any(|told| told == line), "{line} in {told:?}");
        }
        assert_eq!((found.missing.len(), lost.len()), (0, 0));
    }

    #[test]
    fn a_card_of_nvidia_is_not_told_twice() {
        let mut adapters = adapters();
        adapters[0].name = "NVIDIA RTX".to_owned();
        adapters.remove(1);
        adapters.push(Adapter { id: 9, name: "Intel Arc".to_owned(), ..Adapter::default() });
        let mut found = Found::default();
        find(&mut Api(Ok(adapters), 26100), Ok(Box::new(Counters::default())), 1, &mut found);
        let (told, _) = read(&mut found);
        assert!(told.iter().all(|line| !line.starts_with("gpu0 ")), "NVML tells these: {told:?}");
        assert!(told.iter().any(|line| line == "process-7/gpu0 utilization_ratio 0.4"), "{told:?}");
        assert!(told.iter().any(|line| line == "gpu1 utilization_ratio 0"), "the other one idles: {told:?}");
    }

    #[test]
    fn every_way_to_fail_has_its_reason() {
        let mut found = Found::default();
        find(&mut Api(Err("no dxcore.dll".to_owned()), 1), Err("no pdh.dll".to_owned()), 0, &mut found);
        assert_eq!(found.missing.iter().map(|missing| missing.what).collect::<Vec<_>>(), ["gpu", "npu"]);
        let mut found = Found::default();
        find(&mut Api(Ok(vec![]), 19045), Err(String::new()), 0, &mut found);
        assert!(
            found.missing[1].why.contains("build 19045") && found.missing[1].why.contains("26100"),
            "{found:?}"
        );
        let mut found = Found::default();
        find(&mut Api(Ok(adapters()), 26100), Err("PdhOpenQuery failed".to_owned()), 0, &mut found);
        assert!(found.readers.is_empty() && found.missing[0].why.contains("PdhOpenQuery"));
        let mut found = Found::default();
        find(&mut Api(Ok(adapters()), 26100), Ok(Box::new(Counters { fails: true })), 0, &mut found);
        assert_eq!((read(&mut found).1.len(), read(&mut found).1.len()), (1, 0), "told once");
    }
}
