//! One round of all adapters, from the best source of each.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_decode::gpu_counters::{AdapterId, Busy, add_memory};

use super::super::{Missing, Reader, Reading};
use super::{AdapterState, CounterApi, CounterSet, StateApi};

const SOURCE: &str = "pdh";
/// Processes that are told each round.
const MAX_PROCESSES: usize = 256;
/// Engines cannot work longer than the time that passed; more than this says that the unit is another one.
const MAX_RATIO: f64 = 1.5;
/// Zero degrees Celsius in kelvins.
const FREEZING_KELVIN: f64 = 273.15;

pub(super) struct Adapters {
    names: BTreeMap<AdapterId, String>,
    described: Vec<String>,
    totals: Vec<(String, f64)>,
    told_elsewhere: BTreeSet<String>,
    states: Vec<Box<dyn StateApi>>,
    counters: Option<Box<dyn CounterApi>>,
    /// What engines had done at the last round, and when, by source and adapter.
    last: BTreeMap<(&'static str, AdapterId), (u64, Vec<u64>)>,
    /// The same of each process, where the adapters tell it.
    last_of_processes: BTreeMap<(AdapterId, u32), (u64, Vec<u64>)>,
    /// Zones that have shown another temperature than their first: others are placeholders of the firmware.
    zones: BTreeMap<String, (f64, bool)>,
    told: bool,
}

/// Adapters of which one source told already.
#[derive(Default)]
struct ToldBy {
    busy: BTreeSet<AdapterId>,
    memory: BTreeSet<AdapterId>,
}

type Tell<'a> = dyn FnMut(&str, &'static str, f64, &'static str) + 'a;

impl Adapters {
    pub fn new(
        names: BTreeMap<AdapterId, String>,
        described: Vec<String>,
        totals: Vec<(String, f64)>,
        told_elsewhere: BTreeSet<String>,
        states: Vec<Box<dyn StateApi>>,
        counters: Option<Box<dyn CounterApi>>,
    ) -> Self {
        Self {
            names,
            described,
            totals,
            told_elsewhere,
            states,
            counters,
            last: BTreeMap::new(),
            last_of_processes: BTreeMap::new(),
            zones: BTreeMap::new(),
            told: false,
        }
    }

    /// What this Windows does not tell.
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
                "this Windows does not tell whether the processors' clock is held down (% Performance Limit)";
            missing("throttling", why, "on the machine itself it does; virtual machines hide it");
        }
        if !has(CounterSet::PerformancePercent) || !has(CounterSet::NominalMegahertz) {
            let why = "this Windows does not tell the clock of its processors (% Processor Performance)";
            missing("cpu_frequency", why, "on the machine itself it does; virtual machines hide it");
        }
        if !has(CounterSet::ThermalZone) {
            let why = "this machine shows no thermal zone (Thermal Zone Information)";
            missing("temperature", why, "firmware of laptops shows some; the graphics driver tells its own");
        }
        lacking
    }

    /// What adapters tell of themselves.
    fn by_states(&mut self, at_ns: u64, last_resort: bool, told: &mut ToldBy, tell: &mut Tell<'_>) {
        for states in self.states.iter_mut().filter(|states| states.is_last_resort() == last_resort) {
            let source = states.source();
            for (id, device) in &self.names {
                if self.told_elsewhere.contains(device) || told.busy.contains(id) {
                    continue;
                }
                let Some(AdapterState { engines_ns, used_bytes, celsius, hertz }) = states.state(id.0) else {
                    continue;
                };
                if let Some(bytes) = used_bytes.filter(|_| told.memory.insert(*id)) {
                    tell(device, "memory_used_bytes", bytes as f64, source);
                }
                // 0 is what drivers write that do not measure it.
                if let Some(celsius) = celsius.filter(|celsius| *celsius > 0.0) {
                    tell(device, "temperature_celsius", celsius, source);
                }
                if let Some(hertz) = hertz.filter(|hertz| *hertz > 0.0) {
                    tell(device, "frequency_hertz", hertz, source);
                }
                if engines_ns.is_empty() {
                    continue;
                }
                let before = self.last.insert((source, *id), (at_ns, engines_ns.clone()));
                let Some((since_ns, before)) = before.filter(|(since_ns, _)| *since_ns < at_ns) else {
                    // The next round tells it: nobody else needs to.
                    told.busy.insert(*id);
                    continue;
                };
                let Some(busiest) = busiest(&before, &engines_ns, at_ns - since_ns) else { continue };
                tell(device, "utilization_ratio", busiest, source);
                told.busy.insert(*id);
            }
        }
    }

    /// Processes by what adapters tell of themselves, where the system's counters do not. Whether one told it.
    fn by_process_states(&mut self, at_ns: u64, tell: &mut Tell<'_>) -> bool {
        let mut now = BTreeMap::new();
        let mut is_told = false;
        for states in &mut self.states {
            let source = states.source();
            for (id, device) in &self.names {
                let Some(processes) = states.processes(id.0) else { continue };
                is_told = true;
                for process in processes.into_iter().take(MAX_PROCESSES) {
                    let whose = format!("process-{}/{device}", process.pid);
                    for (metric, bytes) in [
                        ("memory_used_bytes", process.used_bytes),
                        ("memory_committed_bytes", process.committed_bytes),
                    ] {
                        if let Some(bytes) = bytes.filter(|bytes| *bytes > 0) {
                            tell(&whose, metric, bytes as f64, source);
                        }
                    }
                    let key = (*id, process.pid);
                    if let Some((since_ns, before)) =
                        self.last_of_processes.get(&key).filter(|(since_ns, _)| *since_ns < at_ns)
                        && let Some(ratio) = busiest(before, &process.engines_ns, at_ns - since_ns)
                        && ratio > 0.0
                    {
                        tell(&whose, "utilization_ratio", ratio, source);
                    }
                    now.insert(key, (at_ns, process.engines_ns));
                }
            }
        }
        self.last_of_processes = now;
        is_told
    }

    /// How busy engines are by the system's counters: adapters that others did not tell, and processes. The error says why not.
    fn by_counters(&mut self, told: &ToldBy, tell: &mut Tell<'_>) -> Result<(), String> {
        let Some(counters) = &mut self.counters else {
            return Err("this Windows has no counters".to_owned());
        };
        let mut busy = Busy::default();
        counters.values(CounterSet::EnginePercent, &mut |name, value| busy.add(name, value))?;
        let adapters = busy.adapters();
        for (id, device) in self.names.iter().filter(|(_, device)| !self.told_elsewhere.contains(*device)) {
            if !told.busy.contains(id) {
                // An adapter that nobody uses has no instances: it is idle.
                tell(device, "utilization_ratio", adapters.get(id).copied().unwrap_or(0.0), SOURCE);
            }
            for (kind, ratio) in busy.engine_types(*id).into_iter().filter(|(kind, _)| !kind.is_empty()) {
                tell(&format!("{device}/{kind}"), "utilization_ratio", ratio, SOURCE);
            }
        }
        let processes = busy.processes();
        let busiest = processes.iter().filter(|(_, ratio)| **ratio > 0.0).take(MAX_PROCESSES);
        for ((pid, id), ratio) in busiest {
            if let Some(device) = self.names.get(id) {
                tell(&format!("process-{pid}/{device}"), "utilization_ratio", *ratio, SOURCE);
            }
        }
        Ok(())
    }

    fn memory(&mut self, told: &ToldBy, tell: &mut Tell<'_>) {
        let Some(counters) = &mut self.counters else { return };
        let mut used: BTreeMap<(Option<u32>, AdapterId), f64> = BTreeMap::new();
        // Dedicated and shared: an NPU and integrated graphics have only the second.
        for set in [CounterSet::AdapterDedicated, CounterSet::AdapterShared] {
            let mut add = |name: &str, value: f64| {
                add_memory(&mut used, name, value);
            };
            counters.values(set, &mut add).ok();
        }
        for ((pid, id), bytes) in &used {
            let device = self.names.get(id).filter(|device| !self.told_elsewhere.contains(*device));
            if let Some(device) = device.filter(|_| pid.is_none() && !told.memory.contains(id)) {
                tell(device, "memory_used_bytes", *bytes, SOURCE);
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
                    tell(&format!("process-{pid}/{device}"), metric, *bytes, SOURCE);
                }
            }
        }
        for (device, bytes) in self.totals.iter().filter(|(device, _)| !self.told_elsewhere.contains(device))
        {
            tell(device, "memory_total_bytes", *bytes, "dxcore");
        }
    }

    /// Clocks of the processors, what the system allows them, and zones of heat.
    fn processors(&mut self, tell: &mut Tell<'_>) {
        let Some(counters) = &mut self.counters else { return };
        let mut by_cpu = |set| {
            let mut values: BTreeMap<String, f64> = BTreeMap::new();
            let mut keep = |name: &str, value: f64| {
                if let Some(cpu) = cpu_of(name).filter(|_| value.is_finite() && value >= 0.0) {
                    values.insert(cpu, value);
                }
            };
            counters.values(set, &mut keep).ok();
            values
        };
        let (nominal, percent) =
            (by_cpu(CounterSet::NominalMegahertz), by_cpu(CounterSet::PerformancePercent));
        for (cpu, megahertz) in &nominal {
            // 0 is what virtual machines show.
            if let Some(percent) = percent.get(cpu).filter(|percent| **percent > 0.0 && *megahertz > 0.0) {
                tell(cpu, "frequency_hertz", megahertz * 1e6 * percent / 100.0, SOURCE);
            }
        }
        let limit = by_cpu(CounterSet::PerformanceLimit)
            .into_values()
            .filter(|percent| *percent > 0.0)
            .reduce(f64::min);
        if let Some(percent) = limit {
            tell("package-0", "frequency_limit_ratio", (percent / 100.0).min(1.0), SOURCE);
            tell("package-0", "throttled_ratio", if percent < 100.0 { 1.0 } else { 0.0 }, SOURCE);
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
                tell(&format!("zone/{name}"), "temperature_celsius", kelvin - FREEZING_KELVIN, SOURCE);
            }
        };
        counters.values(CounterSet::ThermalZone, &mut zone).ok();
    }
}

/// The share of the time that passed in which the busiest engine worked; `None` for a time that cannot be.
fn busiest(before: &[u64], now: &[u64], passed_ns: u64) -> Option<f64> {
    // A count that went back belongs to a driver that was loaded again.
    let ratios =
        now.iter().zip(before).map(|(now, before)| now.saturating_sub(*before) as f64 / passed_ns as f64);
    ratios.reduce(f64::max).filter(|ratio| *ratio <= MAX_RATIO).map(|ratio| ratio.min(1.0))
}

/// `0,3` is the fourth processor of the first group. Sums have names of their own.
fn cpu_of(instance: &str) -> Option<String> {
    let (group, number) = instance.split_once(',')?;
    let (group, number): (u32, u32) = (group.parse().ok()?, number.parse().ok()?);
    Some(if group == 0 { format!("cpu{number}") } else { format!("cpu{group}.{number}") })
}

impl Reader for Adapters {
    fn describe(&self) -> String {
        // The last resort is named when it is needed.
        let own = self.states.iter().filter(|states| !states.is_last_resort());
        let mut by: Vec<&str> = own.map(|_| "DXCore").collect();
        by.extend(self.counters.is_some().then_some("PDH"));
        let names = if self.described.is_empty() {
            "clocks and limits of the processors".to_owned()
        } else {
            self.described.join("; ")
        };
        format!("{names} ({})", by.join(", "))
    }

    fn read(&mut self, at_ns: u64, out: &mut dyn FnMut(Reading<'_>), lost: &mut Vec<Missing>) {
        let mut tell = |device: &str, metric: &'static str, value: f64, source: &'static str| {
            out(Reading { at_ns, device, metric, value, source });
        };
        let collected = self.counters.as_mut().map_or(Ok(()), |counters| counters.collect());
        let is_collected = collected.is_ok();
        let mut told = ToldBy::default();
        self.by_states(at_ns, false, &mut told, &mut tell);
        let answered = match collected {
            Ok(()) if self.names.is_empty() => Ok(()),
            Ok(()) => self.by_counters(&told, &mut tell),
            Err(why) => Err(why),
        };
        if let Err(why) = answered {
            self.by_states(at_ns, true, &mut told, &mut tell);
            let has_processes = self.by_process_states(at_ns, &mut tell);
            let has_all = has_processes && told.busy.len() >= self.names.len();
            if !has_all && !std::mem::replace(&mut self.told, true) {
                let what = if told.busy.len() >= self.names.len() { "gpu_processes" } else { "gpu" };
                let hint = "a driver with WDDM 2.0 or MCDM has them, virtual machines may not; \
                            `typeperf -q \"GPU Engine\"` lists them";
                let why = format!("counters of GPUs and NPUs cannot be read: {why}");
                lost.push(Missing { what, why, hint: hint.to_owned() });
            }
        } else {
            self.told = false;
        }
        if is_collected {
            self.memory(&told, &mut tell);
            self.processors(&mut tell);
        }
    }

    fn period_ns(&self) -> u64 {
        500_000_000
    }
}
