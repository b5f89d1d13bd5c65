//! The table of processes.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Screen;
use super::columns::{self, Sized};
use crate::model::{self, Column, Metric, Process};
use crate::text::{fit_left, fit_right};
use ortscope_core::units::{NOTHING, or_nothing};

pub fn draw(screen: &Screen<'_>, area: Rect, buffer: &mut Buffer) {
    let columns = columns::fitting(&columns::available(screen.snapshot), area.width.into());
    buffer.set_line(area.x, area.y, &heading(screen, &columns), area.width);
    buffer.set_style(Rect { height: 1, ..area }, screen.theme.reversed());
    let rows = screen.lines.iter().enumerate().skip(screen.state.top);
    for (y, (index, line)) in (area.y + 1..area.bottom()).zip(rows) {
        let Some(process) = screen.snapshot.processes.get(line.process) else {
            continue;
        };
        buffer.set_line(area.x, y, &row(screen, process, line, &columns), area.width);
        if index == screen.state.cursor {
            let style = screen.theme.reversed().patch(screen.theme.strong());
            buffer.set_style(Rect { y, height: 1, ..area }, style);
        }
    }
    if screen.lines.is_empty() && area.height > 2 {
        let text =
            fit_left(&nothing(screen), usize::from(area.width).saturating_sub(2), screen.glyphs.more());
        buffer.set_string(area.x + 2, area.y + 2, text, Style::new());
    }
}

fn nothing(screen: &Screen<'_>) -> String {
    if screen.snapshot.processes.is_empty() {
        "waiting for the first samples of processes".to_owned()
    } else {
        format!("no process matches \"{}\"", screen.state.filter.text())
    }
}

fn heading(screen: &Screen<'_>, columns: &[Sized]) -> Line<'static> {
    let sort = screen.state.sort;
    let cell = |(column, cells): &Sized| {
        let mut title = column.title().to_owned();
        if *column == sort.column {
            title.push(screen.glyphs.arrow(sort.descending));
        }
        let more = screen.glyphs.more();
        match column {
            Column::Name | Column::Minute => fit_left(&title, *cells, more),
            _ => fit_right(&title, *cells, more),
        }
    };
    let titles: Vec<String> = columns.iter().map(cell).collect();
    Line::styled(titles.join(" "), screen.theme.strong())
}

fn row(screen: &Screen<'_>, process: &Process, line: &model::Line, columns: &[Sized]) -> Line<'static> {
    let plain = if line.context { screen.theme.faint() } else { Style::new() };
    let mut spans: Vec<Span<'static>> = Vec::with_capacity(2 * columns.len());
    for (place, (column, cells)) in columns.iter().enumerate() {
        if place > 0 {
            spans.push(Span::raw(" "));
        }
        spans.push(cell(screen, process, line, *column, *cells, plain));
    }
    Line::from(spans)
}

fn cell(
    screen: &Screen<'_>,
    process: &Process,
    line: &model::Line,
    column: Column,
    cells: usize,
    plain: Style,
) -> Span<'static> {
    let more = screen.glyphs.more();
    match column {
        Column::Pid => Span::styled(fit_right(&process.identity.pid.to_string(), cells, more), plain),
        Column::Name => {
            let name = format!("{}{}", branches(screen, &line.branches), process.name);
            Span::styled(fit_left(&name, cells, more), plain)
        }
        Column::Minute => {
            let past = screen.sparks.get(&process.identity).map_or(&[][..], Vec::as_slice);
            // One core fills the picture; a process that uses more sets its own scale.
            let most = past.iter().flatten().copied().fold(100.0, f64::max);
            Span::styled(screen.glyphs.sparkline(past, cells, most), screen.theme.picture())
        }
        Column::Cpu => {
            let percent = process.values.get(Metric::Cpu);
            let style = plain.patch(screen.theme.load(percent.unwrap_or(0.0) / 100.0));
            Span::styled(fit_right(&or_nothing(percent, |value| Metric::Cpu.show(value)), cells, more), style)
        }
        column => {
            let shown = column.metric().and_then(|metric| Some(metric.show(process.values.get(metric)?)));
            Span::styled(fit_right(shown.as_deref().unwrap_or(NOTHING), cells, more), plain)
        }
    }
}

/// The lines that lead from a parent to this child.
fn branches(screen: &Screen<'_>, branches: &[bool]) -> String {
    let [child, last_child, through, nothing] = screen.glyphs.branches();
    let Some((own, above)) = branches.split_last() else {
        return String::new();
    };
    let above = above.iter().map(|more| if *more { through } else { nothing });
    above.chain([if *own { child } else { last_child }, " "]).collect()
}
