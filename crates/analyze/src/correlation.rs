//! Joins device samples to inferences on one clock.
//!
//! A reading belongs to an inference if it was taken during it or within [`WINDOW_NS`] of it. Utilization and power
//! are means over the time since the previous reading: such a reading belongs to the inferences of that time and
//! reports its length. Without a reading close enough there is no value.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The farthest a reading may be from an inference.
pub const WINDOW_NS: u64 = 100_000_000;
/// A mean of a longer time than this describes no inference.
const MAX_MEAN_NS: u64 = 2_000_000_000;
/// Minimum observed share of an interval for reporting its busy time.
const MIN_WATCHED: f64 = 0.9;

/// Readings of one metric of one device, in the order of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sensor<'a> {
    pub device: &'a str,
    pub metric: &'a str,
    pub readings: &'a [(u64, f64)],
}

/// Device readings around an inference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Around {
    pub device: String,
    pub metric: String,
    /// Of counters the increase; of several readings during the inference their mean, of flags all of them.
    pub value: f64,
    /// From the inference to the farthest reading that was used; 0 if all were taken during it, or are means of that time.
    pub distance_ms: f64,
    /// Length of time over which the reading is a mean.
    pub mean_of_ms: Option<f64>,
}

/// How readings of a metric are to be understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The mean of the time since the reading before.
    Mean,
    /// A state of the moment.
    State,
    /// Grows with every event.
    Counter,
    /// A set of bits.
    Flags,
    /// Says nothing about a moment.
    None,
}

impl Kind {
    fn of(metric: &str) -> Self {
        match metric {
            "power_watts" | "cpu_percent" => Self::Mean,
            "throttle_reasons" => Self::Flags,
            "frequency_hertz" | "temperature_celsius" | "memory_used_bytes" | "memory_local_bytes" => {
                Self::State
            }
            _ if metric.starts_with("throttle_") => Self::Counter,
            _ if metric.ends_with("_ratio") => Self::Mean,
            _ => Self::None,
        }
    }
}

/// Whether [`around`] uses a metric: others need not be kept for it.
pub fn is_joined(metric: &str) -> bool {
    Kind::of(metric) != Kind::None
}

/// The readings that belong to a stretch of time, one entry for each sensor that has one.
pub fn around(sensors: &[Sensor<'_>], start_ns: u64, end_ns: u64) -> Vec<Around> {
    let end_ns = end_ns.max(start_ns);
    let join = |sensor: &Sensor<'_>| {
        let found = match Kind::of(sensor.metric) {
            Kind::Mean => mean(sensor.readings, start_ns, end_ns),
            Kind::State => state(sensor.readings, start_ns, end_ns),
            Kind::Counter => increase(sensor.readings, start_ns, end_ns),
            Kind::Flags => flags(sensor.readings, start_ns, end_ns),
            Kind::None => None,
        }?;
        found.value.is_finite().then(|| Around {
            device: sensor.device.to_owned(),
            metric: sensor.metric.to_owned(),
            value: found.value,
            distance_ms: found.distance_ns as f64 / 1e6,
            mean_of_ms: found.mean_of_ns.map(|ns| ns as f64 / 1e6),
        })
    };
    sensors.iter().filter_map(join).collect()
}

struct Joined {
    value: f64,
    distance_ns: u64,
    mean_of_ns: Option<u64>,
}

/// Means are weighted by how much of the inference lies in the time of each.
fn mean(readings: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<Joined> {
    let first = readings.partition_point(|(at_ns, _)| *at_ns <= start_ns).max(1);
    let (mut sum, mut weights, mut longest) = (0.0, 0.0, 0);
    for pair in readings.get(first - 1..)?.windows(2) {
        let [(since_ns, _), (at_ns, value)] = *pair else { continue };
        if since_ns > end_ns {
            break;
        }
        let length = at_ns.saturating_sub(since_ns);
        let (from, to) = (since_ns.max(start_ns), at_ns.min(end_ns));
        if from > to || length == 0 || length > MAX_MEAN_NS || !value.is_finite() {
            continue;
        }
        // An inference of zero length still lies in one interval.
        let weight = (to - from).max(1) as f64;
        sum += value * weight;
        weights += weight;
        longest = longest.max(length);
    }
    (weights > 0.0).then(|| Joined { value: sum / weights, distance_ns: 0, mean_of_ns: Some(longest) })
}

fn distance(at_ns: u64, start_ns: u64, end_ns: u64) -> u64 {
    if at_ns < start_ns { start_ns - at_ns } else { at_ns.saturating_sub(end_ns) }
}

/// All readings during the inference; without any, the nearest one.
fn belonging(readings: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<(&[(u64, f64)], u64)> {
    let from = readings.partition_point(|(at_ns, _)| *at_ns < start_ns);
    let to = readings.partition_point(|(at_ns, _)| *at_ns <= end_ns);
    if from < to {
        return readings.get(from..to).map(|inside| (inside, 0));
    }
    let nearest = [from.checked_sub(1), Some(from)].into_iter().flatten().filter(|at| *at < readings.len());
    let away = |at: usize| distance(readings[at].0, start_ns, end_ns);
    let at = nearest.min_by_key(|at| away(*at)).filter(|at| away(*at) <= WINDOW_NS)?;
    Some((readings.get(at..=at)?, away(at)))
}

fn state(readings: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<Joined> {
    let (inside, distance_ns) = belonging(readings, start_ns, end_ns)?;
    let value = inside.iter().map(|(_, value)| value).sum::<f64>() / inside.len() as f64;
    Some(Joined { value, distance_ns, mean_of_ns: None })
}

fn flags(readings: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<Joined> {
    let (inside, distance_ns) = belonging(readings, start_ns, end_ns)?;
    let bits = inside.iter().fold(0, |bits, (_, value)| bits | *value as u64);
    Some(Joined { value: bits as f64, distance_ns, mean_of_ns: None })
}

/// From the last reading before the inference to the first behind it; both must be near.
fn increase(readings: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<Joined> {
    let before = readings.partition_point(|(at_ns, _)| *at_ns <= start_ns).checked_sub(1)?;
    let behind = readings.partition_point(|(at_ns, _)| *at_ns < end_ns);
    let (first, last) = (readings.get(before)?, readings.get(behind)?);
    let distance_ns = distance(first.0, start_ns, end_ns).max(distance(last.0, start_ns, end_ns));
    // A decreasing counter was reset: the count in between is unknown.
    (distance_ns <= WINDOW_NS && last.1 >= first.1).then_some(Joined {
        value: last.1 - first.1,
        distance_ns,
        mean_of_ns: None,
    })
}

/// How long a device was busy in a stretch of time, by readings of its utilization (0 to 1). `None` unless nearly all of
/// the time was watched.
pub fn busy_ns(utilization: &[(u64, f64)], start_ns: u64, end_ns: u64) -> Option<u64> {
    let (mut busy, mut watched) = (0.0, 0.0);
    for pair in utilization.windows(2) {
        let [(since_ns, _), (at_ns, value)] = *pair else { continue };
        let (from, to) = (since_ns.max(start_ns), at_ns.min(end_ns));
        if to > from && value.is_finite() && at_ns - since_ns <= MAX_MEAN_NS {
            busy += value.clamp(0.0, 1.0) * (to - from) as f64;
            watched += (to - from) as f64;
        }
    }
    let all = end_ns.checked_sub(start_ns).filter(|ns| *ns > 0)? as f64;
    // Unobserved time is assumed to match the rest.
    (watched >= MIN_WATCHED * all).then(|| (busy / watched * all) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Value and distance of one sensor, times in milliseconds.
    fn joined(metric: &str, readings: &[(u64, f64)], start: u64, end: u64) -> Option<(f64, f64)> {
        let readings: Vec<(u64, f64)> = readings.iter().map(|(at, value)| (at * MS, *value)).collect();
        let sensor = Sensor { device: "d", metric, readings: &readings };
        let found = around(&[sensor], start * MS, end * MS);
        found.first().map(|found| (found.value, found.distance_ms))
    }

    #[test]
    fn near_readings_count_and_far_ones_do_not() {
        let value =
            |start, end| joined("temperature_celsius", &[(0, 50.0), (1000, 60.0), (1050, 70.0)], start, end);
        assert_eq!(value(90, 95), Some((50.0, 90.0)));
        assert_eq!(value(101, 899), None, "both are farther away than 100 ms");
        assert_eq!(value(110, 900), Some((60.0, 100.0)));
        assert_eq!(value(900, 1020), Some((60.0, 0.0)), "taken during it");
        assert_eq!(value(900, 1100), Some((65.0, 0.0)), "two were");
        assert_eq!(value(1151, 1200), None);
        assert_eq!(joined("temperature_celsius", &[], 0, 1), None);
        assert_eq!(joined("temperature_celsius", &[(0, f64::NAN)], 0, 1), None);
    }

    #[test]
    fn a_mean_counts_for_its_interval() {
        let busy = [(0, 0.1), (100, 0.9), (200, 0.3), (9000, 0.5)];
        let value = |start, end| joined("utilization_ratio", &busy, start, end).map(|found| found.0);
        assert_eq!(value(40, 41), Some(0.9));
        assert_eq!(value(40, 40), Some(0.9), "of no length");
        // Three quarters in the first, one in the second.
        assert!((value(40, 120).unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(value(5000, 5010), None, "a mean over eight seconds is not specific");
        assert_eq!(value(20_000, 20_010), None, "nothing was read behind it");
        let readings = [(0, 0.0), (100 * MS, 1.0)];
        let sensor = Sensor { device: "npu0", metric: "utilization_ratio", readings: &readings };
        assert_eq!(around(&[sensor], 10 * MS, 11 * MS)[0].mean_of_ms, Some(100.0));
    }

    #[test]
    fn throttling_is_counted_around_the_inference() {
        let counts = [(0, 3.0), (100, 3.0), (200, 5.0), (300, 1.0), (900, 2.0)];
        let value = |start, end| joined("throttle_count", &counts, start, end);
        assert_eq!(value(20, 80), Some((0.0, 20.0)), "not throttled is a value");
        assert_eq!(value(120, 180), Some((2.0, 20.0)));
        assert_eq!(value(20, 180), Some((2.0, 20.0)));
        assert_eq!(value(220, 280), None, "set back");
        assert_eq!(value(320, 400), None, "the next reading is too late");
        assert_eq!(value(950, 960), None, "there is none behind it");
        assert_eq!(joined("throttle_reasons", &[(0, 1.0), (50, 4.0), (60, 64.0)], 40, 70), Some((68.0, 0.0)));
        assert_eq!(joined("energy_joules", &[(0, 1.0), (50, 4.0)], 10, 40), None, "its power says it");
    }

    #[test]
    fn busy_time_needs_to_have_been_watched() {
        let readings: Vec<(u64, f64)> = (0..=10).map(|at| (at * 100 * MS, 0.5)).collect();
        assert_eq!(busy_ns(&readings, 0, 1000 * MS), Some(500 * MS));
        assert_eq!(busy_ns(&readings, 200 * MS, 400 * MS), Some(100 * MS));
        assert_eq!(busy_ns(&readings, 500 * MS, 2000 * MS), None, "a third was watched");
        assert_eq!(busy_ns(&readings, 5, 5), None);
        assert_eq!(busy_ns(&[], 0, MS), None);
    }
}
