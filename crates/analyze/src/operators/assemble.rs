//! Puts rows that come run after run, but not strictly so, together to runs.

use std::collections::BTreeMap;

use super::event::OperatorEvent;

/// Events that are held by default: 40 MB.
const DEFAULT_HELD: usize = 200_000;

/// Holds the events of runs until it is likely that no more come. Rows of helper threads and of devices may come after
/// the next runs have begun; when too many are held, the oldest runs go out.
#[derive(Debug)]
pub struct RunAssembler {
    runs: BTreeMap<u64, Vec<OperatorEvent>>,
    held: usize,
    most_held: usize,
    /// Runs below this are out.
    out_below: u64,
    late_events: u64,
}

impl Default for RunAssembler {
    fn default() -> Self {
        Self::new(DEFAULT_HELD)
    }
}

impl RunAssembler {
    /// `most_held` events; a single run may have more and stays together.
    pub fn new(most_held: usize) -> Self {
        Self { runs: BTreeMap::new(), held: 0, most_held, out_below: 0, late_events: 0 }
    }

    /// Takes an event of a run and hands out runs that are over.
    pub fn push(&mut self, run: u64, event: OperatorEvent, out: &mut impl FnMut(u64, &[OperatorEvent])) {
        if run < self.out_below {
            self.late_events += 1;
            return;
        }
        self.runs.entry(run).or_default().push(event);
        self.held += 1;
        while self.held > self.most_held && self.runs.len() > 1 {
            self.hand_out_first(out);
        }
    }

    /// Hands out the rest. Returns how many events came too late for their run.
    pub fn finish(mut self, out: &mut impl FnMut(u64, &[OperatorEvent])) -> u64 {
        while !self.runs.is_empty() {
            self.hand_out_first(out);
        }
        self.late_events
    }

    fn hand_out_first(&mut self, out: &mut impl FnMut(u64, &[OperatorEvent])) {
        if let Some((run, events)) = self.runs.pop_first() {
            self.held -= events.len();
            self.out_below = run + 1;
            out(run, &events);
        }
    }
}

#[cfg(test)]
mod tests {
    use ortscope_core::schema::OperatorRow;

    use super::*;

    #[test]
    fn helper_rows_may_be_late_and_too_late_ones_are_counted() {
        let event = || OperatorEvent::from(&OperatorRow::default());
        let mut assembler = RunAssembler::new(4);
        let mut seen = Vec::new();
        let mut out = |run: u64, events: &[OperatorEvent]| seen.push((run, events.len()));
        for run in [0, 0, 1, 0, 1, 2, 0, 2] {
            assembler.push(run, event(), &mut out);
        }
        // The fifth event pushes run 0 out; its fourth row comes too late.
        assert_eq!(assembler.finish(&mut out), 1);
        assert_eq!(seen, [(0, 3), (1, 2), (2, 2)]);
    }

    #[test]
    fn one_huge_run_stays_together() {
        let mut assembler = RunAssembler::new(2);
        let mut seen = Vec::new();
        let mut out = |run: u64, events: &[OperatorEvent]| seen.push((run, events.len()));
        for _ in 0..10 {
            assembler.push(7, OperatorEvent::from(&OperatorRow::default()), &mut out);
        }
        assert_eq!(assembler.finish(&mut out), 0);
        assert_eq!(seen, [(7, 10)]);
    }
}
