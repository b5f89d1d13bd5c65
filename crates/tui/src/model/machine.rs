//! The machine as a whole: processors, memory, switches, load, devices, and what observing costs.

use std::collections::BTreeMap;

use ortscope_core::live::{Current, CurrentValue, LiveView, Subject, TrackId};
use ortscope_core::schema::Unit;

use super::past::{Shown, last_minute};
use crate::facts::OwnCost;
use crate::text::harmless;

/// Devices with these names are not hardware; their values are shown elsewhere.
const NOT_HARDWARE: [&str; 3] = ["machine", "ortscope", "cgroup"];
/// Metrics of a processor's device (`cpu0`, `cpu1`, …) with its load, and the factor to percent.
const CORE_METRICS: [(&str, f64); 4] = [
    ("busy_percent", 1.0),
    ("utilization_percent", 1.0),
    ("busy_ratio", 100.0),
    ("utilization_ratio", 100.0),
];
/// More devices and readings are not shown.
const MAX_DEVICES: usize = 16;
const MAX_READINGS: usize = 8;

/// A piece of hardware and its newest readings.
#[derive(Debug, Clone, PartialEq)]
pub struct Device {
    pub name: String,
    /// Metric, unit, value; utilization first.
    pub readings: Vec<(String, Unit, f64)>,
}

/// The machine at a point in time. Values that no source reported are `None`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Machine {
    /// 100 = all processors.
    pub cpu_percent: Option<f64>,
    /// The last minute, a value per second.
    pub cpu_past: Vec<Option<f64>>,
    /// Busy percent of each processor, by number.
    pub cores_percent: Vec<(u32, f64)>,
    pub memory_used_bytes: Option<f64>,
    pub memory_percent: Option<f64>,
    pub swap_used_bytes: Option<f64>,
    pub context_switches_per_second: Option<f64>,
    pub interrupts_per_second: Option<f64>,
    pub process_count: Option<f64>,
    pub cpu_frequency_hertz: Option<f64>,
    /// Threads that ran or wanted to, mean of a minute.
    pub load_1min_threads: Option<f64>,
    pub devices: Vec<Device>,
    pub own: OwnCost,
    /// Rate of the process sampler.
    pub sampling_hertz: Option<f64>,
    /// Ticks of the sampler that came late or not at all.
    pub late_ticks: Option<f64>,
    pub skipped_ticks: Option<f64>,
}

impl Machine {
    pub fn of(current: &Current, view: &LiveView, own: Option<OwnCost>) -> Self {
        let mut machine = Self::default();
        let mut devices: BTreeMap<&str, Vec<&CurrentValue>> = BTreeMap::new();
        for value in &current.values {
            match &value.id.subject {
                Subject::System => machine.take_system(&value.id.metric, value.value),
                Subject::Device(device) => devices.entry(device).or_default().push(value),
                Subject::Process(_) | Subject::Session(_) => {}
            }
        }
        for (name, values) in devices {
            machine.take_device(name, &values);
        }
        machine.cores_percent.sort_by_key(|(core, _)| *core);
        if let Some(own) = own {
            machine.own = own;
        }
        if machine.cpu_percent.is_some() {
            let track = TrackId::system("cpu_percent");
            machine.cpu_past = last_minute(view, &track, current.now_ns, Shown::Mean);
        }
        machine
    }

    /// Total physical memory, computed from the share in use.
    pub fn memory_total_bytes(&self) -> Option<f64> {
        let (used, percent) = (self.memory_used_bytes?, self.memory_percent?);
        (percent > 0.0).then(|| used / percent * 100.0)
    }

    fn take_system(&mut self, metric: &str, value: f64) {
        let place = match metric {
            "cpu_percent" => &mut self.cpu_percent,
            "memory_used_bytes" => &mut self.memory_used_bytes,
            "memory_percent" => &mut self.memory_percent,
            "swap_used_bytes" => &mut self.swap_used_bytes,
            "context_switches_per_second" => &mut self.context_switches_per_second,
            "interrupts_per_second" => &mut self.interrupts_per_second,
            "process_count" => &mut self.process_count,
            "cpu_frequency_hertz" => &mut self.cpu_frequency_hertz,
            _ => return,
        };
        *place = Some(value);
    }

    fn take_device(&mut self, name: &str, values: &[&CurrentValue]) {
        let find =
            |metric: &str| values.iter().find(|value| &*value.id.metric == metric).map(|value| value.value);
        if let Some(core) = name.strip_prefix("cpu").and_then(|number| number.parse().ok()) {
            let busy = CORE_METRICS.iter().find_map(|(metric, factor)| Some(find(metric)? * factor));
            self.cores_percent.extend(busy.map(|busy| (core, busy)));
            return;
        }
        match name {
            "machine" => self.load_1min_threads = find("load_1min_threads"),
            "ortscope" => {
                self.own.cpu_percent = find("own_cpu_ratio").map(|ratio| 100.0 * ratio);
                self.own.memory_bytes = find("own_memory_bytes").map(|bytes| bytes as u64);
                self.sampling_hertz = find("sampling_hertz");
                self.late_ticks = find("late_ticks_count");
                self.skipped_ticks = find("skipped_ticks_count");
            }
            _ => {}
        }
        if !NOT_HARDWARE.contains(&name) && self.devices.len() < MAX_DEVICES {
            let mut readings: Vec<(String, Unit, f64)> =
                values.iter().map(|value| (harmless(&value.id.metric), value.unit, value.value)).collect();
            readings.sort_by(|a, b| rank(&a.0).cmp(&rank(&b.0)).then_with(|| a.0.cmp(&b.0)));
            readings.truncate(MAX_READINGS);
            self.devices.push(Device { name: harmless(name), readings });
        }
    }
}

/// Display order of metrics.
fn rank(metric: &str) -> usize {
    let first = ["utilization", "power", "temperature", "memory"];
    first.iter().position(|start| metric.starts_with(start)).unwrap_or(first.len())
}
