//! `/compare`: differences between two sources. A verdict needs several runs of each (`ortscope compare`).

use std::collections::{BTreeMap, BTreeSet};

use ortscope_result::{CallTimes, Histogram, ReportModel, SessionReport};
use schemars::JsonSchema;
use serde::Serialize;

use super::hello::{SourceInfo, source_info};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_NODES: usize = 500;
const BINS: usize = 60;
/// Facts that may differ between two runs on one machine without making their times incomparable.
const HARMLESS: &[&str] = &["ort_version", "memory_bytes"];

/// Differences between two sources. Not a verdict: `ortscope compare` gives one.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Compare {
    pub a: SourceInfo,
    pub b: SourceInfo,
    pub kind: CompareKind,
    /// Differing facts of the machines; times are then not comparable.
    pub machine_differences: Vec<MachineDifference>,
    pub comparable: bool,
    /// The reason for `comparable` in one sentence.
    pub comparable_note: String,
    /// Sessions, paired by model name and order.
    pub sessions: Vec<CompareSession>,
    /// Operators by type with their mean self time per run; largest absolute difference first.
    pub operators: Vec<CompareOperator>,
    /// The same by node name; at most 500.
    pub nodes: Vec<CompareOperator>,
    pub nodes_not_listed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CompareKind {
    Difference,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct MachineDifference {
    pub fact: String,
    pub a: Option<String>,
    pub b: Option<String>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CompareSession {
    pub title: String,
    pub a_session_id: Option<String>,
    pub b_session_id: Option<String>,
    pub metrics: Vec<CompareMetric>,
    pub histogram: Option<CompareHistogram>,
}

/// Two histograms with common bins.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CompareHistogram {
    pub edges_ms: Vec<f64>,
    pub a: Vec<f64>,
    pub b: Vec<f64>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct CompareMetric {
    /// E.g. "p50_ms", "p99_ms", "requests_per_second", "peak_memory_bytes".
    pub name: String,
    pub unit: &'static str,
    pub a: Option<f64>,
    pub b: Option<f64>,
    /// b - a.
    pub difference: Option<f64>,
    /// b / a - 1, e.g. 0.05 = 5 % more.
    pub ratio: Option<f64>,
    pub better: Better,
    /// 95 % interval of `a`, if known.
    pub a_interval: Option<Interval>,
    /// 95 % interval of `b`, if known.
    pub b_interval: Option<Interval>,
}

/// The direction of an improvement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    Lower,
    Higher,
}

/// Lower and upper end; null if unknown.
type Interval = [Option<f64>; 2];

#[derive(Debug, Default, Serialize, JsonSchema)]
pub struct CompareOperator {
    pub name: String,
    pub op_type: String,
    pub execution_provider_a: Option<String>,
    pub execution_provider_b: Option<String>,
    pub calls_a: u64,
    pub calls_b: u64,
    /// Mean self time per profiled run of `a`.
    pub ms_per_run_a: Option<f64>,
    /// Mean self time per profiled run of `b`.
    pub ms_per_run_b: Option<f64>,
    pub difference_ms: Option<f64>,
    pub ratio: Option<f64>,
}

pub fn compare(app: &App, asked: &Asked) -> Result<Compare, ApiError> {
    let side = |name: &str| app.sources.get(asked.params.text(name).unwrap_or_default());
    let (a, b) = (side("a")?, side("b")?);
    let model = |source: &Source| {
        source.report(&app.reports, (source.first_ns, source.last_ns.saturating_add(1)), None)
    };
    let (model_a, model_b) = (model(&a)?, model(&b)?);
    let machine_differences = machine_differences(&model_a, &model_b);
    let blocking: Vec<&str> = machine_differences
        .iter()
        .map(|difference| difference.fact.as_str())
        .filter(|fact| !HARMLESS.contains(fact))
        .collect();
    let comparable = blocking.is_empty();
    let comparable_note = if comparable {
        "recorded on identical hardware and software; two runs also differ by chance".to_owned()
    } else {
        format!("the machines differ in {}: times are not comparable", blocking.join(", "))
    };
    let (operators_by_type, _) = operators(&model_a, &model_b, false);
    let (nodes, nodes_not_listed) = operators(&model_a, &model_b, true);
    Ok(Compare {
        a: source_info(&a)?,
        b: source_info(&b)?,
        kind: CompareKind::Difference,
        machine_differences,
        comparable,
        comparable_note,
        sessions: sessions(&model_a, &model_b),
        operators: operators_by_type,
        nodes,
        nodes_not_listed,
    })
}

fn machine_differences(a: &ReportModel, b: &ReportModel) -> Vec<MachineDifference> {
    let (a, b) = (&a.header.machine, &b.header.machine);
    let facts: BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    facts
        .into_iter()
        .map(|fact| MachineDifference {
            fact: fact.clone(),
            a: a.get(fact).cloned(),
            b: b.get(fact).cloned(),
        })
        .filter(|difference| difference.a != difference.b)
        .collect()
}

/// Pairs sessions of the same model in their order.
fn sessions(a: &ReportModel, b: &ReportModel) -> Vec<CompareSession> {
    let key = |session: &SessionReport| (session.model_name.clone(), session.label.clone());
    let mut left: Vec<&SessionReport> = b.sessions.iter().collect();
    let mut pairs: Vec<(Option<&SessionReport>, Option<&SessionReport>)> = Vec::new();
    for session in &a.sessions {
        let fits = left.iter().position(|other| key(other) == key(session));
        pairs.push((Some(session), fits.map(|index| left.remove(index))));
    }
    // One session on each side with different model names: the user wants to compare these.
    if let ([(Some(_), other @ None)], [only]) = (pairs.as_mut_slice(), left.as_slice()) {
        *other = Some(only);
        left.clear();
    }
    pairs.extend(left.into_iter().map(|session| (None, Some(session))));
    pairs.into_iter().map(|(a, b)| pair(a, b)).collect()
}

fn pair(a: Option<&SessionReport>, b: Option<&SessionReport>) -> CompareSession {
    let title = match (a, b) {
        (Some(a), Some(b)) if a.title != b.title => format!("{} → {}", a.title, b.title),
        (Some(one), _) | (None, Some(one)) => one.title.clone(),
        (None, None) => String::new(),
    };
    let mut metrics: Vec<CompareMetric> = Vec::new();
    for name in ["p50", "p90", "p95", "p99", "p99_9"] {
        let of = |session: Option<&SessionReport>| {
            session.and_then(|session| session.inference.as_ref()?.percentile_ms(name))
        };
        let interval = |session: Option<&SessionReport>| {
            let latency = session?.inference.as_ref()?;
            latency.percentile_ms(name).map(|_| latency.interval_ms(name))
        };
        metrics.push(CompareMetric {
            a_interval: interval(a),
            b_interval: interval(b),
            ..CompareMetric::new(&format!("{name}_ms"), "milliseconds", Better::Lower, of(a), of(b))
        });
    }
    type Figure = fn(&SessionReport) -> Option<f64>;
    let figures: [(&str, &'static str, Better, Figure); 7] = [
        ("mean_ms", "milliseconds", Better::Lower, |session| Some(session.inference.as_ref()?.mean_ms)),
        ("jitter_ms", "milliseconds", Better::Lower, |session| {
            Some(session.inference.as_ref()?.jitter.iqr_ms)
        }),
        ("requests_per_second", "per second", Better::Higher, |session| {
            Some(session.throughput.as_ref()?.requests_per_second)
        }),
        ("first_run_ms", "milliseconds", Better::Lower, |session| session.cold?.first_run_ms),
        ("session_first_ms", "milliseconds", Better::Lower, |session| session.cold?.session_first_ms),
        ("peak_memory_bytes", "bytes", Better::Lower, |session| Some(session.memory?.peak_bytes? as f64)),
        ("cpu_cores_used", "cores", Better::Lower, |session| session.cpu_cores_used),
    ];
    for (name, unit, better, figure) in figures {
        metrics.push(CompareMetric::new(name, unit, better, a.and_then(figure), b.and_then(figure)));
    }
    let id = |session: Option<&SessionReport>| session.map(|session| session.session_id.clone());
    CompareSession {
        title,
        a_session_id: id(a),
        b_session_id: id(b),
        metrics,
        histogram: histogram(
            a.and_then(|session| session.histogram.as_ref()),
            b.and_then(|session| session.histogram.as_ref()),
        ),
    }
}

impl CompareMetric {
    fn new(name: &str, unit: &'static str, better: Better, a: Option<f64>, b: Option<f64>) -> Self {
        let both = a.zip(b);
        Self {
            name: name.to_owned(),
            unit,
            a,
            b,
            difference: both.map(|(a, b)| b - a),
            ratio: both.filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a - 1.0),
            better,
            a_interval: None,
            b_interval: None,
        }
    }
}

/// Both histograms with common bins. The count of a split bin is distributed by logarithmic width.
fn histogram(a: Option<&Histogram>, b: Option<&Histogram>) -> Option<CompareHistogram> {
    let (a, b) = (a?, b?);
    let ends = |histogram: &Histogram| Some((*histogram.edges_ms.first()?, *histogram.edges_ms.last()?));
    let ((a_low, a_high), (b_low, b_high)) = (ends(a)?, ends(b)?);
    let (low, high) = (a_low.min(b_low).max(1e-9), a_high.max(b_high));
    if high <= low {
        return None;
    }
    let edges: Vec<f64> =
        (0..=BINS).map(|index| low * (high / low).powf(index as f64 / BINS as f64)).collect();
    let spread = |histogram: &Histogram| -> Vec<f64> {
        let mut counts = vec![0.0; BINS];
        for (bin, count) in histogram.edges_ms.windows(2).zip(&histogram.counts) {
            let (from, to) = (bin[0].max(1e-9).ln(), bin[1].max(1e-9).ln());
            for (index, edge) in edges.windows(2).enumerate() {
                let overlap = (edge[1].ln().min(to) - edge[0].ln().max(from)).max(0.0);
                let share = if to > from { overlap / (to - from) } else { 0.0 };
                counts[index] += share * *count as f64;
            }
        }
        counts
    };
    Some(CompareHistogram { a: spread(a), b: spread(b), edges_ms: edges })
}

/// Operators by type or by node; mean self time per profiled run.
fn operators(a: &ReportModel, b: &ReportModel, by_node: bool) -> (Vec<CompareOperator>, u64) {
    let mut sums: BTreeMap<String, CompareOperator> = BTreeMap::new();
    for (model, is_a) in [(a, true), (b, false)] {
        for report in &model.operators {
            let runs = report.runs.max(1) as f64;
            let mut add = |name: &str, op_type: &str, provider: &str, times: &CallTimes| {
                let sum = sums.entry(name.to_owned()).or_default();
                name.clone_into(&mut sum.name);
                op_type.clone_into(&mut sum.op_type);
                let (providers, calls, per_run) = if is_a {
                    (&mut sum.execution_provider_a, &mut sum.calls_a, &mut sum.ms_per_run_a)
                } else {
                    (&mut sum.execution_provider_b, &mut sum.calls_b, &mut sum.ms_per_run_b)
                };
                providers.get_or_insert_with(|| provider.to_owned());
                *calls += times.calls;
                *per_run.get_or_insert(0.0) += times.self_ms / runs;
            };
            if by_node {
                for row in &report.by_node {
                    add(&row.name, &row.op_type, &row.execution_provider, &row.times);
                }
            } else {
                for row in &report.by_type {
                    add(&row.op_type, &row.op_type, &row.execution_provider, &row.times);
                }
            }
        }
    }
    let mut list: Vec<CompareOperator> = sums.into_values().collect();
    for sum in &mut list {
        let both = sum.ms_per_run_a.zip(sum.ms_per_run_b);
        sum.difference_ms = both.map(|(a, b)| b - a);
        sum.ratio = both.filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a - 1.0);
    }
    let weight = |sum: &CompareOperator| {
        sum.difference_ms.map_or_else(|| sum.ms_per_run_a.or(sum.ms_per_run_b).unwrap_or(0.0), f64::abs)
    };
    list.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    let beyond = list.len().saturating_sub(MAX_NODES) as u64;
    list.truncate(MAX_NODES);
    (list, beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_bins_keep_the_counts() {
        let histogram_of = |low: f64, counts: &[u64]| Histogram {
            edges_ms: (0..=counts.len()).map(|index| low * 1.5_f64.powi(index as i32)).collect(),
            counts: counts.to_vec(),
            tail: false,
        };
        let (a, b) = (histogram_of(1.0, &[5, 10, 5]), histogram_of(2.0, &[1, 2, 3]));
        let both = histogram(Some(&a), Some(&b)).expect("both are there");
        let (sum_a, sum_b) = (both.a.iter().sum::<f64>(), both.b.iter().sum::<f64>());
        assert!((sum_a - 20.0).abs() < 1e-6 && (sum_b - 6.0).abs() < 1e-6);
        assert!(histogram(Some(&a), None).is_none());
    }

    #[test]
    fn a_metric_of_one_side_has_no_difference() {
        let metric = |b| CompareMetric::new("p50_ms", "milliseconds", Better::Lower, Some(2.0), b);
        assert_eq!((metric(None).difference, metric(None).ratio), (None, None));
        assert_eq!((metric(Some(3.0)).difference, metric(Some(3.0)).ratio), (Some(1.0), Some(0.5)));
    }
}
