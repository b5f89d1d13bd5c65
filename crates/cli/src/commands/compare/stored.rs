//! A stored recording as one value per metric: one process run, with its own intervals.

use std::collections::{BTreeMap, BTreeSet};

use ortscope_analyze::throughput::{Completion, throughput};
use ortscope_analyze::verdict::{Metric, block_quantile};
use ortscope_analyze::{detect_warm_up, percentiles};
use ortscope_core::schema::{InferenceRow, MemoryRow, SessionRow, TableId};
use ortscope_core::tables::{ReadError, Scan, Tables as _};
use ortscope_store::{Recording, Store};
use serde::Serialize;

use crate::commands::bench::blocks::Block;
use crate::exit::{Exit, Failure};

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
    /// By metric: milliseconds, per second, bytes.
    pub figures: BTreeMap<&'static str, f64>,
    /// 95 % intervals within this recording, from batch means; they know nothing of other process runs.
    pub intervals_ms: BTreeMap<&'static str, [Option<f64>; 2]>,
}

impl Stored {
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
        }
    }

    pub fn open(store: &Store, run: &str) -> Result<Self, Failure> {
        let recording = Recording::open(&store.resolve(run)?)?;
        let manifest = recording.manifest();
        let (providers, model) = sessions(&recording, run)?;
        let mut inferences: Vec<(u64, u64, u64)> = Vec::new();
        for batch in recording.scan(TableId::Inferences, &Scan::all()) {
            for row in batch.map_err(|error| damaged(&error))?.rows::<InferenceRow>() {
                // Inferences of watched programs have no phase of a measurement.
                if row.ok && !matches!(&*row.phase, "first" | "profiled" | "prefill" | "token") {
                    let end = row.timestamp_ns + row.copy_in_ns + row.run_ns + row.copy_out_ns;
                    inferences.push((row.timestamp_ns, end, row.run_ns));
                }
            }
        }
        if inferences.is_empty() {
            return Err(Failure::new(
                Exit::NotComparable,
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
                intervals_ms.insert(metric.name(), [ms(found.low_nanos), ms(found.high_nanos)]);
            }
        }
        let completions: Vec<Completion> = inferences
            .iter()
            .skip(cut)
            .map(|(start_nanos, end_nanos, _)| Completion {
                start_nanos: *start_nanos,
                end_nanos: *end_nanos,
            })
            .collect();
        let rate = throughput(&completions, 1).map(|found| found.requests_per_second);
        figures.extend(rate.map(|rate| (Metric::Throughput.name(), rate)));
        figures.extend(peak_memory(&recording)?.map(|bytes| (Metric::Memory.name(), bytes)));
        Ok(Self {
            id: manifest.id.clone(),
            name: manifest.name.clone(),
            subject: model.unwrap_or_else(|| manifest.subject.clone()),
            started_unix_ns: manifest.started.unix_nanos,
            fingerprint: manifest.fingerprint.clone(),
            providers,
            runs: kept.len(),
            warm_up_runs: cut,
            figures,
            intervals_ms,
        })
    }
}

fn damaged(error: &ReadError) -> Failure {
    Failure::new(Exit::DataLost, error.to_string())
        .with_hint("'ortscope runs repair RUN' saves what is readable")
}

/// Providers and model of the recording's one measurement.
fn sessions(recording: &Recording, run: &str) -> Result<(String, Option<String>), Failure> {
    let (mut kinds, mut providers) = (BTreeSet::new(), String::new());
    for batch in recording.scan(TableId::Sessions, &Scan::all()) {
        for row in batch.map_err(|error| damaged(&error))?.rows::<SessionRow>() {
            // The row of the session's start has no options yet.
            if let Some(options) = &row.options {
                providers = row.execution_providers.to_string();
                kinds.insert((row.model_name.to_string(), options.to_string()));
            }
        }
    }
    if kinds.len() > 1 {
        return Err(Failure::usage(format!(
            "the recording '{run}' holds {} measurements (several models, or a sweep): it is not one side",
            kinds.len()
        ))
        .with_hint("record each configuration with a run of its own"));
    }
    Ok((providers, kinds.into_iter().next().map(|(model, _)| model)))
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
