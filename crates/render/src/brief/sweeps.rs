//! Sweeps as tables: batch sizes and settings.

use ortscope_core::units;
use ortscope_result::{BatchSweepReport, RunResult, SweepReport};

use crate::style::{Paint, Style};

/// A table with right-aligned columns; the first is left-aligned.
struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    fn new(head: &[&str]) -> Self {
        Self { rows: vec![head.iter().map(|text| (*text).to_owned()).collect()] }
    }

    fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    fn lines(&self, terminal: Paint, marked: Option<usize>) -> Vec<String> {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| {
            self.rows
                .iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        self.rows
            .iter()
            .enumerate()
            .map(|(index, row)| {
                let cells: Vec<String> = row
                    .iter()
                    .zip(&widths)
                    .enumerate()
                    .map(|(column, (cell, width))| match column {
                        0 => format!("{cell:<width$}"),
                        _ => format!("{cell:>width$}"),
                    })
                    .collect();
                let line = cells.join("  ").trim_end().to_owned();
                match (index, marked) {
                    (0, _) => terminal.paint(Style::Bold, &line),
                    (index, Some(marked)) if index == marked + 1 => terminal.paint(Style::Good, &line),
                    _ => line,
                }
            })
            .collect()
    }
}

/// Latency, throughput and memory by batch size.
pub fn batch_sweep(report: &BatchSweepReport, results: &[RunResult], terminal: Paint) -> Vec<String> {
    let mut table =
        Table::new(&["batch", "p50", "per sample", "samples/s", "of best", "peak memory", "samples/MB"]);
    let analysis = &report.analysis;
    let mut best = None;
    for (index, row) in analysis.rows.iter().enumerate() {
        let result = results
            .iter()
            .find(|result| result.inputs.as_ref().and_then(|inputs| inputs.batch_size) == Some(row.batch));
        if Some(row.batch) == analysis.knee_batch {
            best = Some(index);
        }
        table.row(vec![
            row.batch.to_string(),
            units::nanoseconds(row.latency_ms * 1e6),
            units::nanoseconds(row.per_sample_ms * 1e6),
            units::digits(row.samples_per_second),
            units::percent(row.share_of_best),
            result
                .and_then(|result| result.memory.peak_bytes)
                .map_or("n/a".into(), |bytes| units::bytes(bytes as f64)),
            row.samples_per_mb.map_or("n/a".into(), units::digits),
        ]);
    }
    let padding = results.iter().filter_map(|result| result.inputs.as_ref()?.padding_ratio).reduce(f64::max);
    let mut lines = if analysis.rows.is_empty() { Vec::new() } else { table.lines(terminal, best) };
    for failed in &report.failed {
        let why = units::clean(&failed.reason, 140);
        lines.push(terminal.paint(Style::Bad, &format!("batch {} failed: {why}", failed.batch)));
    }
    if let Some(fit) = &analysis.fit {
        let fixed =
            fit.fixed_overhead_ms.map(|fixed| format!("{} per batch + ", units::nanoseconds(fixed * 1e6)));
        lines.push(format!(
            "cost      {}{} per sample (fits within {})",
            fixed.unwrap_or_default(),
            units::nanoseconds(fit.per_sample_ms * 1e6),
            units::percent(fit.worst_residual)
        ));
    }
    lines.extend(analysis.memory.map(|fit| format!("memory    {}", crate::comparison::memory_scaling(&fit))));
    lines.extend(padding.map(|ratio| format!("padding   {} of the inputs", units::percent(ratio))));
    if let (Some(knee), Some(most)) = (analysis.knee_batch, analysis.best_batch) {
        lines.push(format!(
            "advice    batch {knee} is the smallest with 90 % of the best throughput (batch {most})"
        ));
    }
    lines
}

/// Settings, best first, and the recommendation.
pub fn sweep(report: &SweepReport, results: &[RunResult], terminal: Paint) -> Vec<String> {
    let mut table = Table::new(&["settings", "p50", "p99", "inferences/s", "peak memory", "vs default"]);
    let mut marked = None;
    for (position, ranked) in report.analysis.ranking.iter().enumerate() {
        let Some(result) = results.get(ranked.index) else {
            continue;
        };
        if Some(ranked.index) == report.analysis.recommended {
            marked = Some(position);
        }
        let value = |p: &str| {
            result
                .latency
                .as_ref()
                .and_then(|latency| latency.inference.percentile(p)?.value_ns)
                .map_or("n/a".into(), |nanos| units::nanoseconds(nanos as f64))
        };
        let noise = if ranked.within_noise_of_best { " ≈ best" } else { "" };
        table.row(vec![
            ranked.label.clone(),
            value("p50"),
            value("p99"),
            ranked.throughput_per_second.map_or("n/a".into(), units::digits),
            result.memory.peak_bytes.map_or("n/a".into(), |bytes| units::bytes(bytes as f64)),
            ranked.speed_up.map_or(noise.to_owned(), |speed_up| format!("{:.2}×{noise}", speed_up.ratio)),
        ]);
    }
    let nothing = report.analysis.ranking.is_empty();
    let mut lines = if nothing { Vec::new() } else { table.lines(terminal, marked) };
    for index in &report.analysis.failed {
        if let Some(result) = results.get(*index) {
            let why = result.failure.as_ref().map_or("too few runs", |failure| failure.message.as_str());
            let label = result.label.as_deref().unwrap_or("default");
            lines.push(terminal.paint(Style::Bad, &format!("{label} failed: {}", units::clean(why, 140))));
        }
    }
    lines.push(format!("advice    {}", report.analysis.reason));
    lines.extend(report.command.as_ref().map(|command| format!("use it    {command}")));
    lines
}
