//! Stored recordings: each is one process run with one value per metric.
//!
//! One pair of process runs proves nothing, because two processes may differ by chance. A verdict therefore needs several
//! recordings per side, made on the same machine with the same software. With fewer the figures are shown, with the
//! intervals inside each recording, and the verdict is inconclusive.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_analyze::leak::{
    ARENA_RESERVED, ARENA_SCOPE, ARENA_USED, ArenaPoint, LeakReport, LeakVerdict, detect_leak, points_of,
};
use ortscope_analyze::throughput::{Completion, throughput};
use ortscope_analyze::verdict::{Metric, MetricVerdict, Verdict, block_needs, block_quantile, two_sample};
use ortscope_analyze::{detect_warm_up, percentiles};
use ortscope_core::failure::{Failure, FailureKind};
use ortscope_core::recording::RecordingInfo;
use ortscope_core::schema::{InferenceRow, MemoryRow, Phase, ProcessSampleRow, SessionRow, TableId};
use ortscope_core::tables::{ReadError, Scan, Tables};
use serde::Serialize;

use crate::RunResult;

use super::{Block, Difference, Judge, differences, is_missing, refuse_differences, summary};

/// Shortest recording that is checked for a leak although nobody asked for it.
const MIN_SOAK_NS: u64 = 60_000_000_000;

/// One process run: its model, machine and figures.
#[derive(Debug, Clone, Serialize)]
pub struct StoredRun {
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
    /// 95 % intervals within this recording, from batch means; they do not cover differences between process runs.
    pub intervals_ms: BTreeMap<&'static str, [Option<f64>; 2]>,
    /// Names, types and shapes of the inputs; empty if the recording does not have them.
    pub inputs: Vec<String>,
    /// Whether memory grows with every inference; absent for recordings that are too short to distinguish settling from a leak.
    pub leak: Option<LeakReport>,
}

impl StoredRun {
    /// The name given by the user, or the id.
    pub fn shown_name(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.id)
    }

    pub fn figure(&self, metric: Metric) -> Option<f64> {
        self.figures.get(metric.name()).copied()
    }

    /// A block that was just measured.
    pub fn from_block(model: &str, fingerprint: BTreeMap<String, String>, block: &Block) -> Self {
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

    /// Reads a recording that the user called `run`. `results` are those of its measurements.
    pub fn read(
        tables: &dyn Tables,
        info: &RecordingInfo,
        results: &[RunResult],
        run: &str,
    ) -> Result<Self, Failure> {
        let Sessions { providers, model, pids } = sessions(tables, run)?;
        let result = only_result(results, run)?;
        let mut inferences: Vec<(u64, u64, u64)> = Vec::new();
        for batch in tables.scan(TableId::Inferences, &Scan::all()) {
            for row in batch.map_err(|error| damaged(&error))?.rows::<InferenceRow>() {
                // Inferences of observed programs have no phase.
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
                format!("the recording '{run}' has no measured inferences: there is nothing to compare"),
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
        figures.extend(peak_memory(tables)?.map(|bytes| (Metric::Memory.name(), bytes)));
        let joules = result.and_then(|result| result.energy.as_ref()?.joules_per_inference);
        figures.extend(joules.map(|joules| (Metric::Energy.name(), joules)));
        Ok(Self {
            id: info.id.clone(),
            name: info.name.clone(),
            subject: model.unwrap_or_else(|| info.subject.clone()),
            started_unix_ns: info.started.unix_ns,
            fingerprint: info.fingerprint.clone(),
            providers,
            runs: kept.len(),
            warm_up_runs: cut,
            figures,
            intervals_ms,
            inputs: result.map(described_inputs).unwrap_or_default(),
            leak: leak(tables, &inferences, &pids, result.is_some_and(|result| result.leak.is_some()))?,
        })
    }
}

fn damaged(error: &ReadError) -> Failure {
    Failure::new(FailureKind::DataLost, error.to_string())
        .with_hint("'ortscope runs repair RUN' keeps the readable part")
}

/// The sessions of the only measurement.
struct Sessions {
    providers: String,
    model: Option<String>,
    pids: BTreeSet<u64>,
}

fn sessions(tables: &dyn Tables, run: &str) -> Result<Sessions, Failure> {
    let (mut kinds, mut providers, mut pids) = (BTreeSet::new(), String::new(), BTreeSet::new());
    for batch in tables.scan(TableId::Sessions, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<SessionRow>() {
            pids.extend(row.pid);
            // The row at the start of a session has no options yet.
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

/// Returns the only result of a run; `None` for recordings of other commands.
fn only_result<'a>(results: &'a [RunResult], run: &str) -> Result<Option<&'a RunResult>, Failure> {
    match results {
        [] => Ok(None),
        [result] => Ok(Some(result)),
        _ => Err(several(run, results.len())),
    }
}

fn several(run: &str, measurements: usize) -> Failure {
    Failure::usage(format!(
        "the recording '{run}' has {measurements} measurements (several models, or a sweep): it is not one side"
    ))
    .with_hint("record each configuration separately; two sweeps over --batch can be compared as a whole")
}

fn described_inputs(result: &RunResult) -> Vec<String> {
    let mut described = result.inputs.as_ref().map(|inputs| inputs.described.clone()).unwrap_or_default();
    described.sort();
    described
}

/// Checks the memory of the process that ran the model. `asked`: a soak, of any length.
fn leak(
    tables: &dyn Tables,
    inferences: &[(u64, u64, u64)],
    pids: &BTreeSet<u64>,
    asked: bool,
) -> Result<Option<LeakReport>, Failure> {
    let (Some((begin, ..)), Some((end, ..))) = (inferences.first(), inferences.last()) else {
        return Ok(None);
    };
    // A curve over the memory of two processes has no meaning.
    if pids.len() != 1 || !(asked || end - begin >= MIN_SOAK_NS) {
        return Ok(None);
    }
    let mut process: Vec<(u64, u64)> = Vec::new();
    for batch in tables.scan(TableId::ProcessSamples, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<ProcessSampleRow>() {
            if pids.contains(&row.pid) {
                process.push((row.timestamp_ns, row.working_set_bytes));
            }
        }
    }
    let mut asked_arena: BTreeMap<u64, [Option<u64>; 2]> = BTreeMap::new();
    for batch in tables.scan(TableId::Memory, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<MemoryRow>() {
            let place = [ARENA_RESERVED, ARENA_USED].iter().position(|metric| **metric == *row.metric);
            if let (ARENA_SCOPE, Some(place)) = (&*row.scope, place) {
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

fn peak_memory(tables: &dyn Tables) -> Result<Option<f64>, Failure> {
    let mut peak: Option<f64> = None;
    for batch in tables.scan(TableId::Memory, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<MemoryRow>() {
            if &*row.scope == "process" && &*row.metric == "peak" {
                peak = Some(peak.unwrap_or(0.0).max(row.bytes as f64));
            }
        }
    }
    Ok(peak)
}

/// The verdict between recordings of two sides.
#[derive(Debug, Serialize)]
pub struct StoredComparison {
    pub a: Vec<StoredRun>,
    pub b: Vec<StoredRun>,
    /// Facts of machine and software that differ.
    pub differences: Vec<Difference>,
    /// The user forced a comparison although they differ.
    pub forced: bool,
    pub verdict: Verdict,
    pub summary: String,
    pub verdicts: Vec<MetricVerdict>,
    /// Recordings of B that lose memory with every inference, if none of A does.
    pub leaks: Vec<String>,
    pub notes: Vec<String>,
}

impl StoredComparison {
    /// Judges B against A. Sides that differ in machine or software are refused unless `force` is set.
    pub fn new(a: Vec<StoredRun>, b: Vec<StoredRun>, judge: &Judge, force: bool) -> Result<Self, Failure> {
        let differences = all_differences(&a, &b);
        if !force {
            refuse_differences(&differences)?;
        }
        check_inputs(&a, &b)?;
        let mut verdicts = Self::verdicts(judge, &a, &b);
        explain_missing(&mut verdicts);
        let mut verdict = judge.overall(&verdicts);
        // A metric that nobody asked for and no recording has neither decides nor explains anything.
        let counted: Vec<MetricVerdict> =
            verdicts.iter().filter(|found| judge.asked || !is_missing(found)).cloned().collect();
        let mut summary = summary(verdict, &counted);
        let leaks = new_leaks(&a, &b);
        // The windows of one process prove a leak; a second recording is not needed.
        if !leaks.is_empty() && judge.judges(Metric::Memory) {
            let found = format!("B {}, A does not", leaks.join("; "));
            summary = if verdict == Verdict::Regression { format!("{found}; {summary}") } else { found };
            verdict = Verdict::Regression;
        }
        let mut notes = Vec::new();
        if a.iter().any(|one| b.iter().any(|other| one.id == other.id)) {
            notes.push("the same recording is on both sides".to_owned());
        }
        let forced = !differences.is_empty();
        Ok(Self { a, b, differences, forced, verdict, summary, verdicts, leaks, notes })
    }

    /// Judges every metric, with Bonferroni's correction: with few recordings Holm's later steps are out of reach anyway.
    pub fn verdicts(judge: &Judge, a: &[StoredRun], b: &[StoredRun]) -> Vec<MetricVerdict> {
        let figures = |side: &[StoredRun], metric: Metric| -> Vec<f64> {
            side.iter().filter_map(|one| one.figure(metric)).collect()
        };
        let share = 1.0 / judge.plans.len() as f64;
        judge
            .plans
            .iter()
            .map(|plan| two_sample::compare(*plan, &figures(a, plan.metric), &figures(b, plan.metric), share))
            .collect()
    }
}

/// More recordings would not help a metric that no recording has.
fn explain_missing(verdicts: &mut [MetricVerdict]) {
    for found in verdicts.iter_mut().filter(|found| is_missing(found)) {
        found.reason = Some(match found.metric.quantile() {
            Some(p) => format!("needs ≥ {} runs per recording", block_needs(p)),
            None => "not in these recordings".to_owned(),
        });
    }
}

/// Refuses recordings with different inputs: other shapes are other work.
fn check_inputs(a: &[StoredRun], b: &[StoredRun]) -> Result<(), Failure> {
    let mut known = a.iter().chain(b).filter(|one| !one.inputs.is_empty());
    let Some(first) = known.next() else { return Ok(()) };
    match known.find(|other| other.inputs != first.inputs) {
        None => Ok(()),
        Some(other) => Err(Failure::new(
            FailureKind::Input,
            format!(
                "the recordings have different inputs: {} with {}, {} with {}",
                first.shown_name(),
                first.inputs.join(", "),
                other.shown_name(),
                other.inputs.join(", ")
            ),
        )
        .with_hint("only recordings with the same inputs can be compared; sweeps over --batch are compared as a whole")),
    }
}

/// Returns the leaks of B, unless something leaks in A as well.
fn new_leaks(a: &[StoredRun], b: &[StoredRun]) -> Vec<String> {
    let leak = |one: &StoredRun| {
        one.leak.as_ref().filter(|leak| leak.verdict == LeakVerdict::Leak).map(|leak| leak.sentence.clone())
    };
    if a.iter().any(|one| leak(one).is_some()) {
        return Vec::new();
    }
    b.iter().filter_map(leak).collect()
}

/// Compares every recording with the first, so that a single different one among many is found too.
fn all_differences(a: &[StoredRun], b: &[StoredRun]) -> Vec<Difference> {
    let Some(first) = a.first() else { return Vec::new() };
    let mut found: Vec<Difference> = Vec::new();
    for other in a.iter().chain(b) {
        for difference in differences(&first.fingerprint, &other.fingerprint) {
            if found.iter().all(|known| known.fact != difference.fact) {
                found.push(difference);
            }
        }
    }
    found
}
