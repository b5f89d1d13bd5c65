//! Numbers that cannot be: drivers tell 65,535 watts, minus one degree as four billion, not a number at all. Such a number
//! is left out, with the reason, until the sensor makes sense again.

use std::collections::BTreeMap;

use super::Reading;

/// More than any device of one machine draws.
pub(super) const MAX_WATTS: f64 = 20_000.0;
/// A thermometer does not move by this much between two readings, unless it stays there.
const CELSIUS_JUMP: f64 = 60.0;
/// Readings after which a jump is believed.
const STAYS: u32 = 3;
/// Readings are compared with the one before if it is not older than this.
const FRESH_NS: u64 = 5_000_000_000;
/// More instructions than any processor ends in one cycle.
const MAX_PER_CYCLE: f64 = 32.0;
/// Sensors that are remembered; a large machine has some hundred.
const MAX_SENSORS: usize = 2000;

/// What became of a reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Judged {
    Fine,
    /// Fine again, after so many that were not, since then.
    FineAgain {
        since_ns: u64,
        left_out: u64,
        reason: String,
    },
    /// The first that cannot be, and why.
    Wrong(String),
    /// One more.
    StillWrong,
}

#[derive(Debug, Default)]
pub(super) struct Sense {
    sensors: BTreeMap<(String, String), Sensor>,
}

#[derive(Debug, Default)]
struct Sensor {
    last: Option<(u64, f64)>,
    jumped: u32,
    wrong: Option<(u64, u64, String)>,
}

impl Sense {
    pub fn judge(&mut self, reading: &Reading<'_>) -> Judged {
        let key = (reading.device.to_owned(), reading.metric.to_owned());
        if self.sensors.len() >= MAX_SENSORS && !self.sensors.contains_key(&key) {
            return if problem_of(reading.metric, reading.value).is_none() {
                Judged::Fine
            } else {
                Judged::StillWrong
            };
        }
        let sensor = self.sensors.entry(key).or_default();
        let problem = problem_of(reading.metric, reading.value).or_else(|| sensor.jump(reading));
        match (problem, sensor.wrong.take()) {
            (None, None) => {
                sensor.accept(reading);
                Judged::Fine
            }
            (None, Some((since_ns, left_out, reason))) => {
                sensor.accept(reading);
                Judged::FineAgain { since_ns, left_out, reason }
            }
            (Some(_), Some((since_ns, left_out, reason))) => {
                sensor.wrong = Some((since_ns, left_out + 1, reason));
                Judged::StillWrong
            }
            (Some(problem), None) => {
                let reason = format!("{} tells {problem}", reading.device);
                sensor.wrong = Some((reading.at_ns, 1, reason.clone()));
                Judged::Wrong(reason)
            }
        }
    }
}

impl Sensor {
    fn accept(&mut self, reading: &Reading<'_>) {
        self.last = Some((reading.at_ns, reading.value));
        self.jumped = 0;
    }

    fn jump(&mut self, reading: &Reading<'_>) -> Option<String> {
        let (last_ns, last) = self.last?;
        let is_fresh = reading.at_ns.saturating_sub(last_ns) <= FRESH_NS;
        if !reading.metric.ends_with("_celsius") || !is_fresh || (reading.value - last).abs() < CELSIUS_JUMP {
            return None;
        }
        self.jumped += 1;
        (self.jumped < STAYS)
            .then(|| format!("{:.1} °C right after {last:.1} °C, which cannot be", reading.value))
    }
}

/// Why a number cannot be one of this metric; the unit stands at the end of its name.
fn problem_of(metric: &str, value: f64) -> Option<String> {
    if !value.is_finite() {
        return Some(format!("no number as {metric}"));
    }
    let (least, most) = match metric.rsplit('_').next()? {
        // No share of a whole, as other ratios are.
        _ if metric == "instructions_per_cycle_ratio" => (0.0, MAX_PER_CYCLE),
        "ratio" => (0.0, 1.5),
        "celsius" => (-90.0, 250.0),
        "watts" => (0.0, MAX_WATTS),
        "hertz" => (0.0, 1e12),
        "bytes" | "count" | "joules" | "milliseconds" | "seconds" | "second" => (0.0, 1e19),
        _ => return None,
    };
    (!(least..=most).contains(&value)).then(|| format!("{value} as {metric}, which cannot be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(at_s: u64, metric: &'static str, value: f64) -> Reading<'static> {
        Reading { at_ns: at_s * SECOND, device: "gpu0", metric, value, source: "test" }
    }

    #[test]
    fn what_cannot_be_is_told_once_and_its_end_too() {
        let mut sense = Sense::default();
        let mut judge = |at, metric, value| sense.judge(&reading(at, metric, value));
        assert_eq!(judge(1, "power_watts", 40.0), Judged::Fine);
        let Judged::Wrong(why) = judge(2, "power_watts", f64::NAN) else { panic!("it is no number") };
        assert_eq!(why, "gpu0 tells no number as power_watts");
        assert_eq!(judge(3, "power_watts", -7.0), Judged::StillWrong);
        assert_eq!(judge(3, "temperature_celsius", 60.0), Judged::Fine, "others are not suspected");
        let again = judge(4, "power_watts", 41.0);
        assert_eq!(again, Judged::FineAgain { since_ns: 2 * SECOND, left_out: 2, reason: why });
        for (metric, value) in [
            ("power_watts", 65_535.0),
            ("utilization_ratio", -0.1),
            ("utilization_ratio", 2.55),
            ("frequency_hertz", f64::INFINITY),
            ("memory_used_bytes", -1.0),
            ("energy_joules", f64::NEG_INFINITY),
        ] {
            assert!(
                matches!(Sense::default().judge(&reading(1, metric, value)), Judged::Wrong(_)),
                "{metric}"
            );
        }
    }

    /// Every processor that ended more than 1.5 instructions in a cycle used to be taken for one that tells nonsense.
    #[test]
    fn a_processor_ends_several_instructions_in_a_cycle() {
        let judge = |value| Sense::default().judge(&reading(1, "instructions_per_cycle_ratio", value));
        assert_eq!((judge(0.0), judge(3.2), judge(8.0)), (Judged::Fine, Judged::Fine, Judged::Fine));
        assert!([-0.1, 33.0, f64::NAN].into_iter().all(|value| matches!(judge(value), Judged::Wrong(_))));
    }

    #[test]
    fn a_thermometer_that_jumps_is_believed_when_it_stays() {
        let mut sense = Sense::default();
        let mut judge = |at, value| sense.judge(&reading(at, "temperature_celsius", value));
        assert_eq!(judge(1, 50.0), Judged::Fine);
        assert!(matches!(judge(2, 127.0), Judged::Wrong(_)));
        assert!(matches!(judge(3, 51.0), Judged::FineAgain { left_out: 1, .. }));
        assert!(matches!(judge(4, -80.0), Judged::Wrong(_)));
        assert_eq!(judge(5, -79.0), Judged::StillWrong);
        assert!(matches!(judge(6, -79.0), Judged::FineAgain { left_out: 2, .. }));
        assert_eq!(judge(7, -78.0), Judged::Fine);
    }
}
