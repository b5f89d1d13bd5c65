//! A counter of energy as it is told: what it has counted and the power between two readings; where it stands still or jumps,
//! why there is neither.

use ortscope_decode::energy_counter::{EnergyCounter, Step};

use super::plausible::MAX_WATTS;
use super::presence::Presence;
use super::{Back, Missing};

/// A counter that stands still for so long does not count: it is shown by a virtual machine that has none, or its device
/// sleeps.
const STILL_NS: u64 = 2_000_000_000;

/// Drivers renew what they show so often, or more: a reading right after another may show as much.
const RENEWED_SECONDS: f64 = 0.1;

/// As [`Missing::what`] has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Machine,
    Gpu,
}

#[derive(Debug)]
pub(super) struct CountedEnergy {
    of: Of,
    joules_per_count: f64,
    counter: EnergyCounter,
    /// When it was read, and what it showed.
    last: Option<(u64, u64)>,
    /// When it last moved.
    moved_ns: u64,
    counts: Presence,
    makes_sense: Presence,
}

/// What a reading adds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Used {
    /// Since the first reading.
    pub joules: f64,
    /// Since the last one.
    pub watts: Option<f64>,
}

impl CountedEnergy {
    /// `range`: the largest number before it begins again, where that is known.
    pub fn new(of: Of, range: Option<u64>, joules_per_count: f64) -> Self {
        Self {
            of,
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

    /// What it shows and what it has counted: two counters with the same of both are one.
    pub fn shows(&self) -> (u64, u64) {
        (self.last.map_or(0, |(_, reading)| reading), self.counter.total())
    }

    pub fn take(
        &mut self,
        at_ns: u64,
        reading: u64,
        device: &str,
        lost: &mut Vec<Missing>,
        back: &mut Vec<Back>,
    ) -> Option<Used> {
        let before = self.last.replace((at_ns, reading));
        let since_ns = before.map(|(since_ns, _)| since_ns).filter(|since_ns| *since_ns < at_ns);
        let seconds = since_ns.map(|since_ns| (at_ns - since_ns) as f64 / 1e9);
        // Nobody knows what was used while a counter jumped.
        let most = seconds.map_or(u64::MAX, |seconds| {
            (MAX_WATTS * (seconds + RENEWED_SECONDS) / self.joules_per_count) as u64
        });
        match self.counter.advance_within(reading, most) {
            Step::First => self.moved_ns = at_ns,
            Step::Used(counts) => {
                self.moved_ns = at_ns;
                self.counts.find(at_ns, back);
                self.makes_sense.find(at_ns, back);
                let joules = |counts: u64| counts as f64 * self.joules_per_count;
                return Some(Used {
                    joules: joules(self.counter.total()),
                    watts: seconds.map(|seconds| joules(counts) / seconds),
                });
            }
            Step::Still if at_ns.saturating_sub(self.moved_ns) >= STILL_NS => {
                let hint = match self.of {
                    Of::Machine => {
                        "a virtual machine shows it without having it; measure on the machine itself"
                    }
                    Of::Gpu => {
                        "a card that sleeps counts again when it works; a virtual machine may not have it"
                    }
                };
                let why = || format!("{device} has a counter that does not count");
                self.counts.lose(at_ns, || self.of.missing(why(), hint), lost);
            }
            Step::Jumped => {
                let why = || format!("{device} has a counter that jumps: what it used then is not known");
                let hint = "its driver may need a restart";
                self.makes_sense.lose(at_ns, || self.of.missing(why(), hint), lost);
            }
            Step::Still | Step::Reset => {}
        }
        None
    }
}

impl Of {
    pub fn missing(self, why: String, hint: &str) -> Missing {
        let what = match self {
            Self::Machine => "energy",
            Self::Gpu => "gpu_energy",
        };
        Missing { what, why, hint: hint.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    /// The counter is renewed a few times a second, and read whenever somebody asks.
    #[test]
    fn a_counter_that_is_renewed_between_two_quick_readings_does_not_jump() {
        let mut energy = CountedEnergy::new(Of::Gpu, None, 1e-6);
        let mut take = |at_ns, reading| energy.take(at_ns, reading, "gpu0", &mut Vec::new(), &mut Vec::new());
        take(SECOND, 5);
        // 300 W for a tenth of a second, within 50 µs.
        assert_eq!(take(SECOND + 50_000, 30_000_005).map(|used| used.joules), Some(30.0));
    }

    /// Jumps used to be swallowed wherever a counter was not RAPL's.
    #[test]
    fn what_jumps_and_what_stands_still_is_told_once_and_so_is_its_end() {
        let mut energy = CountedEnergy::new(Of::Gpu, None, 1e-6);
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        let mut take = |second: u64, joules: u64| {
            let used = energy.take(second * SECOND, joules * 1_000_000, "gpu0", &mut lost, &mut back);
            used.map(|used| (used.joules, used.watts))
        };
        assert_eq!((take(1, 100), take(2, 130)), (None, Some((30.0, Some(30.0)))));
        // A million joules in a second, and again.
        assert_eq!((take(3, 1_000_130), take(4, 2_000_130)), (None, None));
        assert_eq!(take(5, 2_000_140), Some((40.0, Some(10.0))));
        assert_eq!([6, 7, 8, 9].map(|second| take(second, 2_000_140)), [None; 4]);
        assert_eq!(take(10, 2_000_145), Some((45.0, Some(5.0))));
        // It was set back: nothing is guessed, and nothing is taken back.
        assert_eq!((take(11, 1), take(12, 3)), (None, Some((47.0, Some(2.0)))));
        let whys: Vec<&str> = lost.iter().map(|missing| missing.why.as_str()).collect();
        let expected = [
            "gpu0 has a counter that jumps: what it used then is not known",
            "gpu0 has a counter that does not count",
        ];
        assert_eq!((whys, lost[0].what), (expected.to_vec(), "gpu_energy"));
        let ended: Vec<(&Missing, u64, u64)> =
            back.iter().map(|back| (&back.missing, back.from_ns / SECOND, back.to_ns / SECOND)).collect();
        assert_eq!(ended, [(&lost[0], 3, 5), (&lost[1], 7, 10)]);
    }
}
