//! Readings of devices and of the machine by sensor, for the figures of a result and for joining with inferences by time.

use std::collections::BTreeMap;

use crate::correlation::{Around, Sensor, around, is_joined};
use crate::energy::Readings;

/// Maximum number of sensors; a large machine has several hundred.
pub const MAX_SENSORS: usize = 2_000;
/// Maximum readings of one needed sensor: a day at ten per second.
const MAX_READINGS: usize = 864_000;
/// Maximum readings of all other sensors together (64 MB): 100 sensors for more than an hour. Later ones are dropped.
const MAX_JOINED: usize = 4_000_000;
/// Metrics that the figures of the result need; the recording has all metrics.
const NEEDED: &[&str] = &[
    "energy_joules",
    "power_watts",
    "utilization_ratio",
    "cpu_busy_ratio",
    "memory_busy_ratio",
    "memory_used_bytes",
    "memory_total_bytes",
    "temperature_celsius",
    "frequency_hertz",
    "throttle_count",
    "throttle_milliseconds",
    "throttle_thermal_milliseconds",
    "throttle_power_milliseconds",
    "throttle_reasons",
    "throttled_ratio",
    "instructions_count",
    "cycles_count",
    "l1_accesses_count",
    "l1_misses_count",
    "l2_accesses_count",
    "l2_misses_count",
    "l3_accesses_count",
    "l3_misses_count",
];

/// Readings by device and metric, in the order of time.
#[derive(Debug, Clone, Default)]
pub struct SensorReadings {
    sensors: BTreeMap<(String, String), Readings>,
    /// Readings of sensors that the result does not need.
    joined: usize,
    /// When the first reading was dropped because the limits were reached.
    pub full_at_ns: Option<u64>,
}

impl SensorReadings {
    pub fn iter(&self) -> impl Iterator<Item = Sensor<'_>> {
        self.sensors.iter().map(|((device, metric), readings)| Sensor { device, metric, readings })
    }

    pub fn get(&self, device: &str, metric: &str) -> Option<&Readings> {
        self.sensors.get(&(device.to_owned(), metric.to_owned()))
    }

    /// The readings that belong to an interval.
    pub fn around(&self, start_ns: u64, end_ns: u64) -> Vec<Around> {
        let sensors: Vec<Sensor<'_>> = self.iter().filter(|sensor| is_joined(sensor.metric)).collect();
        around(&sensors, start_ns, end_ns)
    }

    pub fn add(&mut self, device: &str, metric: &str, at_ns: u64, value: f64) {
        let is_needed = NEEDED.contains(&metric);
        if !is_needed && !is_joined(metric) {
            return;
        }
        let sensor = (device.to_owned(), metric.to_owned());
        let has_room = self.sensors.len() < MAX_SENSORS || self.sensors.contains_key(&sensor);
        if !has_room || (!is_needed && self.joined >= MAX_JOINED) {
            self.full_at_ns.get_or_insert(at_ns);
            return;
        }
        let readings = self.sensors.entry(sensor).or_default();
        if readings.len() >= MAX_READINGS {
            self.full_at_ns.get_or_insert(at_ns);
            return;
        }
        self.joined += usize::from(!is_needed);
        // Sources run on several threads, so a reading may arrive late.
        let place = readings.partition_point(|(known_ns, _)| *known_ns <= at_ns);
        readings.insert(place, (at_ns, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_are_joined_and_late_ones_sorted() {
        let mut readings = SensorReadings::default();
        for (at_ns, value) in [(100_000_000, 0.5), (300_000_000, 0.1), (200_000_000, 0.9)] {
            readings.add("gpu0", "utilization_ratio", at_ns, value);
        }
        for at_ns in [100_000_000, 200_000_000] {
            readings.add("machine", "cpu_percent", at_ns, 40.0);
            readings.add("process-7", "cycles_count", at_ns, 5.0);
            readings.add("process-7", "something_else", at_ns, 5.0);
        }
        let found = readings.around(120_000_000, 130_000_000);
        let seen: Vec<(&str, f64)> = found.iter().map(|one| (one.device.as_str(), one.value)).collect();
        assert_eq!(seen, [("gpu0", 0.9), ("machine", 40.0)]);
        // Needed for a figure, but not joined with inferences.
        assert_eq!(readings.get("process-7", "cycles_count").map(Vec::len), Some(2));
        assert_eq!(readings.get("process-7", "something_else"), None);
    }
}
