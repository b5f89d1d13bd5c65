//! Reads all adapters, each from its best source.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_decode::gpu_counters::{AdapterId, Busy, add_memory};

use super::super::{Missing, Reader, Reading};
use super::{AdapterState, CounterApi, CounterSet, StateApi};

const SOURCE: &str = "pdh";
/// Limit for reported processes per poll.
const MAX_PROCESSES: usize = 256;
/// An engine cannot be busy for longer than the elapsed time; a larger ratio means that the unit is different.
const MAX_RATIO: f64 = 1.5;
/// Zero degrees Celsius in kelvins.
const FREEZING_KELVIN: f64 = 273.15;

pub(super) struct Adapters {
    names: BTreeMap<AdapterId, String>,
    described: Vec<String>,
    totals: Vec<(String, f64)>,
    in_nvml: BTreeSet<String>,
    states: Vec<Box<dyn StateApi>>,
    counters: Option<Box<dyn CounterApi>>,
    /// Engine times at the last poll, and its time, by source and adapter.
    last: BTreeMap<(&'static str, AdapterId), (u64, Vec<u64>)>,
    /// The same for each process, where adapters report it.
    last_processes: BTreeMap<(AdapterId, u32), (u64, Vec<u64>)>,
    /// First temperature of each zone and whether it ever changed; constant zones are firmware placeholders.
    zones: BTreeMap<String, (f64, bool)>,
    is_failure_reported: bool,
}

/// Adapters that a source has already reported.
#[derive(Default)]
struct Reported {
    busy: BTreeSet<AdapterId>,
    memory: BTreeSet<AdapterId>,
}

type Emit<'a> = dyn FnMut(&str, &'static str, f64, &'static str) + 'a;

impl Adapters {
    pub fn new(
        names: BTreeMap<AdapterId, String>,
        described: Vec<String>,
        totals: Vec<(String, f64)>,
        in_nvml: BTreeSet<String>,
        states: Vec<Box<dyn StateApi>>,
        counters: Option<Box<dyn CounterApi>>,
    ) -> Self {
        Self {
            names,
            described,
            totals,
            in_nvml,
            states,
            counters,
            last: BTreeMap::new(),
            last_processes: BTreeMap::new(),
            zones: BTreeMap::new(),
            is_failure_reported: false,
        }
    }

    /// Returns the figures that this Windows version does not report.
    pub fn probe(&mut self) -> Vec<Missing> {
        let mut lacking = Vec::new();
        let Some(counters) = &mut self.counters else { return lacking };
        let mut missing = |what, why: &str, hint: &str| {
            lacking.push(Missing { what, why: why.to_owned(), hint: hint.to_owned() });
        };
        let mut has = |set| {
            let mut any = false;
            counters.values(set, &mut |_, _| any = true).is_ok_and(|()| any)
        };
        if !has(CounterSet::PerformanceLimit) {
            let why =
                "Windows does not report whether the processor frequency is limited (% Performance Limit)";
            missing("throttling", why, "available on bare metal; virtual machines hide it");
        }
        if !has(CounterSet::PerformancePercent) || !has(CounterSet::NominalMegahertz) {
            let why = "Windows does not report processor frequencies (% Processor Performance)";
            missing("cpu_frequency", why, "available on bare metal; virtual machines hide it");
        }
        if !has(CounterSet::ThermalZone) {
            let why = "this machine exposes no thermal zone (Thermal Zone Information)";
            missing(
                "temperature",
                why,
                "most laptop firmware does; graphics drivers report their own temperature",
            );
        }
        lacking
    }

    /// Reports adapters from their own states.
    fn by_states(&mut self, at_ns: u64, last_resort: bool, reported: &mut Reported, emit: &mut Emit<'_>) {
        for states in self.states.iter_mut().filter(|states| states.is_last_resort() == last_resort) {
            let source = states.source();
            for (id, device) in &self.names {
                if self.in_nvml.contains(device) || reported.busy.contains(id) {
                    continue;
                }
                let Some(AdapterState { engines_ns, used_bytes, celsius, hertz }) = states.state(id.0) else {
                    continue;
                };
                if let Some(bytes) = used_bytes.filter(|_| reported.memory.insert(*id)) {
                    emit(device, "memory_used_bytes", bytes as f64, source);
                }
                // Drivers without a sensor report 0.
                if let Some(celsius) = celsius.filter(|celsius| *celsius > 0.0) {
                    emit(device, "temperature_celsius", celsius, source);
                }
                if let Some(hertz) = hertz.filter(|hertz| *hertz > 0.0) {
                    emit(device, "frequency_hertz", hertz, source);
                }
                if engines_ns.is_empty() {
                    continue;
                }
                let before = self.last.insert((source, *id), (at_ns, engines_ns.clone()));
                let Some((since_ns, before)) = before.filter(|(since_ns, _)| *since_ns < at_ns) else {
                    // The next poll has a value; no other source is needed.
                    reported.busy.insert(*id);
                    continue;
                };
                let Some(busiest) = busiest(&before, &engines_ns, at_ns - since_ns) else { continue };
                emit(device, "utilization_ratio", busiest, source);
                reported.busy.insert(*id);
            }
        }
    }

    /// Reports processes from adapter states, where the performance counters are unavailable. Returns whether any
    /// adapter did.
    fn by_process_states(&mut self, at_ns: u64, emit: &mut Emit<'_>) -> bool {
        let mut now = BTreeMap::new();
        let mut is_reported = false;
        for states in &mut self.states {
            let source = states.source();
            for (id, device) in &self.names {
                let Some(processes) = states.processes(id.0) else { continue };
                is_reported = true;
                for process in processes.into_iter().take(MAX_PROCESSES) {
                    let process_device = format!("process-{}/{device}", process.pid);
                    for (metric, bytes) in [
                        ("memory_used_bytes", process.used_bytes),
                        ("memory_committed_bytes", process.committed_bytes),
                    ] {
                        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
                            emit(&process_device, metric, bytes as f64, source);
                        }
                    }
                    let key = (*id, process.pid);
                    if let Some((since_ns, before)) =
                        self.last_processes.get(&key).filter(|(since_ns, _)| *since_ns < at_ns)
                        && let Some(ratio) = busiest(before, &process.engines_ns, at_ns - since_ns)
                        && ratio > 0.0
                    {
                        emit(&process_device, "utilization_ratio", ratio, source);
                    }
                    now.insert(key, (at_ns, process.engines_ns));
                }
            }
        }
        self.last_processes = now;
        is_reported
    }

    /// Reports engine utilization from the performance counters, for adapters without another source and for
    /// processes.
    fn by_counters(&mut self, reported: &Reported, emit: &mut Emit<'_>) -> Result<(), String> {
        let Some(counters) = &mut self.counters else {
            return Err("performance counters are missing".to_owned());
        };
        let mut busy = Busy::default();
        counters.values(CounterSet::EnginePercent, &mut |name, value| busy.add(name, value))?;
        let adapters = busy.adapters();
        for (id, device) in self.names.iter().filter(|(_, device)| !self.in_nvml.contains(*device)) {
            if !reported.busy.contains(id) {
                // An unused adapter has no instances: it is idle.
                emit(device, "utilization_ratio", adapters.get(id).copied().unwrap_or(0.0), SOURCE);
            }
            for (kind, ratio) in busy.engine_types(*id).into_iter().filter(|(kind, _)| !kind.is_empty()) {
                emit(&format!("{device}/{kind}"), "utilization_ratio", ratio, SOURCE);
            }
        }
        let processes = busy.processes();
        let busiest = processes.iter().filter(|(_, ratio)| **ratio > 0.0).take(MAX_PROCESSES);
        for ((pid, id), ratio) in busiest {
            if let Some(device) = self.names.get(id) {
                emit(&format!("process-{pid}/{device}"), "utilization_ratio", *ratio, SOURCE);
            }
        }
        Ok(())
    }

    fn memory(&mut self, reported: &Reported, emit: &mut Emit<'_>) {
        let Some(counters) = &mut self.counters else { return };
        let mut used: BTreeMap<(Option<u32>, AdapterId), f64> = BTreeMap::new();
        // Dedicated and shared memory: NPUs and integrated GPUs have only the latter.
        for set in [CounterSet::AdapterDedicated, CounterSet::AdapterShared] {
            let mut add = |name: &str, value: f64| {
                add_memory(&mut used, name, value);
            };
            counters.values(set, &mut add).ok();
        }
        for ((pid, id), bytes) in &used {
            let device = self.names.get(id).filter(|device| !self.in_nvml.contains(*device));
            if let Some(device) = device.filter(|_| pid.is_none() && !reported.memory.contains(id)) {
                emit(device, "memory_used_bytes", *bytes, SOURCE);
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
            if counters.values(set, &mut add).is_err() {
                continue;
            }
            let holders = processes.iter().filter(|(_, bytes)| **bytes > 0.0).take(MAX_PROCESSES);
            for ((pid, id), bytes) in holders {
                if let (Some(pid), Some(device)) = (pid, self.names.get(id)) {
                    emit(&format!("process-{pid}/{device}"), metric, *bytes, SOURCE);
                }
            }
        }
        for (device, bytes) in self.totals.iter().filter(|(device, _)| !self.in_nvml.contains(device)) {
            emit(device, "memory_total_bytes", *bytes, "dxcore");
        }
    }

    /// Reports processor frequencies, their limits, and thermal zones.
    fn processors(&mut self, emit: &mut Emit<'_>) {
        let Some(counters) = &mut self.counters else { return };
        let mut by_cpu = |set| {
            let mut values: BTreeMap<String, f64> = BTreeMap::new();
            let mut keep = |name: &str, value: f64| {
                if let Some(cpu) = cpu_name(name).filter(|_| value.is_finite() && value >= 0.0) {
                    values.insert(cpu, value);
                }
            };
            counters.values(set, &mut keep).ok();
            values
        };
        let (nominal, percent) =
            (by_cpu(CounterSet::NominalMegahertz), by_cpu(CounterSet::PerformancePercent));
        for (cpu, megahertz) in &nominal {
            // Virtual machines show 0.
            if let Some(percent) = percent.get(cpu).filter(|percent| **percent > 0.0 && *megahertz > 0.0) {
                emit(cpu, "frequency_hertz", megahertz * 1e6 * percent / 100.0, SOURCE);
            }
        }
        let limit = by_cpu(CounterSet::PerformanceLimit)
            .into_values()
            .filter(|percent| *percent > 0.0)
            .reduce(f64::min);
        if let Some(percent) = limit {
            emit("package-0", "frequency_limit_ratio", (percent / 100.0).min(1.0), SOURCE);
            emit("package-0", "throttled_ratio", if percent < 100.0 { 1.0 } else { 0.0 }, SOURCE);
        }
        let zones = &mut self.zones;
        let mut zone = |name: &str, kelvin: f64| {
            if name == "_Total" || !(200.0..500.0).contains(&kelvin) {
                return;
            }
            let (first, moves) = zones.entry(name.to_owned()).or_insert((kelvin, false));
            *moves |= (*first - kelvin).abs() > f64::EPSILON;
            if *moves {
                let name = name.trim_start_matches("\\_TZ.");
                emit(&format!("zone/{name}"), "temperature_celsius", kelvin - FREEZING_KELVIN, SOURCE);
            }
        };
        counters.values(CounterSet::ThermalZone, &mut zone).ok();
    }
}

/// Fraction of the elapsed time that the busiest engine worked; `None` if impossible.
fn busiest(before: &[u64], now: &[u64], passed_ns: u64) -> Option<f64> {
    // A count that decreased belongs to a reloaded driver.
    let ratios =
        now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before) as f64 / passed_ns as f64);
    ratios.reduce(f64::max).filter(|ratio| *ratio <= MAX_RATIO).map(|ratio| ratio.min(1.0))
}

/// `0,3` is the fourth processor of the first group. Totals have other names.
fn cpu_name(instance: &str) -> Option<String> {
    let (group, number) = instance.split_once(',')?;
    let (group, number): (u32, u32) = (group.parse().ok()?, number.parse().ok()?);
    Some(if group == 0 { format!("cpu{number}") } else { format!("cpu{group}.{number}") })
}

impl Reader for Adapters {
    fn describe(&self) -> String {
        // The last resort is named only when it is used.
        let own = self.states.iter().filter(|states| !states.is_last_resort());
        let mut by: Vec<&str> = own.map(|_| "DXCore").collect();
        by.extend(self.counters.is_some().then_some("PDH"));
        let names = if self.described.is_empty() {
            "processor frequencies and limits".to_owned()
        } else {
            self.described.join("; ")
        };
        format!("{names} ({})", by.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut emit = |device: &str, metric: &'static str, value: f64, source: &'static str| {
            out(Reading { at_ns, device, metric, value, source });
        };
        let collected = self.counters.as_mut().map_or(Ok(()), |counters| counters.collect());
        let is_collected = collected.is_ok();
        let mut reported = Reported::default();
        self.by_states(at_ns, false, &mut reported, &mut emit);
        let answered = match collected {
            Ok(()) if self.names.is_empty() => Ok(()),
            Ok(()) => self.by_counters(&reported, &mut emit),
            Err(why) => Err(why),
        };
        if let Err(why) = answered {
            self.by_states(at_ns, true, &mut reported, &mut emit);
            let has_processes = self.by_process_states(at_ns, &mut emit);
            let has_all = has_processes && reported.busy.len() >= self.names.len();
            if !has_all && !std::mem::replace(&mut self.is_failure_reported, true) {
                let what = if reported.busy.len() >= self.names.len() { "gpu_processes" } else { "gpu" };
                let hint = "a driver with WDDM 2.0 or MCDM has them, virtual machines may not; \
                            `typeperf -q \"GPU Engine\"` lists them";
                let why = format!("GPU and NPU counters cannot be read: {why}");
                lost.push(Missing::new(what, why, hint));
            }
        } else {
            self.is_failure_reported = false;
        }
        if is_collected {
            self.memory(&reported, &mut emit);
            self.processors(&mut emit);
        }
    }

    fn period_ns(&self) -> u64 {
        500_000_000
    }
}
