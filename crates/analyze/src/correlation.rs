//! What devices did around an inference: samples joined to inferences on the one clock.
//!
//! A reading counts for an inference if it was taken within [`WINDOW_NANOS`] of it, or if it is the mean of a time that the
//! inference lies in (a utilisation, a power by a counter). What was read earlier or later says nothing about it.

use std::collections::BTreeMap;

use serde::Serialize;

/// The farthest a reading may be from an inference.
pub const WINDOW_NANOS: u64 = 100_000_000;
/// A mean of a longer time than this describes no inference.
const LONGEST_MEAN_NANOS: u64 = 2_000_000_000;

/// Metrics whose readings are means of the time since the reading before.
const MEANS: &[&str] = &["utilization_ratio", "busy_ratio", "power_watts"];
/// Metrics that count how often, or how long, a clock was held down.
const THROTTLE_COUNTS: &[&str] = &["throttle_count", "throttle_milliseconds"];

/// Readings of one sensor, in the order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sensor {
    pub device: String,
    pub metric: String,
    pub readings: Vec<(u64, f64)>,
}

/// What was read around an inference.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Around {
    pub device: String,
    pub metric: String,
    pub value: f64,
    /// From the inference to the reading; 0 if it was taken during it, or is a mean of that time.
    pub distance_ms: f64,
}

/// The reading of each sensor that belongs to a stretch of time; sensors without one are left out.
pub fn around(sensors: &[Sensor], start_ns: u64, end_ns: u64) -> Vec<Around> {
    let mut found = Vec::new();
    for sensor in sensors {
        if let Some((value, distance_ns)) = joined(sensor, start_ns, end_ns) {
            found.push(Around {
                device: sensor.device.clone(),
                metric: sensor.metric.clone(),
                value,
                distance_ms: distance_ns as f64 / 1e6,
            });
        }
    }
    found
}

fn joined(sensor: &Sensor, start_ns: u64, end_ns: u64) -> Option<(f64, u64)> {
    let readings = &sensor.readings;
    let after = readings.partition_point(|(at_ns, _)| *at_ns < start_ns);
    if MEANS.contains(&sensor.metric.as_str())
        && let (Some(&(at_ns, value)), Some(&(since_ns, _))) =
            (readings.get(after), after.checked_sub(1).and_then(|before| readings.get(before)))
        && at_ns - since_ns <= LONGEST_MEAN_NANOS
    {
        return Some((value, 0));
    }
    let distance = |at_ns: u64| {
        if at_ns < start_ns { start_ns - at_ns } else { at_ns.saturating_sub(end_ns) }
    };
    let candidates = [after.checked_sub(1).and_then(|before| readings.get(before)), readings.get(after)];
    let nearest = candidates.into_iter().flatten().min_by_key(|(at_ns, _)| distance(*at_ns))?;
    Some((nearest.1, distance(nearest.0))).filter(|(_, distance_ns)| *distance_ns <= WINDOW_NANOS)
}

/// A device whose clock was held down while something was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Throttled {
    pub device: String,
    /// How often it began, where that is counted.
    pub times: Option<u64>,
    /// For how long, where that is counted.
    pub milliseconds: Option<f64>,
    /// What the driver says of it.
    pub reasons: Vec<&'static str>,
}

impl Throttled {
    /// `package-0 3 times, 250 ms`.
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

/// NVML's reasons that slow a GPU down; that it idles, or that somebody fixed its clock, is no heat.
const NVIDIA_REASONS: &[(u64, &str)] = &[
    (0x4, "power cap"),
    (0x8, "hardware slowdown"),
    (0x20, "thermal slowdown by software"),
    (0x40, "thermal slowdown by hardware"),
    (0x80, "power brake"),
];

/// Devices that were slowed down in a stretch of time. Counters are compared at its ends, so that what happened before it
/// does not count; reasons count if one was there at any reading in it.
pub fn throttled(sensors: &[Sensor], window_ns: (u64, u64)) -> Vec<Throttled> {
    let mut devices: BTreeMap<&str, Throttled> = BTreeMap::new();
    let entry = |device: &str| Throttled {
        device: device.to_owned(),
        times: None,
        milliseconds: None,
        reasons: Vec::new(),
    };
    for sensor in sensors {
        let inside = |(at_ns, _): &&(u64, f64)| (window_ns.0..=window_ns.1).contains(at_ns);
        if THROTTLE_COUNTS.contains(&sensor.metric.as_str()) {
            let begin = sensor.readings.partition_point(|(at_ns, _)| *at_ns <= window_ns.0);
            let end = sensor.readings.partition_point(|(at_ns, _)| *at_ns <= window_ns.1);
            // The last reading before it, or the first in it.
            let first = sensor.readings.get(begin.saturating_sub(1));
            // Time is counted when it is over: the first reading behind it still belongs to it.
            let last = sensor.readings.get(end).or_else(|| sensor.readings.get(end.saturating_sub(1)));
            let Some(grown) =
                first.zip(last).map(|(first, last)| last.1 - first.1).filter(|grown| *grown > 0.0)
            else {
                continue;
            };
            let device = devices.entry(&sensor.device).or_insert_with(|| entry(&sensor.device));
            if sensor.metric == "throttle_count" {
                device.times = Some(grown as u64);
            } else {
                device.milliseconds = Some(grown);
            }
        } else if sensor.metric == "throttle_reasons" {
            let bits = sensor.readings.iter().filter(inside).fold(0, |bits, (_, value)| bits | *value as u64);
            let reasons: Vec<&'static str> =
                NVIDIA_REASONS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
            if !reasons.is_empty() {
                devices.entry(&sensor.device).or_insert_with(|| entry(&sensor.device)).reasons = reasons;
            }
        } else if sensor.metric == "throttled_ratio"
            && sensor.readings.iter().filter(inside).any(|(_, value)| *value > 0.0)
        {
            let device = devices.entry(&sensor.device).or_insert_with(|| entry(&sensor.device));
            device.reasons.push("its driver holds the clock down");
        }
    }
    devices.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn sensor(device: &str, metric: &str, readings: &[(u64, f64)]) -> Sensor {
        let readings = readings.iter().map(|(at_ms, value)| (at_ms * MS, *value)).collect();
        Sensor { device: device.to_owned(), metric: metric.to_owned(), readings }
    }

    #[test]
    fn near_readings_count_and_far_ones_do_not() {
        let heat = sensor("package-0", "temperature_celsius", &[(0, 50.0), (1000, 60.0)]);
        let value = |start: u64, end: u64| {
            around(std::slice::from_ref(&heat), start * MS, end * MS)
                .first()
                .map(|around| (around.value, around.distance_ms))
        };
        assert_eq!(value(90, 95), Some((50.0, 90.0)));
        assert_eq!(value(110, 890), None, "both are farther away than 100 ms");
        assert_eq!(value(110, 900), Some((60.0, 100.0)));
        assert_eq!(value(900, 1100), Some((60.0, 0.0)), "taken during it");
        assert_eq!(value(1101, 1200), None);
    }

    #[test]
    fn a_mean_counts_for_the_time_it_is_of() {
        let busy = sensor("npu0", "utilization_ratio", &[(0, 0.1), (1000, 0.9), (9000, 0.5)]);
        let value = |start: u64, end: u64| {
            around(std::slice::from_ref(&busy), start * MS, end * MS).first().map(|around| around.value)
        };
        assert_eq!(value(400, 410), Some(0.9));
        assert_eq!(value(5000, 5010), None, "a mean of eight seconds tells nothing");
        assert_eq!(value(20_000, 20_010), None);
    }

    #[test]
    fn only_what_happened_in_the_measurement_is_throttling() {
        let sensors = [
            sensor("package-0", "throttle_count", &[(0, 7.0), (1000, 7.0), (2000, 9.0)]),
            sensor("package-0", "throttle_milliseconds", &[(0, 100.0), (1000, 100.0), (2000, 350.0)]),
            sensor("cpu1", "throttle_count", &[(0, 3.0), (2000, 3.0)]),
            sensor("gpu0", "throttle_reasons", &[(0, 64.0), (1200, 1.0), (1300, 4.0)]),
            sensor("gpu1", "throttled_ratio", &[(1200, 1.0)]),
            // It idles, and somebody fixed its clock.
            sensor("gpu2", "throttle_reasons", &[(1200, 3.0)]),
        ];
        let found = throttled(&sensors, (1100 * MS, 2100 * MS));
        let words: Vec<String> = found.iter().map(Throttled::describe).collect();
        assert_eq!(
            words,
            ["gpu0 (power cap)", "gpu1 (its driver holds the clock down)", "package-0 2 times for 250 ms"]
        );
        assert_eq!(throttled(&sensors[..3], (0, 1000 * MS)).len(), 1, "the reading behind it belongs to it");
        assert_eq!(throttled(&sensors[..3], (2100 * MS, 3000 * MS)), []);
    }
}
