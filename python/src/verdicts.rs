//! Verdicts of benchmarks written in Python: block figures and judgments by the same code as `ortscope compare`,
//! `bench` and `gate`.
//!
//! Python starts the processes and stores the figures; they are judged here.

use std::collections::BTreeMap;

use ortscope_analyze::detect_warm_up;
use ortscope_analyze::verdict::fingerprint::{Difference, differences};
use ortscope_analyze::verdict::{
    Metric, MetricPlan, MetricVerdict, PairedComparison, Step, Verdict, block_needs, block_quantile,
    looks_up_to, sentence, two_sample,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde_json::json;

use crate::observer::fingerprint;
use crate::{errors, rows};

/// Metrics of a block of calls. Memory and energy require a model's own process.
const METRICS: [Metric; 4] = [Metric::P50, Metric::P90, Metric::P99, Metric::Throughput];
/// How blocks are made longer here.
const LONGER: &str = "longer blocks (block_seconds)";

/// A metric by its name, and by how many percent worse is too much; `None`: the usual.
type Plan = (String, Option<f64>);
type Figures = BTreeMap<String, f64>;

/// The figures of a block, from the nanoseconds of its calls: milliseconds by metric, calls per second, `runs` and
/// `warm_up_runs`. A quantile that takes more calls is left out.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn block_figures(nanos: Vec<u64>) -> Figures {
    let cut = detect_warm_up(&nanos).discarded;
    let kept = nanos.get(cut..).unwrap_or_default();
    let mut figures = Figures::new();
    for metric in METRICS {
        let value = metric.quantile().and_then(|p| block_quantile(kept, p));
        figures.extend(value.map(|nanos| (metric.name().to_owned(), nanos / 1e6)));
    }
    let total: u64 = kept.iter().sum();
    if total > 0 {
        figures.insert(Metric::Throughput.name().to_owned(), kept.len() as f64 / (total as f64 / 1e9));
    }
    figures.insert("runs".to_owned(), kept.len() as f64);
    figures.insert("warm_up_runs".to_owned(), cut as f64);
    figures
}

/// Calls that a block needs so that all of these metrics can be judged.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn calls_needed(plans: Vec<Plan>) -> PyResult<u64> {
    let needs = plans_of(&plans)?.into_iter().filter_map(|plan| plan.metric.quantile()).map(block_needs);
    Ok(needs.max().unwrap_or(1))
}

/// Judges blocks of now against blocks of another time, as JSON: `verdict`, `summary` and `verdicts`.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn judge_blocks(plans: Vec<Plan>, before: Vec<Figures>, now: Vec<Figures>) -> PyResult<String> {
    let plans = plans_of(&plans)?;
    let share = 1.0 / plans.len() as f64;
    let side = |blocks: &[Figures], metric: Metric| -> Vec<f64> {
        blocks.iter().filter_map(|block| block.get(metric.name()).copied()).collect()
    };
    let judged: Vec<MetricVerdict> = plans
        .iter()
        .map(|plan| two_sample::compare(*plan, &side(&before, plan.metric), &side(&now, plan.metric), share))
        .collect();
    Ok(verdicts_json(&judged, true))
}

/// Judges rounds of two sides that took turns, and whether more rounds are needed (`done`).
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn judge_rounds(plans: Vec<Plan>, rounds: Vec<(Figures, Figures)>, most: usize) -> PyResult<String> {
    let plans = plans_of(&plans)?;
    let mut comparison = PairedComparison::with_looks(&plans, &looks_up_to(most));
    let mut done = false;
    for (a, b) in &rounds {
        let pair = |plan: &MetricPlan| {
            let name = plan.metric.name();
            Some((*a.get(name)?, *b.get(name)?))
        };
        done = comparison.add_round(&plans.iter().map(pair).collect::<Vec<_>>()) == Step::Done;
    }
    Ok(verdicts_json(&comparison.verdicts(), done))
}

/// Whether the second side of a round goes first.
#[pyfunction]
pub fn second_goes_first(round: usize) -> bool {
    PairedComparison::b_first(round)
}

/// Facts that decide whether figures of this machine can be compared with others.
#[pyfunction]
pub fn machine() -> BTreeMap<String, String> {
    fingerprint()
}

/// In words, what differs between two machines and their software.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "a function of Python takes what it is given")]
pub fn machine_differences(a: BTreeMap<String, String>, b: BTreeMap<String, String>) -> Vec<String> {
    differences(&a, &b).iter().map(Difference::sentence).collect()
}

/// `[gate]` of the configuration files, as JSON.
#[pyfunction]
pub fn gate_settings() -> PyResult<String> {
    serde_json::to_string(&rows::configuration()?.gate).map_err(errors::monitor)
}

fn plans_of(named: &[Plan]) -> PyResult<Vec<MetricPlan>> {
    let plan = |(name, percent): &Plan| {
        let metric: Metric = name.parse().map_err(PyValueError::new_err)?;
        if !METRICS.contains(&metric) {
            let known: Vec<&str> = METRICS.iter().map(|metric| metric.name()).collect();
            let message = format!("a benchmark has no {metric}: it has {}", known.join(", "));
            return Err(PyValueError::new_err(message));
        }
        let margin = percent.map_or(metric.default_margin(), |percent| percent / 100.0);
        if !(margin > 0.0 && margin < 1.0) {
            let message = format!("the margin of {metric} must be a percentage above 0 and below 100");
            return Err(PyValueError::new_err(message));
        }
        Ok(MetricPlan { metric, margin })
    };
    match named {
        [] => Err(PyValueError::new_err("there is no metric to judge")),
        named => named.iter().map(plan).collect(),
    }
}

fn verdicts_json(verdicts: &[MetricVerdict], done: bool) -> String {
    let verdict =
        Verdict::of_all(verdicts.iter().map(|found| found.verdict)).unwrap_or(Verdict::Inconclusive);
    let summary = sentence::summary(verdict, verdicts, LONGER);
    json!({"verdict": verdict, "summary": summary, "verdicts": verdicts, "done": done}).to_string()
}
