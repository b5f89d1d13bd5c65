//! Operators: a first pass sums up all profiled runs, a second draws the median one.

mod calls;
mod runs;
mod timeline;

use std::collections::{BTreeMap, HashMap};

use ortscope_core::schema::{OperatorKind, OperatorRow, TableId, Text};
use ortscope_core::tables::Scan;

use self::calls::Calls;
use self::runs::{Event, Runs, SessionRuns};
use super::reader::Reader;
use crate::latency::ms;
use crate::{MAX_RECTANGLES, OperatorReport, ReportError, SessionEvent, Unattributed};
use ortscope_core::units::{clean, count};

/// Sessions whose operators are told apart.
const MAX_SESSIONS: usize = 256;
/// Sessions whose operators are shown.
const MAX_SHOWN: usize = 16;
/// Rows by node of all sessions together.
const MAX_NODE_ROWS: usize = 500;
/// Events of loading and initialising that are shown.
const MAX_SESSION_EVENTS: usize = 12;

/// Columns of the first pass.
const COLUMNS: &[&str] = &[
    "timestamp_ns",
    "duration_ns",
    "session_id",
    "run",
    "kind",
    "name",
    "op_type",
    "execution_provider",
    "device",
    "thread",
    "depth",
    "input_shapes",
    "output_bytes",
    "flops",
];

pub(super) struct Operators {
    pub reports: Vec<OperatorReport>,
    pub left_out: Vec<String>,
}

/// Headings and the median inference without operator profiling, by session.
pub(super) trait KnownSessions {
    fn title(&self, session_id: &str) -> String;
    fn median_ms(&self, session_id: &str) -> Option<f64>;
}

pub(super) fn read(reader: &mut Reader<'_>, known: &dyn KnownSessions) -> Result<Operators, ReportError> {
    let mut pass = Pass::default();
    reader.each_batch(TableId::Operators, &Scan::all().columns(COLUMNS), |batch| {
        for row in batch.rows::<OperatorRow>() {
            pass.row(&row);
        }
    })?;
    pass.runs.close_all(&mut pass.calls);
    pass.runs.sessions.resize_with(pass.names.len(), SessionRuns::default);
    let mut order: Vec<usize> = (0..pass.names.len()).collect();
    order.sort_by_key(|session| std::cmp::Reverse(pass.runs.sessions[*session].busy_ns));
    let mut left_out = Vec::new();
    if order.len() > MAX_SHOWN || pass.rows_beyond > 0 {
        let more = order.len().saturating_sub(MAX_SHOWN) as u64;
        left_out.push(format!(
            "operators of {} further sessions, and {} rows of sessions beyond the limit of {MAX_SESSIONS}",
            count(more),
            count(pass.rows_beyond)
        ));
    }
    if pass.calls.is_full() {
        left_out.push("nodes beyond the limit: their calls are in the figures by type only".to_owned());
    }
    order.truncate(MAX_SHOWN);
    let shown = order.len().max(1);
    let (nodes, rectangles) = ((MAX_NODE_ROWS / shown).max(30), MAX_RECTANGLES / shown);
    let mut reports = Vec::new();
    for session in order {
        let mut report = pass.report(session, nodes, known);
        match pass.runs.sessions[session].median_run() {
            Some(span) => {
                report.timeline = Some(timeline::draw(reader, &pass.names[session], span, rectangles)?);
            }
            None => {
                report.timeline_unknown =
                    Some("the profile does not say which run an operator belongs to".into());
            }
        }
        reports.push(report);
    }
    Ok(Operators { reports, left_out })
}

#[derive(Debug, Default)]
struct Pass {
    names: Vec<Text>,
    by_name: HashMap<Text, usize>,
    calls: Calls,
    runs: Runs,
    session_events: BTreeMap<(usize, Text), (u64, u64)>,
    rows_beyond: u64,
}

impl Pass {
    fn row(&mut self, row: &OperatorRow) {
        let session = match self.by_name.get(&row.session_id) {
            Some(session) => *session,
            None if self.names.len() >= MAX_SESSIONS => {
                self.rows_beyond += 1;
                return;
            }
            None => {
                self.by_name.insert(Text::clone(&row.session_id), self.names.len());
                self.names.push(Text::clone(&row.session_id));
                self.names.len() - 1
            }
        };
        let kind = row.kind.known().unwrap_or(OperatorKind::Other);
        match (kind, row.run) {
            (OperatorKind::Run, Some(run)) => {
                self.runs.whole(session, run, row.timestamp_ns, row.duration_ns, &mut self.calls);
            }
            (OperatorKind::Session, _) => {
                let known = self.session_events.len() < 10_000;
                let key = (session, Text::clone(&row.name));
                if known || self.session_events.contains_key(&key) {
                    let (times, total) = self.session_events.entry(key).or_default();
                    *times += 1;
                    *total = total.saturating_add(row.duration_ns);
                }
            }
            (kind, run) if kind.is_work() => {
                let event = Event {
                    start_ns: row.timestamp_ns,
                    duration_ns: row.duration_ns,
                    depth: row.depth,
                    thread: row.thread,
                    callee: self.calls.callee(session, kind, row),
                };
                self.runs.event(session, run, event, &mut self.calls);
            }
            _ => {}
        }
    }

    fn report(&self, session: usize, most_nodes: usize, known: &dyn KnownSessions) -> OperatorReport {
        let runs = &self.runs.sessions[session];
        let session_id = &self.names[session];
        let run_total_ns = (runs.timed_runs > 0 && runs.timed_runs == runs.runs).then_some(runs.run_total_ns);
        let run_median_ms = runs.median_run().map(|span| ms(span.duration_ns));
        let (by_node, other_nodes) = self.calls.by_node(session, run_total_ns, most_nodes);
        let usual = known.median_ms(session_id).filter(|median| *median > 0.0);
        OperatorReport {
            session_id: clean(session_id, 100),
            title: known.title(session_id),
            runs: runs.runs,
            events: runs.events,
            run_total_ms: run_total_ns.map(ms),
            run_median_ms,
            observer_factor: runs
                .settled_median_ns()
                .zip(usual)
                .map(|(profiled, usual)| profiled / 1e6 / usual),
            unattributed: run_total_ns.filter(|total| *total > 0).map(|total| Unattributed {
                total_ms: ms(runs.unattributed_ns),
                mean_ms: ms(runs.unattributed_ns) / runs.timed_runs.max(1) as f64,
                share: runs.unattributed_ns as f64 / total as f64,
            }),
            unattributed_unknown: run_total_ns
                .is_none()
                .then(|| "the profile does not say how long the runs took as a whole".to_owned()),
            parallelism: (runs.active_ns > 0).then(|| runs.busy_ns as f64 / runs.active_ns as f64),
            by_type: self.calls.by_type(session, run_total_ns),
            by_node,
            other_nodes,
            placement: self.calls.placement(session),
            session_events: self.events_of(session),
            timeline: None,
            timeline_unknown: None,
        }
    }

    fn events_of(&self, session: usize) -> Vec<SessionEvent> {
        let mut events: Vec<SessionEvent> = self
            .session_events
            .iter()
            .filter(|((of, _), _)| *of == session)
            .map(|((_, name), (times, total))| SessionEvent {
                name: clean(name, 100),
                count: *times,
                total_ms: ms(*total),
            })
            .collect();
        events.sort_by(|left, right| right.total_ms.total_cmp(&left.total_ms));
        events.truncate(MAX_SESSION_EVENTS);
        events
    }
}
