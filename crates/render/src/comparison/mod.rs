//! Comparisons as terminal text, and gates also as Markdown, JUnit and CI annotations.

mod gate;

use ortscope_core::units;
use ortscope_result::comparison::{
    Attribution, BatchPair, BatchPoint, BatchSweeps, Comparison, Difference, MemoryFit, Metric,
    MetricVerdict, NodeChange, StoredComparison, StoredRun, Verdict, arena_sentence, interval, signed,
};

use crate::style::Style;

pub use gate::{Ci, gate_junit, gate_markdown, gate_text};

/// Largest number of operators in the text.
const MAX_OPERATORS: usize = 5;

/// Renders a comparison that was measured on this machine.
pub fn comparison_text(report: &Comparison, color: bool) -> String {
    joined(&comparison_lines(report, color))
}

fn joined(lines: &[String]) -> String {
    lines.join("\n") + "\n"
}

fn comparison_lines(report: &Comparison, color: bool) -> Vec<String> {
    let mut lines = vec![
        format!("{}  {}", Style::Bold.paint("A", color), report.a.title()),
        format!("{}  {}", Style::Bold.paint("B", color), report.b.title()),
    ];
    let blocks =
        report.block_seconds.map_or_else(String::new, |seconds| format!(" of {}", units::duration(seconds)));
    let turns = report
        .turn_seconds
        .map_or_else(String::new, |seconds| format!(" of {}", units::nanoseconds(seconds * 1e9)));
    let how = format!(
        "{} in turns{turns}, a fresh process for every block{blocks}, {}",
        units::counted(report.rounds.len() as u64, "round"),
        units::duration(report.wall_seconds)
    );
    lines.push(Style::Dim.paint(&how, color));
    if !report.rounds.is_empty() {
        lines.push(String::new());
        lines.extend(table(&report.verdicts, color));
    }
    lines.push(String::new());
    for output in report.outputs.iter().flatten() {
        lines.push(format!("outputs   {}: {}", output.name, output.comparison.sentence));
    }
    // Without a difference the operators would only show noise.
    let differs = report.verdict != Verdict::Pass;
    if let Some(operators) = report.operators.as_ref().filter(|found| differs || found.any_moved()) {
        lines.extend(operator_lines(operators, color));
    }
    lines.extend(report.notes.iter().map(|note| Style::Dim.paint(&format!("note      {note}"), color)));
    lines.push(verdict_line(report.verdict, &report.summary, color));
    lines
}

fn verdict_line(verdict: Verdict, summary: &str, color: bool) -> String {
    format!("verdict   {}: {summary}", painted(verdict, color))
}

/// One row per metric.
fn table(verdicts: &[MetricVerdict], color: bool) -> Vec<String> {
    let header = format!(
        "{:<11}{:>12}{:>12}  {:>9}  {:<22}{:>7}  {}",
        "", "A", "B", "change", "interval", "margin", "verdict"
    );
    let mut lines = vec![Style::Dim.paint(header.trim_end(), color)];
    for found in verdicts {
        let figure =
            |value: Option<f64>| value.map_or_else(|| "n/a".into(), |value| shown(found.metric, value));
        let verdict = match &found.reason {
            Some(reason) => format!("{} ({reason})", painted(found.verdict, color)),
            None => painted(found.verdict, color),
        };
        lines.push(format!(
            "{:<11}{:>12}{:>12}  {:>9}  {:<22}{:>7}  {verdict}",
            found.metric.name(),
            figure(found.a),
            figure(found.b),
            found.change.map_or_else(|| "n/a".into(), signed),
            interval(found),
            units::percent(found.margin),
        ));
    }
    lines
}

/// Returns the name of a verdict in its color.
fn painted(verdict: Verdict, color: bool) -> String {
    let style = match verdict {
        Verdict::Pass | Verdict::Improvement => Style::Good,
        Verdict::Regression => Style::Bad,
        Verdict::Inconclusive => Style::Warning,
    };
    style.paint(verdict.name(), color)
}

/// Formats a figure in the unit of its metric.
pub fn shown(metric: Metric, value: f64) -> String {
    match metric {
        Metric::P50 | Metric::P90 | Metric::P99 | Metric::Time => units::nanoseconds(value * 1e6),
        Metric::Throughput => format!("{}/s", units::digits(value)),
        Metric::Memory => units::bytes(value),
        Metric::Energy => format!("{} mJ", units::digits(value * 1e3)),
    }
}

fn operator_lines(found: &Attribution, color: bool) -> Vec<String> {
    if found.nodes.is_empty() {
        return vec![
            "where     no operator stands out (one profile per side: attribution, not a test)".into(),
        ];
    }
    let mut lines: Vec<String> = found.nodes.iter().take(MAX_OPERATORS).map(node_line).collect();
    let rest = found.nodes.len().saturating_sub(MAX_OPERATORS) + found.not_listed;
    let more = if rest > 0 { format!(", {rest} more with --json") } else { String::new() };
    lines.push(Style::Dim.paint(&format!("          {}{more}", found.label), color));
    lines
}

fn node_line(node: &NodeChange) -> String {
    let us = |time: Option<f64>| time.map_or_else(|| "absent".into(), |us| units::nanoseconds(us * 1e3));
    let change = match (node.a_us, node.b_us) {
        (Some(a), Some(b)) if a > 0.0 => signed(b / a - 1.0),
        (Some(_), None) => "gone".into(),
        _ => "new".into(),
    };
    let moved = match (&node.a_provider, &node.b_provider) {
        (Some(a), Some(b)) if node.moved => {
            format!(", moved from {} to {}", units::provider(a), units::provider(b))
        }
        _ => String::new(),
    };
    format!(
        "where     {} ({}) {change}: {} → {}{moved}",
        units::clean(&node.name, 48),
        node.op_type,
        us(node.a_us),
        us(node.b_us)
    )
}

/// Renders a comparison of stored recordings.
pub fn stored_text(document: &StoredComparison, color: bool) -> String {
    let mut lines = Vec::new();
    let sides = [("A", &document.a), ("B", &document.b)];
    for (name, side) in sides {
        let list: Vec<&str> = side.iter().map(StoredRun::shown_name).collect();
        let subject = side.first().map_or("", |one| one.subject.as_str());
        lines.push(format!("{}  {subject}  {}", Style::Bold.paint(name, color), list.join(", ")));
    }
    lines.push(String::new());
    // A reason that holds for all metrics is in the last line only.
    let mut rows = document.verdicts.clone();
    for row in rows.iter_mut().filter(|row| row.reason.as_ref() == Some(&document.summary)) {
        row.reason = None;
    }
    lines.extend(table(&rows, color));
    lines.push(String::new());
    if let ([a], [b]) = (document.a.as_slice(), document.b.as_slice()) {
        lines.extend([("A", a), ("B", b)].map(|(name, one)| Style::Dim.paint(&within(name, one), color)));
    }
    for (name, side) in sides {
        for (one, leak) in side.iter().filter_map(|one| Some((one, one.leak.as_ref()?))) {
            let whose = if side.len() > 1 { format!("{}: ", one.shown_name()) } else { String::new() };
            lines.push(format!("leak {name}    {whose}{}", leak.sentence));
            lines.extend(arena_sentence(leak).map(|arena| format!("arena {name}   {whose}{arena}")));
        }
    }
    if document.forced {
        let list: Vec<String> = document.differences.iter().map(Difference::sentence).collect();
        lines.push(Style::Warning.paint(&format!("forced    not comparable: {}", list.join(", ")), color));
    }
    lines.extend(document.notes.iter().map(|note| Style::Dim.paint(&format!("note      {note}"), color)));
    lines.push(verdict_line(document.verdict, &document.summary, color));
    joined(&lines)
}

/// The intervals inside one recording.
fn within(name: &str, one: &StoredRun) -> String {
    let parts: Vec<String> = one
        .intervals_ms
        .iter()
        .filter_map(|(metric, ends)| {
            let [Some(low), Some(high)] = ends else { return None };
            Some(format!("{metric} {} to {}", shown(Metric::P50, *low), shown(Metric::P50, *high)))
        })
        .collect();
    format!("within {name}  {}  ({})", parts.join(", "), units::counted(one.runs as u64, "run"))
}

/// Renders two sweeps over batch sizes, with the verdict that the caller gives them.
pub fn batches_text(sweeps: &BatchSweeps, verdict: Verdict, summary: &str, color: bool) -> String {
    let head = format!(
        "{:<7}{:>11}{:>11}{:>10}{:>13}{:>13}{:>10}",
        "batch", "p50 A", "p50 B", "change", "memory A", "memory B", "change"
    );
    let mut lines = vec![Style::Dim.paint(&head, color)];
    for BatchPair { batch, a, b } in &sweeps.batches {
        let time = |point: &BatchPoint| units::nanoseconds(point.p50_ns as f64);
        let bytes = |point: &BatchPoint| {
            point.memory_bytes.map_or_else(|| "n/a".to_owned(), |bytes| units::bytes(bytes as f64))
        };
        let change = |a: Option<u64>, b: Option<u64>| match (a, b) {
            (Some(a), Some(b)) if a > 0 => signed(b as f64 / a as f64 - 1.0),
            _ => "n/a".to_owned(),
        };
        lines.push(format!(
            "{batch:<7}{:>11}{:>11}{:>10}{:>13}{:>13}{:>10}",
            time(a),
            time(b),
            change(Some(a.p50_ns), Some(b.p50_ns)),
            bytes(a),
            bytes(b),
            change(a.memory_bytes, b.memory_bytes),
        ));
    }
    lines.push(String::new());
    for (name, sweep) in [("A", &sweeps.a), ("B", &sweeps.b)] {
        let fit = sweep.memory.as_ref().map_or_else(|| "n/a".to_owned(), memory_scaling);
        lines.push(format!("memory {name}  {fit}"));
    }
    lines.push(verdict_line(verdict, summary, color));
    joined(&lines)
}

/// Describes how peak memory depends on the batch size.
pub fn memory_scaling(fit: &MemoryFit) -> String {
    format!(
        "{} + {} per sample (fits within {})",
        units::bytes(fit.fixed_bytes.max(0.0)),
        units::bytes(fit.per_sample_bytes.max(0.0)),
        units::percent(fit.worst_residual)
    )
}
