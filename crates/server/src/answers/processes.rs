//! `/processes`: processes by CPU use. Live values come from the live memory's tracks; those of a recording from the first
//! and last sample of a range.

use std::collections::{BTreeMap, HashMap};

use ortscope_core::live::{CurrentValue, Subject};
use ortscope_core::schema::{ProcessRow, ProcessSampleRow, TableId, Text};
use ortscope_core::tables::Scan;
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use crate::app::{App, Asked};
use crate::data::{Live, Source};
use crate::error::ApiError;

const MAX_PROCESSES: usize = 20_000;
/// Maximum age of a live value that counts as current.
const STALE_NS: u64 = 5_000_000_000;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Processes {
    #[serde(flatten)]
    pub about: About,
    /// Busiest first; `limit` entries (default 200, at most 1,000).
    pub processes: Vec<ProcessFigures>,
    pub not_listed: u64,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct ProcessFigures {
    pub pid: u64,
    /// Identifies the process together with `pid`; opaque text. Track names: `process/${pid}:${start}/…`.
    pub start: String,
    pub name: Text,
    /// Whether the process has a session of ONNX Runtime.
    pub observed: bool,
    pub parent_pid: Option<u64>,
    /// Redacted; null if it was not recorded.
    pub command_line: Option<Text>,
    /// 100 = one core. Live: now; recordings: mean over the range.
    pub cpu_percent: Option<f64>,
    /// CPU time in the range; null for live.
    pub cpu_seconds: Option<f64>,
    pub working_set_bytes: Option<u64>,
    pub peak_working_set_bytes: Option<u64>,
    pub private_bytes: Option<u64>,
    pub thread_count: Option<u64>,
    pub handle_count: Option<u64>,
    pub read_bytes_per_second: Option<f64>,
    pub write_bytes_per_second: Option<f64>,
    pub context_switches_per_second: Option<f64>,
    pub page_faults_per_second: Option<f64>,
    pub ended_ms: Option<f64>,
    pub exit_code: Option<i64>,
}

impl ProcessFigures {
    /// Takes over the newest value of a track.
    fn set(&mut self, metric: &str, value: f64) {
        let count = Some(value.round() as u64);
        match metric {
            "cpu_percent" => self.cpu_percent = Some(value),
            "working_set_bytes" => self.working_set_bytes = count,
            "private_bytes" => self.private_bytes = count,
            "thread_count" => self.thread_count = count,
            "handle_count" => self.handle_count = count,
            "read_bytes_per_second" => self.read_bytes_per_second = Some(value),
            "write_bytes_per_second" => self.write_bytes_per_second = Some(value),
            "context_switches_per_second" => self.context_switches_per_second = Some(value),
            "page_faults_per_second" => self.page_faults_per_second = Some(value),
            _ => {}
        }
    }
}

/// The current processes of the machine, and how many more there are.
pub fn live_processes(live: &Live, now_ns: u64, limit: usize) -> (Vec<ProcessFigures>, usize) {
    let current = live.view.current(now_ns);
    let mut by_process: HashMap<(u64, u64), Vec<&CurrentValue>> = HashMap::new();
    for value in current.values.iter().filter(|value| value.age_ns <= STALE_NS) {
        if let Subject::Process(process) = &value.id.subject {
            by_process.entry((u64::from(process.pid), process.start)).or_default().push(value);
        }
    }
    let cpu = |values: &[&CurrentValue]| {
        let of_cpu = values.iter().find(|value| &*value.id.metric == "cpu_percent");
        of_cpu.map_or(-1.0, |value| value.value)
    };
    let mut ordered: Vec<_> =
        by_process.into_iter().map(|(key, values)| (cpu(&values), key, values)).collect();
    ordered.sort_unstable_by(|(a, a_key, _), (b, b_key, _)| b.total_cmp(a).then_with(|| a_key.cmp(b_key)));
    // Only the shown processes are looked up: frames are built many times per second.
    live.recent.newest(|newest| {
        let has_ended = |key: &(u64, u64)| newest.processes.get(key).is_some_and(|fact| fact.exit.is_some());
        ordered.retain(|(_, key, _)| !has_ended(key));
        let beyond = ordered.len().saturating_sub(limit);
        ordered.truncate(limit);
        let shown = ordered.iter().map(|(_, key, values)| {
            let fact = newest.processes.get(key);
            let mut figures = ProcessFigures {
                pid: key.0,
                start: key.1.to_string(),
                name: fact.map(|fact| Text::clone(&fact.name)).unwrap_or_default(),
                observed: newest.is_session_process(key.0),
                parent_pid: fact.and_then(|fact| fact.parent_pid),
                command_line: fact.and_then(|fact| fact.command_line.clone()),
                ..ProcessFigures::default()
            };
            values.iter().for_each(|value| figures.set(&value.id.metric, value.value));
            figures
        });
        (shown.collect(), beyond)
    })
}

struct Seen {
    first: ProcessSampleRow,
    last: ProcessSampleRow,
    peak: u64,
}

fn recorded_processes(
    source: &Source,
    (from_ns, to_ns): (u64, u64),
) -> Result<Vec<ProcessFigures>, ApiError> {
    let tables = source.tables();
    let scan = Scan { from_ns: Some(from_ns), to_ns: Some(to_ns), every_tick: true, ..Scan::all() };
    let mut seen: BTreeMap<(u64, u64), Seen> = BTreeMap::new();
    for batch in tables.scan(TableId::ProcessSamples, &scan) {
        for row in batch?.rows::<ProcessSampleRow>() {
            let key = (row.pid, row.process_start);
            if let Some(known) = seen.get_mut(&key) {
                known.peak = known.peak.max(row.working_set_bytes);
                known.last = row;
            } else if seen.len() < MAX_PROCESSES {
                seen.insert(key, Seen { peak: row.working_set_bytes, first: row.clone(), last: row });
            }
        }
    }
    let mut facts: BTreeMap<(u64, u64), ProcessRow> = BTreeMap::new();
    let mut exits: BTreeMap<(u64, u64), (u64, Option<i64>)> = BTreeMap::new();
    for batch in tables.scan(TableId::Processes, &Scan::all()) {
        for row in batch?.rows::<ProcessRow>() {
            let key = (row.pid, row.process_start);
            if &*row.event == "exited" {
                exits.insert(key, (row.timestamp_ns, row.exit_code));
            } else if facts.len() < MAX_PROCESSES {
                facts.insert(key, row);
            }
        }
    }
    let observed: Vec<u64> = source.sessions()?.values().filter_map(|session| session.pid).collect();
    let mut list: Vec<ProcessFigures> = Vec::with_capacity(seen.len());
    for (key, Seen { first, last, peak }) in seen {
        let fact = facts.get(&key);
        let seconds = last.timestamp_ns.saturating_sub(first.timestamp_ns) as f64 / 1e9;
        let rate = |now: Option<u64>, then: Option<u64>| {
            let grown = now.zip(then).map(|(now, then)| now.saturating_sub(then) as f64);
            grown.filter(|_| seconds > 0.0).map(|grown| grown / seconds)
        };
        let cpu = last.cpu_time_ns.saturating_sub(first.cpu_time_ns) as f64 / 1e9;
        let exit = exits.get(&key);
        list.push(ProcessFigures {
            pid: key.0,
            start: key.1.to_string(),
            name: fact.map(|fact| Text::clone(&fact.name)).unwrap_or_default(),
            observed: observed.contains(&key.0),
            parent_pid: fact.and_then(|fact| fact.parent_pid),
            command_line: fact.and_then(|fact| fact.command_line.clone()),
            cpu_percent: (seconds > 0.0).then(|| 100.0 * cpu / seconds),
            cpu_seconds: Some(cpu),
            working_set_bytes: Some(last.working_set_bytes),
            peak_working_set_bytes: Some(peak),
            private_bytes: last.private_bytes,
            thread_count: last.thread_count,
            handle_count: last.handle_count,
            read_bytes_per_second: rate(last.read_bytes, first.read_bytes),
            write_bytes_per_second: rate(last.write_bytes, first.write_bytes),
            context_switches_per_second: rate(last.context_switches, first.context_switches),
            page_faults_per_second: rate(last.page_faults, first.page_faults),
            ended_ms: exit.map(|(at, _)| source.ms(*at)),
            exit_code: exit.and_then(|(_, code)| *code),
        });
    }
    let cpu = |figures: &ProcessFigures| figures.cpu_percent.unwrap_or(-1.0);
    // The sort is stable: processes of equal load stay ordered by pid.
    list.sort_by(|a, b| cpu(b).total_cmp(&cpu(a)));
    Ok(list)
}

pub fn processes(app: &App, asked: &Asked) -> Result<Processes, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let limit = asked.params.count("limit", 200)?;
    let (list, beyond) = match source.live() {
        Some(live) => live_processes(live, source.last_ns, limit),
        None => {
            let mut list = recorded_processes(&source, range)?;
            let beyond = list.len().saturating_sub(limit);
            list.truncate(limit);
            (list, beyond)
        }
    };
    Ok(Processes { about: About::new(&source, range), processes: list, not_listed: beyond as u64 })
}
