//! Processes, the busiest first: live from the memory's tracks, of a recording from the first and last sample of a range.

use std::collections::{BTreeMap, HashMap};

use ortscope_core::live::{CurrentValue, Subject};
use ortscope_core::schema::{ProcessRow, ProcessSampleRow, TableId, Text};
use ortscope_core::tables::Scan;
use serde_json::{Map, Value, json};

use super::{Answer, about, number, optional};
use crate::app::{App, Asked};
use crate::data::{Live, Source};
use crate::error::ApiError;

const MAX_PROCESSES: usize = 20_000;
/// A live value that is older says nothing about now.
const STALE_NS: u64 = 5_000_000_000;

/// Fields of an entry beside who it is, all `null`.
const FIGURES: &[&str] = &[
    "cpu_percent",
    "cpu_seconds",
    "working_set_bytes",
    "peak_working_set_bytes",
    "private_bytes",
    "thread_count",
    "handle_count",
    "read_bytes_per_second",
    "write_bytes_per_second",
    "context_switches_per_second",
    "page_faults_per_second",
    "ended_ms",
    "exit_code",
];

fn entry(pid: u64, start: u64, name: Option<&Text>, observed: bool) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("pid".into(), pid.into());
    entry.insert("start".into(), start.to_string().into());
    entry.insert("name".into(), name.map_or("", |name| name).into());
    entry.insert("observed".into(), observed.into());
    entry.insert("parent_pid".into(), Value::Null);
    entry.insert("command_line".into(), Value::Null);
    for figure in FIGURES {
        entry.insert((*figure).into(), Value::Null);
    }
    entry
}

fn busiest_first(list: &mut [Map<String, Value>]) {
    let key = |entry: &Map<String, Value>| entry["cpu_percent"].as_f64().unwrap_or(-1.0);
    list.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| a["pid"].as_u64().cmp(&b["pid"].as_u64())));
}

/// The processes of the machine now.
pub fn live_processes(live: &Live, now_ns: u64, limit: usize) -> (Vec<Map<String, Value>>, usize) {
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
    // Only what is shown is looked up and written: a frame is made many times a second.
    live.recent.newest(|newest| {
        let has_ended = |key: &(u64, u64)| newest.processes.get(key).is_some_and(|fact| fact.exit.is_some());
        ordered.retain(|(_, key, _)| !has_ended(key));
        let beyond = ordered.len().saturating_sub(limit);
        ordered.truncate(limit);
        let shown = ordered.iter().map(|(_, key, values)| {
            let fact = newest.processes.get(key);
            let observed = newest.is_session_process(key.0);
            let mut entry = entry(key.0, key.1, fact.map(|fact| &fact.name), observed);
            entry.insert("parent_pid".into(), fact.and_then(|fact| fact.parent_pid).into());
            entry.insert("command_line".into(), json!(fact.and_then(|fact| fact.command_line.as_ref())));
            for value in values {
                // Counts of things are whole numbers.
                let whole = matches!(
                    &*value.id.metric,
                    "working_set_bytes" | "private_bytes" | "thread_count" | "handle_count"
                );
                if let Some(figure) = entry.get_mut(&*value.id.metric) {
                    *figure = if whole { json!(value.value.round() as u64) } else { number(value.value) };
                }
            }
            entry
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
) -> Result<Vec<Map<String, Value>>, ApiError> {
    let tables = source.tables();
    let scan = Scan { from_ns: Some(from_ns), to_ns: Some(to_ns), every_tick: true, ..Scan::all() };
    let mut seen: HashMap<(u64, u64), Seen> = HashMap::new();
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
    let observed: Vec<u64> =
        super::hello::sessions(tables)?.values().filter_map(|session| session.pid).collect();
    let mut list: Vec<Map<String, Value>> = Vec::new();
    let mut keys: Vec<_> = seen.keys().copied().collect();
    keys.sort_unstable();
    for key in keys {
        let Some(Seen { first, last, peak }) = seen.get(&key) else { continue };
        let fact = facts.get(&key);
        let mut entry = entry(key.0, key.1, fact.map(|fact| &fact.name), observed.contains(&key.0));
        let seconds = last.timestamp_ns.saturating_sub(first.timestamp_ns) as f64 / 1e9;
        let rate = |now: Option<u64>, then: Option<u64>| {
            let grown = now.zip(then).map(|(now, then)| now.saturating_sub(then) as f64);
            optional(grown.filter(|_| seconds > 0.0).map(|grown| grown / seconds))
        };
        let cpu = last.cpu_time_ns.saturating_sub(first.cpu_time_ns) as f64 / 1e9;
        let exit = exits.get(&key);
        for (name, value) in [
            ("parent_pid", json!(fact.and_then(|fact| fact.parent_pid))),
            ("command_line", json!(fact.and_then(|fact| fact.command_line.as_ref()))),
            ("cpu_percent", optional((seconds > 0.0).then(|| 100.0 * cpu / seconds))),
            ("cpu_seconds", number(cpu)),
            ("working_set_bytes", last.working_set_bytes.into()),
            ("peak_working_set_bytes", (*peak).into()),
            ("private_bytes", last.private_bytes.into()),
            ("thread_count", last.thread_count.into()),
            ("handle_count", last.handle_count.into()),
            ("read_bytes_per_second", rate(last.read_bytes, first.read_bytes)),
            ("write_bytes_per_second", rate(last.write_bytes, first.write_bytes)),
            ("context_switches_per_second", rate(last.context_switches, first.context_switches)),
            ("page_faults_per_second", rate(last.page_faults, first.page_faults)),
            ("ended_ms", optional(exit.map(|(at, _)| source.ms(*at)))),
            ("exit_code", json!(exit.and_then(|(_, code)| *code))),
        ] {
            entry.insert(name.into(), value);
        }
        list.push(entry);
    }
    busiest_first(&mut list);
    Ok(list)
}

pub fn processes(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
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
    let mut answer = about(&source, range);
    answer.insert("processes".into(), list.into());
    answer.insert("not_listed".into(), beyond.into());
    Answer::json(&answer)
}
