//! An energy meter built on a counter: total energy and power between two readings, or the reason for their absence when
//! the counter stops or jumps.

use ortscope_decode::energy_counter::{EnergyCounter, Step};

use super::plausible::MAX_WATTS;
use super::{Missing, Presence, Recovered};

/// A counter that has not advanced for this long is considered stuck: a virtual machine without a real counter, or a
/// sleeping device.
const STILL_NS: u64 = 2_000_000_000;

/// Maximum update interval of drivers: two readings in quick succession may differ by an update of this length.
const RENEWED_SECONDS: f64 = 0.1;

/// The measured domain; selects [`Missing::what`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EnergyDomain {
    Machine,
    Gpu,
}

#[derive(Debug)]
pub(super) struct EnergyMeter {
    domain: EnergyDomain,
    joules_per_count: f64,
    counter: EnergyCounter,
    /// Time and value of the last reading.
    last: Option<(u64, u64)>,
    /// When the counter last advanced.
    moved_ns: u64,
    counts: Presence,
    makes_sense: Presence,
}

/// Energy and power of one reading.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EnergyUse {
    /// Total since the first reading.
    pub joules: f64,
    /// Mean power since the previous reading.
    pub watts: Option<f64>,
}

impl EnergyMeter {
    /// `range`: the largest value before the counter wraps, if known.
    pub fn new(domain: EnergyDomain, range: Option<u64>, joules_per_count: f64) -> Self {
        Self {
            domain,
            joules_per_count,
            counter: EnergyCounter::new(range),
            last: None,
            moved_ns: 0,
            counts: Presence::default(),
            makes_sense: Presence::default(),
        }
    }

    pub fn has_counted(&self) -> bool {
        self.counter.total() > 0
    }

    /// The last reading and the total: two counters with equal states are the same.
    pub fn state(&self) -> (u64, u64) {
        (self.last.map_or(0, |(_, reading)| reading), self.counter.total())
    }

    pub fn advance(
        &mut self,
        at_ns: u64,
        reading: u64,
        device: &str,
        lost: &mut Vec<Missing>,
        back: &mut Vec<Recovered>,
    ) -> Option<EnergyUse> {
        let before = self.last.replace((at_ns, reading));
        let since_ns = before.map(|(since_ns, _)| since_ns).filter(|since_ns| *since_ns < at_ns);
        let seconds = since_ns.map(|since_ns| (at_ns - since_ns) as f64 / 1e9);
        // The energy used during a jump is unknown.
        let max_counts = seconds.map_or(u64::MAX, |seconds| {
            (MAX_WATTS * (seconds + RENEWED_SECONDS) / self.joules_per_count) as u64
        });
        match self.counter.advance_within(reading, max_counts) {
            Step::First => self.moved_ns = at_ns,
            Step::Used(counts) => {
                self.moved_ns = at_ns;
                self.counts.find(at_ns, back);
                self.makes_sense.find(at_ns, back);
                let joules = |counts: u64| counts as f64 * self.joules_per_count;
                return Some(EnergyUse {
                    joules: joules(self.counter.total()),
                    watts: seconds.map(|seconds| joules(counts) / seconds),
                });
            }
            Step::Still if at_ns.saturating_sub(self.moved_ns) >= STILL_NS => {
                let hint = match self.domain {
                    EnergyDomain::Machine => {
                        "virtual machines expose it without supporting it; measure on bare metal"
                    }
                    EnergyDomain::Gpu => {
                        "a sleeping card counts again when it works; virtual machines may not support it"
                    }
                };
                let why = || format!("{device} has an energy counter that does not advance");
                self.counts.lose(at_ns, || self.domain.missing(why(), hint), lost);
            }
            Step::Jumped => {
                let why = || {
                    format!(
                        "{device} has an energy counter that jumped: the energy used meanwhile is unknown"
                    )
                };
                let hint = "its driver may need a restart";
                self.makes_sense.lose(at_ns, || self.domain.missing(why(), hint), lost);
            }
            Step::Still | Step::Reset => {}
        }
        None
    }
}

impl EnergyDomain {
    pub fn missing(self, why: String, hint: &str) -> Missing {
        let what = match self {
            Self::Machine => "energy",
            Self::Gpu => "gpu_energy",
        };
        Missing::new(what, why, hint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The counter is updated a few times per second but may be read at any time.
    #[test]
    fn an_update_between_two_quick_readings_is_not_a_jump() {
        let mut energy = EnergyMeter::new(EnergyDomain::Gpu, None, 1e-6);
        let mut advance =
            |at_ns, reading| energy.advance(at_ns, reading, "gpu0", &mut Vec::new(), &mut Vec::new());
        advance(SECOND, 5);
        // 300 W for a tenth of a second, within 50 µs.
        assert_eq!(advance(SECOND + 50_000, 30_000_005).map(|used| used.joules), Some(30.0));
    }

    /// Regression: jumps were ignored except for RAPL.
    #[test]
    fn jumps_and_stalls_are_reported_once_and_so_is_their_end() {
        let mut energy = EnergyMeter::new(EnergyDomain::Gpu, None, 1e-6);
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        let mut advance = |second: u64, joules: u64| {
            let used = energy.advance(second * SECOND, joules * 1_000_000, "gpu0", &mut lost, &mut back);
            used.map(|used| (used.joules, used.watts))
        };
        assert_eq!((advance(1, 100), advance(2, 130)), (None, Some((30.0, Some(30.0)))));
        // A million joules in a second, twice.
        assert_eq!((advance(3, 1_000_130), advance(4, 2_000_130)), (None, None));
        assert_eq!(advance(5, 2_000_140), Some((40.0, Some(10.0))));
        assert_eq!([6, 7, 8, 9].map(|second| advance(second, 2_000_140)), [None; 4]);
        assert_eq!(advance(10, 2_000_145), Some((45.0, Some(5.0))));
        // After a reset nothing is guessed, and the total does not decrease.
        assert_eq!((advance(11, 1), advance(12, 3)), (None, Some((47.0, Some(2.0)))));
        let whys: Vec<&str> = lost.iter().map(|missing| missing.why.as_str()).collect();
        let expected = [
            "gpu0 has an energy counter that jumped: the energy used meanwhile is unknown",
            "gpu0 has an energy counter that does not advance",
        ];
        assert_eq!((whys, lost[0].what), (expected.to_vec(), "gpu_energy"));
        let ended: Vec<(&Missing, u64, u64)> =
            back.iter().map(|back| (&back.missing, back.from_ns / SECOND, back.to_ns / SECOND)).collect();
        assert_eq!(ended, [(&lost[0], 3, 5), (&lost[1], 7, 10)]);
    }
}
