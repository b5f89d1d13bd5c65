//! Draws a frame from the model: pure, so that tests need no terminal.

pub mod columns;
mod detail;
mod flow;
mod footer;
mod header;
mod layout;
mod overlay;
mod sessions;
mod table;
mod theme;

use std::collections::HashMap;

use ortscope_core::identity::ProcessIdentity;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

pub use header::STALE_NS;
pub use layout::{Areas, MIN_HEIGHT, MIN_WIDTH, Wishes};
pub use theme::Theme;

use crate::glyphs::Glyphs;
use crate::model::{self, Detail, Snapshot};
use crate::state::State;
use crate::text::cut;

/// CPU of the last minute of the processes on the screen.
pub type Sparks = HashMap<ProcessIdentity, Vec<Option<f64>>>;

/// The inputs of a frame.
#[derive(Debug)]
pub struct Screen<'a> {
    pub snapshot: &'a Snapshot,
    pub state: &'a State,
    pub lines: &'a [model::Line],
    pub sparks: &'a Sparks,
    pub detail: Option<&'a Detail>,
    pub theme: Theme,
    pub glyphs: Glyphs,
    /// Now; the snapshot can be older.
    pub now_ns: u64,
}

/// Lines of the detail pane while its process is not known yet.
const USUAL_DETAIL_LINES: usize = 7;

/// Room for everything that this screen wants to show.
pub fn areas(screen: &Screen<'_>, area: Rect) -> Option<Areas> {
    let width = usize::from(area.width);
    let wishes = Wishes {
        header_lines: header::lines(screen, width).len(),
        sessions: screen.snapshot.sessions.len(),
        detail: if screen.lines.is_empty() { Some(false) } else { screen.state.detail },
        detail_lines: screen
            .detail
            .map_or(USUAL_DETAIL_LINES, |detail| detail::lines(screen, detail, width).len()),
    };
    Areas::of(area, wishes)
}

pub fn draw(screen: &Screen<'_>, area: Rect, buffer: &mut Buffer) {
    let Some(areas) = areas(screen, area) else {
        return too_small(area, buffer);
    };
    let width = usize::from(area.width);
    for (y, line) in (areas.header.y..areas.header.bottom()).zip(header::lines(screen, width)) {
        buffer.set_line(area.x, y, &line, area.width);
    }
    table::draw(screen, areas.table, buffer);
    if areas.sessions.height > 0 {
        sessions::draw(screen, areas.sessions, buffer);
    }
    if let Some(detail) = screen.detail
        && areas.detail.height > 0
    {
        detail::draw(screen, detail, areas.detail, buffer);
    }
    buffer.set_line(area.x, areas.footer.y, &footer::line(screen, width), area.width);
    if let Some(overlay) = screen.state.overlay {
        overlay::draw(screen, overlay, area, buffer);
    }
}

fn too_small(area: Rect, buffer: &mut Buffer) {
    let lines = [
        "terminal too small".to_owned(),
        format!("{}x{}, needs {MIN_WIDTH}x{MIN_HEIGHT}", area.width, area.height),
    ];
    let first = area.y + area.height.saturating_sub(2) / 2;
    for (y, line) in (first..area.bottom()).zip(lines) {
        let line = cut(&line, area.width.into(), '~');
        let x = area.x + area.width.saturating_sub(u16::try_from(line.len()).unwrap_or(0)) / 2;
        buffer.set_string(x, y, line, Style::new());
    }
}

/// A line across the screen with a title in it.
fn rule(screen: &Screen<'_>, title: &str, width: usize) -> Line<'static> {
    let rule = screen.glyphs.rule();
    let title = cut(title, width.saturating_sub(4), screen.glyphs.more());
    let rest = width.saturating_sub(crate::text::cells(&title) + 3);
    Line::from(vec![
        Span::styled(format!("{rule} "), screen.theme.faint()),
        Span::styled(title, screen.theme.strong()),
        Span::styled(format!(" {}", rule.to_string().repeat(rest)), screen.theme.faint()),
    ])
}
