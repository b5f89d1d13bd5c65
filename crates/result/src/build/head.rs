//! The head of a report: what the recording is and how it ended.

use std::collections::{BTreeMap, HashMap};

use ortscope_core::schema::{SessionRow, TableId, Text};

use super::reader::Reader;
use super::runs::Runs;
use crate::{Header, Provenance, ReportError, ReportInput};
use ortscope_core::units::{self, clean, cleaned};

/// Sessions whose rows are held.
const MAX_SESSIONS: usize = 10_000;
/// Facts of the machine.
const MAX_FACTS: usize = 100;

/// Rows of the table of sessions by their identifier.
pub(super) fn sessions(reader: &mut Reader<'_>) -> Result<HashMap<Text, SessionRow>, ReportError> {
    let mut sessions: HashMap<Text, SessionRow> = HashMap::new();
    reader.each_row(|mut row: SessionRow| {
        if let Some(before) = sessions.get_mut(&row.session_id) {
            // A session is told when it begins, with its process, and again when more is known of it.
            row.pid = row.pid.or(before.pid);
            row.ort_version = row.ort_version.or_else(|| before.ort_version.clone());
            row.options = row.options.or_else(|| before.options.clone());
            *before = row;
        } else if sessions.len() < MAX_SESSIONS {
            sessions.insert(Text::clone(&row.session_id), row);
        }
    })?;
    Ok(sessions)
}

/// Providers of a session's row, in their order.
pub(super) fn providers(row: &SessionRow) -> Vec<String> {
    row.execution_providers
        .split(',')
        .map(|name| clean(name, 60))
        .filter(|name| !name.is_empty())
        .take(32)
        .collect()
}

pub(super) fn header(
    reader: &Reader<'_>,
    input: &ReportInput,
    sessions: &HashMap<Text, SessionRow>,
    runs: &Runs,
) -> Header {
    let recording = &input.recording;
    let mut rows: Vec<&SessionRow> = sessions.values().collect();
    rows.sort_by_key(|row| (row.timestamp_ns, Text::clone(&row.session_id)));
    let mut execution_providers = Vec::new();
    let mut ort_versions = Vec::new();
    let placed = runs.results.iter().filter_map(|result| result.placement.as_ref());
    let placed = placed.flat_map(|placement| placement.providers.iter().cloned());
    for provider in rows.iter().flat_map(|row| providers(row)).chain(placed) {
        insert_new(&mut execution_providers, provider);
    }
    let of_runs = runs.results.iter().filter_map(|result| Some(result.runtime.as_ref()?.version.clone()));
    let of_rows = rows.iter().filter_map(|row| row.ort_version.as_deref().map(|version| clean(version, 40)));
    for version in of_rows.chain(of_runs) {
        insert_new(&mut ort_versions, version);
    }
    let mut condition: Vec<String> = input.condition.iter().take(100).map(|text| cleaned(text)).collect();
    condition.extend(reader.damage());
    condition.extend(runs.problems.iter().map(|text| cleaned(text)));
    condition.extend(runs.failures());
    if recording.ended.is_none() {
        condition.push("the recording was not closed: it was cut off, or is still being written".to_owned());
    }
    let started_ns = recording.started.monotonic_ns;
    let seen_ns = reader.tables().time_range_ns().map_or(0, |(first, last)| last - first.min(last));
    let duration_ns = match recording.ended {
        Some(ended) => ended.monotonic_ns.saturating_sub(started_ns),
        None => seen_ns,
    };
    Header {
        id: clean(&recording.id, 100),
        name: recording.name.as_deref().map(cleaned),
        tags: recording.tags.iter().take(32).map(|tag| clean(tag, 60)).collect(),
        subject: cleaned(&recording.subject),
        origin: clean(&recording.origin, 40),
        command: recording.command.as_deref().map(|command| clean(command, 1000)),
        ortscope_version: clean(&recording.ortscope_version, 40),
        started_unix_ns: recording.started.unix_ns,
        started_utc: units::utc(recording.started.unix_ns),
        duration_seconds: duration_ns as f64 / 1e9,
        ended: recording.end_reason.as_deref().map_or("cut off".to_owned(), cleaned),
        complete: condition.is_empty(),
        condition,
        machine: recording
            .fingerprint
            .iter()
            .take(MAX_FACTS)
            .map(|(name, value)| (clean(name, 60), cleaned(value)))
            .collect(),
        ort_versions,
        execution_providers,
        rows: row_counts(reader),
    }
}

fn insert_new(list: &mut Vec<String>, entry: String) {
    if list.len() < 64 && !list.contains(&entry) {
        list.push(entry);
    }
}

fn row_counts(reader: &Reader<'_>) -> BTreeMap<String, u64> {
    TableId::ALL
        .iter()
        .map(|table| (table.def().name.to_owned(), reader.rows(*table)))
        .filter(|(_, rows)| *rows > 0)
        .collect()
}

/// Where each family of numbers comes from.
pub(super) fn provenance(reader: &Reader<'_>, input: &ReportInput, runs: &Runs) -> Vec<Provenance> {
    let clock = match input.recording.origin.as_str() {
        "import" => "measured, by the program that wrote the imported file",
        _ => "measured, monotonic clock around each call",
    };
    let families: [(&'static str, TableId, &str); 9] = [
        ("latency, outliers", TableId::Inferences, clock),
        ("throughput, warm-up, stability", TableId::Inferences, "computed from the latencies"),
        (
            "operators, placement, timeline",
            TableId::Operators,
            "measured, ONNX Runtime's profiler; self times computed",
        ),
        ("processes", TableId::ProcessSamples, "measured, counters of the system; rates computed"),
        ("machine", TableId::SystemSamples, "measured, counters of the system"),
        ("devices", TableId::DeviceSamples, "per sensor, named with its series"),
        ("scheduling, faults, throttling", TableId::KernelEvents, "measured, events of the kernel"),
        ("memory of sessions", TableId::Memory, "measured, allocators and the system"),
        ("losses", TableId::Losses, "counted where they happened"),
    ];
    let mut provenance: Vec<Provenance> = families
        .into_iter()
        .map(|(numbers, table, method)| Provenance {
            numbers: numbers.to_owned(),
            source: table.def().name.to_owned(),
            method: method.to_owned(),
            n: reader.rows(table),
        })
        .filter(|family| family.n > 0)
        .collect();
    if !runs.results.is_empty() {
        provenance.push(Provenance {
            numbers: "cold start, memory of the worker, scenario".to_owned(),
            source: TableId::Annotations.def().name.to_owned(),
            method: "measured by the run itself".to_owned(),
            n: runs.results.len() as u64,
        });
    }
    provenance
}
