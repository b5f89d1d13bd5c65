//! Samples of processes for Python: taken in Rust threads, kept in bounded memory, fetched in one piece.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use ortscope_core::batch::Batch;
use ortscope_core::clock::now_ns;
use ortscope_core::config::UseCase;
use ortscope_core::metric::Availability;
use ortscope_core::pipeline::Source as _;
use ortscope_core::pipeline::{FlushError, Pipeline, RunningPipeline, Sink, SinkError};
use ortscope_core::schema::{
    AnnotationRow, ColumnData, ProcessRow, ProcessSampleRow, Row as _, SystemSampleRow, TableId,
    UnavailabilityRow,
};
use ortscope_sources::kernel::TraceOptions;
use ortscope_sources::sampler::{OwnCostHandle, ProcessSampler, SamplerOptions, Targets};
use ortscope_sources::{KernelSource, ProcessMilli};
use pyo3::prelude::*;
use serde_json::{Map, Value, json};

use crate::{errors, etw};

/// Ended processes whose last sample is kept.
const MAX_PROCESSES: usize = 16_384;
/// Reasons and notes that are kept.
const MAX_NOTES: usize = 100;
/// Maximum number of ended processes that are still reported, the last ones.
const MAX_ENDED: usize = 100;

const EVENT_WINDOW_NS: u64 = 100_000_000;

type Identity = (u64, u64);

#[derive(Debug, Default)]
struct Kept {
    /// New samples since the last fetch; the oldest are dropped when full.
    fresh: VecDeque<(ProcessSampleRow, Option<f64>)>,
    room: usize,
    dropped: u64,
    /// Ticks seen, and when the last was.
    ticks: (u64, u64),
    latest: HashMap<Identity, (ProcessSampleRow, Option<f64>)>,
    /// The last sample of processes that have ended.
    ended: VecDeque<(Identity, (ProcessSampleRow, Option<f64>))>,
    facts: HashMap<Identity, ProcessRow>,
    system: Option<SystemSampleRow>,
    unavailable: BTreeMap<String, (String, Option<String>)>,
    notes: VecDeque<String>,
    /// CPU use as the kernel's own events have it, by process id.
    events: HashMap<u64, EventUse>,
}

/// CPU use of a process from kernel events, in windows of [`EVENT_WINDOW_NS`].
#[derive(Debug, Default)]
struct EventUse {
    window_from_ns: u64,
    used_ns: u64,
    /// Of the last window that is complete.
    percent: Option<f64>,
    /// It has not run since.
    idle_since_ns: Option<u64>,
}

#[derive(Debug, Clone, Default)]
struct Samples(Arc<Mutex<Kept>>);

/// A sampler that runs until it is stopped.
#[pyclass(frozen, module = "ortscope._native")]
#[derive(Debug)]
pub struct ProcessSampling {
    running: Mutex<Option<RunningPipeline>>,
    samples: Samples,
    cost: OwnCostHandle,
    backend: String,
    started: Instant,
    pid: u32,
}

#[pymethods]
impl ProcessSampling {
    #[new]
    #[pyo3(signature = (pids, names, hertz, room, max_processes, exclude_system,
         overhead_limit_percent, threads=false, events=false, etw=None))]
    #[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
    fn new(
        pids: Vec<u32>,
        names: Vec<String>,
        hertz: f64,
        room: usize,
        max_processes: usize,
        exclude_system: bool,
        overhead_limit_percent: f64,
        threads: bool,
        events: bool,
        etw: Option<etw::Arguments>,
    ) -> PyResult<Self> {
        let watched: HashSet<u32> = pids.iter().copied().collect();
        let mut options = SamplerOptions {
            targets: Targets { pids, names, ..Targets::default() },
            threads,
            max_processes,
            overhead_limit_percent,
            ..SamplerOptions::default()
        };
        options.exclude.system_processes = exclude_system;
        options.rates.cpu_hertz = hertz;
        options.rates.memory_hertz = hertz;
        options.rates.io_hertz = Some(hertz.min(10.0));
        options.rates.system_hertz = hertz.min(10.0);
        let sampler = ProcessSampler::with_options(options).map_err(errors::monitor)?;
        let (cost, mut backend) = (sampler.own_cost(), sampler.backend_name().to_owned());
        let samples = Samples::default();
        samples.lock().room = room.clamp(1, 10_000_000);
        let mut pipeline = Pipeline::default().source(sampler).sink(samples.clone());
        // If requested by name it is required; otherwise the sampler is enough.
        let must = etw.is_some();
        if events || must {
            let options =
                TraceOptions { etw: etw.map(etw::settings).transpose()?, ..TraceOptions::default() };
            match kernel_events(options, watched, &samples) {
                Ok(source) => {
                    pipeline = pipeline.source(source);
                    backend = format!("kernel events for CPU use, {backend} for the rest");
                }
                Err((why, hint)) if must => {
                    return Err(errors::monitor(format!("{why}; hint: {}", hint.unwrap_or_default())));
                }
                Err(reason) => {
                    samples.lock().unavailable.insert("cpu_percent from kernel events".to_owned(), reason);
                }
            }
        }
        let running = pipeline.start().map_err(errors::monitor)?;
        Ok(Self {
            running: Mutex::new(Some(running)),
            samples,
            cost,
            backend,
            started: Instant::now(),
            pid: std::process::id(),
        })
    }

    #[getter]
    fn backend(&self) -> &str {
        &self.backend
    }

    /// Samples since the last call, as JSON.
    fn fresh(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let taken = std::mem::take(&mut self.samples.lock().fresh);
            Value::Array(taken.iter().map(|(row, percent)| sample(row, *percent)).collect()).to_string()
        })
    }

    /// The last sample of every process with its identity, as JSON; a process requested by id may have ended.
    #[pyo3(signature = (pid=None))]
    fn latest(&self, py: Python<'_>, pid: Option<u64>) -> String {
        py.detach(|| {
            let kept = self.samples.lock();
            let ended = kept.ended.iter().filter(|_| pid.is_some()).map(|(identity, last)| (identity, last));
            // Those that live come last: an id may have been used again.
            let mut all: Vec<Value> = ended
                .chain(&kept.latest)
                .filter(|((known, _), _)| pid.is_none_or(|pid| pid == *known))
                .map(|(identity, (row, percent))| {
                    let mut value = sample(row, kept.event_percent(identity.0).or(*percent));
                    if let (Some(facts), Some(object)) = (kept.facts.get(identity), value.as_object_mut()) {
                        object.insert("name".into(), (&*facts.name).into());
                        object.insert("parent_pid".into(), facts.parent_pid.into());
                        object.insert("session_id".into(), facts.os_session.into());
                        object.insert("create_time_unix_ns".into(), facts.create_time_unix_ns.into());
                        object.insert("command_line".into(), facts.command_line.as_deref().into());
                        object.insert("exited".into(), (&*facts.event == "exited").into());
                        object.insert("exit_code".into(), facts.exit_code.into());
                        if &*facts.event == "exited" {
                            object.insert("exit_time_ns".into(), facts.timestamp_ns.into());
                        }
                    }
                    value
                })
                .collect();
            all.sort_by_key(|value| value["pid"].as_u64());
            Value::Array(all).to_string()
        })
    }

    /// The machine, the cost of sampling, drops and unavailable values, as JSON.
    fn statistics(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let kept = self.samples.lock();
            let cost = self.cost.get();
            let seconds = self.started.elapsed().as_secs_f64();
            let unavailable: BTreeMap<&String, Value> = kept
                .unavailable
                .iter()
                .map(|(track, (reason, hint))| (track, json!({"reason": reason, "hint": hint})))
                .collect();
            json!({
                "seconds": seconds,
                "ticks": kept.ticks.0,
                "process_samples": cost.process_samples,
                "asked_hertz": cost.asked_hertz,
                "rate_hertz": cost.rate_hertz,
                "cpu_ratio": cost.cpu_ratio,
                "memory_bytes": cost.memory_bytes,
                "late_ticks": cost.late_ticks,
                "skipped_ticks": cost.skipped_ticks,
                "dropped": kept.dropped,
                "processes": kept.latest.len(),
                "system": kept.system.as_ref().map(|row| json!({
                    "timestamp_ns": row.timestamp_ns,
                    "cpu_percent": row.cpu_percent,
                    "memory_used_bytes": row.memory_used_bytes,
                    "memory_total_bytes": row.memory_total_bytes,
                })),
                "unavailable": unavailable,
                "notes": kept.notes,
            })
            .to_string()
        })
    }

    fn stop(&self, py: Python<'_>) -> Vec<String> {
        if self.pid != std::process::id() {
            return Vec::new();
        }
        let Some(running) = self.running.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Vec::new();
        };
        py.detach(|| {
            running.control().stop();
            running
                .join()
                .source_errors
                .into_iter()
                .map(|(place, error)| format!("{place}: {error}"))
                .collect()
        })
    }
}

impl Drop for ProcessSampling {
    /// The threads end by themselves; in a child of `fork` there are none.
    fn drop(&mut self) {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(running) = running {
            if self.pid == std::process::id() {
                running.control().stop();
            } else {
                std::mem::forget(running);
            }
        }
    }
}

/// A row as JSON, by the names of the schema.
fn sample(row: &ProcessSampleRow, cpu_percent: Option<f64>) -> Value {
    let mut batch = Batch::new(ProcessSampleRow::TABLE);
    batch.push(row);
    let mut fields = Map::new();
    for (definition, column) in ProcessSampleRow::TABLE.def().columns.iter().zip(batch.columns()) {
        let value = match &column.data {
            _ if !column.has_value(0) => Value::Null,
            ColumnData::U64(values) => values[0].into(),
            ColumnData::I64(values) => values[0].into(),
            ColumnData::F64(values) => values[0].into(),
            ColumnData::Bool(values) => values[0].into(),
            ColumnData::Text(values) => (&*values[0]).into(),
        };
        fields.insert(definition.name.into(), value);
    }
    fields.insert("cpu_percent".into(), cpu_percent.into());
    Value::Object(fields)
}

impl Samples {
    fn lock(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kernel's events of these processes; or why they cannot be had, and what to do.
fn kernel_events(
    options: TraceOptions,
    watched: HashSet<u32>,
    samples: &Samples,
) -> Result<KernelSource, (String, Option<String>)> {
    if watched.is_empty() {
        return Err((
            "events need processes by their ids".to_owned(),
            Some("name them in target_processes".to_owned()),
        ));
    }
    let kept = samples.clone();
    let on_milli = Box::new(move |milli: ProcessMilli| kept.lock().milli(&milli));
    let mut source = KernelSource::new(options, Some(watched)).with_millis(on_milli);
    match source.probe() {
        Availability::Unavailable { why, hint } => Err((why, Some(hint).filter(|hint| !hint.is_empty()))),
        _ => Ok(source),
    }
}

impl Kept {
    /// The kernel reported the CPU use of a process in a millisecond.
    fn milli(&mut self, milli: &ProcessMilli) {
        let pid = u64::from(milli.pid);
        if self.events.len() >= MAX_PROCESSES && !self.events.contains_key(&pid) {
            return;
        }
        let of = self.events.entry(pid).or_default();
        let since = milli.from_ns.saturating_sub(of.window_from_ns);
        if of.window_from_ns == 0 {
            of.window_from_ns = milli.from_ns;
        } else if since >= EVENT_WINDOW_NS {
            of.percent = Some(of.used_ns as f64 / since as f64 * 100.0);
            of.window_from_ns = milli.from_ns;
            of.used_ns = 0;
        }
        of.used_ns += u64::from(milli.used_ns);
        of.idle_since_ns = (milli.used_ns == 0).then_some(milli.from_ns);
    }

    /// CPU use from events, if there are any of this process.
    fn event_percent(&self, pid: u64) -> Option<f64> {
        let of = self.events.get(&pid)?;
        match of.idle_since_ns {
            Some(since) if now_ns().saturating_sub(since) > 3 * EVENT_WINDOW_NS => Some(0.0),
            _ => of.percent,
        }
    }

    fn add(&mut self, row: ProcessSampleRow) {
        if row.timestamp_ns != self.ticks.1 {
            self.ticks = (self.ticks.0 + 1, row.timestamp_ns);
        }
        let identity = (row.pid, row.process_start);
        let percent = self.latest.get(&identity).and_then(|(before, known)| {
            let time = row.timestamp_ns.saturating_sub(before.timestamp_ns);
            // A tick of another group repeats the last reading.
            if time == 0 {
                return *known;
            }
            Some(row.cpu_time_ns.saturating_sub(before.cpu_time_ns) as f64 / time as f64 * 100.0)
        });
        let percent = self.event_percent(row.pid).or(percent);
        if self.facts.get(&identity).is_some_and(|facts| &*facts.event == "exited") {
            // Taken before it ended, delivered after.
            self.keep_ended(identity, (row.clone(), percent));
        } else if self.latest.len() < MAX_PROCESSES || self.latest.contains_key(&identity) {
            self.latest.insert(identity, (row.clone(), percent));
        }
        if self.fresh.len() >= self.room {
            self.fresh.pop_front();
            self.dropped += 1;
        }
        self.fresh.push_back((row, percent));
    }

    fn keep_ended(&mut self, identity: Identity, last: (ProcessSampleRow, Option<f64>)) {
        self.ended.retain(|(known, _)| *known != identity);
        if self.ended.len() >= MAX_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((identity, last));
    }
}

impl Sink for Samples {
    fn name(&self) -> &str {
        "python"
    }

    fn consume(&mut self, batch: &Batch) -> Result<(), SinkError> {
        let mut kept = self.lock();
        match batch.table() {
            TableId::ProcessSamples => batch.rows::<ProcessSampleRow>().for_each(|row| kept.add(row)),
            TableId::Processes => {
                for row in batch.rows::<ProcessRow>() {
                    let identity = (row.pid, row.process_start);
                    let exited = &*row.event == "exited";
                    if exited && let Some(last) = kept.latest.remove(&identity) {
                        kept.keep_ended(identity, last);
                    }
                    if kept.facts.len() < MAX_PROCESSES || kept.facts.contains_key(&identity) {
                        kept.facts.insert(identity, row);
                    }
                }
            }
            TableId::SystemSamples => kept.system = batch.rows::<SystemSampleRow>().last(),
            TableId::Unavailability => {
                for row in batch.rows::<UnavailabilityRow>() {
                    if kept.unavailable.len() < MAX_NOTES {
                        let hint = row.hint.map(|hint| hint.to_string());
                        kept.unavailable.insert(row.track.to_string(), (row.reason.to_string(), hint));
                    }
                }
            }
            TableId::Annotations => {
                for row in batch.rows::<AnnotationRow>() {
                    if kept.notes.len() >= MAX_NOTES {
                        kept.notes.pop_front();
                    }
                    kept.notes.push_back(row.text.to_string());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn flush(&mut self, _deadline: Instant) -> Result<(), FlushError> {
        Ok(())
    }
}

/// Percent of one core that observing may take in this use case.
#[pyfunction]
pub fn overhead_limit(use_case: &str) -> PyResult<f64> {
    use_case.parse::<UseCase>().map(UseCase::overhead_limit_percent).map_err(errors::monitor)
}
