//! Distribution of lines. The table keeps at least a few lines; panels that do not fit are omitted.

use ratatui::layout::Rect;

/// Below this nothing useful fits.
pub const MIN_WIDTH: u16 = 40;
pub const MIN_HEIGHT: u16 = 10;
/// Title and three processes.
const MIN_TABLE: u16 = 4;
/// From this height on the detail pane is open unless it was closed.
const ROOMY_HEIGHT: u16 = 32;
/// Title, processor, memory: less of the pane is not worth it.
const MIN_DETAIL: u16 = 3;
/// Lines of sessions.
const MAX_SESSIONS: u16 = 8;

/// The position of every area; one of height 0 is not drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Areas {
    pub header: Rect,
    pub table: Rect,
    pub sessions: Rect,
    pub detail: Rect,
    pub footer: Rect,
}

/// Requested heights.
#[derive(Debug, Clone, Copy)]
pub struct Wishes {
    pub header_lines: usize,
    pub sessions: usize,
    /// Open, closed, or open where the screen is high enough.
    pub detail: Option<bool>,
    /// Lines of the detail pane, as far as known.
    pub detail_lines: usize,
}

impl Areas {
    /// `None`: the terminal is too small.
    pub fn of(area: Rect, wishes: Wishes) -> Option<Self> {
        if area.width < MIN_WIDTH || area.height < MIN_HEIGHT {
            return None;
        }
        let mut room = area.height - 1 - MIN_TABLE;
        let mut take = |wanted: u16, least: u16| {
            let given = if room >= least { wanted.min(room) } else { 0 };
            room -= given;
            given
        };
        let header = take(lines(wishes.header_lines), 0);
        let sessions = match lines(wishes.sessions) {
            0 => 0,
            sessions => take(1 + sessions.min(MAX_SESSIONS).min((area.height / 6).max(1)), 2),
        };
        let open = wishes.detail.unwrap_or(area.height >= ROOMY_HEIGHT);
        let detail = if open { take(lines(wishes.detail_lines), MIN_DETAIL) } else { 0 };
        let table = area.height - 1 - header - sessions - detail;
        let mut y = area.y;
        let mut next = |height| {
            let place = Rect { y, height, ..area };
            y += height;
            place
        };
        Some(Self {
            header: next(header),
            table: next(table),
            sessions: next(sessions),
            detail: next(detail),
            footer: next(1),
        })
    }

    /// Processes that the table shows.
    pub fn page(&self) -> usize {
        usize::from(self.table.height.saturating_sub(1))
    }
}

fn lines(count: usize) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_filled_and_keeps_its_table() {
        for (width, height) in [(40, 10), (80, 24), (120, 40), (500, 300), (40, 12)] {
            for detail in [None, Some(true), Some(false)] {
                let wishes = Wishes { header_lines: 6, sessions: 20, detail, detail_lines: 9 };
                let areas = Areas::of(Rect::new(0, 0, width, height), wishes).expect("large enough");
                let parts = [areas.header, areas.table, areas.sessions, areas.detail, areas.footer];
                assert_eq!(parts.iter().map(|part| part.height).sum::<u16>(), height);
                assert!(areas.table.height >= MIN_TABLE && areas.footer.bottom() == height);
                assert_eq!(
                    areas.detail.height > 0,
                    detail != Some(false) && height >= 24 && (detail.is_some() || height > 24)
                );
            }
        }
        let wishes = Wishes { header_lines: 3, sessions: 0, detail: None, detail_lines: 0 };
        assert_eq!(Areas::of(Rect::new(0, 0, 39, 24), wishes), None);
        assert_eq!(Areas::of(Rect::new(0, 0, 80, 9), wishes), None);
    }
}
