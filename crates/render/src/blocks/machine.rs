//! Processes, the machine and its devices during the recording.

use super::{Align, Block, Cell, Section, Table};
use ortscope_core::units::{bytes, count, digits, percent, prefixed};
use ortscope_result::{ReportModel, Series, SeriesUnit};

/// A reading in its unit.
pub(crate) fn value(unit: SeriesUnit, value: f64) -> String {
    match unit {
        SeriesUnit::Percent => format!("{} %", digits(value)),
        SeriesUnit::Bytes => bytes(value),
        SeriesUnit::Hertz => prefixed(value, "Hz"),
        SeriesUnit::PerSecond => format!("{}/s", prefixed(value, "").trim_end()),
        SeriesUnit::Ratio => percent(value),
        SeriesUnit::Watts => format!("{} W", digits(value)),
        SeriesUnit::Joules => format!("{} J", digits(value)),
        SeriesUnit::Celsius => format!("{} °C", digits(value)),
        SeriesUnit::Count => prefixed(value, ""),
        SeriesUnit::Other => digits(value),
    }
}

pub(super) fn section(model: &ReportModel) -> Option<Section<'_>> {
    if model.processes.is_empty() && model.system.is_empty() && model.devices.is_empty() {
        return None;
    }
    let mut blocks = Vec::new();
    if !model.processes.is_empty() {
        blocks.push(Block::Table(processes(model)));
    }
    blocks.extend(process_charts(model));
    if !model.system.is_empty() {
        blocks.push(Block::Table(figures("Machine", &model.system, false)));
        for (metric, whose) in [("cpu_percent", "of the machine"), ("cpu_frequency_hertz", "")] {
            let series = model.system.iter().filter(|series| series.metric == metric);
            blocks
                .extend(chart(&title_of(metric, whose), series.map(|series| ("machine".to_owned(), series))));
        }
    }
    if !model.devices.is_empty() {
        blocks.push(Block::Table(figures("Devices", &model.devices, true)));
        let mut metrics: Vec<&str> = model.devices.iter().map(|series| series.metric.as_str()).collect();
        metrics.sort_unstable();
        metrics.dedup();
        for metric in metrics.into_iter().take(8) {
            let series = model.devices.iter().filter(|series| series.metric == metric).take(8);
            blocks.extend(chart(
                &title_of(metric, "of devices"),
                series.map(|series| (series.of.clone(), series)),
            ));
        }
    }
    Some(Section::new("machine", "Processes and machine", blocks))
}

fn title_of(metric: &str, whose: &str) -> String {
    const UNITS: [&str; 9] =
        ["_percent", "_ratio", "_bytes", "_hertz", "_watts", "_joules", "_celsius", "_per_second", "_count"];
    let name = match metric {
        "cpu_percent" => "CPU use".to_owned(),
        "working_set_bytes" => "Resident memory".to_owned(),
        "cpu_frequency_hertz" => "Clock of the processors".to_owned(),
        other => {
            let stem = UNITS.iter().find_map(|unit| other.strip_suffix(unit)).unwrap_or(other);
            let mut letters = stem.chars();
            let first = letters.next().map(|first| first.to_uppercase().collect::<String>());
            first.unwrap_or_default() + &letters.as_str().replace('_', " ")
        }
    };
    format!("{name} {whose}").trim_end().to_owned()
}

fn processes(model: &ReportModel) -> Table {
    let mut table = Table::new(&[
        ("process", Align::Name),
        ("pid", Align::Number),
        ("CPU time", Align::Number),
        ("cores", Align::Number),
        ("peak memory", Align::Number),
        ("samples", Align::Number),
    ])
    .titled("Processes");
    for process in &model.processes {
        let name =
            if process.observed { format!("{} (observed)", process.name) } else { process.name.clone() };
        let peak = process.peak_working_set_bytes as f64;
        table.row(vec![
            Cell::text(name),
            Cell::number(process.pid.to_string(), process.pid as f64),
            Cell::number(format!("{} s", digits(process.cpu_seconds)), process.cpu_seconds),
            Cell::known(process.cpu_cores, digits),
            Cell::number(bytes(peak), peak),
            Cell::count(process.samples),
        ]);
    }
    table.note = "CPU time and cores between the first and the last sample of the process".to_owned();
    table.note += &match model.other_processes {
        0 => String::new(),
        1 => "; 1 other process is not shown".to_owned(),
        others => format!("; {} other processes are not shown", count(others)),
    };
    table
}

fn process_charts(model: &ReportModel) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    for metric in ["cpu_percent", "working_set_bytes"] {
        let of_metric = |process: &'_ ortscope_result::ProcessReport| {
            process.series.iter().position(|series| series.metric == metric)
        };
        let series = model.processes.iter().take(6).filter_map(|process| {
            let series = &process.series[of_metric(process)?];
            Some((format!("{} ({})", process.name, process.pid), series))
        });
        let whose = if metric == "cpu_percent" { "of processes, 100 % = one core" } else { "of processes" };
        blocks.extend(chart(&title_of(metric, whose), series));
    }
    blocks
}

/// A chart, if any series has more than one point.
fn chart<'m>(title: &str, series: impl Iterator<Item = (String, &'m Series)>) -> Option<Block<'m>> {
    let series: Vec<(String, &Series)> = series.filter(|(_, series)| series.points.len() > 1).collect();
    let n: u64 = series.iter().map(|(_, series)| series.n).sum();
    let first = series.first()?.1;
    let caption = format!("{title}, n = {} samples ({}, {})", count(n), first.source, first.method);
    Some(Block::Chart { series, caption })
}

fn figures(title: &str, series: &[Series], devices: bool) -> Table {
    let mut columns = vec![];
    if devices {
        columns.push(("device", Align::Name));
    }
    columns.extend([
        ("metric", Align::Name),
        ("min", Align::Number),
        ("mean", Align::Number),
        ("max", Align::Number),
        ("last", Align::Number),
        ("n", Align::Number),
        ("source", Align::Name),
    ]);
    let mut table = Table::new(&columns).titled(title);
    for series in series {
        let number = |number: f64| Cell::number(value(series.unit, number), number);
        let mut cells = vec![];
        if devices {
            cells.push(Cell::text(&series.of));
        }
        cells.extend([
            Cell::text(series.metric.replace('_', " ")),
            number(series.min),
            number(series.mean),
            number(series.max),
            number(series.last),
            Cell::count(series.n),
            Cell::text(if devices {
                format!("{}, {}", series.source, series.method)
            } else {
                series.source.clone()
            }),
        ]);
        table.row(cells);
    }
    table
}
