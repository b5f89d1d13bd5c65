//! Energy counters, which increase until they wrap or are reset.

/// Meaning of a reading relative to the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The first reading, without a reference.
    First,
    /// Units used since the last reading; the counter may have wrapped once.
    Used(u64),
    /// The counter did not advance.
    Still,
    /// The counter advanced by more than is possible: the use since the last reading is unknown.
    Jumped,
    /// The counter decreased without wrapping: the use since the last reading is unknown.
    Reset,
}

/// Accumulates the use. The total never decreases.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EnergyCounter {
    /// The largest value before the counter wraps; `None` if unknown.
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

    /// The same for a counter that cannot have advanced by more than `max` since the last reading.
    pub fn advance_within(&mut self, reading: u64, max: u64) -> Step {
        let Some(last) = self.last.replace(reading) else { return Step::First };
        let used = match reading.checked_sub(last) {
            Some(0) => return Step::Still,
            Some(used) => used,
            // Only a counter in the last half of its range can have wrapped; others were reset.
            None => match self.range.filter(|range| last <= *range && last > range / 2) {
                Some(range) => range - last + reading,
                None => return Step::Reset,
            },
        };
        if used > max {
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
    fn wraps_are_counted_and_resets_are_not_guessed() {
        let mut counter = EnergyCounter::new(Some(1000));
        assert_eq!(
            [100, 900, 50, 50].map(|reading| counter.advance(reading)),
            [Step::First, Step::Used(800), Step::Used(150), Step::Still]
        );
        // From 50 to 20 it cannot have wrapped.
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
        fn a_wrapping_counter_counts_all_use(steps in prop::collection::vec(0_u64..400, 1..60)) {
            let (range, mut truth, mut counter) = (999, 0, EnergyCounter::new(Some(999)));
            counter.advance(0);
            for step in steps {
                truth += step;
                // It shows 0 to 999, then 0 again.
                counter.advance(truth % range);
            }
            prop_assert_eq!(counter.total(), truth);
        }
    }
}
