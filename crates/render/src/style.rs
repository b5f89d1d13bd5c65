//! Text styles for terminals.

/// Styles by their ANSI codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Bold,
    Dim,
    Good,
    Warning,
    Bad,
    /// One of the 256 colors, as background.
    Fill(u8),
}

impl Style {
    pub(crate) fn paint(self, text: &str, color: bool) -> String {
        if !color {
            return text.to_owned();
        }
        let code = match self {
            Self::Bold => "1".to_owned(),
            Self::Dim => "2".to_owned(),
            Self::Good => "32".to_owned(),
            Self::Warning => "33".to_owned(),
            Self::Bad => "1;31".to_owned(),
            Self::Fill(background) => format!("30;48;5;{background}"),
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// Whether text is colored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint {
    pub color: bool,
}

impl Paint {
    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        style.paint(text, self.color)
    }
}
