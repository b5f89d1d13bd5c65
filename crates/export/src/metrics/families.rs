//! Metrics by name: what they are called, what they mean, and their values.

use std::collections::BTreeMap;

use ortscope_core::schema::{SystemSampleRow, Text};

use super::ModelKey;
use super::inferences::Inferences;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    Gauge,
    Histogram,
    Summary,
}

/// Counts per bucket, the last one of what is above all bounds.
#[derive(Debug, Clone, PartialEq)]
pub struct Histogram {
    pub bounds: Vec<f64>,
    pub counts: Vec<u64>,
    pub sum: f64,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    pub quantiles: Vec<(f64, f64)>,
    pub sum: f64,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Number(f64),
    Histogram(Histogram),
    Summary(Summary),
}

/// One value with its labels.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    pub labels: Vec<(&'static str, Text)>,
    pub value: Value,
}

/// All values of one name.
#[derive(Debug, Clone, PartialEq)]
pub struct Family {
    pub name: String,
    pub help: &'static str,
    /// In the words of OTLP (UCUM): s, By, W, 1.
    pub unit: &'static str,
    pub kind: Kind,
    pub points: Vec<Point>,
}

/// One number as Prometheus keeps it.
#[derive(Debug, Clone, PartialEq)]
pub struct Flat {
    pub name: String,
    pub labels: Vec<(&'static str, Text)>,
    pub value: f64,
}

impl Family {
    fn new(name: &str, unit: &'static str, kind: Kind, help: &'static str, points: Vec<Point>) -> Self {
        Self { name: format!("ortscope_{name}"), help, unit, kind, points }
    }

    /// The series of Prometheus: a histogram and a summary are several.
    pub fn flat(&self) -> Vec<Flat> {
        let mut flat = Vec::new();
        for point in &self.points {
            let mut add = |suffix: &str, extra: Option<(&'static str, String)>, value: f64| {
                let mut labels = point.labels.clone();
                labels.extend(extra.map(|(name, text)| (name, Text::from(text))));
                flat.push(Flat { name: format!("{}{suffix}", self.name), labels, value });
            };
            match &point.value {
                Value::Number(value) => add("", None, *value),
                Value::Histogram(histogram) => {
                    let mut sum = 0;
                    for (index, count) in histogram.counts.iter().enumerate() {
                        sum += count;
                        let bound = histogram.bounds.get(index);
                        let bound = bound.map_or_else(|| "+Inf".to_owned(), ToString::to_string);
                        add("_bucket", Some(("le", bound)), sum as f64);
                    }
                    add("_sum", None, histogram.sum);
                    add("_count", None, histogram.count as f64);
                }
                Value::Summary(summary) => {
                    for (quantile, value) in &summary.quantiles {
                        add("", Some(("quantile", quantile.to_string())), *value);
                    }
                    add("_sum", None, summary.sum);
                    add("_count", None, summary.count as f64);
                }
            }
        }
        flat
    }
}

fn model_labels((model, provider): &ModelKey) -> Vec<(&'static str, Text)> {
    vec![("model", Text::clone(model)), ("provider", Text::clone(provider))]
}

fn number(labels: Vec<(&'static str, Text)>, value: f64) -> Point {
    Point { labels, value: Value::Number(value) }
}

pub(super) fn inferences(all: &BTreeMap<ModelKey, Inferences>) -> Vec<Family> {
    let points = |value: &dyn Fn(&Inferences) -> Value| -> Vec<Point> {
        all.iter().map(|(key, sums)| Point { labels: model_labels(key), value: value(sums) }).collect()
    };
    vec![
        Family::new(
            "inference_duration_seconds",
            "s",
            Kind::Histogram,
            "Latency of inferences from their planned start to their end.",
            points(&|sums| Value::Histogram(sums.histogram())),
        ),
        Family::new(
            "inference_latency_seconds",
            "s",
            Kind::Summary,
            "The same by percentiles of the window; one that too few inferences would bear is left out.",
            points(&|sums| Value::Summary(sums.summary())),
        ),
        Family::new(
            "inference_run_seconds_total",
            "s",
            Kind::Counter,
            "Time inside of ONNX Runtime's Run.",
            points(&|sums| Value::Number(sums.run_ns as f64 / 1e9)),
        ),
        Family::new(
            "inference_errors_total",
            "1",
            Kind::Counter,
            "Inferences that returned an error.",
            points(&|sums| Value::Number(sums.errors as f64)),
        ),
    ]
}

pub(super) fn operators<'a>(all: impl Iterator<Item = (&'a ModelKey, u64, f64)>) -> Vec<Family> {
    let (mut counts, mut seconds) = (Vec::new(), Vec::new());
    for (key, count, sum) in all {
        counts.push(number(model_labels(key), count as f64));
        seconds.push(number(model_labels(key), sum));
    }
    vec![
        Family::new("operators_total", "1", Kind::Counter, "Operators that were profiled.", counts),
        Family::new(
            "operator_seconds_total",
            "s",
            Kind::Counter,
            "Time of profiled operators by the execution provider that ran them.",
            seconds,
        ),
    ]
}

pub(super) fn system(row: Option<&SystemSampleRow>) -> Vec<Family> {
    let Some(row) = row else { return Vec::new() };
    let whole = |value: Option<u64>| value.map(|value| value as f64);
    let metrics: [(&str, &'static str, Kind, &'static str, Option<f64>); 7] = [
        (
            "cpu_busy_ratio",
            "1",
            Kind::Gauge,
            "Busy share of all processors.",
            row.cpu_percent.map(|percent| percent / 100.0),
        ),
        ("memory_used_bytes", "By", Kind::Gauge, "Physical memory in use.", whole(row.memory_used_bytes)),
        ("memory_size_bytes", "By", Kind::Gauge, "Physical memory there is.", whole(row.memory_total_bytes)),
        ("swap_used_bytes", "By", Kind::Gauge, "Swap or page file in use.", whole(row.swap_used_bytes)),
        (
            "cpu_frequency_hertz",
            "Hz",
            Kind::Gauge,
            "Mean frequency of the processors.",
            row.cpu_frequency_hertz,
        ),
        ("processes", "1", Kind::Gauge, "Processes alive.", whole(row.process_count)),
        (
            "context_switches_total",
            "1",
            Kind::Counter,
            "Context switches of the machine.",
            whole(row.context_switches),
        ),
    ];
    let family = |(name, unit, kind, help, value): (_, _, _, _, Option<f64>)| {
        let points = value.filter(|value: &f64| value.is_finite()).map(|value| number(Vec::new(), value));
        Family::new(name, unit, kind, help, points.into_iter().collect())
    };
    metrics.into_iter().map(family).collect()
}

/// What a device's metric is called here: letters, digits and underscores.
fn metric_name(metric: &str) -> String {
    let clean = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '_' };
    format!("device_{}", metric.chars().map(clean).collect::<String>())
}

fn unit_of(metric: &str) -> &'static str {
    let ends = [
        ("_watts", "W"),
        ("_joules", "J"),
        ("_celsius", "Cel"),
        ("_bytes", "By"),
        ("_hertz", "Hz"),
        ("_seconds", "s"),
    ];
    ends.iter().find(|(end, _)| metric.ends_with(end)).map_or("1", |(_, unit)| unit)
}

pub(super) fn sensors(all: &BTreeMap<(Text, Text), f64>) -> Vec<Family> {
    let mut by_name: BTreeMap<String, (&str, Vec<Point>)> = BTreeMap::new();
    for ((device, metric), value) in all {
        let labels = vec![("device", Text::clone(device))];
        let entry = by_name.entry(metric_name(metric)).or_insert_with(|| (metric, Vec::new()));
        // Two metrics whose names differ only in what a name cannot hold: the first stays.
        if entry.1.iter().all(|point| point.labels != labels) {
            entry.1.push(number(labels, *value));
        }
    }
    by_name
        .into_iter()
        .map(|(name, (metric, points))| {
            Family::new(
                &name,
                unit_of(metric),
                Kind::Gauge,
                "A sensor of a device, the newest reading.",
                points,
            )
        })
        .collect()
}

/// CPU time in seconds, resident and private bytes.
type ProcessSums = (f64, f64, Option<f64>);

pub(super) fn processes(by_model: &BTreeMap<&Text, ProcessSums>) -> Vec<Family> {
    let points = |value: fn(&ProcessSums) -> Option<f64>| -> Vec<Point> {
        by_model
            .iter()
            .filter_map(|(model, sums)| Some(number(vec![("model", Text::clone(model))], value(sums)?)))
            .collect()
    };
    vec![
        Family::new(
            "process_cpu_seconds_total",
            "s",
            Kind::Counter,
            "CPU time of the processes that run the model.",
            points(|sums| Some(sums.0)),
        ),
        Family::new(
            "process_resident_memory_bytes",
            "By",
            Kind::Gauge,
            "Resident memory of these processes.",
            points(|sums| Some(sums.1)),
        ),
        Family::new(
            "process_private_memory_bytes",
            "By",
            Kind::Gauge,
            "Memory that belongs to these processes alone.",
            points(|sums| sums.2),
        ),
    ]
}

fn by_label(all: &BTreeMap<Text, u64>, name: &'static str) -> Vec<Point> {
    all.iter().map(|(text, count)| number(vec![(name, Text::clone(text))], *count as f64)).collect()
}

pub(super) fn losses(all: &BTreeMap<Text, u64>) -> Vec<Family> {
    let help = "Records that ortscope lost, by kind.";
    vec![Family::new("lost_records_total", "1", Kind::Counter, help, by_label(all, "kind"))]
}

pub(super) fn findings(all: &BTreeMap<Text, u64>) -> Vec<Family> {
    let help = "Things a user should act on, by severity.";
    vec![Family::new("findings", "1", Kind::Gauge, help, by_label(all, "severity"))]
}
