//! What devices did during a measurement: energy, heat, processor counters.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::DeviceReadings;
use crate::energy::{self, EnergyReport, IdleBaseline, Readings};
use crate::throttling::{Throttled, reports_throttling, throttled};

/// Devices that report power without an energy counter and are not part of another one.
const POWER_ONLY: &[&str] = &["gpu", "npu", "system"];

/// Temperatures and throttled clocks of the measured loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HeatReport {
    pub hottest: Option<Hottest>,
    /// Devices whose clock was throttled; empty if none of those that report throttling was.
    pub throttled: Vec<Throttled>,
    /// Whether any device here reports throttling.
    pub is_watched: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hottest {
    pub device: String,
    pub celsius: f64,
}

/// A GPU or an NPU over the measured loop: means, and the maximum of memory. `None`: it does not report that.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct DeviceReport {
    pub device: String,
    /// The worker's share, where the device distinguishes processes.
    pub process_utilization_ratio: Option<f64>,
    pub power_w: Option<f64>,
    pub temperature_celsius: Option<f64>,
    pub frequency_hertz: Option<f64>,
    /// Percent of the time in which its busiest engine worked, for all processes together.
    pub gpu_util: Option<f64>,
    /// Percent; `mem_util_of` says what it is a share of.
    pub mem_util: Option<f64>,
    /// `busy`: the time in which its memory was read or written; `used`: its bytes.
    pub mem_util_of: Option<Cow<'static, str>>,
    /// 1 MB = 1,000,000 bytes.
    pub mem_used_mb: Option<f64>,
    pub mem_total_mb: Option<f64>,
}

impl DeviceReport {
    /// `gpu0 73 % busy, 2147 of 8590 MB, 124 W, 64 °C`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(self.gpu_util.map(|percent| format!("{percent:.0} % busy")));
        let own = self.process_utilization_ratio;
        parts.extend(own.map(|ratio| format!("{} by the model", ortscope_core::units::percent(ratio))));
        parts.extend(match (self.mem_used_mb, self.mem_total_mb) {
            (Some(used), Some(total)) => Some(format!("{used:.0} of {total:.0} MB")),
            (used, _) => used.map(|used| format!("{used:.0} MB")),
        });
        parts.extend(self.power_w.map(|watts| format!("{watts:.0} W")));
        parts.extend(self.temperature_celsius.map(|celsius| format!("{celsius:.0} °C")));
        format!("{} {}", self.device, parts.join(", "))
    }
}

/// Processor counters of the worker over the measured loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CounterReport {
    pub instructions_per_inference: Option<f64>,
    pub cycles_per_inference: Option<f64>,
    pub instructions_per_cycle: Option<f64>,
    pub l1_hit_ratio: Option<f64>,
    pub l2_hit_ratio: Option<f64>,
    pub l3_hit_ratio: Option<f64>,
}

impl DeviceReadings {
    fn readings(&self, metric: &str) -> BTreeMap<String, Readings> {
        let of = self.sensors.iter().filter(|sensor| sensor.metric == metric);
        of.map(|sensor| (sensor.device.to_owned(), sensor.readings.to_vec())).collect()
    }

    /// Energy counters; for devices that report only power, its integral over time.
    fn meters(&self) -> (BTreeMap<String, Readings>, &'static str) {
        let mut meters = self.readings("energy_joules");
        let mut how = "counter";
        for (device, powers) in self.readings("power_watts") {
            let is_wanted = POWER_ONLY.iter().any(|kind| device.starts_with(kind)) && !device.contains('/');
            if is_wanted && !meters.contains_key(&device) {
                meters.insert(device, energy::integrate(&powers));
                how = "power_integrated";
            }
        }
        (meters, how)
    }

    /// Mean power by device, for the time in which nothing is measured.
    pub fn mean_power_w(&self) -> BTreeMap<String, f64> {
        let meters = self.meters().0.into_iter();
        let mean = |(device, readings): (String, Readings)| {
            let alone = BTreeMap::from([(device.clone(), readings)]);
            Some((device, energy::mean_power(&alone, (0, u64::MAX))?))
        };
        meters.filter_map(mean).collect()
    }

    /// The energy of the measured loop, or why there is no figure. `idle` has the mean power of each device before and
    /// after the measurement.
    pub fn energy(
        &self,
        window_ns: (u64, u64),
        inferences: u64,
        busy_seconds: f64,
        idle: [Option<&BTreeMap<String, f64>>; 2],
    ) -> Result<EnergyReport, String> {
        let (meters, how) = self.meters();
        if let Some(why) = self.why_no_energy.as_ref().filter(|_| meters.is_empty()) {
            return Err(why.clone());
        }
        let mut report = energy::energy(&meters, "", window_ns, inferences, busy_seconds)?;
        let sources: BTreeSet<&str> = report
            .scope
            .iter()
            .filter_map(|device| self.energy_sources.get(device))
            .map(String::as_str)
            .collect();
        report.source = sources.into_iter().collect::<Vec<_>>().join(", ");
        report.how = how.into();
        // The baseline is of the same devices: if one was not read at rest, there is none.
        let [before, after] = idle.map(|devices| {
            report.scope.iter().map(|device| devices?.get(device).copied()).sum::<Option<f64>>()
        });
        if let Some(idle) = IdleBaseline::new(before, after) {
            report.set_idle(idle);
        }
        Ok(report)
    }

    /// Busy share of all processors in the loop.
    pub fn load(&self, window_ns: (u64, u64)) -> Option<f64> {
        let readings = self.sensors.get("machine", "cpu_busy_ratio")?;
        let inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns));
        let values: Vec<f64> = inside.map(|(_, value)| *value).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    pub fn heat(&self, window_ns: (u64, u64)) -> HeatReport {
        let inside = |(at_ns, _): &&(u64, f64)| (window_ns.0..=window_ns.1).contains(at_ns);
        let warmest = self.readings("temperature_celsius").into_iter().filter_map(|(device, readings)| {
            let celsius = readings.iter().filter(inside).map(|(_, value)| *value).reduce(f64::max)?;
            Some(Hottest { device, celsius })
        });
        let is_watched = self.sensors.iter().any(|sensor| reports_throttling(sensor.metric));
        HeatReport {
            hottest: warmest.max_by(|a, b| a.celsius.total_cmp(&b.celsius)),
            throttled: throttled(self.sensors.iter(), window_ns),
            is_watched,
        }
    }

    /// GPUs and NPUs that reported something. `pid` is the worker's.
    pub fn accelerators(&self, window_ns: (u64, u64), pid: Option<u32>) -> Vec<DeviceReport> {
        let inside = |device: &str, metric: &str| {
            let readings = self.sensors.get(device, metric)?;
            let inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns));
            let values: Vec<f64> = inside.map(|(_, value)| *value).collect();
            (!values.is_empty()).then_some(values)
        };
        let mean = |device: &str, metric: &str| {
            inside(device, metric).map(|values| values.iter().sum::<f64>() / values.len() as f64)
        };
        let most = |device: &str, metric: &str| inside(device, metric)?.into_iter().reduce(f64::max);
        let is_accelerator =
            |device: &&str| (device.starts_with("gpu") || device.starts_with("npu")) && !device.contains('/');
        let devices: BTreeSet<&str> =
            self.sensors.iter().map(|sensor| sensor.device).filter(is_accelerator).collect();
        let report = |device: &str| {
            let (used, total) = (most(device, "memory_used_bytes"), most(device, "memory_total_bytes"));
            let busy = mean(device, "memory_busy_ratio");
            let share = used.zip(total).filter(|(_, total)| *total > 0.0).map(|(used, total)| used / total);
            DeviceReport {
                device: device.to_owned(),
                process_utilization_ratio: pid
                    .and_then(|pid| mean(&format!("process-{pid}/{device}"), "utilization_ratio")),
                power_w: mean(device, "power_watts"),
                temperature_celsius: most(device, "temperature_celsius"),
                frequency_hertz: mean(device, "frequency_hertz"),
                gpu_util: mean(device, "utilization_ratio").map(|ratio| ratio * 100.0),
                mem_util: busy.or(share).map(|ratio| ratio * 100.0),
                mem_util_of: busy.map(|_| "busy".into()).or(share.map(|_| "used".into())),
                mem_used_mb: used.map(|bytes| bytes / 1e6),
                mem_total_mb: total.map(|bytes| bytes / 1e6),
            }
        };
        // A device that stopped responding before the loop has nothing to report.
        let is_known = |report: &DeviceReport| {
            *report != DeviceReport { device: report.device.clone(), ..DeviceReport::default() }
        };
        devices.into_iter().map(report).filter(is_known).collect()
    }

    /// `None` without counters; the reason is in `why_no_counters`.
    pub fn counters(&self, window_ns: (u64, u64), inferences: u64) -> Option<CounterReport> {
        let grown = |metric: &str| {
            let readings =
                self.readings(metric).into_iter().find(|(device, _)| device.starts_with("process-"))?.1;
            let mut inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns));
            let (first, last) = (inside.next()?, inside.next_back()?);
            // What was counted between two readings, scaled to the whole loop.
            let part = (last.0 - first.0) as f64 / (window_ns.1 - window_ns.0).max(1) as f64;
            Some((last.1 - first.1) / part).filter(|count| count.is_finite() && *count > 0.0)
        };
        let (instructions, cycles) = (grown("instructions_count")?, grown("cycles_count"));
        let each = |count: f64| (inferences > 0).then(|| count / inferences as f64);
        let hits = |misses: &str, accesses: &str| {
            grown(misses).zip(grown(accesses)).map(|(misses, all)| (1.0 - misses / all).clamp(0.0, 1.0))
        };
        Some(CounterReport {
            instructions_per_inference: each(instructions),
            cycles_per_inference: cycles.and_then(each),
            instructions_per_cycle: cycles.map(|cycles| instructions / cycles),
            l1_hit_ratio: hits("l1_misses_count", "l1_accesses_count"),
            l2_hit_ratio: hits("l2_misses_count", "l2_accesses_count"),
            l3_hit_ratio: hits("l3_misses_count", "l3_accesses_count"),
        })
    }
}
