//! Puts operators together to runs: what of a node's time belongs to the nodes of its sub-graphs, and what of a run's
//! time belongs to no operator.
//!
//! The rows of a run come near each other, but a parent may come after its children and runs may overlap. So a few runs
//! are held open, and closed oldest first.

use std::collections::HashMap;

use ortscope_analyze::median_ns;

use super::calls::{Callee, Calls};
use crate::build::thin::Decimated;

/// Runs held open.
const MAX_OPEN: usize = 64;
/// Rows held in all of them.
const MAX_HELD: usize = 500_000;
/// Durations of runs kept to find the median one.
const MAX_RUNS: usize = 500_000;

/// One operator, copy or wait of a run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Event {
    pub start_ns: u64,
    pub duration_ns: u64,
    pub depth: u64,
    pub thread: u64,
    pub callee: Callee,
}

impl Event {
    fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }
}

/// When a run was.
#[derive(Debug, Clone, Copy)]
pub(super) struct RunSpan {
    pub run: u64,
    pub start_ns: u64,
    pub duration_ns: u64,
}

/// The runs of one session, summed up.
#[derive(Debug, Default)]
pub(super) struct SessionRuns {
    pub runs: u64,
    pub events: u64,
    /// Runs whose own duration is known, and their time.
    pub timed_runs: u64,
    pub run_total_ns: u64,
    pub unattributed_ns: u64,
    /// Time in which anything was active, and the sum of all self times.
    pub active_ns: u64,
    pub busy_ns: u64,
    pub spans: Decimated<RunSpan>,
    closed_below: u64,
}

impl SessionRuns {
    /// The run with the median duration.
    pub fn median_run(&self) -> Option<RunSpan> {
        let mut spans: Vec<RunSpan> = self.spans.kept.clone();
        spans.sort_by_key(|span| (span.duration_ns, span.run));
        spans.get(spans.len().checked_sub(1)? / 2).copied()
    }

    /// The median duration without the first run, which takes longer for other reasons than being profiled.
    pub fn settled_median_ns(&self) -> Option<f64> {
        let spans = &self.spans.kept;
        let first = spans.iter().map(|span| span.run).min()?;
        let is_settled = |span: &&RunSpan| spans.len() == 1 || span.run != first;
        median_ns(spans.iter().filter(is_settled).map(|span| span.duration_ns))
    }
}

#[derive(Debug, Default)]
struct OpenRun {
    opened: u64,
    whole: Option<(u64, u64)>,
    events: Vec<Event>,
}

/// A run of a session; `None` for what happens outside of runs.
type RunKey = (usize, Option<u64>);

#[derive(Debug, Default)]
pub(super) struct Runs {
    open: HashMap<RunKey, OpenRun>,
    held: usize,
    opened: u64,
    pub sessions: Vec<SessionRuns>,
}

impl Runs {
    fn session(&mut self, session: usize) -> &mut SessionRuns {
        if self.sessions.len() <= session {
            self.sessions.resize_with(session + 1, SessionRuns::default);
        }
        &mut self.sessions[session]
    }

    /// The run as a whole.
    pub fn whole(&mut self, session: usize, run: u64, start_ns: u64, duration_ns: u64, calls: &mut Calls) {
        if let Some(open) = self.open(session, Some(run), calls) {
            // Of several events that span a run the outermost is the run.
            let known = open.whole.map_or(0, |(_, duration)| duration);
            if duration_ns >= known {
                open.whole = Some((start_ns, duration_ns));
            }
        }
    }

    pub fn event(&mut self, session: usize, run: Option<u64>, event: Event, calls: &mut Calls) {
        self.session(session).events += 1;
        match self.open(session, run, calls) {
            Some(open) if open.events.len() < MAX_HELD => {
                open.events.push(event);
                self.held += 1;
            }
            // Too late or too much to be put in its place: only the main graph counts, which counts nothing twice.
            _ => calls.add(
                event.callee,
                event.duration_ns,
                if event.depth == 0 { event.duration_ns } else { 0 },
            ),
        }
    }

    /// The open run; `None` if it was closed already.
    fn open(&mut self, session: usize, run: Option<u64>, calls: &mut Calls) -> Option<&mut OpenRun> {
        let key = (session, run);
        if !self.open.contains_key(&key) {
            if run.is_some_and(|run| run < self.session(session).closed_below) {
                return None;
            }
            while self.open.len() >= MAX_OPEN || self.held >= MAX_HELD {
                let oldest = self.open.iter().min_by_key(|(_, open)| open.opened).map(|(key, _)| *key)?;
                self.close(oldest, calls);
            }
            self.opened += 1;
            self.open.insert(key, OpenRun { opened: self.opened, ..OpenRun::default() });
        }
        self.open.get_mut(&key)
    }

    pub fn close_all(&mut self, calls: &mut Calls) {
        let mut keys: Vec<(u64, RunKey)> = self.open.iter().map(|(key, open)| (open.opened, *key)).collect();
        keys.sort_unstable();
        for (_, key) in keys {
            self.close(key, calls);
        }
    }

    fn close(&mut self, key: RunKey, calls: &mut Calls) {
        let Some(mut open) = self.open.remove(&key) else { return };
        self.held -= open.events.len();
        open.events.sort_by_key(|event| (event.start_ns, event.depth, std::cmp::Reverse(event.duration_ns)));
        let self_times = self_times(&open.events);
        let mut busy_ns = 0_u64;
        for (event, self_ns) in open.events.iter().zip(self_times) {
            calls.add(event.callee, event.duration_ns, self_ns);
            busy_ns = busy_ns.saturating_add(self_ns);
        }
        let (session, run) = key;
        let totals = self.session(session);
        let Some(run) = run else { return };
        totals.closed_below = totals.closed_below.max(run.saturating_add(1));
        totals.runs += 1;
        let whole = open.whole;
        let active_ns = active(&open.events, whole);
        totals.active_ns = totals.active_ns.saturating_add(active_ns);
        totals.busy_ns = totals.busy_ns.saturating_add(busy_ns);
        if let Some((_, duration_ns)) = whole {
            totals.timed_runs += 1;
            totals.run_total_ns = totals.run_total_ns.saturating_add(duration_ns);
            totals.unattributed_ns =
                totals.unattributed_ns.saturating_add(duration_ns.saturating_sub(active_ns));
        }
        let first = open.events.first().map(|event| event.start_ns);
        let last = open.events.iter().map(Event::end_ns).max();
        let extent = first.zip(last).map(|(first, last)| (first, last - first));
        if let Some((start_ns, duration_ns)) = whole.or(extent) {
            totals.spans.push(RunSpan { run, start_ns, duration_ns }, MAX_RUNS);
        }
    }
}

/// The time of each event without that of its children, which lie inside it one level deeper. Events are in the order
/// of their start.
fn self_times(events: &[Event]) -> Vec<u64> {
    let mut own: Vec<u64> = events.iter().map(|event| event.duration_ns).collect();
    // Events of the level above that may still be running.
    let mut running: HashMap<u64, Vec<usize>> = HashMap::new();
    for (index, event) in events.iter().enumerate() {
        if event.depth > 0
            && let Some(above) = running.get_mut(&(event.depth - 1))
        {
            above.retain(|parent| events[*parent].end_ns() > event.start_ns);
            let contains = |parent: &&usize| events[**parent].end_ns() >= event.end_ns();
            let same_thread = |parent: &&usize| events[**parent].thread == event.thread;
            let parent = above.iter().rev().filter(contains).find(same_thread);
            let parent = parent.or_else(|| above.iter().rev().find(contains));
            if let Some(parent) = parent {
                own[*parent] = own[*parent].saturating_sub(event.duration_ns);
            }
        }
        let level = running.entry(event.depth).or_default();
        level.retain(|other| events[*other].end_ns() > event.start_ns);
        level.push(index);
    }
    own
}

/// Time in which at least one event was active, inside the run. Events are in the order of their start.
fn active(events: &[Event], whole: Option<(u64, u64)>) -> u64 {
    let (from, to) = whole.map_or((0, u64::MAX), |(start, duration)| (start, start.saturating_add(duration)));
    let (mut covered_to, mut sum) = (from, 0_u64);
    for event in events {
        let (start, end) = (event.start_ns.max(covered_to), event.end_ns().min(to));
        if end > start {
            sum = sum.saturating_add(end - start);
            covered_to = end;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use ortscope_core::schema::{OperatorKind, OperatorRow};

    use super::*;

    fn event(calls: &mut Calls, name: &str, start_ns: u64, duration_ns: u64, depth: u64) -> Event {
        let row = OperatorRow { name: name.into(), op_type: name.into(), depth, ..OperatorRow::default() };
        Event {
            start_ns,
            duration_ns,
            depth,
            thread: 1,
            callee: calls.callee(0, OperatorKind::Operator, &row),
        }
    }

    #[test]
    fn children_are_not_counted_twice_and_gaps_are_nobodys() {
        let (mut calls, mut runs) = (Calls::default(), Runs::default());
        // A loop of 60 with two children of 20 inside, then a node of 30, in a run of 100: 10 belong to nobody.
        for (name, start, duration, depth) in
            [("A", 105, 20, 1), ("A", 130, 20, 1), ("Loop", 100, 60, 0), ("B", 165, 30, 0)]
        {
            let event = event(&mut calls, name, start, duration, depth);
            runs.event(0, Some(0), event, &mut calls);
        }
        runs.whole(0, 0, 98, 100, &mut calls);
        runs.close_all(&mut calls);
        let totals = &runs.sessions[0];
        assert_eq!(
            (totals.runs, totals.run_total_ns, totals.unattributed_ns, totals.busy_ns),
            (1, 100, 10, 90)
        );
        let rows = calls.by_type(0, Some(totals.run_total_ns));
        let found: Vec<(&str, f64, u64)> =
            rows.iter().map(|row| (row.op_type.as_str(), row.times.self_ms * 1e6, row.times.calls)).collect();
        assert_eq!(found, [("A", 40.0, 2), ("B", 30.0, 1), ("Loop", 20.0, 1)]);
    }

    #[test]
    fn parallel_operators_cover_their_time_once() {
        let (mut calls, mut runs) = (Calls::default(), Runs::default());
        for start in [0, 10, 20] {
            let event = event(&mut calls, "A", start, 50, 0);
            runs.event(0, Some(3), event, &mut calls);
        }
        runs.whole(0, 3, 0, 80, &mut calls);
        runs.close_all(&mut calls);
        let totals = &runs.sessions[0];
        assert_eq!((totals.active_ns, totals.busy_ns, totals.unattributed_ns), (70, 150, 10));
        assert_eq!(totals.median_run().map(|span| span.run), Some(3));
    }

    #[test]
    fn the_first_run_is_no_measure_of_what_profiling_costs() {
        let (mut calls, mut runs) = (Calls::default(), Runs::default());
        for (run, duration) in [(4, 1000), (5, 80), (6, 60)] {
            runs.whole(0, run, run * 10_000, duration, &mut calls);
        }
        runs.whole(1, 1, 0, 70, &mut calls);
        runs.close_all(&mut calls);
        assert_eq!(runs.sessions[0].settled_median_ns(), Some(70.0));
        assert_eq!(runs.sessions[1].settled_median_ns(), Some(70.0), "the only one");
    }

    #[test]
    fn many_runs_are_closed_on_the_way_and_late_rows_still_count() {
        let (mut calls, mut runs) = (Calls::default(), Runs::default());
        for run in 0..1000 {
            let event = event(&mut calls, "A", run * 100, 50, 0);
            runs.event(0, Some(run), event, &mut calls);
            runs.whole(0, run, run * 100, 60 + run % 7, &mut calls);
        }
        assert!(runs.open.len() <= MAX_OPEN);
        let late = event(&mut calls, "A", 5, 1, 0);
        runs.event(0, Some(0), late, &mut calls);
        runs.close_all(&mut calls);
        assert_eq!((runs.sessions[0].runs, runs.sessions[0].events), (1000, 1001));
        assert_eq!(calls.by_type(0, None)[0].times.calls, 1001);
        assert_eq!(runs.sessions[0].median_run().map(|span| span.duration_ns), Some(63));
    }
}
