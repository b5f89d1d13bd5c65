//! The known runs, by time.

/// Starts and durations are each truncated to microseconds, so the end of a contained event may seem to be one behind.
const ROUNDING_NS: i64 = 1000;

/// Limit for runs with times: beyond it, work of helper threads and devices gets no run. A profile cannot have more,
/// since ONNX Runtime records a million events and at least two per run.
const MAX_RUNS: usize = 1 << 19;

/// Search radius around the likely position, for overlapping runs.
const NEIGHBOURS: usize = 32;

/// The run that contains something.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Candidate {
    #[default]
    None,
    One(u64),
    /// In several at once: undecidable.
    Several,
}

impl Candidate {
    fn or_also(self, run: u64) -> Self {
        match self {
            Self::None => Self::One(run),
            Self::One(same) if same == run => self,
            _ => Self::Several,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct RunSpans {
    /// Start and end of the runs since `first`. Ends ascend, except for overlapping runs.
    spans: Vec<(i64, i64)>,
    /// Number of the first of them.
    first: u64,
    count: u64,
}

impl RunSpans {
    /// Assigns a number to a run.
    pub(super) fn add(&mut self, start_ns: i64, end_ns: i64) -> u64 {
        if self.spans.len() < MAX_RUNS {
            self.spans.push((start_ns, end_ns));
        }
        self.count += 1;
        self.count - 1
    }

    /// Drops the times of all runs, but not their number: another profile follows.
    pub(super) fn reset(&mut self) {
        self.spans.clear();
        self.first = self.count;
    }

    /// The runs that contain this span.
    pub(super) fn containing(&self, start_ns: i64, end_ns: i64) -> Candidate {
        let near = self.spans.partition_point(|(_, end)| end.saturating_add(ROUNDING_NS) < end_ns);
        let from = near.saturating_sub(NEIGHBOURS);
        let window = self.spans.iter().enumerate().skip(from).take(2 * NEIGHBOURS);
        window
            .filter(|(_, (start, end))| contains((*start, *end), start_ns, end_ns))
            .fold(Candidate::None, |candidate, (run, _)| candidate.or_also(self.first + run as u64))
    }

    /// The end of the only run in progress at a time.
    pub(super) fn end_around(&self, at_ns: i64) -> Option<i64> {
        let Candidate::One(run) = self.containing(at_ns, at_ns) else { return None };
        let index = usize::try_from(run.checked_sub(self.first)?).ok()?;
        self.spans.get(index).map(|(_, end)| *end)
    }
}

/// Whether a span contains another, within rounding errors.
fn contains(outer: (i64, i64), start_ns: i64, end_ns: i64) -> bool {
    start_ns >= outer.0 && start_ns <= outer.1 && end_ns <= outer.1.saturating_add(ROUNDING_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_found_by_time() {
        let mut runs = RunSpans::default();
        for run in 0..1000 {
            assert_eq!(runs.add(run * 10_000, run * 10_000 + 8_000), run as u64);
        }
        assert_eq!(runs.containing(5_001_000, 5_004_000), Candidate::One(500));
        assert_eq!(runs.containing(5_001_000, 5_009_000), Candidate::One(500), "rounding");
        assert_eq!(runs.containing(5_001_000, 5_010_000), Candidate::None);
        assert_eq!(runs.containing(5_009_000, 5_009_500), Candidate::None, "between runs");
        assert_eq!(runs.containing(i64::MIN, i64::MAX), Candidate::None);
        assert_eq!(runs.end_around(5_001_000), Some(5_008_000));
        assert_eq!(runs.end_around(5_009_500), None);
    }

    #[test]
    fn a_span_in_two_runs_is_ambiguous() {
        let mut runs = RunSpans::default();
        runs.add(0, 10_000);
        runs.add(5_000, 20_000);
        assert_eq!(runs.containing(1_000, 2_000), Candidate::One(0));
        assert_eq!(runs.containing(6_000, 7_000), Candidate::Several);
        assert_eq!(runs.containing(12_000, 13_000), Candidate::One(1));
        runs.reset();
        assert_eq!(runs.containing(12_000, 13_000), Candidate::None);
        assert_eq!(runs.add(10_000, 20_000), 2);
        assert_eq!(runs.containing(12_000, 13_000), Candidate::One(2));
    }
}
