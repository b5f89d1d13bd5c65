//! The last line: the filter that is typed or in force, and the keys.

use ratatui::text::{Line, Span};

use super::Screen;
use super::flow::flow;
use super::theme::Segment;
use crate::keys::{HELP, Mode};
use crate::text::cut;

/// Keys that a new user must see even on the narrowest screen come first.
const ORDER: [&str; 10] = ["?", "q", "/", "s", "t", "p", "Enter", "u", "+ -", "S"];

pub fn line(screen: &Screen<'_>, width: usize) -> Line<'static> {
    let theme = screen.theme;
    let filter = screen.state.filter.text();
    if screen.state.mode() == Mode::Filter {
        let typed = cut(filter, width.saturating_sub(40).max(12), screen.glyphs.more());
        let segments = [
            vec![Span::styled("/", theme.strong()), Span::raw(typed), Span::styled(" ", theme.reversed())],
            key(screen, "Enter", "keep"),
            key(screen, "Esc", "back"),
            vec![Span::raw("!word: not")],
        ];
        return flow(segments, width);
    }
    let mut segments: Vec<Segment> = Vec::new();
    if !filter.is_empty() {
        let shown = cut(filter, 20, screen.glyphs.more());
        segments.push(vec![Span::styled(format!("/{shown}"), theme.strong())]);
    }
    let help = |wanted: &&str| HELP.iter().find(|(keys, ..)| keys == wanted);
    segments.extend(ORDER.iter().filter_map(help).map(|(keys, word, _)| key(screen, keys, word)));
    flow(segments, width)
}

fn key(screen: &Screen<'_>, keys: &str, word: &str) -> Segment {
    vec![Span::styled(keys.to_owned(), screen.theme.reversed()), Span::raw(format!(" {word}"))]
}
