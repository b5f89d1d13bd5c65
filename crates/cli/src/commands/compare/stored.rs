//! A stored recording as one value per metric: one process run, with its own intervals.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_analyze::leak::{ArenaPoint, LeakReport, LeakVerdict, detect_leak, points_of};
use ortscope_analyze::throughput::{Completion, throughput};
use ortscope_analyze::verdict::{Metric, block_quantile};
use ortscope_analyze::{detect_warm_up, percentiles};
use ortscope_core::schema::{InferenceRow, MemoryRow, Phase, ProcessSampleRow, SessionRow, TableId};
use ortscope_core::tables::{ReadError, Scan, Tables as _};
use ortscope_store::{Recording, Store};
use serde::Serialize;
use serde_json::Value;

use crate::commands::bench::blocks::Block;
use crate::exit::{Failure, FailureKind};
use crate::recording::{ARENA, ARENA_RESERVED, ARENA_USED, RUN_DOCUMENT};

/// Recordings that were not made to find a leak are judged from this length on.
const MIN_SOAK_NS: u64 = 60_000_000_000;

/// What a recording says about itself and its model.
#[derive(Debug, Clone, Serialize)]
pub struct Stored {
    pub id: String,
    pub name: Option<String>,
    pub subject: String,
    pub started_unix_ns: u64,
    pub fingerprint: BTreeMap<String, String>,
    pub providers: String,
    pub runs: usize,
    pub warm_up_runs: usize,
    /// By metric: milliseconds, per second, bytes, joules.
    pub figures: BTreeMap<&'static str, f64>,
    /// 95 % intervals within this recording, from batch means; they know nothing of other process runs.
    pub intervals_ms: BTreeMap<&'static str, [Option<f64>; 2]>,
    /// Names, types and sizes of what was fed; empty where the recording does not tell.
    pub inputs: Vec<String>,
    /// Whether memory is lost with every inference; absent for recordings too short to tell settling from a leak.
    pub leak: Option<LeakReport>,
}

impl Stored {
    /// The name it was given, or its id.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    pub fn figure(&self, metric: Metric) -> Option<f64> {
        self.figures.get(metric.name()).copied()
    }

    /// A block that was measured just now, as if it had been stored.
    pub fn of_block(model: &str, fingerprint: BTreeMap<String, String>, block: &Block) -> Self {
        Self {
            id: "now".into(),
            name: None,
            subject: model.to_owned(),
            started_unix_ns: 0,
            fingerprint,
            providers: String::new(),
            runs: block.runs,
            warm_up_runs: block.warm_up_runs,
            figures: block.figures.clone(),
            intervals_ms: BTreeMap::new(),
            inputs: Vec::new(),
            leak: None,
        }
    }

    pub fn open(store: &Store, run: &str) -> Result<Self, Failure> {
        let recording = Recording::open(&store.resolve(run)?)?;
        let manifest = recording.manifest();
        let Sessions { providers, model, pids } = sessions(&recording, run)?;
        let result = only_result(&recording, run)?;
        let mut inferences: Vec<(u64, u64, u64)> = Vec::new();
        for batch in recording.scan(TableId::Inferences, &Scan::all()) {
            for row in batch.map_err(|error| damaged(&error))?.rows::<InferenceRow>() {
                // Inferences of watched programs have no phase of a measurement.
                if row.ok
                    && !matches!(
                        row.phase.known(),
                        Some(Phase::First | Phase::Profiled | Phase::Prefill | Phase::Token)
                    )
                {
                    let end = row.timestamp_ns + row.copy_in_ns + row.run_ns + row.copy_out_ns;
                    inferences.push((row.timestamp_ns, end, row.run_ns));
                }
            }
        }
        if inferences.is_empty() {
            return Err(Failure::new(
                FailureKind::NotComparable,
                format!("the recording '{run}' holds no measured inference: there is nothing to compare"),
            ));
        }
        inferences.sort_unstable();
        let latencies: Vec<u64> = inferences.iter().map(|(_, _, run_ns)| *run_ns).collect();
        let cut = detect_warm_up(&latencies).discarded;
        let kept = latencies.get(cut..).unwrap_or_default();
        let mut figures = BTreeMap::new();
        let mut intervals_ms = BTreeMap::new();
        for metric in [Metric::P50, Metric::P90, Metric::P99] {
            let Some(p) = metric.quantile() else { continue };
            figures.extend(block_quantile(kept, p).map(|nanos| (metric.name(), nanos / 1e6)));
            let ms = |nanos: Option<u64>| nanos.map(|nanos| nanos as f64 / 1e6);
            for found in percentiles(kept, &[p]) {
                intervals_ms.insert(metric.name(), [ms(found.low_ns), ms(found.high_ns)]);
            }
        }
        let completions: Vec<Completion> = inferences
            .iter()
            .skip(cut)
            .map(|(start_ns, end_ns, _)| Completion { start_ns: *start_ns, end_ns: *end_ns })
            .collect();
        let rate = throughput(&completions, 1).map(|found| found.requests_per_second);
        figures.extend(rate.map(|rate| (Metric::Throughput.name(), rate)));
        figures.extend(peak_memory(&recording)?.map(|bytes| (Metric::Memory.name(), bytes)));
        let joules = result["energy"]["joules_per_inference"].as_f64();
        figures.extend(joules.map(|joules| (Metric::Energy.name(), joules)));
        Ok(Self {
            id: manifest.id.clone(),
            name: manifest.name.clone(),
            subject: model.unwrap_or_else(|| manifest.subject.clone()),
            started_unix_ns: manifest.started.unix_ns,
            fingerprint: manifest.fingerprint.clone(),
            providers,
            runs: kept.len(),
            warm_up_runs: cut,
            figures,
            intervals_ms,
            inputs: described_inputs(&result),
            leak: leak(&recording, &inferences, &pids, !result["leak"].is_null())?,
        })
    }
}

fn damaged(error: &ReadError) -> Failure {
    Failure::new(FailureKind::DataLost, error.to_string())
        .with_hint("'ortscope runs repair RUN' saves what is readable")
}

/// What the recording's one measurement was of.
struct Sessions {
    providers: String,
    model: Option<String>,
    pids: BTreeSet<u64>,
}

fn sessions(recording: &Recording, run: &str) -> Result<Sessions, Failure> {
    let (mut kinds, mut providers, mut pids) = (BTreeSet::new(), String::new(), BTreeSet::new());
    for batch in recording.scan(TableId::Sessions, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<SessionRow>() {
            pids.extend(row.pid);
            // The row of the session's start has no options yet.
            if let Some(options) = &row.options {
                providers = row.execution_providers.to_string();
                kinds.insert((row.model_name.to_string(), options.to_string()));
            }
        }
    }
    if kinds.len() > 1 {
        return Err(several(run, kinds.len()));
    }
    Ok(Sessions { providers, model: kinds.into_iter().next().map(|(model, _)| model), pids })
}

/// The result of a run with one; `null` for recordings of other commands. Sizes of batches are no settings of a session, so
/// that only this tells a sweep over them.
fn only_result(recording: &Recording, run: &str) -> Result<Value, Failure> {
    let document = recording.document(RUN_DOCUMENT).ok().flatten();
    let document: Value = document.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
    match document["results"].as_array().map(Vec::as_slice) {
        Some([result]) => Ok(result.clone()),
        Some([_, _, ..]) => Err(several(run, document["results"].as_array().map_or(0, Vec::len))),
        _ => Ok(Value::Null),
    }
}

fn several(run: &str, measurements: usize) -> Failure {
    Failure::usage(format!(
        "the recording '{run}' holds {measurements} measurements (several models, or a sweep): it is not one side"
    ))
    .with_hint("record each configuration with a run of its own; two sweeps over --batch can be compared as a whole")
}

fn described_inputs(result: &Value) -> Vec<String> {
    let described = result["inputs"]["described"].as_array().into_iter().flatten();
    let mut described: Vec<String> = described.filter_map(|text| Some(text.as_str()?.to_owned())).collect();
    described.sort();
    described
}

/// Memory of the process that ran the model, over its inferences. `asked`: a soak, as long as its user thought right.
fn leak(
    recording: &Recording,
    inferences: &[(u64, u64, u64)],
    pids: &BTreeSet<u64>,
    asked: bool,
) -> Result<Option<LeakReport>, Failure> {
    let (Some((begin, ..)), Some((end, ..))) = (inferences.first(), inferences.last()) else {
        return Ok(None);
    };
    // Two processes have two memories, and one curve of both says nothing.
    if pids.len() != 1 || !(asked || end - begin >= MIN_SOAK_NS) {
        return Ok(None);
    }
    let mut process: Vec<(u64, u64)> = Vec::new();
    for batch in recording.scan(TableId::ProcessSamples, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<ProcessSampleRow>() {
            if pids.contains(&row.pid) {
                process.push((row.timestamp_ns, row.working_set_bytes));
            }
        }
    }
    let mut asked_arena: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
    for batch in recording.scan(TableId::Memory, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<MemoryRow>() {
            let place = [ARENA_RESERVED, ARENA_USED].iter().position(|metric| **metric == *row.metric);
            if let (ARENA, Some(place)) = (&*row.scope, place) {
                asked_arena.entry(row.timestamp_ns).or_default()[place] = u64::try_from(row.bytes).ok();
            }
        }
    }
    let arena: Vec<(u64, ArenaPoint)> = asked_arena
        .into_iter()
        .filter_map(|(nanos, [reserved, used])| {
            Some((
                nanos,
                ArenaPoint { reserved_bytes: reserved?, used_bytes: used?, ..ArenaPoint::default() },
            ))
        })
        .collect();
    process.sort_unstable();
    let starts: Vec<u64> = inferences.iter().map(|(start, ..)| *start).collect();
    let report = detect_leak(&points_of(&starts, &process, &arena));
    Ok((report.verdict != LeakVerdict::TooShort || asked).then_some(report))
}

fn peak_memory(recording: &Recording) -> Result<Option<f64>, Failure> {
    let mut peak: Option<f64> = None;
    for batch in recording.scan(TableId::Memory, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<MemoryRow>() {
            if &*row.scope == "process" && &*row.metric == "peak" {
                peak = Some(peak.unwrap_or(0.0).max(row.bytes as f64));
            }
        }
    }
    Ok(peak)
}
