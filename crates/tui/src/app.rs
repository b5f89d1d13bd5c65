//! Connects model, state and drawing: takes snapshots and keys, returns frames. Independent of terminal and clock.

use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{LiveView, TrackId};
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyEvent;
use ratatui::layout::Rect;

use crate::draw::{self, Screen, Sparks, Theme};
use crate::facts::{OwnFigures, ProcessFacts};
use crate::glyphs::Glyphs;
use crate::keys;
use crate::model::{Detail, Line, Metric, Shown, Snapshot, fingerprint, last_minute, order};
use crate::options::TopOptions;
use crate::state::{State, Table};

/// Maximum lines with sparklines, regardless of the terminal's height.
const MAX_PAGE: usize = 500;
const SECOND_NS: u64 = 1_000_000_000;

/// The view between two frames.
pub struct App<'a> {
    view: LiveView,
    facts: &'a dyn ProcessFacts,
    figures: &'a dyn OwnFigures,
    theme: Theme,
    glyphs: Glyphs,
    pub state: State,
    snapshot: Snapshot,
    fingerprint: u64,
    lines: Vec<Line>,
    identities: Vec<ProcessIdentity>,
    sparks: Sparks,
    detail: Option<Detail>,
    /// Processes on the last frame, for the keys that move by a page.
    page: usize,
    detail_open: bool,
    /// The data age shown by the last frame.
    shown_age_seconds: Option<u64>,
}

impl<'a> App<'a> {
    pub fn new(view: LiveView, facts: &'a dyn ProcessFacts, options: &TopOptions<'a>) -> Self {
        Self {
            view,
            facts,
            figures: options.figures,
            theme: Theme { color: options.color },
            glyphs: options.glyphs,
            state: State::new(options),
            snapshot: Snapshot::default(),
            fingerprint: 0,
            lines: Vec::new(),
            identities: Vec::new(),
            sparks: Sparks::new(),
            detail: None,
            page: 1,
            detail_open: false,
            shown_age_seconds: None,
        }
    }

    /// Looks at the live memory. Returns whether there is something new to draw: without new data, only the age of old
    /// data is, once a second.
    pub fn refresh(&mut self, now_ns: u64) -> bool {
        if !self.state.paused {
            let current = self.view.current(now_ns);
            let fingerprint = fingerprint(&current);
            if fingerprint != self.fingerprint {
                self.fingerprint = fingerprint;
                self.snapshot = Snapshot::of_current(&current, &self.view, self.facts, self.figures);
                self.arrange();
                self.sparks.clear();
                self.detail = None;
                return true;
            }
        }
        self.age_seconds(now_ns) != self.shown_age_seconds
    }

    /// Age of the displayed data in seconds, if it is worth showing.
    fn age_seconds(&self, now_ns: u64) -> Option<u64> {
        if self.state.paused {
            return Some(now_ns.saturating_sub(self.snapshot.at_ns) / SECOND_NS);
        }
        let age_ns = now_ns.saturating_sub(self.snapshot.newest_ns?);
        (age_ns > draw::STALE_NS).then_some(age_ns / SECOND_NS)
    }

    /// Returns whether the key meant something.
    pub fn key(&mut self, event: KeyEvent) -> bool {
        let Some(action) = keys::action(event, self.state.mode()) else {
            return false;
        };
        let columns = draw::columns::sortable(&self.snapshot);
        let table = Table {
            lines: &self.identities,
            page: self.page,
            columns: &columns,
            detail_open: self.detail_open,
        };
        self.state.apply(action, table);
        self.arrange();
        true
    }

    fn arrange(&mut self) {
        self.lines = order(&self.snapshot.processes, &self.state.filter, self.state.sort, self.state.tree);
        let identity = |line: &Line| Some(self.snapshot.processes.get(line.process)?.identity);
        self.identities = self.lines.iter().filter_map(identity).collect();
    }

    /// Draws a frame. Only displayed histories are fetched, at the time of the snapshot, so that a paused view can be
    /// scrolled.
    pub fn draw(&mut self, area: Rect, buffer: &mut Buffer, now_ns: u64) {
        self.shown_age_seconds = self.age_seconds(now_ns);
        // The pane's height depends on its process, which depends on the page: settle, look, settle again.
        for _ in 0..2 {
            let areas = draw::areas(&self.screen(now_ns), area);
            self.page = areas.map_or(1, |areas| areas.page().clamp(1, MAX_PAGE));
            self.detail_open = areas.is_some_and(|areas| areas.detail.height > 0);
            self.state.settle(&self.identities, self.page);
            self.look_at_selected();
        }
        self.fetch_sparks();
        draw::draw(&self.screen(now_ns), area, buffer);
    }

    fn screen(&self, now_ns: u64) -> Screen<'_> {
        Screen {
            snapshot: &self.snapshot,
            state: &self.state,
            lines: &self.lines,
            sparks: &self.sparks,
            detail: self.detail.as_ref(),
            theme: self.theme,
            glyphs: self.glyphs,
            now_ns,
        }
    }

    fn look_at_selected(&mut self) {
        let wanted = self.state.under_cursor(&self.identities).filter(|_| self.detail_open);
        let known = self.detail.as_ref().map(|detail| detail.process.identity);
        if wanted != known {
            self.detail =
                wanted.and_then(|identity| Detail::of(&self.snapshot, identity, &self.view, self.facts));
        }
    }

    fn fetch_sparks(&mut self) {
        for identity in self.identities.iter().skip(self.state.top).take(self.page) {
            if !self.sparks.contains_key(identity) {
                let track = TrackId::process(*identity, Metric::Cpu.track());
                let past = last_minute(&self.view, &track, self.snapshot.at_ns, Shown::Mean);
                self.sparks.insert(*identity, past);
            }
        }
    }
}
