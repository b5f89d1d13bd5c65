//! Two sources side by side: differences, not a verdict. A verdict needs several runs of each (`ortscope compare`).

use std::collections::BTreeMap;

use ortscope_result::{Histogram, OperatorReport, ReportModel, SessionReport};
use serde_json::{Value, json};

use super::hello::source_info;
use super::{Answer, number, optional};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;

const MAX_NODES: usize = 500;
const BINS: usize = 60;
/// Facts that may differ between two runs on one machine without making their times incomparable.
const HARMLESS: &[&str] = &["ort_version", "memory_bytes"];

pub fn compare(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
    let side = |name: &str| app.sources.get(asked.params.text(name).unwrap_or_default());
    let (a, b) = (side("a")?, side("b")?);
    let model = |source: &Source| {
        source.report(&app.reports, (source.first_ns, source.last_ns.saturating_add(1)), None)
    };
    let (model_a, model_b) = (model(&a)?, model(&b)?);
    let differences = machine_differences(&model_a, &model_b);
    let blocking: Vec<&str> =
        differences.iter().map(|(fact, ..)| fact.as_str()).filter(|fact| !HARMLESS.contains(fact)).collect();
    let note = if blocking.is_empty() {
        "both were made on machines with the same facts; differences between two runs also come from chance"
            .to_owned()
    } else {
        format!("the machines differ in {}: times are not comparable", blocking.join(", "))
    };
    let (by_type, _) = operators(&model_a, &model_b, false);
    let (nodes, beyond) = operators(&model_a, &model_b, true);
    Answer::json(&json!({
        "a": source_info(&a)?,
        "b": source_info(&b)?,
        "kind": "difference",
        "machine_differences": differences.iter().map(|(fact, a, b)| json!({ "fact": fact, "a": a, "b": b })).collect::<Vec<_>>(),
        "comparable": blocking.is_empty(),
        "comparable_note": note,
        "sessions": sessions(&model_a, &model_b),
        "operators": by_type,
        "nodes": nodes,
        "nodes_not_listed": beyond,
    }))
}

type Difference = (String, Option<String>, Option<String>);

fn machine_differences(a: &ReportModel, b: &ReportModel) -> Vec<Difference> {
    let (a, b) = (&a.header.machine, &b.header.machine);
    let mut facts: Vec<&String> = a.keys().chain(b.keys()).collect();
    facts.sort();
    facts.dedup();
    facts
        .into_iter()
        .filter(|fact| a.get(*fact) != b.get(*fact))
        .map(|fact| (fact.clone(), a.get(fact).cloned(), b.get(fact).cloned()))
        .collect()
}

/// Sessions of one model, in their order, belong together.
fn sessions(a: &ReportModel, b: &ReportModel) -> Vec<Value> {
    let key = |session: &SessionReport| (session.model_name.clone(), session.label.clone());
    let mut left: Vec<&SessionReport> = b.sessions.iter().collect();
    let mut pairs: Vec<(Option<&SessionReport>, Option<&SessionReport>)> = Vec::new();
    for session in &a.sessions {
        let fits = left.iter().position(|other| key(other) == key(session));
        pairs.push((Some(session), fits.map(|index| left.remove(index))));
    }
    // Two models of other names, one in each: that is what is to be compared.
    if let ([(Some(_), other @ None)], [only]) = (pairs.as_mut_slice(), left.as_slice()) {
        *other = Some(only);
        left.clear();
    }
    pairs.extend(left.into_iter().map(|session| (None, Some(session))));
    pairs.into_iter().map(|(a, b)| pair(a, b)).collect()
}

fn pair(a: Option<&SessionReport>, b: Option<&SessionReport>) -> Value {
    let title = match (a, b) {
        (Some(a), Some(b)) if a.title != b.title => format!("{} → {}", a.title, b.title),
        (Some(one), _) | (None, Some(one)) => one.title.clone(),
        (None, None) => String::new(),
    };
    let mut metrics: Vec<Value> = Vec::new();
    for name in ["p50", "p90", "p95", "p99", "p99_9"] {
        let of = |session: Option<&SessionReport>| {
            session.and_then(|session| session.inference.as_ref()?.percentile_ms(name))
        };
        let interval = |session: Option<&SessionReport>| {
            let latency = session?.inference.as_ref()?;
            latency.percentile_ms(name).map(|_| latency.interval_ms(name))
        };
        metrics.push(metric(
            &format!("{name}_ms"),
            "milliseconds",
            "lower",
            of(a),
            of(b),
            interval(a),
            interval(b),
        ));
    }
    type Figure = fn(&SessionReport) -> Option<f64>;
    let figures: [(&str, &str, &str, Figure); 7] = [
        ("mean_ms", "milliseconds", "lower", |session| Some(session.inference.as_ref()?.mean_ms)),
        ("jitter_ms", "milliseconds", "lower", |session| Some(session.inference.as_ref()?.jitter.iqr_ms)),
        ("requests_per_second", "per second", "higher", |session| {
            Some(session.throughput.as_ref()?.requests_per_second)
        }),
        ("first_run_ms", "milliseconds", "lower", |session| session.cold?.first_run_ms),
        ("session_first_ms", "milliseconds", "lower", |session| session.cold?.session_first_ms),
        ("peak_memory_bytes", "bytes", "lower", |session| Some(session.memory?.peak_bytes? as f64)),
        ("cpu_cores_used", "cores", "lower", |session| session.cpu_cores_used),
    ];
    for (name, unit, better, figure) in figures {
        metrics.push(metric(name, unit, better, a.and_then(figure), b.and_then(figure), None, None));
    }
    json!({
        "title": title,
        "a_session_id": a.map(|session| &session.session_id),
        "b_session_id": b.map(|session| &session.session_id),
        "metrics": metrics,
        "histogram": histogram(a.and_then(|session| session.histogram.as_ref()), b.and_then(|session| session.histogram.as_ref())),
    })
}

type Interval = Option<[Option<f64>; 2]>;

fn metric(
    name: &str,
    unit: &str,
    better: &str,
    a: Option<f64>,
    b: Option<f64>,
    a_interval: Interval,
    b_interval: Interval,
) -> Value {
    let both = a.zip(b);
    json!({
        "name": name,
        "unit": unit,
        "a": optional(a),
        "b": optional(b),
        "difference": optional(both.map(|(a, b)| b - a)),
        "ratio": optional(both.filter(|(a, _)| *a != 0.0).map(|(a, b)| b / a - 1.0)),
        "better": better,
        "a_interval": a_interval,
        "b_interval": b_interval,
    })
}

/// Both histograms in the same bins. Counts of a bin that is cut are shared out by its logarithmic width.
fn histogram(a: Option<&Histogram>, b: Option<&Histogram>) -> Option<Value> {
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
    let whole = |counts: Vec<f64>| counts.into_iter().map(number).collect::<Vec<_>>();
    Some(json!({ "edges_ms": edges, "a": whole(spread(a)), "b": whole(spread(b)) }))
}

#[derive(Default)]
struct Times {
    op_type: String,
    provider: [Option<String>; 2],
    calls: [u64; 2],
    per_run: [Option<f64>; 2],
}

/// Operators by type or by node; mean self time per profiled run.
fn operators(a: &ReportModel, b: &ReportModel, by_node: bool) -> (Vec<Value>, u64) {
    let mut times: BTreeMap<String, Times> = BTreeMap::new();
    for (side, model) in [a, b].into_iter().enumerate() {
        for report in &model.operators {
            let runs = report.runs.max(1) as f64;
            for (name, op_type, provider, calls, self_ms) in rows(report, by_node) {
                let entry = times.entry(name).or_default();
                entry.op_type = op_type;
                entry.provider[side].get_or_insert(provider);
                entry.calls[side] += calls;
                *entry.per_run[side].get_or_insert(0.0) += self_ms / runs;
            }
        }
    }
    let mut list: Vec<(f64, Value)> = times
        .into_iter()
        .map(|(name, times)| {
            let both = times.per_run[0].zip(times.per_run[1]);
            let difference = both.map(|(a, b)| b - a);
            let weight =
                difference.map_or_else(|| times.per_run[0].or(times.per_run[1]).unwrap_or(0.0), f64::abs);
            let value = json!({
                "name": name,
                "op_type": times.op_type,
                "execution_provider_a": times.provider[0],
                "execution_provider_b": times.provider[1],
                "calls_a": times.calls[0],
                "calls_b": times.calls[1],
                "ms_per_run_a": optional(times.per_run[0]),
                "ms_per_run_b": optional(times.per_run[1]),
                "difference_ms": optional(difference),
                "ratio": optional(both.filter(|(a, _)| *a > 0.0).map(|(a, b)| b / a - 1.0)),
            });
            (weight, value)
        })
        .collect();
    list.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    let beyond = list.len().saturating_sub(MAX_NODES) as u64;
    list.truncate(MAX_NODES);
    (list.into_iter().map(|(_, value)| value).collect(), beyond)
}

/// Name, type, provider, calls, self time.
type Row = (String, String, String, u64, f64);

fn rows(report: &OperatorReport, by_node: bool) -> Vec<Row> {
    if by_node {
        let nodes = report.by_node.iter();
        nodes
            .map(|row| {
                (
                    row.name.clone(),
                    row.op_type.clone(),
                    row.execution_provider.clone(),
                    row.times.calls,
                    row.times.self_ms,
                )
            })
            .collect()
    } else {
        let types = report.by_type.iter();
        types
            .map(|row| {
                (
                    row.op_type.clone(),
                    row.op_type.clone(),
                    row.execution_provider.clone(),
                    row.times.calls,
                    row.times.self_ms,
                )
            })
            .collect()
    }
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
        let sum =
            |side: &str| both[side].as_array().expect("counts").iter().filter_map(Value::as_f64).sum::<f64>();
        assert!((sum("a") - 20.0).abs() < 1e-6 && (sum("b") - 6.0).abs() < 1e-6);
        assert!(histogram(Some(&a), None).is_none());
    }

    #[test]
    fn a_metric_that_one_side_lacks_has_no_difference() {
        let value = metric("p50_ms", "milliseconds", "lower", Some(2.0), None, None, None);
        assert!(value["difference"].is_null() && value["ratio"].is_null());
        let value = metric("p50_ms", "milliseconds", "lower", Some(2.0), Some(3.0), None, None);
        assert_eq!((value["difference"].as_f64(), value["ratio"].as_f64()), (Some(1.0), Some(0.5)));
    }
}
