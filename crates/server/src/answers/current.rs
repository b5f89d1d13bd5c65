//! The newest of everything: `/metrics/current` and the topics of the WebSocket.

use std::collections::BTreeMap;

use ortscope_analyze::summary::WarmUpChoice;
use ortscope_analyze::{LatencySummary, SummaryOptions, summarize};
use ortscope_core::schema::{InferenceRow, Phase, TableId, Text};
use ortscope_core::tables::{Scan, Tables};
use ortscope_export::wire::{
    InferenceContext, LatencyFigures, end_to_end_ns, inference_record, system_record,
};
use serde_json::{Value, json};

use super::control::state_json;
use super::hello::SessionInfo;
use super::losses::own_cost;
use super::{Answer, about, number, optional, with_time};
use crate::app::{App, Asked};
use crate::data::{Newest, Source};
use crate::error::ApiError;

/// What a session's figures cover in a live source.
pub const WINDOW_NS: u64 = 10_000_000_000;
/// Latencies of a session that its figures are made of, the newest.
const MAX_LATENCIES: usize = 100_000;
const MAX_SESSIONS: usize = 256;

pub fn current(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
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
    let mut parts = match source.live() {
        Some(live) => {
            let window = (at_ns.saturating_sub(WINDOW_NS), at_ns.saturating_add(1));
            let gathered = SessionFigures::gather(source.tables(), window)?;
            live.recent.newest(|newest| parts(&source, newest, &gathered, at_ns))
        }
        None => {
            let newest = Newest::at(source.tables(), at_ns)?;
            let window = (source.first_ns, at_ns.saturating_add(1));
            parts(&source, &newest, &SessionFigures::gather(source.tables(), window)?, at_ns)
        }
    };
    let mut answer = about(&source, (source.first_ns, source.last_ns));
    answer.insert("at_ms".into(), number(source.ms(at_ns)));
    if let Value::Object(parts) = &mut parts {
        answer.append(parts);
    }
    answer.insert("own_cost".into(), own_cost(app, &source));
    let control = source.live().map(|live| state_json(&live.control.state()));
    answer.insert("control".into(), control.unwrap_or_default());
    Answer::json(&answer)
}

fn parts(source: &Source, newest: &Newest, gathered: &SessionFigures, at_ns: u64) -> Value {
    let sessions = gathered.shown(source, newest);
    let mut unavailable: BTreeMap<&str, String> = BTreeMap::new();
    let cores = cores(newest);
    if newest.system.is_none() {
        unavailable.insert("system", "the machine was not sampled at this time".into());
    }
    if cores.is_empty() {
        unavailable.insert("cores", "the load of single processors was not sampled".into());
    }
    if sessions.is_empty() {
        let reason = newest.reasons.why("inferences", at_ns).unwrap_or(
            "no session of ONNX Runtime was seen; run a program under `ortscope record` or with the Python package",
        );
        unavailable.insert("sessions", reason.into());
    }
    json!({
        "system": system(source, newest),
        "cores": cores,
        "sessions": sessions,
        "devices": device_values(source, newest, at_ns),
        "memory": memory(newest, at_ns),
        "energy": energy(newest, &sessions, at_ns),
        "lost": newest.lost_total(),
        "unavailable": unavailable,
    })
}

pub fn system(source: &Source, newest: &Newest) -> Value {
    let Some(row) = &newest.system else { return Value::Null };
    let memory = newest.session_memory(row.timestamp_ns);
    let record = system_record(row, &newest.sensors, memory, &newest.reasons);
    with_time(&record, source.ms(row.timestamp_ns))
}

/// The load of each processor.
pub fn cores(newest: &Newest) -> Vec<Value> {
    let mut cores: Vec<(u32, f64)> = newest
        .devices
        .iter()
        .filter(|((_, metric), _)| &**metric == "busy_ratio")
        .filter_map(|((device, _), reading)| Some((device.strip_prefix("cpu")?.parse().ok()?, reading.value)))
        .collect();
    cores.sort_unstable_by_key(|(core, _)| *core);
    cores.iter().map(|(core, ratio)| json!({ "core": core, "busy_percent": number(ratio * 100.0) })).collect()
}

/// Sensors, without the single processors and our own cost.
pub fn device_values(source: &Source, newest: &Newest, now_ns: u64) -> Vec<Value> {
    let is_shown = |device: &str, metric: &str| metric != "busy_ratio" && !device.starts_with("ortscope");
    newest
        .devices
        .iter()
        .filter(|((device, metric), _)| is_shown(device, metric))
        .map(|((device, metric), reading)| {
            json!({
                "device": device,
                "metric": metric,
                "value": number(reading.value),
                "t_ms": number(source.ms(reading.time_ns)),
                "age_ms": number(now_ns.saturating_sub(reading.time_ns) as f64 / 1e6),
                "origin": reading.source,
                "method": reading.method,
            })
        })
        .collect()
}

pub fn memory(newest: &Newest, at_ns: u64) -> Value {
    let system = newest.system.as_ref();
    json!({
        "used_bytes": system.and_then(|row| row.memory_used_bytes),
        "total_bytes": system.and_then(|row| row.memory_total_bytes),
        "swap_used_bytes": system.and_then(|row| row.swap_used_bytes),
        "sessions_bytes": newest.session_memory(at_ns),
    })
}

/// Power now, and what that means for an inference.
pub fn energy(newest: &Newest, sessions: &[Value], at_ns: u64) -> Value {
    let power = newest.sensors.power_w(at_ns);
    let median_ms =
        sessions.iter().filter_map(|session| session["latency_ms"]["p50"].as_f64()).reduce(f64::max);
    let joules = power.zip(median_ms).map(|(power, ms)| power * ms / 1e3);
    let temperature = newest
        .devices
        .iter()
        .filter(|((_, metric), _)| metric.ends_with("temperature_celsius"))
        .map(|(_, reading)| reading.value)
        .reduce(f64::max);
    let mut unavailable: BTreeMap<&str, String> = BTreeMap::new();
    let mut missing = |field: &'static str, is_there: bool, otherwise: &str| {
        if !is_there {
            let reason = newest.reasons.why(&format!("energy.{field}"), at_ns).unwrap_or(otherwise);
            unavailable.insert(field, reason.to_owned());
        }
    };
    let no_power = "nothing measures power here; `ortscope doctor` says what would";
    missing("power_w", power.is_some(), no_power);
    missing(
        "joules_per_inference",
        joules.is_some(),
        if power.is_none() { no_power } else { "no inference was seen" },
    );
    missing(
        "inferences_per_watt",
        joules.is_some(),
        if power.is_none() { no_power } else { "no inference was seen" },
    );
    missing("flops_per_watt", false, if power.is_none() { no_power } else { "see /energy" });
    missing("temperature_celsius", temperature.is_some(), "no thermometer was read");
    missing("throttled", false, "no source tells of throttling");
    json!({
        "power_w": optional(power),
        "joules_per_inference": optional(joules),
        "inferences_per_watt": optional(joules.filter(|joules| *joules > 0.0).map(|joules| 1.0 / joules)),
        "flops_per_watt": null,
        "temperature_celsius": optional(temperature),
        "throttled": null,
        "unavailable": unavailable,
    })
}

/// What is gathered of one session.
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

/// Each session over a window. Gathering takes time and needs no lock; showing takes none.
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

    /// All sessions that are known, those that were silent in the window too.
    pub fn shown(&self, source: &Source, newest: &Newest) -> Vec<Value> {
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
) -> Value {
    let row = newest.sessions.get(id);
    let info = row.map_or_else(|| SessionInfo::unknown(id), SessionInfo::of);
    let passed = if source.live().is_some() {
        // Until now: a session that has stopped slows down to nothing.
        source.last_ns.saturating_sub(of.first_ns).min(WINDOW_NS)
    } else {
        of.end_ns.saturating_sub(of.first_ns)
    };
    let seconds = passed as f64 / 1e9;
    let rate = |count: u64| (of.inferences > 0 && seconds > 0.0).then(|| count as f64 / seconds);
    let figures = summary.map(LatencyFigures::from).unwrap_or_default();
    let mut unavailable: BTreeMap<String, String> = BTreeMap::new();
    for (name, runs) in &figures.needs_runs {
        unavailable.insert(format!("latency_ms.{name}"), format!("needs at least {runs} inferences"));
    }
    if summary.is_none() {
        unavailable.insert("latency_ms".into(), "no inference was seen in this time".into());
    }
    let first_token = of.first_tokens.get(of.first_tokens.len() / 2).map(|nanos| *nanos as f64 / 1e6);
    if first_token.is_none() {
        unavailable
            .insert("first_token_ms".into(), "no first token was seen: only decoder models have one".into());
    }
    if !of.has_batches {
        unavailable.insert("samples_per_second".into(), "the inputs have no batch dimension".into());
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
        with_time(&inference_record(inference, &context), source.ms(inference.timestamp_ns))
    });
    let mut answer = serde_json::to_value(&info).unwrap_or_default();
    let figures = json!({
        "newest": record,
        "window_seconds": number(seconds),
        "inferences": of.inferences,
        "failures": of.failures,
        "requests_per_second": optional(rate(of.inferences)),
        "samples_per_second": optional(rate(of.samples).filter(|_| of.has_batches)),
        "latency_ms": figures.percentiles,
        "jitter_ms": figures.jitter,
        "first_token_ms": optional(first_token),
        "queue_depth": of.newest.as_ref().and_then(|row| row.queue_depth),
        "batch_size": of.newest.as_ref().and_then(|row| row.batch_size),
        "unavailable": unavailable,
    });
    if let (Value::Object(answer), Value::Object(mut figures)) = (&mut answer, figures) {
        answer.append(&mut figures);
    }
    answer
}
