//! What devices did during a measurement: energy, heat, counters of the processor, and what was around slow inferences.

use std::collections::BTreeMap;
use std::time::Duration;

use ortscope_analyze::carbon::CarbonIntensity;
use ortscope_analyze::correlation::{Around, Sensor, Throttled, around, throttled};
use ortscope_analyze::energy::{self, EnergyReport, IdleBaseline, Readings};
use serde::Serialize;

use crate::measure::collect::{CollectedDevices, Inference};

/// Inferences that are shown with what was around them.
const SLOWEST: usize = 5;
/// Of devices whose power is told without a counter, those that are no part of another one.
const POWER_ONLY: &[&str] = &["gpu", "npu", "system"];

/// What the user wants to know about energy beside what is measured anyway.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EnergyRequest {
    /// Estimate from this thermal design power where nothing measures.
    pub tdp_w: Option<f64>,
    pub carbon: Option<CarbonIntensity>,
    /// Measure the machine at rest for so long, before and after.
    pub idle: Option<Duration>,
}

/// Temperatures and slowed-down clocks of the measured loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HeatReport {
    pub hottest: Option<Hottest>,
    /// Devices whose clock was held down. Empty: none of those that tell it was.
    pub throttled: Vec<Throttled>,
    /// Whether anything here tells that a clock is held down.
    pub is_watched: bool,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Hottest {
    pub device: String,
    pub celsius: f64,
}

/// Counters of the processor for the worker, over the measured loop.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct CounterReport {
    pub instructions_per_inference: Option<f64>,
    pub cycles_per_inference: Option<f64>,
    pub instructions_per_cycle: Option<f64>,
    pub l1_hit_ratio: Option<f64>,
    pub l3_hit_ratio: Option<f64>,
}

/// A slow inference and what devices did around it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SlowInference {
    pub start_ns: u64,
    pub end_to_end_ms: f64,
    /// Readings within 100 ms of it.
    pub around: Vec<Around>,
}

impl CollectedDevices {
    fn readings(&self, metric: &str) -> BTreeMap<String, Readings> {
        let of = self.sensors.iter().filter(|((_, name), _)| name == metric);
        of.map(|((device, _), readings)| (device.clone(), readings.clone())).collect()
    }

    fn sensors(&self) -> Vec<Sensor> {
        let sensor = |((device, metric), readings): (&(String, String), &Readings)| Sensor {
            device: device.clone(),
            metric: metric.clone(),
            readings: readings.clone(),
        };
        self.sensors.iter().map(sensor).collect()
    }

    /// Counters of energy; of devices that tell only their power, the area under it.
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

    /// The error says why there is no figure.
    pub fn energy(
        &self,
        window_ns: (u64, u64),
        inferences: u64,
        busy_seconds: f64,
        idle_windows: &[(u64, u64)],
    ) -> Result<EnergyReport, String> {
        let (meters, how) = self.meters();
        if let Some(why) = self.why_no_energy.as_ref().filter(|_| meters.is_empty()) {
            return Err(why.clone());
        }
        let source = self.energy_source.as_deref().unwrap_or("power");
        let mut report = energy::energy(&meters, source, window_ns, inferences, busy_seconds)?;
        report.how = how;
        let idle = |index: usize| energy::mean_power(&meters, *idle_windows.get(index)?);
        if let Some(idle) = IdleBaseline::new(idle(0), idle(1)) {
            report.set_idle(idle);
        }
        Ok(report)
    }

    pub fn heat(&self, window_ns: (u64, u64)) -> HeatReport {
        let inside = |(at_ns, _): &&(u64, f64)| (window_ns.0..=window_ns.1).contains(at_ns);
        let warmest = self.readings("temperature_celsius").into_iter().filter_map(|(device, readings)| {
            let celsius = readings.iter().filter(inside).map(|(_, value)| *value).reduce(f64::max)?;
            Some(Hottest { device, celsius })
        });
        let is_watched = self.sensors.keys().any(|(_, metric)| metric.starts_with("throttle"));
        HeatReport {
            hottest: warmest.max_by(|a, b| a.celsius.total_cmp(&b.celsius)),
            throttled: throttled(&self.sensors(), window_ns),
            is_watched,
        }
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
            l3_hit_ratio: hits("l3_misses_count", "l3_accesses_count"),
        })
    }

    pub fn slowest(&self, inferences: &[Inference]) -> Vec<SlowInference> {
        let sensors = self.sensors();
        if sensors.is_empty() {
            return Vec::new();
        }
        let mut order: Vec<&Inference> = inferences.iter().collect();
        order.sort_by_key(|inference| std::cmp::Reverse(inference.end_to_end_nanos()));
        let slow = order.into_iter().take(SLOWEST).map(|inference| SlowInference {
            start_ns: inference.start_nanos,
            end_to_end_ms: inference.end_to_end_nanos() as f64 / 1e6,
            around: around(&sensors, inference.start_nanos, inference.end_nanos()),
        });
        slow.collect()
    }
}
