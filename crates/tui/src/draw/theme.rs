//! Styles: the sixteen colors of the terminal's own theme, or only bold and reversed.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Span;

/// Shares of a whole from which a number is worth a look, and worth a worry.
const WARM_SHARE: f64 = 0.6;
const HOT_SHARE: f64 = 0.9;

/// Styles by meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    pub color: bool,
}

impl Theme {
    fn colored(self, color: Color) -> Style {
        if self.color { Style::new().fg(color) } else { Style::new() }
    }

    /// Names of numbers.
    pub fn label(self) -> Style {
        self.colored(Color::Cyan)
    }

    /// The most important part of a line.
    pub fn strong(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The least important part.
    pub fn faint(self) -> Style {
        self.colored(Color::DarkGray)
    }

    /// The line under the cursor, keys, what must not be overlooked.
    pub fn reversed(self) -> Style {
        Style::new().add_modifier(Modifier::REVERSED)
    }

    pub fn picture(self) -> Style {
        self.colored(Color::Green)
    }

    /// Something is wrong.
    pub fn alarm(self) -> Style {
        self.colored(Color::Red).add_modifier(Modifier::BOLD)
    }

    /// A number by its share of the whole, 0 to 1.
    pub fn load(self, share: f64) -> Style {
        if share >= HOT_SHARE {
            self.alarm()
        } else if share >= WARM_SHARE {
            self.colored(Color::Yellow)
        } else {
            Style::new()
        }
    }
}

/// Parts that belong together on a line.
pub type Segment = Vec<Span<'static>>;

pub fn label(theme: Theme, name: &str, value: String) -> Segment {
    vec![Span::styled(format!("{name} "), theme.label()), Span::raw(value)]
}
