//! The user's choices, and how an [`Action`] changes them. Knows identities of processes, not their numbers.

use std::time::Duration;

use ortscope_core::identity::ProcessIdentity;

use crate::keys::{Action, Mode};
use crate::model::{Column, Filter, Sort};
use crate::options::{REFRESH_STEPS_HERTZ, TopOptions};

/// A refresh may take at most one part in this many of the time: 5 % of a core.
const PERIODS_PER_COST: u32 = 20;
const MAX_PERIOD: Duration = Duration::from_secs(5);

/// A page over the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    Help,
    Missing,
}

/// The table as it is on the screen now.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a> {
    /// Who is on each line, also of those that the screen does not show.
    pub lines: &'a [ProcessIdentity],
    /// Lines that the screen shows.
    pub page: usize,
    /// Columns that can be sorted by.
    pub columns: &'a [Column],
    /// Whether the detail pane is open, by choice or because there is space.
    pub detail_open: bool,
}

/// The user's choices.
#[derive(Debug, Clone)]
pub struct State {
    pub sort: Sort,
    pub filter: Filter,
    /// The filter as it was before it is typed anew.
    filter_before: Option<Filter>,
    pub tree: bool,
    pub paused: bool,
    pub refresh_hertz: u32,
    /// The refresh rate that the view's own cost allows, if it is less than the one above.
    pub slowed_to_hertz: Option<f64>,
    /// Whether the detail pane is open; `None` means if the screen has space for it.
    pub detail: Option<bool>,
    pub overlay: Option<Overlay>,
    /// First line of the overlay.
    pub overlay_top: u16,
    /// The process under the cursor; `None` means the first line.
    selected: Option<ProcessIdentity>,
    /// Line of the cursor.
    pub cursor: usize,
    /// First line on the screen.
    pub top: usize,
    pub quit: bool,
}

impl State {
    pub fn new(options: &TopOptions<'_>) -> Self {
        let (least, most) = (REFRESH_STEPS_HERTZ[0], REFRESH_STEPS_HERTZ[REFRESH_STEPS_HERTZ.len() - 1]);
        Self {
            sort: Sort::by(options.sort),
            filter: options.filter.clone(),
            filter_before: None,
            tree: options.tree,
            paused: false,
            refresh_hertz: options.refresh_hertz.clamp(least, most),
            slowed_to_hertz: None,
            detail: None,
            overlay: None,
            overlay_top: 0,
            selected: None,
            cursor: 0,
            top: 0,
            quit: false,
        }
    }

    pub fn mode(&self) -> Mode {
        match (self.overlay, self.filter_before.is_some()) {
            (Some(_), _) => Mode::Overlay,
            (None, true) => Mode::Filter,
            (None, false) => Mode::Table,
        }
    }

    pub fn apply(&mut self, action: Action, table: Table<'_>) {
        if self.overlay.is_some() && self.move_overlay(action, table.page) {
            return;
        }
        match action {
            Action::Up => self.move_to(self.cursor.saturating_sub(1), table),
            Action::Down => self.move_to(self.cursor.saturating_add(1), table),
            Action::PageUp => self.move_to(self.cursor.saturating_sub(table.page), table),
            Action::PageDown => self.move_to(self.cursor.saturating_add(table.page), table),
            Action::First => (self.selected, self.cursor, self.top) = (None, 0, 0),
            Action::Last => self.move_to(usize::MAX, table),
            Action::NextSort => {
                let at = table.columns.iter().position(|column| *column == self.sort.column);
                let next = at.map_or(0, |at| at + 1);
                let column = table.columns.get(next).or_else(|| table.columns.first());
                self.sort = Sort::by(column.copied().unwrap_or(Column::Cpu));
            }
            Action::ReverseSort => self.sort.descending = !self.sort.descending,
            Action::Tree => self.tree = !self.tree,
            Action::Pause => self.paused = !self.paused,
            Action::Faster => self.step_refresh(true),
            Action::Slower => self.step_refresh(false),
            Action::Detail => self.detail = Some(!table.detail_open),
            Action::Help => self.toggle(Overlay::Help),
            Action::Missing => self.toggle(Overlay::Missing),
            Action::Close => self.overlay = None,
            Action::StartFilter => self.filter_before = Some(self.filter.clone()),
            Action::TypeFilter(char) => self.set_filter(&format!("{}{char}", self.filter.text())),
            Action::EraseFilter => {
                let mut text = self.filter.text().to_owned();
                text.pop();
                self.set_filter(&text);
            }
            Action::ClearFilter => self.set_filter(""),
            Action::KeepFilter => self.filter_before = None,
            Action::DropFilter => {
                if let Some(before) = self.filter_before.take() {
                    self.filter = before;
                }
            }
            Action::Quit => self.quit = true,
        }
    }

    /// Time until the next refresh, given the cost of the last one: with very many processes the view refreshes less
    /// often instead of becoming the load that it shows.
    pub fn period_after(&mut self, cost: Duration) -> Duration {
        let wanted = Duration::from_secs(1) / self.refresh_hertz.max(1);
        let period = wanted.max(cost * PERIODS_PER_COST).min(MAX_PERIOD);
        self.slowed_to_hertz = (period > wanted).then(|| 1.0 / period.as_secs_f64());
        period
    }

    /// Follows the selected process to its new line and keeps the cursor on the screen. If it is gone, the cursor stays
    /// where it was.
    pub fn settle(&mut self, lines: &[ProcessIdentity], page: usize) {
        let last = lines.len().saturating_sub(1);
        if let Some(selected) = self.selected {
            match lines.iter().position(|line| *line == selected) {
                Some(line) => self.cursor = line,
                None => {
                    self.cursor = self.cursor.min(last);
                    // While nothing is shown, e.g. for a filter that is being typed, the choice is remembered.
                    self.selected = lines.get(self.cursor).copied().or(self.selected);
                }
            }
        }
        self.cursor = self.cursor.min(last);
        let page = page.max(1);
        self.top = self
            .top
            .clamp(self.cursor.saturating_sub(page - 1), self.cursor)
            .min(lines.len().saturating_sub(page));
    }

    /// The process under the cursor.
    pub fn under_cursor(&self, lines: &[ProcessIdentity]) -> Option<ProcessIdentity> {
        lines.get(self.cursor).copied()
    }

    fn move_to(&mut self, line: usize, table: Table<'_>) {
        self.cursor = line.min(table.lines.len().saturating_sub(1));
        self.selected = table.lines.get(self.cursor).copied();
    }

    fn set_filter(&mut self, text: &str) {
        self.filter = Filter::new(text);
    }

    fn step_refresh(&mut self, faster: bool) {
        let mut steps = REFRESH_STEPS_HERTZ.into_iter();
        let next = if faster {
            steps.find(|step| *step > self.refresh_hertz)
        } else {
            steps.rfind(|step| *step < self.refresh_hertz)
        };
        self.refresh_hertz = next.unwrap_or(self.refresh_hertz);
    }

    fn toggle(&mut self, overlay: Overlay) {
        self.overlay = (self.overlay != Some(overlay)).then_some(overlay);
        self.overlay_top = 0;
    }

    /// Keys that move belong to the open overlay. The drawing keeps it within its text.
    fn move_overlay(&mut self, action: Action, page: usize) -> bool {
        let page = u16::try_from(page).unwrap_or(u16::MAX);
        self.overlay_top = match action {
            Action::Up => self.overlay_top.saturating_sub(1),
            Action::Down => self.overlay_top.saturating_add(1),
            Action::PageUp => self.overlay_top.saturating_sub(page),
            Action::PageDown => self.overlay_top.saturating_add(page),
            Action::First => 0,
            Action::Last => u16::MAX,
            _ => return false,
        };
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: [Column; 3] = [Column::Pid, Column::Cpu, Column::Rss];

    fn identities(pids: &[u32]) -> Vec<ProcessIdentity> {
        pids.iter().map(|pid| ProcessIdentity { pid: *pid, start: 1 }).collect()
    }

    fn apply(state: &mut State, lines: &[ProcessIdentity], actions: &[Action]) {
        for action in actions {
            state.apply(*action, Table { lines, page: 3, columns: &COLUMNS, detail_open: false });
            state.settle(lines, 3);
        }
    }

    #[test]
    fn the_cursor_follows_its_process() {
        let mut state = State::new(&TopOptions::default());
        let lines = identities(&[1, 2, 3, 4, 5, 6, 7, 8]);
        apply(&mut state, &lines, &[Action::Down, Action::PageDown]);
        assert_eq!((state.cursor, state.top), (4, 2));
        let moved = identities(&[5, 1, 2, 3, 4, 6, 7, 8]);
        state.settle(&moved, 3);
        assert_eq!(
            (state.cursor, state.top, state.under_cursor(&moved).map(|process| process.pid)),
            (0, 0, Some(5))
        );
        // It ends: the cursor stays on its line.
        apply(&mut state, &lines, &[Action::Last]);
        state.settle(&identities(&[1, 2, 3]), 3);
        assert_eq!((state.cursor, state.top), (2, 0));
        state.settle(&[], 3);
        assert_eq!((state.cursor, state.under_cursor(&[])), (0, None));
    }

    #[test]
    fn without_a_choice_the_cursor_stays_on_the_first_line() {
        let mut state = State::new(&TopOptions::default());
        state.settle(&identities(&[1, 2]), 3);
        state.settle(&identities(&[2, 1]), 3);
        assert_eq!(state.cursor, 0);
        let lines = identities(&[1, 2, 3, 4, 5]);
        apply(&mut state, &lines, &[Action::Last, Action::First]);
        state.settle(&identities(&[5, 4, 3]), 3);
        assert_eq!(state.cursor, 0);
    }

    #[test]
    fn sort_columns_go_round_with_their_own_direction() {
        let mut state = State::new(&TopOptions::default());
        apply(&mut state, &[], &[Action::NextSort]);
        assert_eq!(state.sort, Sort { column: Column::Rss, descending: true });
        apply(&mut state, &[], &[Action::NextSort]);
        assert_eq!(state.sort, Sort { column: Column::Pid, descending: false });
        apply(&mut state, &[], &[Action::ReverseSort]);
        assert!(state.sort.descending);
    }

    #[test]
    fn a_canceled_filter_restores_the_previous_one() {
        let mut state = State::new(&TopOptions::default());
        apply(&mut state, &[], &[Action::StartFilter, Action::TypeFilter('p'), Action::KeepFilter]);
        apply(&mut state, &[], &[Action::StartFilter, Action::TypeFilter('y'), Action::TypeFilter('x')]);
        assert_eq!((state.filter.text(), state.mode()), ("pyx", Mode::Filter));
        apply(&mut state, &[], &[Action::EraseFilter]);
        assert_eq!(state.filter.text(), "py");
        apply(&mut state, &[], &[Action::DropFilter]);
        assert_eq!((state.filter.text(), state.mode()), ("p", Mode::Table));
    }

    #[test]
    fn the_refresh_rate_stays_within_its_steps() {
        let mut state = State::new(&TopOptions { refresh_hertz: 1000, ..TopOptions::default() });
        assert_eq!(state.refresh_hertz, 20);
        apply(&mut state, &[], &[Action::Faster, Action::Slower, Action::Slower]);
        assert_eq!(state.refresh_hertz, 5);
        apply(&mut state, &[], &[Action::Slower; 9]);
        assert_eq!(state.refresh_hertz, 1);
    }

    #[test]
    fn a_costly_refresh_comes_less_often() {
        let mut state = State::new(&TopOptions::default());
        let millis = Duration::from_millis;
        assert_eq!((state.period_after(millis(2)), state.slowed_to_hertz), (millis(250), None));
        assert_eq!((state.period_after(millis(25)), state.slowed_to_hertz), (millis(500), Some(2.0)));
        assert_eq!(state.period_after(millis(60_000)), MAX_PERIOD);
    }

    #[test]
    fn an_overlay_receives_the_movement_keys() {
        let mut state = State::new(&TopOptions::default());
        let lines = identities(&[1, 2, 3]);
        apply(&mut state, &lines, &[Action::Help, Action::Down, Action::Down]);
        assert_eq!((state.overlay_top, state.cursor, state.mode()), (2, 0, Mode::Overlay));
        apply(&mut state, &lines, &[Action::Missing]);
        assert_eq!((state.overlay, state.overlay_top), (Some(Overlay::Missing), 0));
        apply(&mut state, &lines, &[Action::Close]);
        assert_eq!(state.mode(), Mode::Table);
    }
}
