//! Counters of energy: numbers that rise until they begin again, because they are full or because they were reset.

/// What a reading means beside the one before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first reading: there is nothing to compare it with.
    First,
    /// So many units were used since the last reading; the counter may have begun again once.
    Used(u64),
    /// Nothing was counted.
    Still,
    /// It rose by more than there can be: what was used since the last reading is not known.
    Jumped,
    /// It went back where it could not have been full: what was used since the last reading is not known.
    Reset,
}

/// Adds up what a counter shows. The total never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnergyCounter {
    /// The largest number that it shows before it begins again; `None` where nobody says.
    range: Option<u64>,
    last: Option<u64>,
    total: u64,
}

impl EnergyCounter {
    pub fn new(range: Option<u64>) -> Self {
        Self { range: range.filter(|range| *range > 0), last: None, total: 0 }
    }

    /// Units counted since the first reading.
    pub fn total(&self) -> u64 {
        self.total
    }

    pub fn advance(&mut self, reading: u64) -> Step {
        self.advance_within(reading, u64::MAX)
    }

    /// The same for a counter that cannot have risen by more than `most` since the last reading.
    pub fn advance_within(&mut self, reading: u64, most: u64) -> Step {
        let Some(last) = self.last.replace(reading) else { return Step::First };
        let used = match reading.checked_sub(last) {
            Some(0) => return Step::Still,
            Some(used) => used,
            // Only one that was in the last half of its range can have become full: others were set to 0.
            None => match self.range.filter(|range| last <= *range && last > range / 2) {
                Some(range) => range - last + reading,
                None => return Step::Reset,
            },
        };
        if used > most {
            return Step::Jumped;
        }
        self.total = self.total.saturating_add(used);
        Step::Used(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_full_counter_goes_on_and_a_reset_one_is_not_guessed() {
        let mut counter = EnergyCounter::new(Some(1000));
        assert_eq!(
            [100, 900, 50, 50].map(|reading| counter.advance(reading)),
            [Step::First, Step::Used(800), Step::Used(150), Step::Still]
        );
        // From 50 to 20 it cannot have been full.
        assert_eq!(counter.advance(20), Step::Reset);
        assert_eq!((counter.advance(30), counter.total()), (Step::Used(10), 960));
        assert_eq!((counter.advance_within(700, 50), counter.total()), (Step::Jumped, 960));
        assert_eq!((counter.advance_within(720, 50), counter.total()), (Step::Used(20), 980));
        let mut unknown = EnergyCounter::new(None);
        unknown.advance(900);
        assert_eq!(unknown.advance(1), Step::Reset);
    }

    proptest! {
        #[test]
        fn a_total_never_decreases(range in prop::option::of(any::<u64>()), readings in prop::collection::vec(any::<u64>(), 0..50)) {
            let mut counter = EnergyCounter::new(range);
            let mut before = 0;
            for reading in readings {
                counter.advance(reading);
                prop_assert!(counter.total() >= before);
                before = counter.total();
            }
        }

        #[test]
        fn a_counter_that_wraps_tells_all_that_was_used(steps in prop::collection::vec(0_u64..400, 1..60)) {
            let (range, mut truth, mut counter) = (999, 0, EnergyCounter::new(Some(999)));
            counter.advance(0);
            for step in steps {
                truth += step;
                // It shows 0 to 999; after 999 comes 0, which is the same moment.
                counter.advance(truth % range);
            }
            prop_assert_eq!(counter.total(), truth);
        }
    }
}
