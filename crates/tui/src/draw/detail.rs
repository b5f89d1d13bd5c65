//! The pane about one process.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::flow::flow;
use super::theme::{Segment, label};
use super::{Screen, rule};
use crate::facts::ThreadFacts;
use crate::model::{Detail, Metric, Slope};
use crate::text::{cut, harmless};
use ortscope_core::units;

/// A trend smaller than this share of the memory per minute is called steady.
const STEADY_SHARE_PER_MINUTE: f64 = 0.001;
/// Lines of threads.
const MAX_THREAD_LINES: usize = 4;
/// The memory scale starts at this share of its highest value: 5 % more is invisible on a scale from zero.
const MEMORY_BASE_SHARE: f64 = 0.8;
const SPARK_CELLS: usize = 20;

pub fn draw(screen: &Screen<'_>, detail: &Detail, area: Rect, buffer: &mut Buffer) {
    for (y, line) in (area.y..area.bottom()).zip(lines(screen, detail, area.width.into())) {
        buffer.set_line(area.x, y, &line, area.width);
    }
}

pub fn lines(screen: &Screen<'_>, detail: &Detail, width: usize) -> Vec<Line<'static>> {
    let process = &detail.process;
    let mut title = format!("{} ({})", process.name, process.identity.pid);
    if let Some(pid) = process.parent_pid {
        let parent = detail.parent_name.as_deref().unwrap_or("?");
        title.push_str(&format!(", child of {parent} ({pid})"));
    }
    let mut lines = vec![rule(screen, &title, width)];
    if let Some(command) = &detail.command_line {
        let command = cut(command, width.saturating_sub(5), screen.glyphs.more());
        lines.push(flow([heading(screen, "CMD"), vec![Span::raw(command)]], width));
    }
    lines.extend([processor(screen, detail, width), memory(screen, detail, width)]);
    let others = [input_output(screen, detail, width), kernel(screen, detail, width)];
    // A heading without a number is dropped.
    lines.extend(others.into_iter().filter(|line| line.spans.len() > 1));
    lines.extend(missing(screen, detail, width));
    lines.extend(threads(screen, &detail.threads, width));
    lines
}

/// A number with its name, if there is one: unavailable ones are listed on a separate line.
fn known(
    screen: &Screen<'_>,
    detail: &Detail,
    name: &str,
    metric: Metric,
    show: impl Fn(f64) -> String,
) -> Segment {
    detail
        .process
        .values
        .get(metric)
        .map_or_else(Segment::new, |value| label(screen.theme, name, show(value)))
}

fn heading(screen: &Screen<'_>, name: &str) -> Segment {
    vec![Span::styled(format!("{name:3}"), screen.theme.strong())]
}

fn picture(screen: &Screen<'_>, past: &[Option<f64>], most: f64) -> Segment {
    vec![Span::styled(screen.glyphs.sparkline(past, SPARK_CELLS, most), screen.theme.picture())]
}

fn highest(past: &[Option<f64>]) -> f64 {
    past.iter().flatten().copied().fold(0.0, f64::max)
}

fn processor(screen: &Screen<'_>, detail: &Detail, width: usize) -> Line<'static> {
    let percent = |value: f64| format!("{} %", units::narrow_percent(value));
    let segments = [
        heading(screen, "CPU"),
        picture(screen, &detail.cpu_past_percent, highest(&detail.cpu_past_percent).max(100.0)),
        known(screen, detail, "now", Metric::Cpu, percent),
        known(screen, detail, "user", Metric::User, percent),
        known(screen, detail, "kernel", Metric::Kernel, percent),
        known(screen, detail, "threads", Metric::Threads, units::narrow_count),
    ];
    flow(segments, width)
}

fn memory(screen: &Screen<'_>, detail: &Detail, width: usize) -> Line<'static> {
    let past = &detail.memory_past_bytes;
    let most = highest(past);
    let lowest = past.iter().flatten().copied().fold(most, f64::min);
    let base = lowest.min(MEMORY_BASE_SHARE * most);
    let above: Vec<Option<f64>> = past.iter().map(|bytes| bytes.map(|bytes| bytes - base)).collect();
    let peak = detail.peak_bytes.map_or_else(Segment::new, |bytes| {
        let name = if detail.peak_is_seen { "peak seen" } else { "peak" };
        label(screen.theme, name, units::bytes(bytes))
    });
    let segments = [
        heading(screen, "MEM"),
        picture(screen, &above, most - base),
        known(screen, detail, "now", Metric::Rss, units::bytes),
        peak,
        label(screen.theme, "trend", trend(detail)),
        known(screen, detail, "private", Metric::Private, units::bytes),
    ];
    flow(segments, width)
}

fn trend(detail: &Detail) -> String {
    let now = detail.process.values.get(Metric::Rss).unwrap_or(0.0);
    match detail.slope {
        None => "not yet known".to_owned(),
        Some(Slope { bytes_per_minute, certain })
            if certain && bytes_per_minute.abs() > STEADY_SHARE_PER_MINUTE * now =>
        {
            let sign = if bytes_per_minute > 0.0 { "+" } else { "-" };
            format!("{sign}{}/min", units::bytes(bytes_per_minute.abs()))
        }
        Some(_) => "steady".to_owned(),
    }
}

fn input_output(screen: &Screen<'_>, detail: &Detail, width: usize) -> Line<'static> {
    let rate = |value: f64| format!("{}/s", units::bytes(value));
    let segments = [
        heading(screen, "I/O"),
        known(screen, detail, "read", Metric::Read, rate),
        known(screen, detail, "written", Metric::Write, rate),
        known(screen, detail, "handles", Metric::Handles, units::narrow_count),
    ];
    flow(segments, width)
}

fn kernel(screen: &Screen<'_>, detail: &Detail, width: usize) -> Line<'static> {
    let rate = |value: f64| format!("{}/s", units::narrow_count(value));
    let segments = [
        heading(screen, "OS"),
        known(screen, detail, "context switches", Metric::Switches, rate),
        known(screen, detail, "page faults", Metric::Faults, rate),
        known(screen, detail, "from disk", Metric::HardFaults, rate),
    ];
    flow(segments, width)
}

/// Names of what this process has no value for.
fn missing(screen: &Screen<'_>, detail: &Detail, width: usize) -> Option<Line<'static>> {
    let has_peak = detail.peak_bytes.is_some();
    let missing = Metric::ALL.into_iter().filter(|metric| {
        detail.process.values.get(*metric).is_none() && !(*metric == Metric::PeakRss && has_peak)
    });
    let names: Vec<&str> = missing.map(Metric::track).collect();
    if names.is_empty() {
        return None;
    }
    let text = format!("no value (u: why): {}", names.join(", "));
    Some(Line::styled(cut(&text, width, screen.glyphs.more()), screen.theme.faint()))
}

fn threads(screen: &Screen<'_>, threads: &[ThreadFacts], width: usize) -> Vec<Line<'static>> {
    let one = |thread: &ThreadFacts| {
        let name = thread.name.as_deref().map(harmless).unwrap_or_default();
        let percent = thread
            .cpu_percent
            .map_or_else(String::new, |percent| format!(" {} %", units::narrow_percent(percent)));
        let state = thread.state.as_deref().map(|state| format!(" {}", harmless(state))).unwrap_or_default();
        label(screen.theme, &thread.tid.to_string(), format!("{name}{percent}{state}"))
    };
    // Up to three columns on a wide screen.
    let per_line = (width / 38).max(1);
    let line = |threads: &[ThreadFacts]| flow(threads.iter().map(one), width);
    threads.chunks(per_line).take(MAX_THREAD_LINES).map(line).collect()
}
