//! Filters impossible readings: drivers report 65,535 watts, minus one degree as four billion, or NaN. Such values are
//! dropped, with a reason, until the sensor is plausible again.

use std::collections::BTreeMap;

use super::Reading;

/// More than any device in one machine draws.
pub(super) const MAX_WATTS: f64 = 20_000.0;
/// A temperature change between two readings that is believed only if it persists.
const CELSIUS_JUMP: f64 = 60.0;
/// Consecutive readings after which a jump is believed.
const JUMP_CONFIRMATIONS: u32 = 3;
/// Age up to which the previous reading is compared.
const MAX_AGE_NS: u64 = 5_000_000_000;
/// More instructions per cycle than any processor retires.
const MAX_PER_CYCLE: f64 = 32.0;
/// Limit for tracked sensors; a large machine has several hundred.
const MAX_SENSORS: usize = 2000;

/// Outcome of checking a reading.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Plausibility {
    Plausible,
    /// Plausible again after an implausible period.
    PlausibleAgain {
        since_ns: u64,
        dropped: u64,
        reason: String,
    },
    /// The first implausible reading, with the reason.
    Implausible(String),
    /// A further implausible reading.
    StillImplausible,
}

#[derive(Debug, Default)]
pub(super) struct PlausibilityFilter {
    sensors: BTreeMap<(String, String), Sensor>,
}

#[derive(Debug, Default)]
struct Sensor {
    last: Option<(u64, f64)>,
    jumped: u32,
    wrong: Option<(u64, u64, String)>,
}

impl PlausibilityFilter {
    pub fn check(&mut self, reading: &Reading<'_>) -> Plausibility {
        let key = (reading.device.to_owned(), reading.metric.to_owned());
        if self.sensors.len() >= MAX_SENSORS && !self.sensors.contains_key(&key) {
            return if problem_with(reading.metric, reading.value).is_none() {
                Plausibility::Plausible
            } else {
                Plausibility::StillImplausible
            };
        }
        let sensor = self.sensors.entry(key).or_default();
        let problem = problem_with(reading.metric, reading.value).or_else(|| sensor.jump(reading));
        match (problem, sensor.wrong.take()) {
            (None, None) => {
                sensor.accept(reading);
                Plausibility::Plausible
            }
            (None, Some((since_ns, dropped, reason))) => {
                sensor.accept(reading);
                Plausibility::PlausibleAgain { since_ns, dropped, reason }
            }
            (Some(_), Some((since_ns, dropped, reason))) => {
                sensor.wrong = Some((since_ns, dropped + 1, reason));
                Plausibility::StillImplausible
            }
            (Some(problem), None) => {
                let reason = format!("{} reports {problem}", reading.device);
                sensor.wrong = Some((reading.at_ns, 1, reason.clone()));
                Plausibility::Implausible(reason)
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
        let is_fresh = reading.at_ns.saturating_sub(last_ns) <= MAX_AGE_NS;
        if !reading.metric.ends_with("_celsius") || !is_fresh || (reading.value - last).abs() < CELSIUS_JUMP {
            return None;
        }
        self.jumped += 1;
        (self.jumped < JUMP_CONFIRMATIONS)
            .then(|| format!("an impossible {:.1} °C right after {last:.1} °C", reading.value))
    }
}

/// Why a value is impossible for its metric, whose name ends with the unit.
fn problem_with(metric: &str, value: f64) -> Option<String> {
    if !value.is_finite() {
        return Some(format!("NaN or infinity as {metric}"));
    }
    let (min, max) = match metric.rsplit('_').next()? {
        // Not a fraction of a whole, unlike other ratios.
        _ if metric == "instructions_per_cycle_ratio" => (0.0, MAX_PER_CYCLE),
        "ratio" => (0.0, 1.5),
        "celsius" => (-90.0, 250.0),
        "watts" => (0.0, MAX_WATTS),
        "hertz" => (0.0, 1e12),
        "bytes" | "count" | "joules" | "milliseconds" | "seconds" | "second" => (0.0, 1e19),
        _ => return None,
    };
    (!(min..=max).contains(&value)).then(|| format!("an impossible {value} as {metric}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(at_s: u64, metric: &'static str, value: f64) -> Reading<'static> {
        Reading { at_ns: at_s * SECOND, device: "gpu0", metric, value, source: "test" }
    }

    #[test]
    fn implausible_values_are_reported_once_and_so_is_their_end() {
        let mut filter = PlausibilityFilter::default();
        let mut check = |at, metric, value| filter.check(&reading(at, metric, value));
        assert_eq!(check(1, "power_watts", 40.0), Plausibility::Plausible);
        let Plausibility::Implausible(why) = check(2, "power_watts", f64::NAN) else {
            panic!("NaN was accepted")
        };
        assert_eq!(why, "gpu0 reports NaN or infinity as power_watts");
        assert_eq!(check(3, "power_watts", -7.0), Plausibility::StillImplausible);
        assert_eq!(
            check(3, "temperature_celsius", 60.0),
            Plausibility::Plausible,
            "other metrics are unaffected"
        );
        let again = check(4, "power_watts", 41.0);
        assert_eq!(again, Plausibility::PlausibleAgain { since_ns: 2 * SECOND, dropped: 2, reason: why });
        for (metric, value) in [
            ("power_watts", 65_535.0),
            ("utilization_ratio", -0.1),
            ("utilization_ratio", 2.55),
            ("frequency_hertz", f64::INFINITY),
            ("memory_used_bytes", -1.0),
            ("energy_joules", f64::NEG_INFINITY),
        ] {
            assert!(
                matches!(
                    PlausibilityFilter::default().check(&reading(1, metric, value)),
                    Plausibility::Implausible(_)
                ),
                "{metric}"
            );
        }
    }

    /// Regression: more than 1.5 instructions per cycle used to be rejected.
    #[test]
    fn several_instructions_per_cycle_are_plausible() {
        let check =
            |value| PlausibilityFilter::default().check(&reading(1, "instructions_per_cycle_ratio", value));
        assert_eq!(
            (check(0.0), check(3.2), check(8.0)),
            (Plausibility::Plausible, Plausibility::Plausible, Plausibility::Plausible)
        );
        assert!(
            [-0.1, 33.0, f64::NAN]
                .into_iter()
                .all(|value| matches!(check(value), Plausibility::Implausible(_)))
        );
    }

    #[test]
    fn a_temperature_jump_is_believed_when_it_persists() {
        let mut filter = PlausibilityFilter::default();
        let mut check = |at, value| filter.check(&reading(at, "temperature_celsius", value));
        assert_eq!(check(1, 50.0), Plausibility::Plausible);
        assert!(matches!(check(2, 127.0), Plausibility::Implausible(_)));
        assert!(matches!(check(3, 51.0), Plausibility::PlausibleAgain { dropped: 1, .. }));
        assert!(matches!(check(4, -80.0), Plausibility::Implausible(_)));
        assert_eq!(check(5, -79.0), Plausibility::StillImplausible);
        assert!(matches!(check(6, -79.0), Plausibility::PlausibleAgain { dropped: 2, .. }));
        assert_eq!(check(7, -78.0), Plausibility::Plausible);
    }
}
