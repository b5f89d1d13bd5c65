//! Clocks limited by heat or power during a measurement, as reported by devices.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::correlation::Sensor;

/// Metrics that count how often, or how long, a clock was held down.
const COUNTS: &[&str] = &["throttle_count", "throttle_milliseconds"];
/// Metrics that count how long one cause held it down.
const CAUSES: &[(&str, &str)] =
    &[("throttle_thermal_milliseconds", "heat"), ("throttle_power_milliseconds", "power limit")];
/// NVML's reasons that slow a GPU down; idling or a fixed clock does not count.
const NVIDIA_REASONS: &[(u64, &str)] = &[
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "thermal slowdown by software"),
    (0x40, "thermal slowdown by hardware"),
    (0x80, "power brake"),
];

/// A device that was throttled during the measurement.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Throttled {
    pub device: String,
    /// How often it began, where that is counted.
    pub times: Option<u64>,
    /// For how long, where that is counted.
    pub milliseconds: Option<f64>,
    /// The driver's reasons.
    pub reasons: Vec<String>,
}

impl Throttled {
    /// `package-0 3 times for 250 ms`.
    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        parts.extend(
            self.times.map(|times| if times == 1 { "once".to_owned() } else { format!("{times} times") }),
        );
        parts.extend(self.milliseconds.map(|millis| format!("for {millis:.0} ms")));
        parts.extend((!self.reasons.is_empty()).then(|| format!("({})", self.reasons.join(", "))));
        format!("{} {}", self.device, parts.join(" ")).trim_end().to_owned()
    }
}

/// Whether a metric reports throttling.
pub fn reports_throttling(metric: &str) -> bool {
    COUNTS.contains(&metric)
        || CAUSES.iter().any(|(name, _)| *name == metric)
        || matches!(metric, "throttle_reasons" | "throttled_ratio")
}

/// How much a counter grew in a stretch of time; `None` if it did not. It is compared at the ends, so that what happened
/// before does not count.
fn grown(readings: &[(u64, f64)], window_ns: (u64, u64)) -> Option<f64> {
    let begin = readings.partition_point(|(at_ns, _)| *at_ns <= window_ns.0);
    let end = readings.partition_point(|(at_ns, _)| *at_ns <= window_ns.1);
    // The last reading before it, or the first in it.
    let first = readings.get(begin.saturating_sub(1))?;
    // Time is counted when it is over: the first reading behind the stretch still belongs to it.
    let last = readings.get(end).or_else(|| readings.get(end.saturating_sub(1)))?;
    Some(last.1 - first.1).filter(|grown| *grown > 0.0)
}

/// Devices that were slowed down in a stretch of time. Reasons count if one was there at any reading in it.
pub fn throttled<'a>(sensors: impl IntoIterator<Item = Sensor<'a>>, window_ns: (u64, u64)) -> Vec<Throttled> {
    let mut devices: BTreeMap<&str, Throttled> = BTreeMap::new();
    for Sensor { device, metric, readings } in sensors {
        let mut found = Throttled { device: device.to_owned(), ..Throttled::default() };
        let inside = || {
            let inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns));
            inside.map(|(_, value)| *value)
        };
        if metric == "throttle_count" {
            found.times = grown(readings, window_ns).map(|times| times as u64);
        } else if metric == "throttle_milliseconds" {
            found.milliseconds = grown(readings, window_ns);
        } else if let Some((_, cause)) = CAUSES.iter().find(|(name, _)| *name == metric) {
            let millis = grown(readings, window_ns);
            found.reasons.extend(millis.map(|millis| format!("{cause} for {millis:.0} ms")));
        } else if metric == "throttle_reasons" {
            let bits = inside().fold(0, |bits, value| bits | value as u64);
            let named = NVIDIA_REASONS.iter().filter(|(bit, _)| bits & bit != 0);
            found.reasons.extend(named.map(|(_, name)| (*name).to_owned()));
        } else if metric == "throttled_ratio" && inside().any(|value| value > 0.0) {
            found.reasons.push("its driver holds the clock down".to_owned());
        }
        if found.times.is_none() && found.milliseconds.is_none() && found.reasons.is_empty() {
            continue;
        }
        let known = devices
            .entry(device)
            .or_insert_with(|| Throttled { device: device.to_owned(), ..Throttled::default() });
        known.times = known.times.or(found.times);
        known.milliseconds = known.milliseconds.or(found.milliseconds);
        known.reasons.append(&mut found.reasons);
    }
    devices.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(readings: &[(u64, f64)]) -> Vec<(u64, f64)> {
        readings.iter().map(|(at_ms, value)| (at_ms * MS, *value)).collect()
    }

    #[test]
    fn only_throttling_during_the_measurement_counts() {
        let readings = [
            ("package-0", "throttle_count", at(&[(0, 7.0), (1000, 7.0), (2000, 9.0)])),
            ("package-0", "throttle_milliseconds", at(&[(0, 100.0), (1000, 100.0), (2000, 350.0)])),
            ("cpu1", "throttle_count", at(&[(0, 3.0), (2000, 3.0)])),
            ("gpu0", "throttle_reasons", at(&[(0, 64.0), (1200, 1.0), (1300, 4.0)])),
            ("gpu0", "throttle_thermal_milliseconds", at(&[(0, 5.0), (2000, 5.0)])),
            ("gpu0", "throttle_power_milliseconds", at(&[(0, 5.0), (2000, 45.0)])),
            ("gpu1", "throttled_ratio", at(&[(1200, 1.0)])),
            // Idle, and with a fixed clock.
            ("gpu2", "throttle_reasons", at(&[(1200, 3.0)])),
            ("gpu3", "utilization_ratio", at(&[(1200, 3.0)])),
        ];
        let sensors = |count: usize| {
            let all = readings.iter().take(count);
            all.map(|(device, metric, readings)| Sensor { device, metric, readings }).collect::<Vec<_>>()
        };
        let found = throttled(sensors(9), (1100 * MS, 2100 * MS));
        let words: Vec<String> = found.iter().map(Throttled::describe).collect();
        assert_eq!(
            words,
            [
                "gpu0 (power cap, power limit for 40 ms)",
                "gpu1 (its driver holds the clock down)",
                "package-0 2 times for 250 ms"
            ]
        );
        assert_eq!(throttled(sensors(3), (0, 1000 * MS)).len(), 1, "the reading behind it belongs to it");
        assert_eq!(throttled(sensors(3), (2100 * MS, 3000 * MS)), []);
        assert!(readings[..8].iter().all(|(_, metric, _)| reports_throttling(metric)));
        assert!(!reports_throttling("utilization_ratio"));
    }
}
