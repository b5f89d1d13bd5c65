//! What can be asked for: metrics with unit and meaning, and the tracks that exist.

use std::collections::BTreeMap;

use ortscope_core::live::{Subject, TrackId, TrackInfo, unit_of_metric};
use ortscope_core::schema::{DeviceSampleRow, ProcessRow, ProcessSampleRow, TableId, Text, Unit};
use ortscope_core::tables::Scan;
use serde_json::{Value, json};

use super::{Answer, number};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_TRACKS: usize = 5000;
const MAX_PROCESSES: usize = 2000;

/// A metric: name, whose, unit, kind of chart, path in a wire record, meaning.
type Metric = (&'static str, &'static str, Unit, &'static str, Option<&'static str>, &'static str);

#[rustfmt::skip]
const METRICS: &[Metric] = &[
    ("end_to_end_ms", "inference", Unit::Milliseconds, "gauge", Some("latency.end_to_end_ms"), "From the planned start to the end of an inference."),
    ("inference_only_ms", "inference", Unit::Milliseconds, "gauge", Some("latency.inference_only_ms"), "The call into ONNX Runtime alone."),
    ("p50", "inference", Unit::Milliseconds, "gauge", Some("latency.percentiles.p50"), "Half of the inferences took at most this."),
    ("p90", "inference", Unit::Milliseconds, "gauge", Some("latency.percentiles.p90"), "90 % of the inferences took at most this."),
    ("p95", "inference", Unit::Milliseconds, "gauge", Some("latency.percentiles.p95"), "95 % of the inferences took at most this."),
    ("p99", "inference", Unit::Milliseconds, "gauge", Some("latency.percentiles.p99"), "99 % of the inferences took at most this."),
    ("p99_9", "inference", Unit::Milliseconds, "gauge", Some("latency.percentiles.p99_9"), "99.9 % of the inferences took at most this."),
    ("jitter", "inference", Unit::Milliseconds, "gauge", Some("latency.jitter"), "Interquartile range of the latencies."),
    ("power_w", "inference", Unit::Watts, "line", Some("energy.power_w"), "Power while it ran."),
    ("joules", "inference", Unit::Joules, "gauge", Some("energy.joules"), "Power times end-to-end time."),
    ("inferences_per_watt", "inference", Unit::None, "gauge", Some("energy.inferences_per_watt"), "1 / joules."),
    ("flops_per_watt", "inference", Unit::None, "gauge", Some("energy.flops_per_watt"), "Floating-point operations per second and watt."),
    ("gpu_sm_occupancy", "inference", Unit::Ratio, "bar", Some("hardware.gpu_sm_occupancy"), "Occupancy of the GPU's multiprocessors."),
    ("tensor_core_usage", "inference", Unit::Ratio, "bar", Some("hardware.tensor_core_usage"), "Use of the GPU's tensor cores."),
    ("l1", "inference", Unit::Ratio, "bar", Some("hardware.cache_hit_rates.l1"), "Hits in the first cache."),
    ("l2", "inference", Unit::Ratio, "bar", Some("hardware.cache_hit_rates.l2"), "Hits in the second cache."),
    ("l3", "inference", Unit::Ratio, "bar", Some("hardware.cache_hit_rates.l3"), "Hits in the third cache."),
    ("batch_size", "inference", Unit::Count, "histogram", Some("batch_context.batch_size"), "Samples in a batch."),
    ("padding_ratio", "inference", Unit::Ratio, "gauge", Some("batch_context.padding_ratio"), "Share of a batch that is padding."),
    ("queue_depth", "inference", Unit::Count, "line", Some("batch_context.queue_depth"), "Requests waiting when this one started."),
    ("duration_ms", "operation", Unit::Milliseconds, "timeline", Some("duration_ms"), "How long an operator took."),
    ("cycles", "operation", Unit::Count, "table", Some("cycles"), "Cycles of the device."),
    ("memory_bytes", "operation", Unit::Bytes, "table", Some("memory_bytes"), "Inputs, parameters and outputs of an operator."),
    ("cpu_percent", "system", Unit::Percent, "line", Some("cpu_percent"), "Busy share of all processors."),
    ("memory_percent", "system", Unit::Percent, "area", Some("memory_percent"), "Physical memory in use, of all there is."),
    ("gpu_percent", "system", Unit::Percent, "line", Some("gpu_percent"), "Load of the busiest GPU."),
    ("npu_percent", "system", Unit::Percent, "line", Some("npu_percent"), "Load of the busiest NPU."),
    ("gpu_memory_mb", "system", Unit::None, "area", Some("gpu_memory_mb"), "Memory in use on all GPUs, in millions of bytes."),
    ("process_memory_mb", "system", Unit::None, "area", Some("process_memory_mb"), "Resident memory of the processes that have a session, in millions of bytes."),
    ("memory_used_bytes", "system", Unit::Bytes, "area", None, "Physical memory in use."),
    ("swap_used_bytes", "system", Unit::Bytes, "area", None, "Swap or page file in use."),
    ("context_switches_per_second", "system", Unit::Hertz, "line", None, "Context switches of the machine per second."),
    ("interrupts_per_second", "system", Unit::Hertz, "line", None, "Interrupts of the machine per second."),
    ("process_count", "system", Unit::Count, "line", None, "Processes alive."),
    ("cpu_frequency_hertz", "system", Unit::Hertz, "line", None, "Mean frequency of the processors."),
    ("latency_ns", "session", Unit::Nanoseconds, "line", None, "The call into ONNX Runtime alone, of inferences that succeeded."),
    ("end_to_end_ns", "session", Unit::Nanoseconds, "line", None, "Copying in, the call and copying out."),
    ("response_ns", "session", Unit::Nanoseconds, "line", None, "From the planned start to the end, waiting included, of open-loop inferences."),
    ("queue_depth", "session", Unit::Count, "line", None, "Requests waiting when one started."),
    ("failures", "session", Unit::Count, "bar", None, "Inferences that failed: the count of a point is what matters."),
    ("cpu_percent", "process", Unit::Percent, "line", None, "CPU time since the sample before; 100 is one core."),
    ("working_set_bytes", "process", Unit::Bytes, "area", None, "Resident memory."),
    ("private_bytes", "process", Unit::Bytes, "area", None, "Memory of this process alone."),
    ("thread_count", "process", Unit::Count, "line", None, "Threads alive."),
    ("handle_count", "process", Unit::Count, "line", None, "Open handles or file descriptors."),
    ("read_bytes_per_second", "process", Unit::Bytes, "line", None, "Bytes read per second."),
    ("write_bytes_per_second", "process", Unit::Bytes, "line", None, "Bytes written per second."),
    ("context_switches_per_second", "process", Unit::Hertz, "line", None, "Context switches of all its threads per second."),
    ("page_faults_per_second", "process", Unit::Hertz, "line", None, "Page faults of all kinds per second."),
];

/// Metrics that a kind of subject has as tracks, with their units.
fn tracked(kind: &'static str) -> impl Iterator<Item = &'static Metric> {
    METRICS.iter().filter(move |(name, of, .., wire, _)| {
        *of == kind && (wire.is_none() || matches!(*name, "cpu_percent" | "memory_percent"))
    })
}

/// A track that can be asked for.
#[derive(Debug, Clone)]
pub struct Track {
    pub id: TrackId,
    pub unit: Unit,
    pub label: Option<Text>,
    pub origin: Text,
    pub method: Text,
    pub first_ns: u64,
    pub newest_ns: u64,
    pub ended_ns: Option<u64>,
}

impl From<TrackInfo> for Track {
    fn from(info: TrackInfo) -> Self {
        Self {
            id: info.id,
            unit: info.unit,
            label: info.label,
            origin: info.source,
            method: info.method,
            first_ns: info.first_ns,
            newest_ns: info.newest_ns,
            ended_ns: info.ended_ns,
        }
    }
}

/// All tracks of a source.
pub fn tracks(source: &Source) -> Result<Vec<Track>, ApiError> {
    match source.live() {
        Some(live) => Ok(live.view.tracks().into_iter().map(Track::from).collect()),
        None => recorded_tracks(source),
    }
}

fn recorded_tracks(source: &Source) -> Result<Vec<Track>, ApiError> {
    let tables = source.tables();
    let mut tracks = Vec::new();
    let mut add = |subject: Subject,
                   metric: &str,
                   unit: Unit,
                   label: Option<Text>,
                   origin: &str,
                   method: &str,
                   first: u64,
                   last: u64| {
        tracks.push(Track {
            id: TrackId { subject, metric: metric.into() },
            unit,
            label,
            origin: origin.into(),
            method: method.into(),
            first_ns: first,
            newest_ns: last,
            ended_ns: None,
        });
    };
    let (first, last) = (source.first_ns, source.last_ns);
    if tables.row_count(TableId::SystemSamples) > 0 {
        for (name, _, unit, ..) in tracked("system") {
            add(Subject::System, name, *unit, None, "system_samples", "measured", first, last);
        }
    }
    let sessions = super::hello::sessions(tables)?;
    if tables.row_count(TableId::Inferences) > 0 {
        for row in sessions.values() {
            for (name, _, unit, ..) in tracked("session") {
                let subject = Subject::Session(Text::clone(&row.session_id));
                add(
                    subject,
                    name,
                    *unit,
                    Some(Text::clone(&row.model_name)),
                    "inferences",
                    "measured",
                    first,
                    last,
                );
            }
        }
    }
    let mut devices: BTreeMap<(Text, Text), (Text, Text)> = BTreeMap::new();
    for batch in tables.scan(TableId::DeviceSamples, &Scan::all()) {
        for row in batch?.rows::<DeviceSampleRow>() {
            if devices.len() < MAX_TRACKS {
                devices.entry((row.device, row.metric)).or_insert((row.source, row.method));
            }
        }
    }
    for ((device, metric), (origin, method)) in devices {
        add(Subject::Device(device), &metric, unit_of_metric(&metric), None, &origin, &method, first, last);
    }
    let mut names: BTreeMap<(u64, u64), Text> = BTreeMap::new();
    for batch in tables.scan(TableId::Processes, &Scan::all()) {
        for row in batch?.rows::<ProcessRow>().filter(|row| &*row.event != "exited") {
            if names.len() < MAX_PROCESSES {
                names.insert((row.pid, row.process_start), row.name);
            }
        }
    }
    let mut processes: BTreeMap<(u64, u64), (u64, u64)> = BTreeMap::new();
    let keys = Scan::all().columns(&["timestamp_ns", "pid", "process_start"]);
    for batch in tables.scan(TableId::ProcessSamples, &keys) {
        for row in batch?.rows::<ProcessSampleRow>() {
            let key = (row.pid, row.process_start);
            if processes.len() < MAX_PROCESSES || processes.contains_key(&key) {
                let times = processes.entry(key).or_insert((row.timestamp_ns, row.timestamp_ns));
                times.1 = times.1.max(row.timestamp_ns);
            }
        }
    }
    for ((pid, start), (first, last)) in processes {
        let Ok(pid_number) = u32::try_from(pid) else { continue };
        let process = ortscope_core::identity::ProcessIdentity { pid: pid_number, start };
        for (name, _, unit, ..) in tracked("process") {
            let label = names.get(&(pid, start)).cloned();
            add(Subject::Process(process), name, *unit, label, "process_samples", "measured", first, last);
        }
    }
    Ok(tracks)
}

pub fn catalog(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let all = tracks(&source)?;
    let shown: Vec<Value> = all
        .iter()
        .take(MAX_TRACKS)
        .map(|track| {
            json!({
                "track": track.id,
                "metric": track.id.metric,
                "unit": track.unit,
                "label": track.label,
                "origin": track.origin,
                "method": track.method,
                "first_ms": number(source.ms(track.first_ns)),
                "newest_ms": number(source.ms(track.newest_ns)),
                "ended_ms": track.ended_ns.map(|ended| source.ms(ended)),
            })
        })
        .collect();
    let mut metrics: Vec<Value> = METRICS
        .iter()
        .map(|(name, subject, unit, chart, wire, description)| {
            json!({ "name": name, "subject": subject, "unit": unit, "description": description, "chart": chart, "wire": wire })
        })
        .collect();
    let mut sensors: Vec<&Text> = all
        .iter()
        .filter(|track| matches!(track.id.subject, Subject::Device(_)))
        .map(|track| &track.id.metric)
        .collect();
    sensors.sort();
    sensors.dedup();
    metrics.extend(sensors.into_iter().map(|metric| {
        json!({
            "name": metric, "subject": "device", "unit": unit_of_metric(metric),
            "description": "A reading of one sensor of a device.", "chart": "line", "wire": null,
        })
    }));
    Answer::json(&json!({
        "source": source.id,
        "metrics": metrics,
        "tracks_not_listed": all.len().saturating_sub(MAX_TRACKS),
        "tracks": shown,
    }))
}
