//! Where the time of a run goes.

use super::{Align, Block, Cell, Section, Table, Tone, operator_section};
use ortscope_core::units::{
    TimeUnit, bytes, count, counted, digits, milliseconds, percent, prefixed, provider,
};
use ortscope_result::{CallTimes, OperatorReport, OperatorSection, Timeline};

pub(super) fn section<'m>(
    report: &'m OperatorReport,
    found: Option<&'m OperatorSection>,
    index: usize,
    several: bool,
) -> Section<'m> {
    let mut facts = facts(report);
    facts.extend(found.into_iter().flat_map(operator_section::facts));
    let mut blocks = vec![Block::Facts(facts)];
    if let Some(factor) = report.observer_factor.filter(|factor| *factor >= 1.1) {
        blocks.push(Block::Text(
            Tone::Warning,
            format!(
                "Profiled runs take {}× as long as measured ones: read the shares, not the times.",
                digits(factor)
            ),
        ));
    }
    blocks.push(Block::Table(by_type(report)));
    if let Some(timeline) = &report.timeline {
        blocks.push(Block::Timeline { timeline, caption: caption(timeline) });
    }
    blocks.extend(
        report.timeline_unknown.iter().map(|why| Block::Text(Tone::Muted, format!("No timeline: {why}."))),
    );
    blocks.push(Block::Table(by_node(report)));
    if !report.placement.is_empty() {
        blocks.push(Block::Table(placement(report)));
    }
    blocks.extend(found.into_iter().flat_map(operator_section::blocks));
    if !report.session_events.is_empty() {
        blocks.push(Block::Table(session_events(report)));
    }
    let title = if several { format!("Operators: {}", report.title) } else { "Operators".to_owned() };
    let mut section = Section::new(format!("operators-{index}"), title, blocks);
    section.short = if several { format!("Operators {}", index + 1) } else { "Operators".to_owned() };
    section
}

fn facts(report: &OperatorReport) -> Vec<(&'static str, String)> {
    let mut facts = vec![("model", report.title.clone())];
    facts.push((
        "profiled",
        format!("{}, {}", counted(report.runs, "run"), counted(report.events, "operator call")),
    ));
    facts.extend(report.run_median_ms.map(|median| ("median run", milliseconds(median))));
    match (&report.unattributed, &report.unattributed_unknown) {
        (Some(rest), _) => facts.push((
            "unattributed",
            format!(
                "{} of the run's time ({} per run): no operator, copy or wait was active",
                percent(rest.share),
                milliseconds(rest.mean_ms)
            ),
        )),
        (None, Some(why)) => facts.push(("unattributed", format!("n/a: {why}"))),
        (None, None) => {}
    }
    facts.extend(report.parallelism.filter(|factor| *factor > 1.05).map(|factor| {
        let text =
            format!("{} operators at once on average: shares add up to more than 100 %", digits(factor));
        ("parallel", text)
    }));
    facts
}

const TIME_COLUMNS: [(&str, Align); 7] = [
    ("share", Align::Number),
    ("self time", Align::Number),
    ("calls", Align::Number),
    ("mean", Align::Number),
    ("p50", Align::Number),
    ("p99", Align::Number),
    ("max", Align::Number),
];

/// One unit for all calls of a table, fit for the longest mean.
fn unit_of<'t>(times: impl Iterator<Item = &'t CallTimes>) -> TimeUnit {
    TimeUnit::of(times.map(|times| times.mean_ms).fold(0.0, f64::max) / 10.0)
}

fn time_cells(times: &CallTimes, unit: TimeUnit) -> Vec<Cell> {
    let known = |value: Option<f64>| Cell::known(value, |value| unit.number(value));
    vec![
        Cell::share(times.share),
        Cell::number(milliseconds(times.self_ms), times.self_ms),
        Cell::count(times.calls),
        known(Some(times.mean_ms)),
        known(times.p50_ms),
        known(times.p99_ms),
        known(Some(times.max_ms)),
    ]
}

fn by_type(report: &OperatorReport) -> Table {
    let unit = unit_of(report.by_type.iter().map(|row| &row.times));
    let mut columns = vec![("type", Align::Name), ("provider", Align::Name), ("nodes", Align::Number)];
    columns.extend(TIME_COLUMNS);
    let mut table = Table::new(&columns).titled("By type");
    for row in &report.by_type {
        let mut name = Cell::text(named(&row.op_type, &row.kind));
        name.op_type = Some(row.op_type.clone());
        let mut cells =
            vec![name, Cell::text(place(&row.execution_provider, &row.device)), Cell::count(row.nodes)];
        cells.extend(time_cells(&row.times, unit));
        table.row(cells);
    }
    if let Some(rest) = &report.unattributed {
        let mut cells = vec![Cell::text("(unattributed)"), Cell::text(""), Cell::text("")];
        cells.extend([
            Cell::share(Some(rest.share)),
            Cell::number(milliseconds(rest.total_ms), rest.total_ms),
        ]);
        cells.extend((0..5).map(|_| Cell::text("")));
        table.row(cells);
    }
    table.note = time_note(report, unit);
    table
}

fn time_note(report: &OperatorReport, unit: TimeUnit) -> String {
    let share = if report.run_total_ms.is_some() { "of the time of all profiled runs" } else { "not known" };
    format!(
        "mean, p50, p99 and max of a call in {}; share: self time, {share}; self time leaves out the nodes of sub-graphs",
        unit.name()
    )
}

/// Copies and waits often have no type of their own.
fn named(op_type: &str, kind: &str) -> String {
    match (op_type, kind) {
        ("", kind) => format!("({kind})"),
        (op_type, "operator") => op_type.to_owned(),
        (op_type, kind) => format!("{op_type} ({kind})"),
    }
}

fn place(name: &str, device: &str) -> String {
    let short = provider(name);
    match device {
        "" => short.to_owned(),
        device if device == short => short.to_owned(),
        device => format!("{short} on {device}"),
    }
}

fn by_node(report: &OperatorReport) -> Table {
    let unit = unit_of(report.by_node.iter().map(|row| &row.times));
    let shapes = report.by_node.iter().any(|row| row.input_shapes.is_some());
    let flops = report.by_node.iter().any(|row| row.flops.is_some());
    let sizes = report.by_node.iter().any(|row| row.output_bytes.is_some());
    let mut columns = vec![("node", Align::Name), ("type", Align::Name), ("provider", Align::Name)];
    columns.extend(TIME_COLUMNS);
    let optional = [
        (shapes, ("input shapes", Align::Name)),
        (sizes, ("output", Align::Number)),
        (flops, ("speed", Align::Number)),
    ];
    columns.extend(optional.iter().filter(|(any, _)| *any).map(|(_, column)| *column));
    let mut table = Table::new(&columns).titled("By node");
    for row in &report.by_node {
        let name = match row.depth {
            0 => row.name.clone(),
            _ => format!("↳ {}", row.name),
        };
        let mut of_type = Cell::text(named(&row.op_type, &row.kind));
        of_type.op_type = Some(row.op_type.clone());
        let mut cells =
            vec![Cell::text(name), of_type, Cell::text(place(&row.execution_provider, &row.device))];
        cells.extend(time_cells(&row.times, unit));
        if shapes {
            cells.push(Cell::text(row.input_shapes.clone().unwrap_or_default()));
        }
        if sizes {
            let size = row.output_bytes.map(|size| size as f64);
            cells.push(size.map_or_else(Cell::default, |size| Cell::number(bytes(size), size)));
        }
        if flops {
            let speed = row.flops.map(|flops| flops as f64 / (row.times.mean_ms / 1e3).max(1e-9));
            cells.push(
                speed.map_or_else(Cell::default, |speed| Cell::number(prefixed(speed, "FLOP/s"), speed)),
            );
        }
        table.row(cells);
    }
    table.note = time_note(report, unit);
    if report.other_nodes.nodes > 0 {
        table.note = format!(
            "{} more with {} self time in {} are not shown; {}",
            counted(report.other_nodes.nodes, "node"),
            milliseconds(report.other_nodes.self_ms),
            counted(report.other_nodes.calls, "call"),
            table.note
        );
    }
    table
}

fn placement(report: &OperatorReport) -> Table {
    let mut table = Table::new(&[
        ("provider", Align::Name),
        ("nodes", Align::Number),
        ("self time", Align::Number),
        ("share", Align::Number),
    ])
    .titled("Placement");
    for row in &report.placement {
        table.row(vec![
            Cell::text(place(&row.execution_provider, &row.device)),
            Cell::count(row.nodes),
            Cell::number(milliseconds(row.self_ms), row.self_ms),
            Cell::share(Some(row.share)),
        ]);
    }
    table.note = "share of the time of all operators, copies and waits".to_owned();
    table
}

fn session_events(report: &OperatorReport) -> Table {
    let mut table = Table::new(&[("event", Align::Name), ("times", Align::Number), ("total", Align::Number)])
        .titled("Loading and initialising");
    for event in &report.session_events {
        table.row(vec![
            Cell::text(&event.name),
            Cell::count(event.count),
            Cell::number(milliseconds(event.total_ms), event.total_ms),
        ]);
    }
    table
}

fn caption(timeline: &Timeline) -> String {
    let drawn: u64 = timeline.rectangles.iter().map(|rectangle| rectangle.operators).sum();
    let mut caption = format!(
        "Run {} in full: the profiled run with the median duration, {}, {} events",
        count(timeline.run),
        milliseconds(timeline.duration_ms),
        count(drawn)
    );
    if timeline.merged_operators > 0 {
        caption += &format!(
            "; the {} shortest operators are merged into {} blocks",
            count(timeline.merged_operators),
            count(timeline.merged_rectangles)
        );
    }
    if timeline.hidden_operators > 0 {
        caption +=
            &format!("; {} operators of further lanes are not drawn", count(timeline.hidden_operators));
    }
    caption
}
