//! One run, divided: the time of each event on each thread, and the unattributed rest.

use std::collections::BTreeMap;

use ortscope_core::schema::OperatorKind;
use serde::{Deserialize, Serialize};

use super::event::OperatorEvent;
use super::exclusive::{Division, Segment, Window};
use super::report::TimeSplit;

/// Breakdown of the time of one run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunBreakdown {
    pub run_ns: u64,
    /// False if the run's own event is missing; then the run is what its events cover.
    pub has_run_event: bool,
    pub split: TimeSplit,
    /// Per event of the input: the time that is its own.
    pub exclusive_ns: Vec<u64>,
    /// Time in which two or more operators were running.
    pub parallel_ns: u64,
    pub threads: Vec<ThreadTime>,
    /// Events that contradict each other or the run, and by how much.
    pub contradictions: u64,
    pub contradicted_ns: u64,
    /// Events that take no part: of other kinds, and waits of no length.
    pub ignored_events: u64,
}

/// One thread in one run: `operators_ns + copies_ns + waits_ns + remainder_ns` is the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadTime {
    pub thread: u64,
    pub operators_ns: u64,
    pub copies_ns: u64,
    pub waits_ns: u64,
    /// Idle, or busy without an event.
    pub remainder_ns: u64,
}

/// Divides one run. The slice holds all its events, in any order.
pub fn break_down(events: &[OperatorEvent]) -> RunBreakdown {
    let run =
        events.iter().filter(|event| event.kind == OperatorKind::Run).max_by_key(|event| event.duration_ns);
    let window = match run {
        Some(run) => Window { start_ns: run.start_ns, end_ns: run.end_ns() },
        None => covered(events),
    };
    let run_ns = window.end_ns - window.start_ns;
    let mut threads: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut ignored_events = 0;
    for (index, event) in events.iter().enumerate() {
        if is_ignored(event) {
            ignored_events += 1;
        } else {
            threads.entry(event.thread).or_default().push(index);
        }
    }
    let mut division = Division::new(events, window);
    let mut times = Vec::with_capacity(threads.len());
    for (thread, mut indices) in threads {
        let first = division.segments.len();
        division.divide(&mut indices);
        let time = thread_time(thread, run_ns, &division.segments[first..]);
        // A thread with nothing but the run's own events is not a lane.
        if time.remainder_ns < run_ns || indices.iter().any(|index| events[*index].kind.is_work()) {
            times.push(time);
        }
    }
    let (mut split, parallel_ns) = sweep(events, &division.segments, window);
    let last =
        events.iter().filter(|event| matches!(event.kind, OperatorKind::Operator | OperatorKind::Copy));
    let last_ns = last.map(OperatorEvent::end_ns).max().unwrap_or(window.end_ns);
    split.after_last_ns = window.end_ns.saturating_sub(last_ns.max(window.start_ns));
    RunBreakdown {
        run_ns,
        has_run_event: run.is_some(),
        split,
        exclusive_ns: division.exclusive_ns,
        parallel_ns,
        threads: times,
        contradictions: division.clamps.count,
        contradicted_ns: division.clamps.ns,
        ignored_events,
    }
}

/// Loading is not part of a run, device work has its own clock, and the fences of older versions wait for nothing.
pub(super) fn is_ignored(event: &OperatorEvent) -> bool {
    match event.kind {
        OperatorKind::Session | OperatorKind::Other => true,
        OperatorKind::Wait => event.duration_ns == 0,
        _ => false,
    }
}

fn covered(events: &[OperatorEvent]) -> Window {
    let taking_part = || events.iter().filter(|event| !is_ignored(event));
    let start_ns = taking_part().map(|event| event.start_ns).min().unwrap_or(0);
    let end_ns = taking_part().map(OperatorEvent::end_ns).max().unwrap_or(start_ns);
    Window { start_ns, end_ns }
}

fn thread_time(thread: u64, run_ns: u64, segments: &[Segment]) -> ThreadTime {
    let of = |kind| segments.iter().filter(|s| s.kind == kind).map(|s| s.end_ns - s.start_ns).sum::<u64>();
    let (operators_ns, copies_ns, waits_ns) =
        (of(OperatorKind::Operator), of(OperatorKind::Copy), of(OperatorKind::Wait));
    let remainder_ns = run_ns - operators_ns - copies_ns - waits_ns;
    ThreadTime { thread, operators_ns, copies_ns, waits_ns, remainder_ns }
}

/// How many of each kind are going on.
#[derive(Debug, Default)]
struct Going {
    operators: i64,
    copies: i64,
    waits: i64,
    executors: i64,
}

/// Considers all threads together: each moment belongs to the most informative activity.
fn sweep(events: &[OperatorEvent], segments: &[Segment], window: Window) -> (TimeSplit, u64) {
    let mut changes: Vec<(u64, OperatorKind, i64)> = Vec::with_capacity(segments.len() * 2 + 2);
    for segment in segments.iter().filter(|segment| segment.kind.is_work()) {
        changes.push((segment.start_ns, segment.kind, 1));
        changes.push((segment.end_ns, segment.kind, -1));
    }
    for event in events.iter().filter(|event| event.kind == OperatorKind::Executor) {
        let clamp = |at: u64| at.clamp(window.start_ns, window.end_ns);
        changes.push((clamp(event.start_ns), OperatorKind::Executor, 1));
        changes.push((clamp(event.end_ns()), OperatorKind::Executor, -1));
    }
    // The stable sort is the quicker one here: each thread's changes are in order already.
    changes.sort_by_key(|change| change.0);
    let mut going = Going::default();
    let mut split = TimeSplit { run_ns: window.end_ns - window.start_ns, ..TimeSplit::default() };
    let (mut parallel_ns, mut cursor_ns) = (0, window.start_ns);
    for (at_ns, kind, by) in changes.into_iter().chain([(window.end_ns, OperatorKind::Run, 0)]) {
        let passed_ns = at_ns - cursor_ns;
        cursor_ns = at_ns;
        *match going {
            Going { operators: 1.., .. } => &mut split.operators_ns,
            Going { copies: 1.., .. } => &mut split.copies_ns,
            Going { waits: 1.., .. } => &mut split.waits_ns,
            Going { executors: 1.., .. } => &mut split.between_operators_ns,
            _ => &mut split.outside_executor_ns,
        } += passed_ns;
        if going.operators > 1 {
            parallel_ns += passed_ns;
        }
        match kind {
            OperatorKind::Operator => going.operators += by,
            OperatorKind::Copy => going.copies += by,
            OperatorKind::Wait => going.waits += by,
            OperatorKind::Executor => going.executors += by,
            _ => {}
        }
    }
    (split, parallel_ns)
}
