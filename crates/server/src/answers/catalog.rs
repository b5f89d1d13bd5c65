//! `/metrics/catalog`: metrics with unit and meaning, and the existing tracks.

use std::borrow::Cow;
use std::collections::BTreeMap;

use ortscope_core::live::{self, Subject, TrackId, unit_of_metric};
use ortscope_core::schema::{DeviceSampleRow, ProcessRow, ProcessSampleRow, TableId, Text, Unit};
use ortscope_core::tables::Scan;
use schemars::JsonSchema;
use serde::Serialize;

use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_TRACKS: usize = 5000;
const MAX_PROCESSES: usize = 2000;

#[derive(Debug, Serialize, JsonSchema)]
pub struct Catalog {
    pub source: String,
    pub metrics: Vec<MetricInfo>,
    /// Existing series of this source; /metrics/history takes the names in `track`.
    pub tracks: Vec<TrackInfo>,
    /// Number of tracks beyond the limit of 5,000.
    pub tracks_not_listed: u64,
}

#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct MetricInfo {
    /// E.g. "cpu_percent".
    pub name: Cow<'static, str>,
    pub subject: MetricSubject,
    pub unit: Unit,
    pub chart: Chart,
    /// Path in a wire record, e.g. "latency.end_to_end_ms"; null for metrics that are only tracks.
    pub wire: Option<&'static str>,
    pub description: &'static str,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MetricSubject {
    System,
    Session,
    Process,
    Device,
    Inference,
    Operation,
}

/// The suggested kind of chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Chart {
    Line,
    Area,
    Gauge,
    Bar,
    Histogram,
    Timeline,
    Table,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct TrackInfo {
    /// E.g. "system/cpu_percent", "session/<id>/latency_ns", "process/<pid>:<start>/working_set_bytes",
    /// "device/gpu0/power_watts".
    pub track: String,
    pub metric: Text,
    pub unit: Unit,
    /// Program, model or device.
    pub label: Option<Text>,
    /// Source of the numbers.
    pub origin: Text,
    pub method: Text,
    pub first_ms: f64,
    pub newest_ms: f64,
    /// When the process or device ended.
    pub ended_ms: Option<f64>,
}

const fn metric(
    name: &'static str,
    subject: MetricSubject,
    unit: Unit,
    chart: Chart,
    wire: Option<&'static str>,
    description: &'static str,
) -> MetricInfo {
    MetricInfo { name: Cow::Borrowed(name), subject, unit, chart, wire, description }
}

#[rustfmt::skip]
const METRICS: &[MetricInfo] = &[
    metric("end_to_end_ms", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.end_to_end_ms"), "Latency as seen by the caller, from the planned start to the end."),
    metric("inference_only_ms", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.inference_only_ms"), "The call into ONNX Runtime alone."),
    metric("p50", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.percentiles.p50"), "Median latency."),
    metric("p90", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.percentiles.p90"), "90th percentile of the latency."),
    metric("p95", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.percentiles.p95"), "95th percentile of the latency."),
    metric("p99", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.percentiles.p99"), "99th percentile of the latency."),
    metric("p99_9", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.percentiles.p99_9"), "99.9th percentile of the latency."),
    metric("jitter", MetricSubject::Inference, Unit::Milliseconds, Chart::Gauge, Some("latency.jitter"), "Interquartile range of the latencies."),
    metric("power_w", MetricSubject::Inference, Unit::Watts, Chart::Line, Some("energy.power_w"), "Power during the inference."),
    metric("joules", MetricSubject::Inference, Unit::Joules, Chart::Gauge, Some("energy.joules"), "Power times end-to-end time."),
    metric("inferences_per_watt", MetricSubject::Inference, Unit::None, Chart::Gauge, Some("energy.inferences_per_watt"), "1 / joules."),
    metric("flops_per_watt", MetricSubject::Inference, Unit::None, Chart::Gauge, Some("energy.flops_per_watt"), "Floating-point operations per second and watt."),
    metric("gpu_sm_occupancy", MetricSubject::Inference, Unit::Ratio, Chart::Bar, Some("hardware.gpu_sm_occupancy"), "Occupancy of the GPU's multiprocessors."),
    metric("tensor_core_usage", MetricSubject::Inference, Unit::Ratio, Chart::Bar, Some("hardware.tensor_core_usage"), "Use of the GPU's tensor cores."),
    metric("l1", MetricSubject::Inference, Unit::Ratio, Chart::Bar, Some("hardware.cache_hit_rates.l1"), "Hit rate of the L1 cache."),
    metric("l2", MetricSubject::Inference, Unit::Ratio, Chart::Bar, Some("hardware.cache_hit_rates.l2"), "Hit rate of the L2 cache."),
    metric("l3", MetricSubject::Inference, Unit::Ratio, Chart::Bar, Some("hardware.cache_hit_rates.l3"), "Hit rate of the L3 cache."),
    metric("batch_size", MetricSubject::Inference, Unit::Count, Chart::Histogram, Some("batch_context.batch_size"), "Samples in a batch."),
    metric("padding_ratio", MetricSubject::Inference, Unit::Ratio, Chart::Gauge, Some("batch_context.padding_ratio"), "Share of a batch that is padding."),
    metric("queue_depth", MetricSubject::Inference, Unit::Count, Chart::Line, Some("batch_context.queue_depth"), "Requests in the queue when this one started."),
    metric("duration_ms", MetricSubject::Operation, Unit::Milliseconds, Chart::Timeline, Some("duration_ms"), "Duration of an operator."),
    metric("cycles", MetricSubject::Operation, Unit::Count, Chart::Table, Some("cycles"), "Device cycles."),
    metric("memory_bytes", MetricSubject::Operation, Unit::Bytes, Chart::Table, Some("memory_bytes"), "Inputs, parameters and outputs of an operator."),
    metric("cpu_percent", MetricSubject::System, Unit::Percent, Chart::Line, Some("cpu_percent"), "Load of all processors."),
    metric("memory_percent", MetricSubject::System, Unit::Percent, Chart::Area, Some("memory_percent"), "Share of the physical memory in use."),
    metric("gpu_percent", MetricSubject::System, Unit::Percent, Chart::Line, Some("gpu_percent"), "Load of the busiest GPU."),
    metric("npu_percent", MetricSubject::System, Unit::Percent, Chart::Line, Some("npu_percent"), "Load of the busiest NPU."),
    metric("gpu_memory_mb", MetricSubject::System, Unit::None, Chart::Area, Some("gpu_memory_mb"), "Memory in use on all GPUs, in MB."),
    metric("process_memory_mb", MetricSubject::System, Unit::None, Chart::Area, Some("process_memory_mb"), "Resident memory of the processes with a session, in MB."),
    metric("memory_used_bytes", MetricSubject::System, Unit::Bytes, Chart::Area, None, "Physical memory in use."),
    metric("swap_used_bytes", MetricSubject::System, Unit::Bytes, Chart::Area, None, "Swap or page file in use."),
    metric("context_switches_per_second", MetricSubject::System, Unit::Hertz, Chart::Line, None, "System-wide context switches per second."),
    metric("interrupts_per_second", MetricSubject::System, Unit::Hertz, Chart::Line, None, "System-wide interrupts per second."),
    metric("process_count", MetricSubject::System, Unit::Count, Chart::Line, None, "Number of running processes."),
    metric("cpu_frequency_hertz", MetricSubject::System, Unit::Hertz, Chart::Line, None, "Mean frequency of the processors."),
    metric("latency_ns", MetricSubject::Session, Unit::Nanoseconds, Chart::Line, None, "The call into ONNX Runtime alone, for successful inferences."),
    metric("end_to_end_ns", MetricSubject::Session, Unit::Nanoseconds, Chart::Line, None, "Copying in, the call and copying out."),
    metric("response_ns", MetricSubject::Session, Unit::Nanoseconds, Chart::Line, None, "Latency from the planned start, queueing included, of open-loop inferences."),
    metric("queue_depth", MetricSubject::Session, Unit::Count, Chart::Line, None, "Requests in the queue when one started."),
    metric("failures", MetricSubject::Session, Unit::Count, Chart::Bar, None, "Failed inferences: the count of each point."),
    metric("cpu_percent", MetricSubject::Process, Unit::Percent, Chart::Line, None, "CPU time since the previous sample; 100 is one core."),
    metric("working_set_bytes", MetricSubject::Process, Unit::Bytes, Chart::Area, None, "Resident memory."),
    metric("private_bytes", MetricSubject::Process, Unit::Bytes, Chart::Area, None, "Private memory of the process."),
    metric("thread_count", MetricSubject::Process, Unit::Count, Chart::Line, None, "Number of threads."),
    metric("handle_count", MetricSubject::Process, Unit::Count, Chart::Line, None, "Open handles or file descriptors."),
    metric("read_bytes_per_second", MetricSubject::Process, Unit::Bytes, Chart::Line, None, "Bytes read per second."),
    metric("write_bytes_per_second", MetricSubject::Process, Unit::Bytes, Chart::Line, None, "Bytes written per second."),
    metric("context_switches_per_second", MetricSubject::Process, Unit::Hertz, Chart::Line, None, "Context switches of all threads per second."),
    metric("page_faults_per_second", MetricSubject::Process, Unit::Hertz, Chart::Line, None, "Page faults of all kinds per second."),
];

/// Metrics that a kind of subject has as tracks.
fn tracked(subject: MetricSubject) -> impl Iterator<Item = &'static MetricInfo> {
    METRICS.iter().filter(move |metric| {
        metric.subject == subject
            && (metric.wire.is_none() || matches!(&*metric.name, "cpu_percent" | "memory_percent"))
    })
}

/// A track that /metrics/history can return.
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

impl From<live::TrackInfo> for Track {
    fn from(info: live::TrackInfo) -> Self {
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
        for metric in tracked(MetricSubject::System) {
            add(Subject::System, &metric.name, metric.unit, None, "system_samples", "measured", first, last);
        }
    }
    let sessions = source.sessions()?;
    if tables.row_count(TableId::Inferences) > 0 {
        for row in sessions.values() {
            for metric in tracked(MetricSubject::Session) {
                let subject = Subject::Session(Text::clone(&row.session_id));
                add(
                    subject,
                    &metric.name,
                    metric.unit,
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
                devices.entry((row.device, row.metric)).or_insert((row.source, row.method.text().clone()));
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
        for metric in tracked(MetricSubject::Process) {
            let label = names.get(&(pid, start)).cloned();
            let subject = Subject::Process(process);
            add(subject, &metric.name, metric.unit, label, "process_samples", "measured", first, last);
        }
    }
    Ok(tracks)
}

pub fn catalog(app: &App, asked: &Asked) -> Result<Catalog, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let all = tracks(&source)?;
    let mut metrics = METRICS.to_vec();
    let mut sensors: Vec<&Text> = all
        .iter()
        .filter(|track| matches!(track.id.subject, Subject::Device(_)))
        .map(|track| &track.id.metric)
        .collect();
    sensors.sort();
    sensors.dedup();
    metrics.extend(sensors.into_iter().map(|metric| MetricInfo {
        name: Cow::Owned(metric.to_string()),
        subject: MetricSubject::Device,
        unit: unit_of_metric(metric),
        chart: Chart::Line,
        wire: None,
        description: "Reading of a device sensor.",
    }));
    let tracks_not_listed = all.len().saturating_sub(MAX_TRACKS) as u64;
    let info = |track: Track| TrackInfo {
        track: track.id.to_string(),
        metric: track.id.metric,
        unit: track.unit,
        label: track.label,
        origin: track.origin,
        method: track.method,
        first_ms: source.ms(track.first_ns),
        newest_ms: source.ms(track.newest_ns),
        ended_ms: track.ended_ns.map(|ended| source.ms(ended)),
    };
    let tracks = all.into_iter().take(MAX_TRACKS).map(info).collect();
    Ok(Catalog { source: source.id.clone(), metrics, tracks, tracks_not_listed })
}
