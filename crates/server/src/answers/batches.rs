//! `/batches`: latency, throughput and memory by batch size.

use std::collections::BTreeMap;

use ortscope_analyze::percentiles;
use ortscope_core::schema::{InferenceRow, Phase, ProcessSampleRow, TableId, Text};
use ortscope_core::tables::Scan;
use ortscope_export::wire::Unavailable;
use schemars::JsonSchema;
use serde::Serialize;

use super::About;
use super::hello::SessionInfo;
use crate::app::{App, Asked};
use crate::error::ApiError;

const MAX_ROWS: usize = 1000;
const MAX_LATENCIES: usize = 200_000;

/// Latency, throughput and memory by batch size.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Batches {
    #[serde(flatten)]
    pub about: About,
    /// One row per session and batch size.
    pub rows: Vec<BatchRow>,
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct BatchRow {
    pub session_id: Text,
    pub title: String,
    pub batch_size: Option<u64>,
    pub inferences: u64,
    pub latency_p50_ms: Option<f64>,
    pub latency_p99_ms: Option<f64>,
    pub requests_per_second: Option<f64>,
    pub samples_per_second: Option<f64>,
    /// Peak memory of the session's process during these inferences.
    pub peak_memory_bytes: Option<u64>,
    pub padding_ratio: Option<f64>,
    pub queue_depth_mean: Option<f64>,
    pub queue_depth_max: Option<u64>,
}

#[derive(Default)]
struct Group {
    latencies: Vec<u64>,
    inferences: u64,
    samples: u64,
    busy_ns: u64,
    first_ns: u64,
    end_ns: u64,
    queue_sum: u64,
    queue_count: u64,
    queue_max: u64,
    peak_bytes: Option<u64>,
}

pub fn batches(app: &App, asked: &Asked) -> Result<Batches, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let range = source.range(&asked.params)?;
    let tables = source.tables();
    let known = source.sessions()?;
    let scan = Scan { from_ns: Some(range.0), to_ns: Some(range.1), ..Scan::all() };
    let mut groups: BTreeMap<(Text, Option<u64>), Group> = BTreeMap::new();
    for batch in tables.scan(TableId::Inferences, &scan) {
        for row in batch?
            .rows::<InferenceRow>()
            .filter(|row| row.ok && !matches!(row.phase.known(), Some(Phase::First | Phase::Profiled)))
        {
            let key = (Text::clone(&row.session_id), row.batch_size);
            if groups.len() >= MAX_ROWS && !groups.contains_key(&key) {
                continue;
            }
            let group = groups.entry(key).or_default();
            if group.inferences == 0 {
                group.first_ns = row.timestamp_ns;
            }
            group.inferences += 1;
            group.samples += row.batch_size.unwrap_or(0);
            group.busy_ns = group.busy_ns.saturating_add(row.run_ns);
            group.first_ns = group.first_ns.min(row.timestamp_ns);
            group.end_ns = group.end_ns.max(row.timestamp_ns.saturating_add(row.run_ns));
            if let Some(depth) = row.queue_depth {
                group.queue_sum = group.queue_sum.saturating_add(depth);
                group.queue_count += 1;
                group.queue_max = group.queue_max.max(depth);
            }
            if group.latencies.len() < MAX_LATENCIES {
                group.latencies.push(row.run_ns);
            }
        }
    }
    if tables.row_count(TableId::ProcessSamples) > 0 {
        let columns = Scan { columns: Some(vec!["timestamp_ns", "pid", "working_set_bytes"]), ..scan };
        for batch in tables.scan(TableId::ProcessSamples, &columns) {
            for row in batch?.rows::<ProcessSampleRow>() {
                for ((session, _), group) in &mut groups {
                    let is_its = known.get(session).and_then(|session| session.pid) == Some(row.pid);
                    if is_its && (group.first_ns..=group.end_ns).contains(&row.timestamp_ns) {
                        group.peak_bytes = group.peak_bytes.max(Some(row.working_set_bytes));
                    }
                }
            }
        }
    }
    let rows: Vec<BatchRow> = groups
        .iter()
        .map(|((session, batch_size), group)| {
            let figures = percentiles(&group.latencies, &[0.5, 0.99]);
            let percentile = |index: usize| Some(figures.get(index)?.value_ns? as f64 / 1e6);
            let seconds = group.end_ns.saturating_sub(group.first_ns) as f64 / 1e9;
            let rate = |count: u64| (seconds > 0.0 && count > 0).then(|| count as f64 / seconds);
            let title =
                known.get(session).map_or_else(|| SessionInfo::unknown(session), SessionInfo::of).title;
            let has_queue = group.queue_count > 0;
            BatchRow {
                session_id: Text::clone(session),
                title,
                batch_size: *batch_size,
                inferences: group.inferences,
                latency_p50_ms: percentile(0),
                latency_p99_ms: percentile(1),
                requests_per_second: rate(group.inferences),
                samples_per_second: rate(group.samples),
                peak_memory_bytes: group.peak_bytes,
                padding_ratio: None,
                queue_depth_mean: has_queue.then(|| group.queue_sum as f64 / group.queue_count as f64),
                queue_depth_max: has_queue.then_some(group.queue_max),
            }
        })
        .collect();
    let mut unavailable = Unavailable::one("padding_ratio", "padding was not counted");
    if rows.is_empty() {
        unavailable.insert("rows", "no inferences were recorded in this time");
    }
    if source.live().is_some() {
        unavailable.insert("peak_memory_bytes", "/metrics/history has the memory of live processes");
    }
    Ok(Batches { about: About::new(&source, range), rows, unavailable })
}
