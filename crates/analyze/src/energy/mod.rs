//! Energy of a time interval from the machine's energy counters.
//!
//! The counters cover whole devices, including everything else that ran. A figure for one inference needs an interval
//! that is long compared to the time between two readings.

mod estimate;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use estimate::{EnergyEstimate, estimate};

use crate::carbon::Carbon;

/// With fewer readings in the interval there is no figure.
pub const MIN_READINGS: usize = 10;
/// Across a longer gap nothing was measured: a card was lost, a battery was charged. The slowest meter, a battery at
/// constant power, is read every ten seconds.
pub const MAX_GAP_NS: u64 = 30_000_000_000;

/// Readings of one counter: when, and the joules since some moment. In the order of time, never falling.
pub type Readings = Vec<(u64, f64)>;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct EnergyReport {
    /// The devices whose counters were added up.
    pub scope: Vec<String>,
    /// Who showed the counters, e.g. rapl.
    pub source: String,
    /// Always `measured`: an estimate is another report, [`EnergyEstimate`].
    pub method: Cow<'static, str>,
    /// `counter`, or `power_integrated` if a device reports only power.
    pub how: Cow<'static, str>,
    /// Median time between two readings of the slowest meter.
    pub resolution_seconds: f64,
    /// Error caused by discrete readings: half a reading interval at either end. The accuracy of the meter itself is
    /// unspecified.
    pub uncertainty_percent: f64,
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
    /// Power of the idle machine, if it was measured.
    pub idle: Option<IdleBaseline>,
    /// Power above idle × end-to-end time of an inference.
    pub joules_per_inference_above_idle: Option<f64>,
    /// FLOPs of an inference over its joules: FLOP/s for each watt.
    pub flops_per_watt: Option<f64>,
    /// Share of the observed process by its part of the processors' busy time.
    pub process: Option<ProcessShare>,
    pub carbon: Option<Carbon>,
}

/// Power before and after a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct IdleBaseline {
    pub before_w: Option<f64>,
    pub after_w: Option<f64>,
    /// The mean of both.
    pub power_w: f64,
    /// Between both, over the mean: a machine that warms up or has other work drifts.
    pub drift: Option<f64>,
}

impl IdleBaseline {
    /// `None` if neither is known.
    pub fn new(before_w: Option<f64>, after_w: Option<f64>) -> Option<Self> {
        let known: Vec<f64> =
            [before_w, after_w].into_iter().flatten().filter(|watts| watts.is_finite()).collect();
        let power_w = known.iter().sum::<f64>() / known.len().max(1) as f64;
        let drift =
            before_w.zip(after_w).filter(|_| power_w > 0.0).map(|(before, after)| (after - before) / power_w);
        (!known.is_empty()).then_some(Self { before_w, after_w, power_w, drift })
    }
}

/// The part of the measured energy attributed to one process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ProcessShare {
    /// Always `attributed`.
    pub method: Cow<'static, str>,
    /// Of what the share is.
    pub by: Cow<'static, str>,
    pub share: f64,
    pub power_w: f64,
    pub joules_per_inference: Option<f64>,
}

impl EnergyReport {
    /// Adds what the machine drew at rest.
    pub fn set_idle(&mut self, idle: IdleBaseline) {
        let per_watt =
            self.joules_per_inference.filter(|_| self.power_w > 0.0).map(|joules| joules / self.power_w);
        // If the machine drew more power at rest, the difference is meaningless.
        let above = Some(self.power_w - idle.power_w).filter(|above| *above >= 0.0);
        self.joules_per_inference_above_idle = above.zip(per_watt).map(|(above, seconds)| above * seconds);
        self.idle = Some(idle);
    }

    /// `share`: CPU time of the process over that of all processes, 0 to 1.
    pub fn set_process_share(&mut self, share: f64) {
        if (0.0..=1.0).contains(&share) {
            self.process = Some(ProcessShare {
                method: "attributed".into(),
                by: "share of the processors' busy time".into(),
                share,
                power_w: self.power_w * share,
                joules_per_inference: self.joules_per_inference.map(|joules| joules * share),
            });
        }
    }

    /// FLOPs of one inference.
    pub fn set_flops(&mut self, flops: f64) {
        let joules = self.joules_per_inference.filter(|joules| *joules > 0.0);
        self.flops_per_watt = joules.map(|joules| flops / joules).filter(|figure| figure.is_finite());
    }
}

/// Energy of a device that reports only power: the area under its readings. Gaps longer than [`MAX_GAP_NS`] add
/// nothing; [`energy`] gives no figure for an interval with one.
pub fn integrate(powers: &[(u64, f64)]) -> Readings {
    let mut joules = 0.0;
    let mut last: Option<(u64, f64)> = None;
    let usable = powers.iter().filter(|(_, watts)| watts.is_finite() && *watts >= 0.0);
    usable
        .map(|&(at_ns, watts)| {
            if let Some((since_ns, before)) = last.replace((at_ns, watts))
                && at_ns.saturating_sub(since_ns) <= MAX_GAP_NS
            {
                joules += (before + watts) / 2.0 * at_ns.saturating_sub(since_ns) as f64 / 1e9;
            }
            (at_ns, joules)
        })
        .collect()
}

/// Mean power of a stretch, of the same devices as a report's: for the time before and after a measurement.
pub fn mean_power(meters: &BTreeMap<String, Readings>, window_ns: (u64, u64)) -> Option<f64> {
    let scope = scope(meters);
    let mut watts = 0.0;
    for device in &scope {
        let inside = |(at_ns, _): &&(u64, f64)| (window_ns.0..=window_ns.1).contains(at_ns);
        why_not(device, &meters[*device], window_ns).is_none().then_some(())?;
        let mut readings = meters[*device].iter().filter(inside);
        let (first, last) = (readings.next()?, readings.next_back()?);
        let seconds = last.0.saturating_sub(first.0) as f64 / 1e9;
        watts += Some((last.1 - first.1) / seconds).filter(|watts| watts.is_finite())?;
    }
    (!scope.is_empty()).then_some(watts)
}

/// Devices that are added up: one that sees the whole machine, or the parts that do not contain each other.
fn scope(meters: &BTreeMap<String, Readings>) -> Vec<&String> {
    // A battery feeds the whole machine.
    for whole in ["psys", "system"] {
        if let Some((whole, _)) = meters.get_key_value(whole) {
            return vec![whole];
        }
    }
    let parts = ["package", "dram", "gpu", "npu"];
    meters.keys().filter(|device| parts.iter().any(|part| device.starts_with(part))).collect()
}

/// Why readings do not cover the whole interval.
fn why_not(device: &str, readings: &Readings, window_ns: (u64, u64)) -> Option<String> {
    let touches = |pair: &&[(u64, f64)]| pair[1].0 > window_ns.0 && pair[0].0 < window_ns.1;
    readings.windows(2).filter(touches).find_map(|pair| {
        let [(from_ns, from), (to_ns, to)] = [pair[0], pair[1]];
        let gap_ns = to_ns.saturating_sub(from_ns);
        if to < from {
            return Some(format!("a counter went back ({device}): what was used is not known; measure again"));
        }
        (gap_ns > MAX_GAP_NS).then(|| {
            let seconds = gap_ns as f64 / 1e9;
            format!("{device} was not read for {seconds:.0} s during the measurement: what it used then is not known")
        })
    })
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

/// Energy of an interval in which inferences took `busy_seconds` in total. The error explains why there is none.
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
    let (mut joules, mut fewest, mut covered, mut resolution) = (0.0, usize::MAX, window_ns, 0.0_f64);
    for device in &scope {
        let readings = &meters[*device];
        let inside = readings.iter().filter(|(at_ns, _)| (window_ns.0..=window_ns.1).contains(at_ns)).count();
        fewest = fewest.min(inside);
        resolution = resolution.max(median_gap_seconds(readings));
        // The stretch that all counters saw.
        covered.0 = covered.0.max(readings.first().map_or(u64::MAX, |(at_ns, _)| *at_ns));
        covered.1 = covered.1.min(readings.last().map_or(0, |(at_ns, _)| *at_ns));
    }
    let seconds = covered.1.saturating_sub(covered.0) as f64 / 1e9;
    if fewest < MIN_READINGS || seconds <= 0.0 {
        return Err(format!(
            "the counter of energy was read {fewest} times during the measurement, which is too few to divide by inferences; \
             measure longer (--duration 5s)"
        ));
    }
    for device in &scope {
        let readings = &meters[*device];
        if let Some(why) = why_not(device, readings, covered) {
            return Err(why);
        }
        joules +=
            at(readings, covered.1).zip(at(readings, covered.0)).map_or(0.0, |(end, begin)| end - begin);
    }
    let power_w = joules / seconds;
    let each = (inferences > 0 && busy_seconds > 0.0).then(|| power_w * busy_seconds / inferences as f64);
    Ok(EnergyReport {
        scope: scope.into_iter().cloned().collect(),
        source: source.to_owned(),
        method: "measured".into(),
        how: "counter".into(),
        resolution_seconds: resolution,
        uncertainty_percent: (resolution / seconds * 100.0).min(100.0),
        includes_other_processes: true,
        window_seconds: seconds,
        readings: fewest,
        joules,
        power_w,
        joules_per_inference: each,
        inferences_per_watt: each.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules),
        idle: None,
        joules_per_inference_above_idle: None,
        flops_per_watt: None,
        process: None,
        carbon: None,
    })
}

fn median_gap_seconds(readings: &Readings) -> f64 {
    let mut gaps: Vec<u64> = readings.windows(2).map(|pair| pair[1].0.saturating_sub(pair[0].0)).collect();
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).map_or(0.0, |gap| *gap as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many watts from 0 s on, ten readings a second.
    fn meter(watts: f64, seconds: u64) -> Readings {
        (0..=seconds * 10).map(|tick| (tick * 100_000_000, watts * tick as f64 / 10.0)).collect()
    }

    #[test]
    fn packages_and_memory_are_added_but_not_parts_of_a_package() {
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
    fn energy_above_idle_process_share_and_flops() {
        let meters = BTreeMap::from([("package-0".to_owned(), meter(30.0, 4))]);
        let mut report = energy(&meters, "rapl", (0, 4_000_000_000), 100, 2.0).unwrap();
        assert!((report.resolution_seconds - 0.1).abs() < 1e-9);
        assert!((report.uncertainty_percent - 2.5).abs() < 1e-9, "a tenth of a second of four");
        report.set_idle(IdleBaseline::new(Some(9.0), Some(11.0)).unwrap());
        assert!((report.joules_per_inference_above_idle.unwrap() - 0.4).abs() < 1e-9, "{report:?}");
        assert!((report.idle.unwrap().drift.unwrap() - 0.2).abs() < 1e-9);
        report.set_process_share(0.5);
        assert_eq!(report.process.as_ref().map(|process| &*process.method), Some("attributed"));
        assert!((report.process.unwrap().power_w - 15.0).abs() < 1e-9);
        report.process = None;
        report.set_process_share(1.5);
        assert_eq!(report.process, None);
        report.set_flops(6e9);
        assert!((report.flops_per_watt.unwrap() - 1e10).abs() < 1.0);
        // At rest it drew more: no figure, and no negative one.
        report.set_idle(IdleBaseline::new(Some(40.0), None).unwrap());
        assert_eq!(report.joules_per_inference_above_idle, None);
        assert_eq!(IdleBaseline::new(None, None), None);
    }

    #[test]
    fn power_becomes_energy_and_idle_is_a_mean() {
        let powers = [(0, 10.0), (1_000_000_000, 20.0), (2_000_000_000, f64::NAN), (3_000_000_000, 20.0)];
        let readings = integrate(&powers);
        assert_eq!(readings, [(0, 0.0), (1_000_000_000, 15.0), (3_000_000_000, 55.0)]);
        assert_eq!(integrate(&[]), []);
        let meters =
            BTreeMap::from([("system".to_owned(), meter(12.0, 4)), ("gpu0".to_owned(), meter(3.0, 4))]);
        let watts = mean_power(&meters, (1_000_000_000, 3_000_000_000)).unwrap();
        assert!((watts - 12.0).abs() < 1e-9, "a battery feeds the GPU too: {watts}");
        assert_eq!(mean_power(&meters, (9_000_000_000, 10_000_000_000)), None);
        assert_eq!(mean_power(&BTreeMap::new(), (0, 1)), None);
    }

    /// Regression: a card that came back restarted at 0, and the interval had negative joules.
    #[test]
    fn a_decreasing_counter_has_no_figure() {
        let mut readings = meter(20.0, 8);
        readings.iter_mut().skip(60).for_each(|(_, joules)| *joules -= 120.0);
        let meters = BTreeMap::from([("gpu0".to_owned(), readings)]);
        let why = energy(&meters, "nvml", (1_000_000_000, 7_000_000_000), 10, 1.0).unwrap_err();
        assert!(why.starts_with("a counter went back (gpu0)"), "{why}");
        assert_eq!(mean_power(&meters, (1_000_000_000, 7_000_000_000)), None);
        // Before and after it there is one.
        assert!(energy(&meters, "nvml", (1_000_000_000, 5_000_000_000), 10, 1.0).is_ok());
        assert!(energy(&meters, "nvml", (6_100_000_000, 8_000_000_000), 10, 1.0).is_ok());
    }

    /// The area under two readings minutes apart covers unmeasured time.
    #[test]
    fn a_gap_adds_nothing_and_invalidates_the_interval() {
        let second = 1_000_000_000;
        let powers: Vec<(u64, f64)> = (0..=20).chain(140..=160).map(|at| (at * second, 50.0)).collect();
        let readings = integrate(&powers);
        assert_eq!(readings.last(), Some(&(160 * second, 2_000.0)));
        let meters = BTreeMap::from([("system".to_owned(), readings)]);
        let why = energy(&meters, "battery", (0, 160 * second), 10, 1.0).unwrap_err();
        assert_eq!(
            why,
            "system was not read for 120 s during the measurement: what it used then is not known"
        );
        assert_eq!(mean_power(&meters, (0, 160 * second)), None);
        for window_ns in [(0, 20 * second), (140 * second, 160 * second)] {
            let report = energy(&meters, "battery", window_ns, 10, 1.0).unwrap();
            assert!((report.joules - 1_000.0).abs() < 1e-6, "{report:?}");
        }
        // Half a minute is not one.
        assert_eq!(integrate(&[(0, 10.0), (MAX_GAP_NS, 10.0)])[1].1, 300.0);
    }

    #[test]
    fn an_interval_with_few_readings_has_no_figure() {
        let meters = BTreeMap::from([("package-0".to_owned(), meter(20.0, 4))]);
        let why = energy(&meters, "rapl", (1_000_000_000, 1_500_000_000), 10, 0.4).unwrap_err();
        assert!(why.contains("6 times") && why.contains("--duration"), "{why}");
        assert!(energy(&BTreeMap::new(), "", (0, 1), 1, 1.0).is_err());
        let late = BTreeMap::from([("package-0".to_owned(), meter(20.0, 1))]);
        assert!(energy(&late, "rapl", (2_000_000_000, 9_000_000_000), 1, 1.0).is_err());
    }
}
