//! What devices and processes showed last, as their samples are read in the order of time.

use std::collections::{BTreeSet, HashMap};

use ortscope_core::schema::{DeviceSampleRow, ProcessSampleRow, Text};

use super::{CacheHitRates, HardwareRecord};

/// A reading that is older tells nothing about now.
const STALE_AFTER_NS: u64 = 5_000_000_000;
/// Sensors that are remembered; a machine has some hundred.
const MAX_SENSORS: usize = 10_000;

/// The last reading of every sensor.
#[derive(Debug, Default)]
pub struct Sensors {
    readings: HashMap<(Text, Text), (u64, f64)>,
}

impl Sensors {
    pub fn add(&mut self, row: &DeviceSampleRow) {
        let sensor = (row.device.clone(), row.metric.clone());
        if self.readings.len() < MAX_SENSORS || self.readings.contains_key(&sensor) {
            self.readings.insert(sensor, (row.timestamp_ns, row.value));
        }
    }

    /// Fresh readings of a metric on devices whose name begins so.
    fn of<'a>(&'a self, device: &'a str, metric: &'a str, time_ns: u64) -> impl Iterator<Item = f64> + 'a {
        self.readings
            .iter()
            .filter(move |((name, what), (at, value))| {
                &**what == metric
                    && name.starts_with(device)
                    && time_ns.saturating_sub(*at) <= STALE_AFTER_NS
                    && value.is_finite()
            })
            .map(|(_, (_, value))| *value)
    }

    fn sum(&self, device: &str, metric: &str, time_ns: u64) -> Option<f64> {
        self.of(device, metric, time_ns).reduce(|sum, value| sum + value)
    }

    fn largest(&self, device: &str, metric: &str, time_ns: u64) -> Option<f64> {
        self.of(device, metric, time_ns).reduce(f64::max)
    }

    /// Power of the whole machine if something measures it, otherwise of packages, memory and accelerators together.
    pub fn power_w(&self, time_ns: u64) -> Option<f64> {
        let power = |device| self.sum(device, "power_watts", time_ns);
        power("psys").or_else(|| power("system")).or_else(|| {
            ["package", "dram", "gpu", "npu"].into_iter().filter_map(power).reduce(|sum, value| sum + value)
        })
    }

    pub fn busy_percent(&self, device: &str, time_ns: u64) -> Option<f64> {
        self.largest(device, "utilization_ratio", time_ns).map(|ratio| ratio * 100.0)
    }

    pub fn memory_bytes(&self, device: &str, time_ns: u64) -> Option<f64> {
        self.sum(device, "memory_used_bytes", time_ns)
    }

    pub(super) fn hardware(&self, time_ns: u64) -> HardwareRecord {
        let cache = |metric| self.largest("", metric, time_ns);
        HardwareRecord {
            npu_percent: self.busy_percent("npu", time_ns),
            gpu_sm_occupancy: self.largest("gpu", "sm_occupancy_ratio", time_ns),
            tensor_core_usage: self.largest("gpu", "tensor_core_ratio", time_ns),
            cache_hit_rates: CacheHitRates {
                l1: cache("l1_hit_ratio"),
                l2: cache("l2_hit_ratio"),
                l3: cache("l3_hit_ratio"),
            },
        }
    }
}

/// Memory of some processes at the last tick.
#[derive(Debug, Default)]
pub struct ProcessMemory {
    pids: BTreeSet<u64>,
    tick_ns: u64,
    bytes: Option<u64>,
}

impl ProcessMemory {
    /// Counts these processes.
    pub fn of(pids: impl IntoIterator<Item = u64>) -> Self {
        Self { pids: pids.into_iter().collect(), ..Self::default() }
    }

    /// Rows of every tick, not only the changed ones: all rows of a tick have its time.
    pub fn add(&mut self, row: &ProcessSampleRow) {
        if row.timestamp_ns != self.tick_ns {
            self.tick_ns = row.timestamp_ns;
            self.bytes = None;
        }
        if self.pids.contains(&row.pid) {
            self.bytes = Some(self.bytes.unwrap_or(0).saturating_add(row.working_set_bytes));
        }
    }

    pub fn bytes(&self, time_ns: u64) -> Option<u64> {
        self.bytes.filter(|_| time_ns.saturating_sub(self.tick_ns) <= STALE_AFTER_NS)
    }
}
