//! The lines at the top: the program and its cost, processors, memory, cores, devices, losses.

use ortscope_core::schema::Unit;
use ratatui::text::{Line, Span};

use super::Screen;
use super::flow::{flow, flow_right};
use super::theme::{Segment, label};
use crate::model::Device;
use ortscope_core::units::{self, or_nothing};

/// Older data means that no new data arrives.
pub const STALE_NS: u64 = 3_000_000_000;
/// Cells of the machine's sparkline, one second each, if there is space.
const MAX_SPARK_CELLS: usize = 60;

pub fn lines(screen: &Screen<'_>, width: usize) -> Vec<Line<'static>> {
    let mut lines = vec![first(screen, width), processors(screen, width), memory(screen, width)];
    lines.extend(cores(screen, width));
    lines.extend(devices(screen, width));
    lines.extend(lost(screen, width));
    lines
}

fn first(screen: &Screen<'_>, width: usize) -> Line<'static> {
    let (snapshot, theme) = (screen.snapshot, screen.theme);
    let total = snapshot.processes.len();
    let shown = match screen.lines.len() {
        1 if total == 1 => "1 process".to_owned(),
        shown if shown == total => format!("{total} processes"),
        shown => format!("{shown} of {total} processes"),
    };
    let own = snapshot.machine.own;
    let mut cost = format!("own cost {}", or_nothing(own.cpu_percent, |percent| format!("{percent:.2} %")));
    if let Some(bytes) = own.memory_bytes {
        cost.push_str(&format!(" {}", units::bytes(bytes as f64)));
    }
    let sampling = snapshot
        .machine
        .sampling_hertz
        .map_or_else(String::new, |hertz| format!("sampled at {} Hz", units::narrow_count(hertz)));
    let refresh = match screen.state.slowed_to_hertz {
        Some(hertz) => format!("{hertz:.1} of {}", screen.state.refresh_hertz),
        None => screen.state.refresh_hertz.to_string(),
    };
    let segments: [Segment; 5] = [
        vec![Span::styled("ortscope top", theme.strong())],
        vec![Span::raw(shown)],
        vec![Span::raw(cost)],
        vec![Span::raw(format!("drawn at {refresh} Hz"))],
        if sampling.is_empty() { Segment::new() } else { vec![Span::raw(sampling)] },
    ];
    flow_right(segments, status(screen), width)
}

/// Whether the displayed data is current.
fn status(screen: &Screen<'_>) -> Segment {
    let (snapshot, theme) = (screen.snapshot, screen.theme);
    if screen.state.paused {
        let age = units::age(screen.now_ns.saturating_sub(snapshot.at_ns));
        return vec![Span::styled(format!(" PAUSED {age} ago "), theme.reversed())];
    }
    match snapshot.newest_ns {
        Some(newest_ns) if screen.now_ns.saturating_sub(newest_ns) > STALE_NS => {
            let age = units::age(screen.now_ns.saturating_sub(newest_ns));
            vec![Span::styled(format!(" no data for {age} "), theme.reversed())]
        }
        _ => Segment::new(),
    }
}

fn processors(screen: &Screen<'_>, width: usize) -> Line<'static> {
    let (machine, theme) = (&screen.snapshot.machine, screen.theme);
    let percent = machine.cpu_percent;
    let style = theme.load(percent.unwrap_or(0.0) / 100.0).patch(theme.strong());
    let cells = width.saturating_sub(50).clamp(20, MAX_SPARK_CELLS);
    let cpu = vec![
        Span::styled("CPU ", theme.label()),
        Span::styled(format!("{:>5} %", or_nothing(percent, units::narrow_percent)), style),
        Span::raw(" "),
        Span::styled(screen.glyphs.sparkline(&machine.cpu_past, cells, 100.0), theme.picture()),
    ];
    let mut segments = vec![cpu];
    if let Some(load) = machine.load_1min_threads {
        segments.push(label(theme, "load", format!("{load:.2}")));
    }
    let switches = or_nothing(machine.context_switches_per_second, units::narrow_count);
    segments.push(label(theme, "ctx/s", switches));
    if let Some(interrupts) = machine.interrupts_per_second {
        segments.push(label(theme, "irq/s", units::narrow_count(interrupts)));
    }
    if let Some(hertz) = machine.cpu_frequency_hertz {
        segments.push(label(theme, "GHz", format!("{:.2}", hertz / 1e9)));
    }
    flow(segments, width)
}

fn memory(screen: &Screen<'_>, width: usize) -> Line<'static> {
    let (machine, theme) = (&screen.snapshot.machine, screen.theme);
    let share = machine.memory_percent.unwrap_or(0.0) / 100.0;
    let cells = width.saturating_sub(50).clamp(20, MAX_SPARK_CELLS);
    let (full, rest) = screen.glyphs.bar(share, cells);
    let percent = or_nothing(machine.memory_percent, units::narrow_percent);
    let bar = vec![
        Span::styled("MEM ", theme.label()),
        Span::styled(format!("{percent:>5} %"), theme.load(share).patch(theme.strong())),
        Span::raw(" "),
        Span::styled(full, theme.picture()),
        Span::styled(rest, theme.faint()),
    ];
    let used = match (machine.memory_used_bytes, machine.memory_total_bytes()) {
        (Some(used), Some(total)) => format!("{} of {}", units::bytes(used), units::bytes(total)),
        (used, _) => or_nothing(used, units::bytes),
    };
    let swap = or_nothing(machine.swap_used_bytes, units::bytes);
    flow([bar, vec![Span::raw(used)], label(theme, "swap", swap)], width)
}

/// One cell per processor, in at most two lines.
fn cores(screen: &Screen<'_>, width: usize) -> Vec<Line<'static>> {
    let cores = &screen.snapshot.machine.cores_percent;
    let per_line = width.saturating_sub(6).max(1);
    let line = |(index, chunk): (usize, &[(u32, f64)])| {
        let name = if index == 0 { "CORES " } else { "      " };
        let mut spans = vec![Span::styled(name, screen.theme.label())];
        spans.extend(chunk.iter().map(|(_, percent)| {
            let style = screen.theme.picture().patch(screen.theme.load(percent / 100.0));
            Span::styled(screen.glyphs.level(*percent, 100.0).to_string(), style)
        }));
        Line::from(spans)
    };
    cores.chunks(per_line).take(2).enumerate().map(line).collect()
}

fn devices(screen: &Screen<'_>, width: usize) -> Option<Line<'static>> {
    let devices = &screen.snapshot.machine.devices;
    let segment = |device: &Device| {
        let readings: Vec<String> = device.readings.iter().take(4).map(reading).collect();
        label(screen.theme, &device.name, readings.join(" "))
    };
    (!devices.is_empty()).then(|| flow(devices.iter().map(segment), width))
}

fn reading((metric, unit, value): &(String, Unit, f64)) -> String {
    match unit {
        Unit::Ratio => format!("{:.0} %", 100.0 * value),
        Unit::Percent => format!("{value:.0} %"),
        Unit::Watts => format!("{value:.1} W"),
        Unit::Joules => format!("{value:.0} J"),
        Unit::Bytes => units::bytes(*value),
        Unit::Hertz => format!("{}Hz", units::narrow_count(*value)),
        Unit::Nanoseconds => units::nanoseconds(*value),
        Unit::Milliseconds => units::nanoseconds(*value * 1e6),
        Unit::None if metric.ends_with("_celsius") => format!("{value:.0} °C"),
        Unit::Count | Unit::None => format!("{metric} {}", units::narrow_count(*value)),
    }
}

/// Only if something was lost: a line that is always there is not seen when it matters.
fn lost(screen: &Screen<'_>, width: usize) -> Option<Line<'static>> {
    let (snapshot, theme) = (screen.snapshot, screen.theme);
    let machine = &snapshot.machine;
    // Evicted full-rate rows are still in the aggregates: the overlay lists them.
    let losses = &snapshot.losses;
    let forgotten = losses.total() - losses.deselected_rows - losses.shared_out_rows;
    let counts = [
        ("records lost", snapshot.lost_records as f64),
        ("not kept in memory", forgotten as f64),
        ("late ticks", machine.late_ticks.unwrap_or(0.0)),
        ("skipped ticks", machine.skipped_ticks.unwrap_or(0.0)),
    ];
    let happened = counts.iter().filter(|(_, count)| *count > 0.0);
    let segments: Vec<Segment> = happened
        .map(|(what, count)| vec![Span::raw(format!("{} {what}", units::narrow_count(*count)))])
        .collect();
    if segments.is_empty() {
        return None;
    }
    let start = [vec![Span::styled("LOST", theme.alarm())]];
    let end = [vec![Span::styled("(u: which)", theme.faint())]];
    Some(flow(start.into_iter().chain(segments).chain(end), width))
}
