//! The newest values: `/metrics/current` and the topics of the WebSocket.

use std::collections::BTreeMap;

use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::{LatencySummary, SummaryOptions, summarize};
use ortscope_core::schema::{InferenceRow, Phase, TableId, Text};
use ortscope_core::tables::{Scan, Tables};
use ortscope_export::wire::{
    InferenceContext, InferenceRecord, LatencyFigures, Percentiles, SystemRecord, Unavailable, end_to_end_ns,
    inference_record, system_record,
};
use schemars::JsonSchema;
use serde::Serialize;

use super::control::ControlState;
use super::hello::SessionInfo;
use super::losses::OwnCost;
use super::{About, Timed};
use crate::app::{App, Asked};
use crate::data::{Newest, Source};
use crate::error::ApiError;

/// Time that a session's figures cover in a live source.
pub const WINDOW_NS: u64 = 10_000_000_000;
/// Maximum number of latencies behind a session's figures; the newest are kept.
const MAX_LATENCIES: usize = 100_000;
const MAX_SESSIONS: usize = 256;

/// The newest values. For a finished recording: at its end, or at `at_ms`.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Current {
    #[serde(flatten)]
    pub about: About,
    pub at_ms: f64,
    #[serde(flatten)]
    pub values: Values,
    pub own_cost: OwnCost,
    /// Sampling of the live source; null for recordings.
    pub control: Option<ControlState>,
}

/// The part of [`Current`] that depends on the newest readings alone.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Values {
    /// null before the first system sample.
    pub system: Option<Timed<SystemRecord>>,
    /// One per processor, in order; empty if they are not sampled (`unavailable` has "cores").
    pub cores: Vec<CoreLoad>,
    pub sessions: Vec<SessionNow>,
    pub devices: Vec<DeviceValue>,
    pub memory: MemoryNow,
    pub energy: EnergyNow,
    /// Number of lost records of all kinds; GET /losses has the kinds.
    pub lost: u64,
    pub unavailable: Unavailable,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CoreLoad {
    pub core: u32,
    pub busy_percent: f64,
}

/// The newest reading of a sensor.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DeviceValue {
    /// E.g. "gpu0", "npu0", "package-0", "cpu3".
    pub device: Text,
    /// E.g. "utilization_ratio"; the name ends with the unit.
    pub metric: Text,
    pub value: f64,
    pub t_ms: f64,
    pub age_ms: f64,
    /// Source of the reading, e.g. "nvml", "rapl", "process-sampler".
    pub origin: Text,
    /// measured, attributed or estimated.
    pub method: Text,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MemoryNow {
    pub used_bytes: Option<u64>,
    pub total_bytes: Option<u64>,
    pub swap_used_bytes: Option<u64>,
    /// Resident memory of the processes with a session; null if none was sampled.
    pub sessions_bytes: Option<u64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct EnergyNow {
    pub power_w: Option<f64>,
    pub joules_per_inference: Option<f64>,
    pub inferences_per_watt: Option<f64>,
    pub flops_per_watt: Option<f64>,
    /// Reading of the hottest sensor.
    pub temperature_celsius: Option<f64>,
    /// null if no source reports throttling.
    pub throttled: Option<bool>,
    pub unavailable: Unavailable,
}

/// A session over the last seconds (live: 10 s; recordings: the range).
#[derive(Debug, Serialize, JsonSchema)]
pub struct SessionNow {
    #[serde(flatten)]
    pub info: SessionInfo,
    /// Newest inference; null before the first.
    pub newest: Option<Timed<InferenceRecord>>,
    /// Seconds that the figures cover.
    pub window_seconds: f64,
    pub inferences: u64,
    pub failures: u64,
    pub requests_per_second: Option<f64>,
    /// Batch size × requests per second: the frame rate of a vision model. null without a batch size.
    pub samples_per_second: Option<f64>,
    /// Duration of the call into ONNX Runtime. If null, `unavailable` has the required number of inferences.
    pub latency_ms: Percentiles,
    pub jitter_ms: Option<f64>,
    /// Median time to the first token; null for models without one.
    pub first_token_ms: Option<f64>,
    pub queue_depth: Option<u64>,
    pub batch_size: Option<u64>,
    pub unavailable: Unavailable,
}

pub fn current(app: &App, asked: &Asked) -> Result<Current, ApiError> {
    let source = app.sources.of(&asked.params)?;
    let at_ns = match asked.params.number("at_ms")? {
        None => source.last_ns,
        Some(_) if source.live().is_some() => {
            return Err(ApiError::contradiction(
                "at_ms",
                "is for recordings; /metrics/history has the past of live",
            ));
        }
        Some(at) => source.ns(at).clamp(source.first_ns, source.last_ns),
    };
    let values = match source.live() {
        Some(live) => {
            let window = (at_ns.saturating_sub(WINDOW_NS), at_ns.saturating_add(1));
            let gathered = SessionFigures::gather(source.tables(), window)?;
            live.recent.newest(|newest| Values::new(&source, newest, &gathered, at_ns))
        }
        None => {
            let newest = Newest::at(source.tables(), at_ns)?;
            let window = (source.first_ns, at_ns.saturating_add(1));
            Values::new(&source, &newest, &SessionFigures::gather(source.tables(), window)?, at_ns)
        }
    };
    Ok(Current {
        about: About::new(&source, (source.first_ns, source.last_ns)),
        at_ms: source.ms(at_ns),
        values,
        own_cost: OwnCost::now(app, &source),
        control: source.live().map(ControlState::of),
    })
}

impl Values {
    fn new(source: &Source, newest: &Newest, gathered: &SessionFigures, at_ns: u64) -> Self {
        let sessions = gathered.shown(source, newest);
        let system = system(source, newest);
        let cores = cores(newest);
        let mut unavailable = Unavailable::default();
        if system.is_none() {
            unavailable.insert("system", "the machine was not sampled at this time");
        }
        if cores.is_empty() {
            unavailable.insert("cores", "the load of single processors was not sampled");
        }
        if sessions.is_empty() {
            let reason = newest.reasons.why("inferences", at_ns).unwrap_or(
                "no session of ONNX Runtime was seen; run a program under `ortscope record` or with the Python package",
            );
            unavailable.insert("sessions", reason);
        }
        Self {
            system,
            cores,
            devices: device_values(source, newest, at_ns),
            memory: MemoryNow::new(newest, at_ns),
            energy: EnergyNow::new(newest, &sessions, at_ns),
            sessions,
            lost: newest.lost_total(),
            unavailable,
        }
    }
}

pub fn system(source: &Source, newest: &Newest) -> Option<Timed<SystemRecord>> {
    let row = newest.system.as_ref()?;
    let memory = newest.session_memory(row.timestamp_ns);
    let record = system_record(row, &newest.sensors, memory, &newest.reasons);
    Some(Timed { record, t_ms: source.ms(row.timestamp_ns) })
}

/// The load of each processor.
pub fn cores(newest: &Newest) -> Vec<CoreLoad> {
    let mut cores: Vec<CoreLoad> = newest
        .devices
        .iter()
        .filter(|((_, metric), _)| &**metric == "busy_ratio")
        .filter_map(|((device, _), reading)| {
            let core = device.strip_prefix("cpu")?.parse().ok()?;
            Some(CoreLoad { core, busy_percent: reading.value * 100.0 })
        })
        .collect();
    cores.sort_unstable_by_key(|load| load.core);
    cores
}

/// The newest readings of all sensors except single processors and our own cost.
pub fn device_values(source: &Source, newest: &Newest, now_ns: u64) -> Vec<DeviceValue> {
    let is_shown = |device: &str, metric: &str| metric != "busy_ratio" && !device.starts_with("ortscope");
    newest
        .devices
        .iter()
        .filter(|((device, metric), _)| is_shown(device, metric))
        .map(|((device, metric), reading)| DeviceValue {
            device: Text::clone(device),
            metric: Text::clone(metric),
            value: reading.value,
            t_ms: source.ms(reading.time_ns),
            age_ms: now_ns.saturating_sub(reading.time_ns) as f64 / 1e6,
            origin: Text::clone(&reading.source),
            method: Text::clone(&reading.method),
        })
        .collect()
}

impl MemoryNow {
    pub fn new(newest: &Newest, at_ns: u64) -> Self {
        let system = newest.system.as_ref();
        Self {
            used_bytes: system.and_then(|row| row.memory_used_bytes),
            total_bytes: system.and_then(|row| row.memory_total_bytes),
            swap_used_bytes: system.and_then(|row| row.swap_used_bytes),
            sessions_bytes: newest.session_memory(at_ns),
        }
    }
}

impl EnergyNow {
    /// Current power and the resulting energy of an inference.
    pub fn new(newest: &Newest, sessions: &[SessionNow], at_ns: u64) -> Self {
        let power_w = newest.sensors.power_w(at_ns);
        let median_ms = sessions.iter().filter_map(|session| session.latency_ms.p50).reduce(f64::max);
        let joules = power_w.zip(median_ms).map(|(power, ms)| power * ms / 1e3);
        let temperature_celsius = newest
            .devices
            .iter()
            .filter(|((_, metric), _)| metric.ends_with("temperature_celsius"))
            .map(|(_, reading)| reading.value)
            .reduce(f64::max);
        let mut unavailable = Unavailable::default();
        let mut missing = |field: &str, is_there: bool, otherwise: &str| {
            if !is_there {
                let reason = newest.reasons.why(&format!("energy.{field}"), at_ns).unwrap_or(otherwise);
                unavailable.insert(field, reason);
            }
        };
        let no_power = "nothing measures power here; `ortscope doctor` lists the options";
        let no_energy = if power_w.is_none() { no_power } else { "no inference was seen" };
        missing("power_w", power_w.is_some(), no_power);
        missing("joules_per_inference", joules.is_some(), no_energy);
        missing("inferences_per_watt", joules.is_some(), no_energy);
        missing("flops_per_watt", false, if power_w.is_none() { no_power } else { "see /energy" });
        missing("temperature_celsius", temperature_celsius.is_some(), "no temperature sensor was read");
        missing("throttled", false, "no source reports throttling");
        Self {
            power_w,
            joules_per_inference: joules,
            inferences_per_watt: joules.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules),
            flops_per_watt: None,
            temperature_celsius,
            throttled: None,
            unavailable,
        }
    }
}

/// Running totals of one session.
#[derive(Debug, Default)]
struct Gathered {
    latencies: Vec<u64>,
    first_tokens: Vec<u64>,
    inferences: u64,
    failures: u64,
    samples: u64,
    has_batches: bool,
    first_ns: u64,
    end_ns: u64,
    newest: Option<InferenceRow>,
}

impl Gathered {
    fn add(&mut self, row: InferenceRow) {
        if self.inferences == 0 || row.timestamp_ns < self.first_ns {
            self.first_ns = row.timestamp_ns;
        }
        self.inferences += 1;
        self.end_ns = self.end_ns.max(row.timestamp_ns.saturating_add(row.run_ns));
        if let Some(size) = row.batch_size {
            self.has_batches = true;
            self.samples = self.samples.saturating_add(size);
        }
        if !row.ok {
            self.failures += 1;
        } else {
            match row.phase.known() {
                Some(Phase::Prefill) => self.first_tokens.push(end_to_end_ns(&row)),
                // Cold, or slower because of the profiler.
                Some(Phase::First | Phase::Profiled) => {}
                _ => self.latencies.push(row.run_ns),
            }
        }
        if self.latencies.len() > MAX_LATENCIES {
            self.latencies.drain(..MAX_LATENCIES / 2);
        }
        if self.newest.as_ref().is_none_or(|newest| newest.timestamp_ns <= row.timestamp_ns) {
            self.newest = Some(row);
        }
    }
}

/// Each session over a window. Gathering is slow and needs no lock; showing is fast.
#[derive(Debug, Default)]
pub struct SessionFigures(BTreeMap<Text, (Gathered, Option<LatencySummary>)>);

impl SessionFigures {
    pub fn gather(tables: &dyn Tables, (from_ns, to_ns): (u64, u64)) -> Result<Self, ApiError> {
        let mut gathered: BTreeMap<Text, Gathered> = BTreeMap::new();
        let scan = Scan { from_ns: Some(from_ns), to_ns: Some(to_ns), ..Scan::all() };
        for batch in tables.scan(TableId::Inferences, &scan) {
            for row in batch?.rows::<InferenceRow>() {
                if gathered.len() >= MAX_SESSIONS && !gathered.contains_key(&row.session_id) {
                    continue;
                }
                gathered.entry(Text::clone(&row.session_id)).or_default().add(row);
            }
        }
        let with_summary = |(id, mut of): (Text, Gathered)| {
            of.first_tokens.sort_unstable();
            let summary = summarize(&of.latencies, SummaryOptions { warm_up: WarmUpChoice::Keep });
            (id, (of, summary))
        };
        Ok(Self(gathered.into_iter().map(with_summary).collect()))
    }

    /// All known sessions, including those without inferences in the window.
    pub fn shown(&self, source: &Source, newest: &Newest) -> Vec<SessionNow> {
        let silent = (Gathered::default(), None);
        let mut sessions: BTreeMap<&Text, &(Gathered, Option<LatencySummary>)> = self.0.iter().collect();
        for id in newest.sessions.keys().take(MAX_SESSIONS) {
            sessions.entry(id).or_insert(&silent);
        }
        let each = sessions.into_iter();
        each.map(|(id, (of, summary))| session_now(source, newest, id, of, summary.as_ref())).collect()
    }
}

fn session_now(
    source: &Source,
    newest: &Newest,
    id: &Text,
    of: &Gathered,
    summary: Option<&LatencySummary>,
) -> SessionNow {
    let row = newest.sessions.get(id);
    let passed = if source.live().is_some() {
        // Until now, so that the rate of a session that has stopped falls to zero.
        source.last_ns.saturating_sub(of.first_ns).min(WINDOW_NS)
    } else {
        of.end_ns.saturating_sub(of.first_ns)
    };
    let seconds = passed as f64 / 1e9;
    let rate = |count: u64| (of.inferences > 0 && seconds > 0.0).then(|| count as f64 / seconds);
    let figures = summary.map(LatencyFigures::from).unwrap_or_default();
    let mut unavailable = Unavailable::default();
    for (name, runs) in &figures.needs_runs {
        unavailable.insert(format!("latency_ms.{name}"), format!("needs at least {runs} inferences"));
    }
    if summary.is_none() {
        unavailable.insert("latency_ms", "no inference was seen in this time");
    }
    let first_token = of.first_tokens.get(of.first_tokens.len() / 2).map(|nanos| *nanos as f64 / 1e6);
    if first_token.is_none() {
        unavailable.insert("first_token_ms", "no first token was seen: only decoder models have one");
    }
    if !of.has_batches {
        unavailable.insert("samples_per_second", "the inputs have no batch dimension");
    }
    let record = of.newest.as_ref().map(|inference| {
        let context = InferenceContext {
            model_name: row.map(|row| &*row.model_name),
            figures: Some(&figures),
            sensors: &newest.sensors,
            flops: None,
            padding_ratio: None,
            reasons: &newest.reasons,
        };
        Timed { record: inference_record(inference, &context), t_ms: source.ms(inference.timestamp_ns) }
    });
    SessionNow {
        info: row.map_or_else(|| SessionInfo::unknown(id), SessionInfo::of),
        newest: record,
        window_seconds: seconds,
        inferences: of.inferences,
        failures: of.failures,
        requests_per_second: rate(of.inferences),
        samples_per_second: rate(of.samples).filter(|_| of.has_batches),
        latency_ms: figures.percentiles,
        jitter_ms: figures.jitter,
        first_token_ms: first_token,
        queue_depth: of.newest.as_ref().and_then(|row| row.queue_depth),
        batch_size: of.newest.as_ref().and_then(|row| row.batch_size),
        unavailable,
    }
}
