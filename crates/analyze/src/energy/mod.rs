//! What a stretch of time cost in energy, by counters of the machine: honest about what they can tell.
//!
//! The counters are of whole devices: everything else that ran is in them too. A figure for one inference needs a
//! stretch that is long against the time between two readings.

use std::collections::BTreeMap;

use serde::Serialize;

/// Readings in the stretch below which nothing is said.
pub const LEAST_READINGS: usize = 10;

/// Readings of one counter: when, and the joules since some moment. In the order of time, never falling.
pub type Readings = Vec<(u64, f64)>;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EnergyReport {
    /// The devices whose counters were added up.
    pub scope: Vec<String>,
    /// Who showed the counters, e.g. rapl.
    pub source: String,
    /// Always `measured`: an estimate would be another report.
    pub method: &'static str,
    /// The counters are of devices: other processes are in them.
    pub includes_other_processes: bool,
    pub window_seconds: f64,
    /// Of the counter with the fewest.
    pub readings: usize,
    pub joules: f64,
    pub power_w: f64,
    /// Mean power × end-to-end time of an inference.
    pub joules_per_inference: Option<f64>,
    pub inferences_per_watt: Option<f64>,
}

/// Devices that are added up: one that sees the whole machine, or the parts that do not contain each other.
fn scope(meters: &BTreeMap<String, Readings>) -> Vec<&String> {
    if let Some((whole, _)) = meters.get_key_value("psys") {
        return vec![whole];
    }
    let parts = ["package", "dram", "gpu", "npu"];
    meters.keys().filter(|device| parts.iter().any(|part| device.starts_with(part))).collect()
}

/// The counter at a moment between two readings, evenly in between.
fn at(readings: &Readings, moment_ns: u64) -> Option<f64> {
    let after = readings.partition_point(|(at_ns, _)| *at_ns < moment_ns);
    let &(to_ns, to) = readings.get(after)?;
    let Some(&(from_ns, from)) = after.checked_sub(1).and_then(|before| readings.get(before)) else {
        return (to_ns == moment_ns).then_some(to);
    };
    let share = (moment_ns - from_ns) as f64 / (to_ns - from_ns).max(1) as f64;
    Some(from + (to - from) * share)
}

/// Energy of a stretch in which inferences took `busy_seconds` altogether. The error says why there is none.
pub fn energy(
    meters: &BTreeMap<String, Readings>,
    source: &str,
    window_ns: (u64, u64),
    inferences: u64,
    busy_seconds: f64,
) -> Result<EnergyReport, String> {
    let scope = scope(meters);
    if scope.is_empty() {
        return Err("no counter of energy of a package, memory, GPU or NPU was read".to_owned());
    }
    let (mut joules, mut fewest, mut covered) = (0.0, usize::MAX, window_ns);
    for device in &scope {
        let readings = &meters[*device];
        let inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns)).count();
        fewest = fewest.min(inside);
        // The stretch that all counters saw.
        covered.0 = covered.0.max(readings.first().map_or(u64::MAX, |(at_ns, _)| *at_ns));
        covered.1 = covered.1.min(readings.last().map_or(0, |(at_ns, _)| *at_ns));
    }
    let seconds = covered.1.saturating_sub(covered.0) as f64 / 1e9;
    if fewest < LEAST_READINGS || seconds <= 0.0 {
        return Err(format!(
            "the counter of energy was read {fewest} times during the measurement, which is too few to divide by inferences; \
             measure longer (--duration 5s)"
        ));
    }
    for device in &scope {
        let readings = &meters[*device];
        joules +=
            at(readings, covered.1).zip(at(readings, covered.0)).map_or(0.0, |(end, begin)| end - begin);
    }
    let power_w = joules / seconds;
    let each = (inferences > 0 && busy_seconds > 0.0).then(|| power_w * busy_seconds / inferences as f64);
    Ok(EnergyReport {
        scope: scope.into_iter().cloned().collect(),
        source: source.to_owned(),
        method: "measured",
        includes_other_processes: true,
        window_seconds: seconds,
        readings: fewest,
        joules,
        power_w,
        joules_per_inference: each,
        inferences_per_watt: each.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many watts from 0 s on, ten readings a second.
    fn meter(watts: f64, seconds: u64) -> Readings {
        (0..=seconds * 10).map(|tick| (tick * 100_000_000, watts * tick as f64 / 10.0)).collect()
    }

    #[test]
    fn packages_and_memory_are_added_and_parts_of_a_package_are_not() {
        let meters = BTreeMap::from([
            ("package-0".to_owned(), meter(20.0, 4)),
            ("cores-0".to_owned(), meter(15.0, 4)),
            ("dram-0".to_owned(), meter(4.0, 4)),
        ]);
        // From 0.55 s to 3.05 s, between readings: 2.5 s in which 100 inferences took 2 s.
        let report = energy(&meters, "rapl", (550_000_000, 3_050_000_000), 100, 2.0).unwrap();
        assert_eq!(report.scope, ["dram-0", "package-0"]);
        assert!((report.joules - 60.0).abs() < 1e-9 && (report.power_w - 24.0).abs() < 1e-9, "{report:?}");
        assert!((report.joules_per_inference.unwrap() - 0.48).abs() < 1e-9);
        assert!((report.inferences_per_watt.unwrap() - 1.0 / 0.48).abs() < 1e-9);
    }

    #[test]
    fn the_whole_machine_contains_its_parts() {
        let meters =
            BTreeMap::from([("package-0".to_owned(), meter(20.0, 4)), ("psys".to_owned(), meter(50.0, 4))]);
        let report = energy(&meters, "rapl", (0, 4_000_000_000), 0, 0.0).unwrap();
        assert_eq!((report.scope, report.power_w), (vec!["psys".to_owned()], 50.0));
        assert_eq!(report.joules_per_inference, None);
    }

    #[test]
    fn a_stretch_of_few_readings_has_no_figure() {
        let meters = BTreeMap::from([("package-0".to_owned(), meter(20.0, 4))]);
        let why = energy(&meters, "rapl", (1_000_000_000, 1_500_000_000), 10, 0.4).unwrap_err();
        assert!(why.contains("6 times") && why.contains("--duration"), "{why}");
        assert!(energy(&BTreeMap::new(), "", (0, 1), 1, 1.0).is_err());
        let late = BTreeMap::from([("package-0".to_owned(), meter(20.0, 1))]);
        assert!(energy(&late, "rapl", (2_000_000_000, 9_000_000_000), 1, 1.0).is_err());
    }
}
