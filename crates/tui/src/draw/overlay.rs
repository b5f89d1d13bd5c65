//! Pages over the table: the keys, unavailable values and losses.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Widget as _, Wrap};

use super::Screen;
use crate::keys::HELP;
use crate::model::LATENCY_SECONDS;
use crate::state::Overlay;
use crate::text::fit_left;

/// Wider pages are hard to read.
const MAX_CELLS: u16 = 90;

pub fn draw(screen: &Screen<'_>, overlay: Overlay, area: Rect, buffer: &mut Buffer) {
    let (title, lines) = match overlay {
        Overlay::Help => (" keys ", help(screen)),
        Overlay::Missing => (" what is missing ", missing(screen)),
    };
    let width = area.width.saturating_sub(4).min(MAX_CELLS);
    let inner = usize::from(width.saturating_sub(2)).max(1);
    let wrapped: usize = lines.iter().map(|line| line.width().div_ceil(inner).max(1)).sum();
    let height = u16::try_from(wrapped + 2).unwrap_or(u16::MAX).min(area.height.saturating_sub(2));
    let page =
        Rect { x: area.x + (area.width - width) / 2, y: area.y + (area.height - height) / 2, width, height };
    let last_top = u16::try_from(wrapped).unwrap_or(u16::MAX).saturating_sub(height.saturating_sub(2));
    let bottom = if last_top > 0 { " Up/Dn scrolls, Esc closes " } else { " Esc closes " };
    let mut block = Block::bordered().title(title).title_bottom(bottom);
    if screen.glyphs == crate::glyphs::Glyphs::Ascii {
        block = block.border_set(ASCII_BORDER);
    }
    Clear.render(page, buffer);
    let text =
        Paragraph::new(lines).wrap(Wrap { trim: false }).scroll((screen.state.overlay_top.min(last_top), 0));
    text.block(block).render(page, buffer);
}

const ASCII_BORDER: ratatui::symbols::border::Set<'_> = ratatui::symbols::border::Set {
    top_left: "+",
    top_right: "+",
    bottom_left: "+",
    bottom_right: "+",
    vertical_left: "|",
    vertical_right: "|",
    horizontal_top: "-",
    horizontal_bottom: "-",
};

fn help(screen: &Screen<'_>) -> Vec<Line<'static>> {
    let key = |(keys, _, sentence): &(&str, &str, &str)| {
        Line::from(vec![
            Span::styled(fit_left(keys, 11, ' '), screen.theme.strong()),
            Span::raw((*sentence).to_owned()),
        ])
    };
    let mut lines: Vec<Line<'static>> = HELP.iter().map(key).collect();
    let rates = if screen.snapshot.averaged { "the mean of the last second" } else { "of the newest sample" };
    lines.push(Line::default());
    lines.extend(
        [
            "CPU% of a process: 100 is one core; of the machine: 100 is all of them.".to_owned(),
            format!("Rates are {rates}. 60 s: the last minute, highest second per cell."),
            format!(
                "Sessions: percentiles of the last {LATENCY_SECONDS} s; n<368 says how many runs are needed."
            ),
        ]
        .map(Line::raw),
    );
    lines
}

fn missing(screen: &Screen<'_>) -> Vec<Line<'static>> {
    let (snapshot, theme) = (screen.snapshot, screen.theme);
    let mut lines: Vec<Line<'static>> = Vec::new();
    for one in &snapshot.missing {
        let mut spans =
            vec![Span::styled(one.track.clone(), theme.strong()), Span::raw(format!(": {}", one.reason))];
        if let Some(hint) = &one.hint {
            spans.push(Span::styled(format!(" hint: {hint}"), theme.label()));
        }
        lines.push(Line::from(spans));
    }
    if lines.is_empty() {
        lines.push(Line::raw("Everything that sources promised has a value."));
    }
    let mut lost = vec![(
        "records before the view",
        snapshot.lost_records,
        "Dropped by sources, queues or sinks; counted by the pipeline.",
    )];
    lost.extend(snapshot.losses.all());
    lost.retain(|(_, count, _)| *count > 0);
    lines.push(Line::default());
    if lost.is_empty() {
        lines.push(Line::raw("Nothing was lost."));
    }
    for (name, count, meaning) in lost {
        lines.push(Line::from(vec![
            Span::styled(format!("{count} {name}"), theme.strong()),
            Span::raw(format!(": {meaning}")),
        ]));
    }
    lines
}
