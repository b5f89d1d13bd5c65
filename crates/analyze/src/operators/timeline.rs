//! One run as lanes of spans, for drawing.

use std::collections::BTreeMap;

use ortscope_core::schema::{OperatorKind, Text};
use serde::{Deserialize, Serialize};

use super::event::OperatorEvent;

/// A stretch of a lane, in nanoseconds from the start of the run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Span {
    pub start_ns: u64,
    pub duration_ns: u64,
    /// Index into the events; `None` in the lane of what no event accounts for.
    pub event: Option<usize>,
    pub depth: u64,
}

/// The work of one thread for one provider.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TimelineLane {
    /// `None` for the lane of what no event accounts for.
    pub thread: Option<u64>,
    pub provider: Text,
    pub spans: Vec<Span>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Timeline {
    pub run_ns: u64,
    /// By thread and provider; last the time in which nothing was going on.
    pub lanes: Vec<TimelineLane>,
}

/// Lays out one run. Spans are cut at the borders of the run.
pub fn timeline(events: &[OperatorEvent]) -> Timeline {
    let work = || events.iter().enumerate().filter(|(_, event)| event.kind.is_work());
    let run =
        events.iter().filter(|event| event.kind == OperatorKind::Run).max_by_key(|event| event.duration_ns);
    let (from, to) = match run {
        Some(run) => (run.start_ns, run.end_ns()),
        None => {
            let from = work().map(|(_, event)| event.start_ns).min().unwrap_or(0);
            (from, work().map(|(_, event)| event.end_ns()).max().unwrap_or(from))
        }
    };
    let mut lanes: BTreeMap<(u64, Text), Vec<Span>> = BTreeMap::new();
    let mut busy = Vec::new();
    for (index, event) in work() {
        let (start, end) = (event.start_ns.clamp(from, to), event.end_ns().clamp(from, to));
        busy.push((start - from, end - from));
        lanes.entry((event.thread, event.provider.clone())).or_default().push(Span {
            start_ns: start - from,
            duration_ns: end - start,
            event: Some(index),
            depth: event.depth,
        });
    }
    let mut lanes: Vec<TimelineLane> = lanes
        .into_iter()
        .map(|((thread, provider), mut spans)| {
            spans.sort_by_key(|span| (span.start_ns, span.depth));
            TimelineLane { thread: Some(thread), provider, spans }
        })
        .collect();
    lanes.push(TimelineLane { thread: None, provider: Text::from(""), spans: gaps(busy, to - from) });
    Timeline { run_ns: to - from, lanes }
}

fn gaps(mut busy: Vec<(u64, u64)>, run_ns: u64) -> Vec<Span> {
    busy.sort_unstable();
    let mut spans = Vec::new();
    let mut cursor = 0;
    for (start, end) in busy.into_iter().chain([(run_ns, run_ns)]) {
        if start > cursor {
            spans.push(Span { start_ns: cursor, duration_ns: start - cursor, event: None, depth: 0 });
        }
        cursor = cursor.max(end);
    }
    spans
}
