//! From a key to what the user wants. Which keys mean what depends on whether a filter is being typed or an overlay is open.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    Up,
    Down,
    PageUp,
    PageDown,
    First,
    Last,
    NextSort,
    ReverseSort,
    Tree,
    Pause,
    Faster,
    Slower,
    Detail,
    Help,
    Missing,
    /// Closes the overlay that is open.
    Close,
    StartFilter,
    TypeFilter(char),
    EraseFilter,
    ClearFilter,
    KeepFilter,
    DropFilter,
    Quit,
}

/// Who gets the keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Table,
    Filter,
    Overlay,
}

/// Keys, short label and explanation, for footer and help, in order of use.
pub const HELP: &[(&str, &str, &str)] = &[
    ("Up/Dn j k", "select", "select a process; PgUp, PgDn, Home (follows the first line), End"),
    ("Enter", "detail", "open or close the pane about the selected process"),
    ("s", "sort", "sort by the next column"),
    ("S", "reverse", "reverse the order"),
    ("/", "filter", "filter by name: words that must be in it, !words that must not"),
    ("t", "tree", "children below their parents"),
    ("p", "pause", "pause or go on (also Space); observation goes on meanwhile"),
    ("+ -", "rate", "refresh more or less often, 1 to 20 times a second"),
    ("u", "missing", "what has no value here and why; what was lost"),
    ("?", "help", "this page"),
    ("q", "quit", "quit (also Esc and Ctrl-C)"),
];

/// The meaning of a key press; `None` for keys without one, and for releases, which Windows reports too.
pub fn action(event: KeyEvent, mode: Mode) -> Option<Action> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let control = event.modifiers.contains(KeyModifiers::CONTROL);
    let alt = event.modifiers.contains(KeyModifiers::ALT);
    // AltGr is Ctrl+Alt on Windows and types characters.
    if control && !alt && matches!(event.code, KeyCode::Char('c' | 'C')) {
        return Some(Action::Quit);
    }
    match mode {
        Mode::Filter => in_filter(event.code, control && !alt),
        Mode::Overlay => in_overlay(event.code),
        Mode::Table => in_table(event.code, control && !alt),
    }
}

fn in_filter(code: KeyCode, control: bool) -> Option<Action> {
    match code {
        KeyCode::Char('u' | 'U') if control => Some(Action::ClearFilter),
        KeyCode::Char('h' | 'H') if control => Some(Action::EraseFilter),
        KeyCode::Char(char) if !control => Some(Action::TypeFilter(char)),
        KeyCode::Backspace => Some(Action::EraseFilter),
        KeyCode::Enter => Some(Action::KeepFilter),
        KeyCode::Esc => Some(Action::DropFilter),
        // The table follows while the filter is typed, so one can move in it.
        KeyCode::Up | KeyCode::Down | KeyCode::PageUp | KeyCode::PageDown => moving(code),
        _ => None,
    }
}

fn in_overlay(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Char('j' | 'k') => moving(code),
        KeyCode::Char('q') | KeyCode::Esc | KeyCode::Enter => Some(Action::Close),
        KeyCode::Char('?') => Some(Action::Help),
        KeyCode::Char('u') => Some(Action::Missing),
        _ => moving(code),
    }
}

fn in_table(code: KeyCode, control: bool) -> Option<Action> {
    match code {
        KeyCode::Char(char) if control => match char {
            'f' | 'F' => Some(Action::PageDown),
            'b' | 'B' => Some(Action::PageUp),
            _ => None,
        },
        KeyCode::Char('s') => Some(Action::NextSort),
        KeyCode::Char('S') => Some(Action::ReverseSort),
        KeyCode::Char('/') => Some(Action::StartFilter),
        KeyCode::Char('t') => Some(Action::Tree),
        KeyCode::Char('p' | ' ') => Some(Action::Pause),
        KeyCode::Char('+' | '=') => Some(Action::Faster),
        KeyCode::Char('-' | '_') => Some(Action::Slower),
        KeyCode::Enter => Some(Action::Detail),
        KeyCode::Char('?') | KeyCode::F(1) => Some(Action::Help),
        KeyCode::Char('u') => Some(Action::Missing),
        KeyCode::Char('q') | KeyCode::Esc => Some(Action::Quit),
        _ => moving(code),
    }
}

fn moving(code: KeyCode) -> Option<Action> {
    match code {
        KeyCode::Up | KeyCode::Char('k') => Some(Action::Up),
        KeyCode::Down | KeyCode::Char('j') => Some(Action::Down),
        KeyCode::PageUp => Some(Action::PageUp),
        KeyCode::PageDown => Some(Action::PageDown),
        KeyCode::Home | KeyCode::Char('g') => Some(Action::First),
        KeyCode::End | KeyCode::Char('G') => Some(Action::Last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(code: KeyCode, modifiers: KeyModifiers, mode: Mode) -> Option<Action> {
        action(KeyEvent::new(code, modifiers), mode)
    }

    #[test]
    fn every_key_of_the_help_does_something() {
        for key in ['j', 'k', 's', 'S', '/', 't', 'p', ' ', '+', '-', 'u', '?', 'q'] {
            assert!(press(KeyCode::Char(key), KeyModifiers::NONE, Mode::Table).is_some(), "{key}");
        }
        for code in
            [KeyCode::Up, KeyCode::PageDown, KeyCode::Home, KeyCode::End, KeyCode::Enter, KeyCode::Esc]
        {
            assert!(press(code, KeyModifiers::NONE, Mode::Table).is_some(), "{code}");
        }
    }

    #[test]
    fn control_c_quits_everywhere_and_releases_do_nothing() {
        for mode in [Mode::Table, Mode::Filter, Mode::Overlay] {
            assert_eq!(press(KeyCode::Char('c'), KeyModifiers::CONTROL, mode), Some(Action::Quit));
            let mut release = KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE);
            release.kind = KeyEventKind::Release;
            assert_eq!(action(release, mode), None);
        }
    }

    #[test]
    fn letters_are_typed_into_a_filter_and_escape_leaves_one_thing_at_a_time() {
        let none = KeyModifiers::NONE;
        assert_eq!(press(KeyCode::Char('q'), none, Mode::Filter), Some(Action::TypeFilter('q')));
        assert_eq!(
            press(KeyCode::Char('@'), KeyModifiers::CONTROL | KeyModifiers::ALT, Mode::Filter),
            Some(Action::TypeFilter('@'))
        );
        assert_eq!(press(KeyCode::Esc, none, Mode::Filter), Some(Action::DropFilter));
        assert_eq!(press(KeyCode::Esc, none, Mode::Overlay), Some(Action::Close));
        assert_eq!(press(KeyCode::Esc, none, Mode::Table), Some(Action::Quit));
    }
}
