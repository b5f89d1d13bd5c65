//! `ortscope runs trend`: stored runs of a model over time, and where they changed.
//!
//! Only runs that can be compared are laid in one line: same model, settings, scenario and machine. Change points are for
//! people who look back; a verdict needs `ortscope bench` or `gate`, which measure both sides at once.

use std::collections::BTreeMap;

use ortscope_analyze::verdict::Metric;
use ortscope_analyze::verdict::change_points::{ChangePoint, FEWEST_RUNS, change_points};
use ortscope_store::{Recording, Store};
use serde::Serialize;

use super::runs::{keep_matching, print};
use crate::exit::{Exit, Failure};
use crate::recording;
use crate::terminal::{BOLD, DIM, Terminal, WARN};
use ortscope_core::units;
use ortscope_render::comparison::shown;
use ortscope_result::RunResult;
use ortscope_result::comparison::signed;

/// Recordings that are read, the newest: each is a file to open.
const MAX_RECORDINGS: usize = 2000;

#[derive(Debug, Serialize)]
struct TrendDocument {
    schema: &'static str,
    metric: Metric,
    series: Vec<Series>,
    /// Recordings that hold no such figure: other commands, sweeps, failed runs.
    left_out: usize,
}

/// Runs that can be compared, the oldest first.
#[derive(Debug, Serialize)]
struct Series {
    model: String,
    settings: String,
    machine: BTreeMap<String, String>,
    runs: Vec<Point>,
    /// `at` is an index into `runs`.
    change_points: Vec<ChangePoint>,
}

#[derive(Debug, Clone, Serialize)]
struct Point {
    id: String,
    started_unix_ns: u64,
    /// Milliseconds, per second or bytes.
    value: f64,
}

pub fn run(
    store: &Store,
    matching: Option<&str>,
    metric: &str,
    terminal: &Terminal,
) -> Result<Exit, Failure> {
    let metric: Metric =
        metric.parse().map_err(|problem: String| Failure::usage(format!("--metric: {problem}")))?;
    let mut entries = store.list()?;
    keep_matching(&mut entries, matching);
    let mut left_out = entries.len().saturating_sub(MAX_RECORDINGS);
    entries.truncate(MAX_RECORDINGS);
    let mut groups: BTreeMap<(String, String, String), Series> = BTreeMap::new();
    for entry in entries.iter().rev() {
        let Some((result, machine)) = only_result(&entry.directory) else {
            left_out += 1;
            continue;
        };
        let Some(value) = figure(&result, metric) else {
            left_out += 1;
            continue;
        };
        let model = result.model.name.clone();
        let inputs = result.inputs.as_ref().map(|inputs| &inputs.described);
        let settings = format!("{:?} {:?} {inputs:?}", result.configuration, result.scenario);
        let key = (model.clone(), settings.clone(), format!("{machine:?}"));
        let series = groups.entry(key).or_insert_with(|| Series {
            model,
            settings: short_settings(&result),
            machine,
            runs: Vec::new(),
            change_points: Vec::new(),
        });
        series.runs.push(Point { id: entry.id.clone(), started_unix_ns: entry.started_unix_ns, value });
    }
    let mut series: Vec<Series> = groups.into_values().collect();
    for one in &mut series {
        one.runs.sort_by_key(|point| point.started_unix_ns);
        one.change_points = change_points(&one.runs.iter().map(|point| point.value).collect::<Vec<_>>());
    }
    series.sort_by_key(|one| std::cmp::Reverse(one.runs.len()));
    let document = TrendDocument { schema: "ortscope.runs.trend/1", metric, series, left_out };
    print(terminal, &document, || text(&document, terminal))
}

/// The result of a run with one, and the machine it was made on.
fn only_result(directory: &std::path::Path) -> Option<(RunResult, BTreeMap<String, String>)> {
    let recording = Recording::open(directory).ok()?;
    let mut results = recording::results(&recording).ok()?;
    let result = results.pop().filter(|_| results.is_empty())?;
    Some((result, recording.manifest().fingerprint.clone()))
}

fn figure(result: &RunResult, metric: Metric) -> Option<f64> {
    match metric {
        Metric::P50 | Metric::P90 | Metric::P99 => {
            result.latency.as_ref()?.inference.percentile_ms(metric.name())
        }
        Metric::Throughput => Some(result.throughput.as_ref()?.requests_per_second),
        Metric::Memory => result.memory.peak_bytes.map(|bytes| bytes as f64),
        Metric::Energy => result.energy.as_ref()?.joules_per_inference,
        Metric::Time => None,
    }
}

fn short_settings(result: &RunResult) -> String {
    let options = &result.configuration;
    let mut parts = Vec::new();
    parts.extend(options.intra_op_threads.map(|threads| units::counted(u64::from(threads), "thread")));
    let providers: Vec<&str> = options.providers.iter().map(|provider| provider.name.as_str()).collect();
    if !providers.is_empty() {
        parts.push(providers.join("+"));
    }
    parts.join(", ")
}

fn text(document: &TrendDocument, terminal: &Terminal) -> Vec<String> {
    let mut lines = Vec::new();
    for one in &document.series {
        let shown = |value: f64| shown(document.metric, value);
        lines.push(format!(
            "{}  {}  {} of {}",
            terminal.paint(BOLD, &one.model),
            one.settings,
            document.metric,
            units::counted(one.runs.len() as u64, "run")
        ));
        if let (Some(first), Some(last)) = (one.runs.first(), one.runs.last()) {
            lines.push(format!("  {} … {}  {}", shown(first.value), shown(last.value), sparkline(&one.runs)));
        }
        for point in &one.change_points {
            let id = one.runs.get(point.at).map_or("?", |run| run.id.as_str());
            let change = terminal.paint(WARN, &signed(point.change));
            lines.push(format!("  {change} from {id} on: {} → {}", shown(point.before), shown(point.after)));
        }
        if one.change_points.is_empty() {
            let why = if one.runs.len() < 2 * FEWEST_RUNS {
                format!("no change can be told from fewer than {} runs", 2 * FEWEST_RUNS)
            } else {
                "no change".to_owned()
            };
            lines.push(terminal.paint(DIM, &format!("  {why}")));
        }
    }
    if document.series.is_empty() {
        lines.push(format!("no stored run has a {}", document.metric));
    }
    if document.left_out > 0 {
        let left = units::counted(document.left_out as u64, "recording");
        lines.push(terminal.paint(DIM, &format!("{left} without this figure left out")));
    }
    lines
}

/// At most 40 bars, the newest runs.
fn sparkline(runs: &[Point]) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let recent = &runs[runs.len().saturating_sub(40)..];
    let low = recent.iter().map(|run| run.value).fold(f64::INFINITY, f64::min);
    let high = recent.iter().map(|run| run.value).fold(0.0, f64::max);
    let bar = |value: f64| {
        let place = if high > low { (value - low) / (high - low) } else { 0.0 };
        BARS[((place * 7.0).round() as usize).min(7)]
    };
    recent.iter().map(|run| bar(run.value)).collect()
}
