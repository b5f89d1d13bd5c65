//! One frame for scripts: `ortscope top --once`, as JSON or as text.
//!
//! # JSON, schema `ortscope.top/1`
//! Unavailable values are `null`; `unavailable` has the reasons. Names are as the system gave them, escaped by JSON.
//!
//! | field | unit |
//! |---|---|
//! | `timestamp_ns` | monotonic nanoseconds at which it was asked |
//! | `newest_ns` | monotonic nanoseconds of the newest value |
//! | `machine.cpu_percent`, `memory_percent` | 0 to 100, of all processors and of all memory |
//! | `machine.memory_used_bytes`, `swap_used_bytes` | bytes |
//! | `machine.context_switches_per_second`, `interrupts_per_second` | 1/s |
//! | `machine.load_1min_threads`, `process_count` | count |
//! | `machine.cpu_frequency_hertz` | Hz |
//! | `machine.cores_percent` | `[{core, percent}]`, 0 to 100 each |
//! | `devices` | `[{device, metric, unit, value}]` |
//! | `own.cpu_percent`, `own.memory_bytes` | 100 = one core; bytes |
//! | `processes_total` | processes alive, including those beyond the limit |
//! | `rates` | `newest_sample` or `mean_of_last_second` |
//! | `processes` | busiest first: `pid`, `process_start`, `parent_pid`, `name`, `command_line`, and the metrics below |
//! | … `cpu_percent`, `user_percent`, `kernel_percent` | 100 = one core |
//! | … `working_set_bytes`, `peak_working_set_bytes`, `private_bytes` | bytes |
//! | … `thread_count`, `handle_count` | count |
//! | … `read_bytes_per_second`, `write_bytes_per_second` | bytes/s |
//! | … `context_switches_per_second`, `page_faults_per_second`, `hard_faults_per_second` | 1/s |
//! | `sessions` | `session_id`, `model_name`, `latency_ms: {p50, p90, p95, p99}` of the last `window_seconds`, `count`, `inferences_per_second`, `failures_last_minute`, `queue_depth`, `idle_ms` |
//! | `unavailable` | `[{track, reason, hint}]` |
//! | `losses` | counts by kind; `records_before_view` never reached the live memory |

use std::fmt::Write as _;

use ortscope_core::clock::now_ns;
use ortscope_core::live::{LiveView, Subject};
use serde_json::{Map, Value, json};

use crate::draw::columns;
use crate::facts::{OwnFigures, ProcessFacts};
use crate::glyphs::Glyphs;
use crate::model::{Column, Filter, LATENCY_SECONDS, Metric, Process, Session, Snapshot, Sort, order};
use crate::text::{fit_left, fit_right};
use ortscope_core::units::{self, NOTHING, or_nothing};

/// Name and version of the document.
pub const SCHEMA: &str = "ortscope.top/1";
/// Cells of a line of text.
const TEXT_CELLS: usize = 100;

/// The document of `--once --json`, with at most `limit` processes, the busiest first.
pub fn once(view: &LiveView, facts: &dyn ProcessFacts, figures: &dyn OwnFigures, limit: usize) -> Value {
    once_at(view, facts, figures, limit, now_ns())
}

/// The text of `--once`: no colors, no pictures, at most `limit` processes.
pub fn once_text(
    view: &LiveView,
    facts: &dyn ProcessFacts,
    figures: &dyn OwnFigures,
    limit: usize,
) -> String {
    once_text_at(view, facts, figures, limit, now_ns())
}

pub(crate) fn once_at(
    view: &LiveView,
    facts: &dyn ProcessFacts,
    figures: &dyn OwnFigures,
    limit: usize,
    now_ns: u64,
) -> Value {
    let snapshot = Snapshot::take(view, facts, figures, now_ns);
    let machine = &snapshot.machine;
    let cores: Vec<Value> = machine
        .cores_percent
        .iter()
        .map(|(core, percent)| json!({"core": core, "percent": percent}))
        .collect();
    let devices: Vec<Value> = view
        .current(now_ns)
        .values
        .into_iter()
        .filter_map(|value| match &value.id.subject {
            Subject::Device(device) => Some(json!({
                "device": device, "metric": value.id.metric, "unit": value.unit, "value": value.value,
            })),
            _ => None,
        })
        .collect();
    let missing: Vec<Value> = snapshot
        .missing
        .iter()
        .map(|missing| json!({"track": missing.track, "reason": missing.reason, "hint": missing.hint}))
        .collect();
    json!({
        "schema": SCHEMA,
        "timestamp_ns": now_ns,
        "newest_ns": snapshot.newest_ns,
        "machine": {
            "cpu_percent": machine.cpu_percent,
            "cores_percent": cores,
            "memory_used_bytes": whole(machine.memory_used_bytes),
            "memory_percent": machine.memory_percent,
            "swap_used_bytes": whole(machine.swap_used_bytes),
            "context_switches_per_second": machine.context_switches_per_second,
            "interrupts_per_second": machine.interrupts_per_second,
            "process_count": whole(machine.process_count),
            "cpu_frequency_hertz": machine.cpu_frequency_hertz,
            "load_1min_threads": machine.load_1min_threads,
        },
        "devices": devices,
        "own": {"cpu_percent": machine.own.cpu_percent, "memory_bytes": machine.own.memory_bytes},
        "rates": if snapshot.averaged { "mean_of_last_second" } else { "newest_sample" },
        "processes_total": snapshot.processes.len(),
        "processes": busiest(&snapshot, limit).map(|process| process_json(process, facts)).collect::<Vec<_>>(),
        "sessions": snapshot.sessions.iter().map(|one| session_json(one, now_ns)).collect::<Vec<_>>(),
        "unavailable": missing,
        "losses": losses_json(&snapshot),
    })
}

fn busiest(snapshot: &Snapshot, limit: usize) -> impl Iterator<Item = &Process> {
    let lines = order(&snapshot.processes, &Filter::default(), Sort::by(Column::Cpu), false);
    lines.into_iter().take(limit).filter_map(|line| snapshot.processes.get(line.process))
}

/// Bytes and counts are whole numbers, also in JSON.
fn whole(value: Option<f64>) -> Option<u64> {
    value.map(|value| value as u64)
}

fn process_json(process: &Process, facts: &dyn ProcessFacts) -> Value {
    let mut fields = Map::new();
    fields.insert("pid".into(), process.identity.pid.into());
    fields.insert("process_start".into(), process.identity.start.into());
    fields.insert("parent_pid".into(), process.parent_pid.into());
    fields.insert("name".into(), (&*process.raw_name).into());
    fields.insert("command_line".into(), facts.command_line(process.identity).as_deref().into());
    for metric in Metric::ALL {
        let value = process.values.get(metric);
        let value = if metric.is_rate() { json!(value) } else { json!(whole(value)) };
        fields.insert(metric.track().into(), value);
    }
    Value::Object(fields)
}

fn session_json(session: &Session, now_ns: u64) -> Value {
    let millis = |nanos: Option<f64>| nanos.map(|nanos| nanos / 1e6);
    let latency = &session.latency_ns;
    json!({
        "session_id": session.session_id,
        "model_name": session.model_name,
        "window_seconds": LATENCY_SECONDS,
        "count": latency.count,
        "latency_ms": {
            "p50": millis(latency.p50), "p90": millis(latency.p90),
            "p95": millis(latency.p95), "p99": millis(latency.p99),
        },
        "inferences_per_second": session.inferences_per_second,
        "failures_last_minute": session.failures,
        "queue_depth": session.queue_depth,
        "idle_ms": now_ns.saturating_sub(session.newest_ns) as f64 / 1e6,
    })
}

fn losses_json(snapshot: &Snapshot) -> Value {
    let mut fields = Map::new();
    fields.insert("records_before_view".into(), snapshot.lost_records.into());
    for (name, count, _) in snapshot.losses.all() {
        fields.insert(name.into(), count.into());
    }
    Value::Object(fields)
}

pub(crate) fn once_text_at(
    view: &LiveView,
    facts: &dyn ProcessFacts,
    figures: &dyn OwnFigures,
    limit: usize,
    now_ns: u64,
) -> String {
    let snapshot = Snapshot::take(view, facts, figures, now_ns);
    let machine = &snapshot.machine;
    let mut text = String::new();
    let mut line = |line: String| {
        text.push_str(line.trim_end());
        text.push('\n');
    };
    line(format!(
        "cpu {} %  memory {} % ({})  swap {}  ctx/s {}  load {}",
        or_nothing(machine.cpu_percent, units::narrow_percent),
        or_nothing(machine.memory_percent, units::narrow_percent),
        or_nothing(machine.memory_used_bytes, units::bytes),
        or_nothing(machine.swap_used_bytes, units::bytes),
        or_nothing(machine.context_switches_per_second, units::narrow_count),
        or_nothing(machine.load_1min_threads, |load| format!("{load:.2}")),
    ));
    line(format!(
        "{} processes  own cost {} % of a core, {}  lost {}",
        snapshot.processes.len(),
        or_nothing(machine.own.cpu_percent, |percent| format!("{percent:.2}")),
        or_nothing(machine.own.memory_bytes.map(|bytes| bytes as f64), units::bytes),
        snapshot.lost_records.saturating_add(snapshot.losses.total()),
    ));
    for session in &snapshot.sessions {
        line(session_text(session));
    }
    line(String::new());
    // Pictures are for screens; the name gets their place.
    let columns: Vec<Column> =
        columns::available(&snapshot).into_iter().filter(|column| *column != Column::Minute).collect();
    let columns = columns::fitting(&columns, TEXT_CELLS);
    line(row_text(&columns, |column| column.title().to_owned()));
    for process in busiest(&snapshot, limit) {
        line(row_text(&columns, |column| match column {
            Column::Pid => process.identity.pid.to_string(),
            Column::Name => process.name.clone(),
            column => {
                let shown = column.metric().and_then(|metric| Some(metric.show(process.values.get(metric)?)));
                shown.unwrap_or_else(|| NOTHING.to_owned())
            }
        }));
    }
    // A reason that can be fixed gets a line; permanent ones share a list.
    for missing in &snapshot.missing {
        if let Some(hint) = &missing.hint {
            line(format!("unavailable: {}: {} (hint: {hint})", missing.track, missing.reason));
        }
    }
    let never = snapshot.missing.iter().filter(|missing| missing.hint.is_none());
    let never: Vec<&str> = never.map(|missing| &*missing.track).collect();
    if !never.is_empty() {
        line(format!("not on this system: {} (--json says why)", never.join(", ")));
    }
    text
}

fn row_text(columns: &[(Column, usize)], content: impl Fn(Column) -> String) -> String {
    let more = Glyphs::Unicode.more();
    let cells = columns.iter().map(|(column, cells)| match column {
        Column::Name => fit_left(&content(*column), *cells, more),
        column => fit_right(&content(*column), *cells, more),
    });
    cells.collect::<Vec<_>>().join(" ")
}

fn session_text(session: &Session) -> String {
    let mut text = format!("session {}:", session.name);
    let latency = &session.latency_ns;
    for (name, value) in [("p50", latency.p50), ("p90", latency.p90), ("p99", latency.p99)] {
        // Writing to a string cannot fail.
        write!(text, " {name} {}", or_nothing(value, units::nanoseconds)).unwrap_or_default();
    }
    let rate = or_nothing(session.inferences_per_second, units::narrow_count);
    write!(text, "  {rate} inferences/s  {} failed", session.failures).unwrap_or_default();
    text
}
