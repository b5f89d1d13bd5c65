//! Inferences of the watched processes, seen from inside: counts and recent latencies per session, in bounded memory.

use std::collections::{BTreeMap, HashMap, VecDeque};

use ortscope_analyze::percentiles;
use ortscope_core::schema::{InferenceRow, OperatorKind, OperatorRow, Phase, SessionRow, Text};
use serde::Serialize;

use crate::terminal::{BOLD, DIM, Terminal};
use ortscope_core::units;

/// Latencies kept per session, the newest, and of all together: percentiles are of these.
const RECENT: usize = 100_000;
const MAX_RECENT: usize = 2_000_000;
/// Sessions, operators and kinds of marks kept apart; inferences of further sessions are only counted.
const MAX_SESSIONS: usize = 4096;
const MAX_KINDS: usize = 256;
/// Sessions and operators that the text shows.
const MAX_ROWS: usize = 20;
const MAX_OPERATORS: usize = 6;
const PERCENTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99), ("p99_9", 0.999)];

#[derive(Debug, Default)]
pub struct Inferences {
    sessions: HashMap<Text, Session>,
    count: u64,
    beyond: u64,
    recent: usize,
    /// By type: how many, how long together.
    operators: BTreeMap<Text, (u64, u64)>,
    marks: BTreeMap<Text, u64>,
}

#[derive(Debug, Default)]
struct Session {
    note: Option<SessionRow>,
    count: u64,
    errors: u64,
    profiled: u64,
    sum_ns: u64,
    min_ns: Option<u64>,
    max_ns: u64,
    first_ns: Option<u64>,
    last_ns: u64,
    recent: VecDeque<u64>,
}

/// What the document says of them.
#[derive(Debug, Serialize)]
pub struct InferenceSummary {
    pub count: u64,
    pub errors: u64,
    /// Slower than the others, and in no figure of latency.
    pub profiled: u64,
    /// Those with the most inferences first.
    pub sessions: Vec<SessionSummary>,
    pub inferences_of_further_sessions: u64,
    /// Of the profiled inferences, those that took the longest first.
    pub operators: Vec<OperatorSummary>,
    /// Marks on the time line by their kind.
    pub marks: BTreeMap<String, u64>,
}

#[derive(Debug, Serialize)]
pub struct SessionSummary {
    pub session_id: String,
    pub pid: Option<u64>,
    pub model_name: Option<String>,
    pub execution_providers: Option<String>,
    pub ort_version: Option<String>,
    pub count: u64,
    pub errors: u64,
    pub profiled: u64,
    pub per_second: Option<f64>,
    pub mean_ms: Option<f64>,
    pub min_ms: Option<f64>,
    pub max_ms: Option<f64>,
    /// `null` where there are too few inferences.
    pub percentiles_ms: BTreeMap<&'static str, Option<f64>>,
}

#[derive(Debug, Serialize)]
pub struct OperatorSummary {
    pub op_type: String,
    pub count: u64,
    pub total_ms: f64,
}

impl Inferences {
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn inference(&mut self, row: &InferenceRow) {
        self.count += 1;
        let has_room = self.recent < MAX_RECENT;
        let Some(session) = self.session(&row.session_id) else {
            self.beyond += 1;
            return;
        };
        if session.add(row, has_room) {
            self.recent += 1;
        }
    }

    pub fn note(&mut self, row: SessionRow) {
        if let Some(session) = self.session(&Text::clone(&row.session_id)) {
            session.note = Some(row);
        }
    }

    pub fn operator(&mut self, row: &OperatorRow) {
        // A node with a sub-graph contains the others: each is counted once.
        if row.kind != OperatorKind::Operator || row.depth > 0 {
            return;
        }
        if self.operators.len() < MAX_KINDS || self.operators.contains_key(&row.op_type) {
            let of = self.operators.entry(Text::clone(&row.op_type)).or_default();
            *of = (of.0 + 1, of.1 + row.duration_ns);
        }
    }

    pub fn mark(&mut self, kind: &Text) {
        if self.marks.len() < MAX_KINDS || self.marks.contains_key(kind) {
            *self.marks.entry(Text::clone(kind)).or_default() += 1;
        }
    }

    fn session(&mut self, id: &Text) -> Option<&mut Session> {
        if !self.sessions.contains_key(id) {
            if self.sessions.len() >= MAX_SESSIONS {
                return None;
            }
            self.sessions.insert(Text::clone(id), Session::default());
        }
        self.sessions.get_mut(id)
    }

    /// `None` if there was no inference and no session.
    pub fn summary(&self) -> Option<InferenceSummary> {
        if self.count == 0 && self.sessions.is_empty() {
            return None;
        }
        let mut sessions: Vec<SessionSummary> =
            self.sessions.iter().map(|(id, session)| session.summary(id)).collect();
        sessions.sort_by(|one, other| {
            other.count.cmp(&one.count).then_with(|| one.session_id.cmp(&other.session_id))
        });
        let mut operators: Vec<OperatorSummary> = self
            .operators
            .iter()
            .map(|(op_type, (count, total_ns))| OperatorSummary {
                op_type: op_type.to_string(),
                count: *count,
                total_ms: *total_ns as f64 / 1e6,
            })
            .collect();
        operators.sort_by(|one, other| other.total_ms.total_cmp(&one.total_ms));
        Some(InferenceSummary {
            count: self.count,
            errors: sessions.iter().map(|session| session.errors).sum(),
            profiled: sessions.iter().map(|session| session.profiled).sum(),
            sessions,
            inferences_of_further_sessions: self.beyond,
            operators,
            marks: self.marks.iter().map(|(kind, count)| (kind.to_string(), *count)).collect(),
        })
    }
}

impl Session {
    /// Whether one more latency is kept.
    fn add(&mut self, row: &InferenceRow, has_room: bool) -> bool {
        self.count += 1;
        self.first_ns.get_or_insert(row.timestamp_ns);
        self.last_ns = self.last_ns.max(row.timestamp_ns.saturating_add(row.run_ns));
        if !row.ok {
            self.errors += 1;
            return false;
        }
        if row.phase == Phase::Profiled {
            self.profiled += 1;
            return false;
        }
        self.sum_ns = self.sum_ns.saturating_add(row.run_ns);
        self.min_ns = Some(self.min_ns.map_or(row.run_ns, |least| least.min(row.run_ns)));
        self.max_ns = self.max_ns.max(row.run_ns);
        let grows = has_room && self.recent.len() < RECENT;
        if !grows && self.recent.pop_front().is_none() {
            return false;
        }
        self.recent.push_back(row.run_ns);
        grows
    }

    fn summary(&self, id: &Text) -> SessionSummary {
        let recent: Vec<u64> = self.recent.iter().copied().collect();
        let ps = PERCENTILES.map(|(_, p)| p);
        let computed = if recent.is_empty() { Vec::new() } else { percentiles(&recent, &ps) };
        let ms = |nanos: u64| nanos as f64 / 1e6;
        let timed = self.count - self.errors - self.profiled;
        let seconds = self.first_ns.map_or(0.0, |first| self.last_ns.saturating_sub(first) as f64 / 1e9);
        let note = self.note.as_ref();
        SessionSummary {
            session_id: id.to_string(),
            pid: note.and_then(|note| note.pid),
            model_name: note.map(|note| note.model_name.to_string()),
            execution_providers: note.map(|note| note.execution_providers.to_string()),
            ort_version: note.and_then(|note| note.ort_version.as_deref().map(str::to_owned)),
            count: self.count,
            errors: self.errors,
            profiled: self.profiled,
            per_second: (seconds > 0.0).then(|| self.count as f64 / seconds),
            mean_ms: (timed > 0).then(|| ms(self.sum_ns) / timed as f64),
            min_ms: self.min_ns.map(ms),
            max_ms: (timed > 0).then(|| ms(self.max_ns)),
            percentiles_ms: PERCENTILES
                .iter()
                .zip(&computed)
                .map(|((name, _), percentile)| (*name, percentile.value_ns.map(ms)))
                .collect(),
        }
    }
}

/// The lines of the summary.
pub fn lines(summary: &InferenceSummary, terminal: &Terminal) -> Vec<String> {
    let sessions = units::counted(summary.sessions.len() as u64, "session");
    let mut head = format!("{} of {sessions}", units::counted(summary.count, "inference"));
    if summary.errors > 0 {
        head += &format!(", {} failed", units::count(summary.errors));
    }
    let mut lines = vec![terminal.paint(BOLD, &head)];
    lines.push(terminal.paint(
        BOLD,
        &format!(
            "{:>8}  {:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            "pid", "model", "runs", "per s", "mean", "p50", "p90", "p99", "longest"
        ),
    ));
    let time = |ms: Option<f64>| ms.map_or("n/a".to_owned(), |ms| units::nanoseconds(ms * 1e6));
    for session in summary.sessions.iter().take(MAX_ROWS) {
        let of = |name: &str| time(session.percentiles_ms.get(name).copied().flatten());
        lines.push(format!(
            "{:>8}  {:<28} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}",
            session.pid.map_or("?".to_owned(), |pid| pid.to_string()),
            units::clean(session.model_name.as_deref().unwrap_or("?"), 28),
            units::count(session.count),
            session.per_second.map_or("n/a".to_owned(), units::digits),
            time(session.mean_ms),
            of("p50"),
            of("p90"),
            of("p99"),
            time(session.max_ms)
        ));
    }
    let more = summary.sessions.len().saturating_sub(MAX_ROWS) as u64;
    if more > 0 {
        let more = format!("{} more are in the recording", units::counted(more, "session"));
        lines.push(terminal.paint(DIM, &more));
    }
    let total: f64 = summary.operators.iter().map(|operator| operator.total_ms).sum();
    if total > 0.0 {
        let share = |operator: &OperatorSummary| {
            format!("{} {}", operator.op_type, units::percent(operator.total_ms / total))
        };
        let most: Vec<String> = summary.operators.iter().take(MAX_OPERATORS).map(share).collect();
        let runs = units::counted(summary.profiled, "profiled inference");
        lines.push(format!("operators of {runs}: {}", most.join(", ")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(session: &str, run_ns: u64, phase: &str, ok: bool) -> InferenceRow {
        InferenceRow {
            session_id: session.into(),
            phase: phase.into(),
            run_ns,
            ok,
            ..InferenceRow::default()
        }
    }

    #[test]
    fn profiled_and_failed_inferences_are_counted_but_not_timed() {
        let mut inferences = Inferences::default();
        assert!(inferences.summary().is_none());
        for _ in 0..100 {
            inferences.inference(&row("a", 2_000_000, "steady", true));
        }
        inferences.inference(&row("a", 90_000_000, "profiled", true));
        inferences.inference(&row("a", 70_000_000, "steady", false));
        inferences.inference(&row("b", 1, "first", true));
        let summary = inferences.summary().expect("there are some");
        assert_eq!((summary.count, summary.errors, summary.profiled), (103, 1, 1));
        let first = &summary.sessions[0];
        assert_eq!((first.count, first.max_ms, first.mean_ms), (102, Some(2.0), Some(2.0)));
        assert_eq!(first.percentiles_ms["p50"], Some(2.0));
    }

    #[test]
    fn memory_stays_bounded() {
        let mut inferences = Inferences::default();
        for number in 0..MAX_SESSIONS as u64 + 10 {
            inferences.inference(&row(&number.to_string(), 1, "steady", true));
        }
        for _ in 0..RECENT + 10 {
            inferences.inference(&row("0", 1, "steady", true));
        }
        assert_eq!(inferences.sessions.len(), MAX_SESSIONS);
        assert_eq!(inferences.beyond, 10);
        assert_eq!(inferences.sessions["0"].recent.len(), RECENT);
        assert_eq!(inferences.recent, MAX_SESSIONS - 1 + RECENT);
    }
}
