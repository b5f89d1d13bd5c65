//! Puts the figures of each session together.

use std::collections::HashMap;

use ortscope_analyze::facts::Scenario;
use ortscope_analyze::generation::summarize_generation;
use ortscope_analyze::open_loop::open_loop;
use ortscope_core::schema::{SessionRow, Text};

use super::exact::{Exact, Wanted};
use super::explain::{Case, Owner};
use super::head::providers;
use super::inferences::SessionSeries;
use super::reader::Reader;
use super::runs::Runs;
use super::steady::Steady;
use crate::latency::ms;
use crate::serving::ServerFacts;
use crate::{Counts, GenerationReport, RunResult, Sampling, ServerReport, SessionReport, ThroughputReport};
use ortscope_core::units::{clean, count, ordinal};

/// Notes of a run that are repeated.
const MAX_NOTES: usize = 20;

/// A session between the passes.
pub(super) struct Draft {
    pub report: SessionReport,
    pub steady: Option<Steady>,
    session_id: Text,
    every: u64,
    open_loop: bool,
    planned_ns: Option<(u64, u64)>,
    target_per_second: Option<f64>,
    unserved: Option<u64>,
    batch_size: Option<u64>,
}

impl Draft {
    pub fn new(
        series: SessionSeries,
        rows: &HashMap<Text, SessionRow>,
        runs: &Runs,
        reader: &Reader<'_>,
    ) -> Self {
        let row = rows.get(&series.session_id);
        let run = runs.of_session(&series.session_id);
        // The cut of a run with several sessions is one over all of them and says nothing about each.
        let alone = run.filter(|run| run.session_ids.len() == 1);
        let discarded = alone.and_then(|run| run.warm_up.as_ref()).map(|warm_up| warm_up.discarded);
        let every = series.steady.every;
        let steady = Steady::of(&series.steady.kept, discarded.filter(|_| every == 1));
        let mut report = describe(&series, row, run, reader);
        if let Some(steady) = &steady {
            let (inference, end_to_end) = steady.reports();
            report.warm_up = Some(steady.inference.warm_up.clone());
            report.inference = Some(inference);
            report.end_to_end = Some(end_to_end);
            report.histogram = Some(steady.histogram.clone());
        }
        Self {
            report,
            steady,
            session_id: series.session_id,
            every,
            open_loop: series.open_loop,
            planned_ns: series.planned_ns,
            target_per_second: run.and_then(|run| match run.scenario {
                Scenario::Server { per_second, .. } => Some(per_second),
                _ => None,
            }),
            unserved: run.and_then(|run| run.server.as_ref()?.unserved),
            batch_size: run.and_then(|run| run.inputs.as_ref()?.batch_size),
        }
    }

    /// What the second pass is to do; `None` without a measured loop.
    pub fn wanted(&mut self, max_slow: usize) -> Option<Wanted> {
        let steady = self.steady.as_mut()?;
        Some(Wanted {
            session_id: Text::clone(&self.session_id),
            cut_ns: steady.cut_ns,
            every: self.every,
            slow_above_ns: steady.slow_above_ns,
            over_time: std::mem::take(&mut steady.over_time),
            open_loop: self.open_loop,
            max_slow,
        })
    }

    /// Takes what the second pass found.
    pub fn take_exact(&mut self, wanted: &Wanted, exact: &Exact, reader: &Reader<'_>) {
        let report = &mut self.report;
        if self.every > 1 {
            // The thinned out series decides where the warm-up ends; the sums are of all inferences after it.
            report.inference.iter_mut().for_each(|latency| exact.run.correct(latency));
            report.end_to_end.iter_mut().for_each(|latency| exact.end_to_end.correct(latency));
        }
        report.parts = exact.parts();
        let warm_up_ends = report
            .warm_up
            .as_ref()
            .filter(|warm_up| warm_up.discarded > 0)
            .map(|_| reader.seconds(wanted.cut_ns));
        report.over_time = Some(wanted.over_time.report(warm_up_ends, |time_ns| reader.seconds(time_ns)));
        self.report.throughput = self.throughput(exact);
        if self.open_loop {
            self.report.server = self.server(exact);
        }
    }

    fn throughput(&self, exact: &Exact) -> Option<ThroughputReport> {
        let span_ns = exact.last_end_ns.checked_sub(self.steady.as_ref()?.cut_ns).filter(|span| *span > 0)?;
        let seconds = span_ns as f64 / 1e9;
        let requests = exact.run.n;
        let samples = exact.samples.or(self.batch_size.map(|size| size.saturating_mul(requests)));
        Some(ThroughputReport {
            requests,
            seconds,
            requests_per_second: requests as f64 / seconds,
            samples_per_second: samples.map(|samples| samples as f64 / seconds),
            concurrency: exact.end_to_end.mean() * requests as f64 / span_ns as f64,
        })
    }

    fn server(&self, exact: &Exact) -> Option<ServerReport> {
        let (first_ns, last_ns) = self.planned_ns?;
        let planned_seconds = last_ns.saturating_sub(first_ns) as f64 / 1e9;
        let planned_rate = match exact.request_count {
            2.. if planned_seconds > 0.0 => (exact.request_count - 1) as f64 / planned_seconds,
            _ => 0.0,
        };
        let analysis = open_loop(&exact.requests, self.target_per_second.unwrap_or(planned_rate));
        let end_ns = exact.requests.iter().map(|request| request.end_ns).max()?.max(exact.last_end_ns);
        let span = end_ns.saturating_sub(first_ns) as f64 / 1e9;
        let depth = exact.queue_depth;
        Some(ServerReport::new(
            &analysis,
            ServerFacts {
                requests: exact.request_count,
                target_is_asked_for: self.target_per_second.is_some(),
                achieved_per_second: (span > 0.0).then(|| exact.request_count as f64 / span),
                queue_depth_mean: (depth.n > 0).then(|| depth.mean()),
                queue_depth_max: (depth.n > 0).then_some(depth.max),
                unserved: self.unserved,
            },
        ))
    }

    /// The slow inferences that are to be explained.
    pub fn case(&mut self, exact: Exact, wanted: &Wanted) -> Case {
        let (median_ms, of) =
            self.report.end_to_end.as_ref().map_or((0.0, 0), |latency| (latency.median_ms, latency.runs));
        let parts = self.report.parts;
        Case {
            owner: Owner { session_id: Text::clone(&self.session_id), pid: self.report.pid },
            slow: exact.slow,
            slow_count: exact.slow_count,
            of,
            slow_above_ns: wanted.slow_above_ns,
            median_ms,
            copy_in_ms: parts.map_or(0.0, |parts| parts.copy_in_ms),
            copy_out_ms: parts.map_or(0.0, |parts| parts.copy_out_ms),
            usual: self.steady.as_mut().map(|steady| std::mem::take(&mut steady.usual)).unwrap_or_default(),
        }
    }
}

/// Everything that needs no statistics.
fn describe(
    series: &SessionSeries,
    row: Option<&SessionRow>,
    run: Option<&RunResult>,
    reader: &Reader<'_>,
) -> SessionReport {
    let session_id = clean(&series.session_id, 100);
    let model_name = row
        .map(|row| clean(&row.model_name, 100))
        .filter(|name| !name.is_empty())
        .or_else(|| run.map(|run| run.model.name.clone()))
        .unwrap_or_default();
    let label = run.and_then(|run| run.label.clone());
    let has_rows = series.total > 0;
    let mut notes: Vec<String> =
        run.map(|run| run.notes.iter().take(MAX_NOTES).cloned().collect()).unwrap_or_default();
    if series.tokens_left_out > 0 {
        notes.push(format!(
            "{} tokens at the end are not in the figures of generation",
            count(series.tokens_left_out)
        ));
    }
    SessionReport {
        title: title(&session_id, &model_name, label.as_deref()),
        label,
        pid: row.and_then(|row| row.pid),
        execution_providers: row
            .map(providers)
            .filter(|providers| !providers.is_empty())
            .or_else(|| Some(run?.placement.as_ref()?.providers.clone()))
            .unwrap_or_default(),
        ort_version: row
            .and_then(|row| row.ort_version.as_deref().map(|version| clean(version, 40)))
            .or_else(|| Some(run?.runtime.as_ref()?.version.clone())),
        scenario: run.map(|run| run.scenario.describe()),
        counts: Counts {
            total: series.total,
            failed: series.failed,
            by_phase: series.by_phase.iter().map(|(phase, rows)| (clean(phase, 40), *rows)).collect(),
        },
        first_seconds: has_rows.then(|| reader.seconds(series.first_start_ns)),
        last_seconds: has_rows.then(|| reader.seconds(series.last_end_ns)),
        first_runs_ms: series.first_runs_ns.iter().map(|ns| ms(*ns)).collect(),
        sampling: sampling(series.steady.every),
        generation: (!series.sequences.is_empty())
            .then(|| GenerationReport::new(&summarize_generation(&series.sequences))),
        cold: run.map(|run| run.cold),
        memory: run.map(|run| run.memory),
        cpu_cores_used: run.and_then(|run| run.cpu_cores_used),
        placement: run
            .and_then(|run| run.placement.as_ref())
            .map(|placement| placement.nodes.iter().take(32).cloned().collect())
            .unwrap_or_default(),
        notes,
        session_id,
        model_name,
        ..SessionReport::default()
    }
}

pub(super) fn title(session_id: &str, model_name: &str, label: Option<&str>) -> String {
    let name = match (model_name, session_id) {
        ("", "") => "session without a name",
        ("", id) => id,
        (name, _) => name,
    };
    label.map_or(name.to_owned(), |label| format!("{name} ({label})"))
}

fn sampling(every: u64) -> Sampling {
    let sentence = format!(
        "percentiles, jitter, outliers and stability over every {} inference; count, min, max and mean are of all",
        ordinal(every)
    );
    Sampling { every, sentence: (every > 1).then_some(sentence) }
}
