//! How the view starts.

use crate::facts::{NoFacts, OwnFigures, TerminalWatch};
use crate::glyphs::Glyphs;
use crate::model::{Column, Filter};

/// Refreshes per second that `+` and `-` step through.
pub const REFRESH_STEPS_HERTZ: [u32; 6] = [1, 2, 4, 5, 10, 20];

/// The start of the view; keys change most of it.
#[derive(Debug)]
pub struct TopOptions<'a> {
    /// Looks at the data this often; default 4, kept within 1 and 20. Drawn is only what changed.
    pub refresh_hertz: u32,
    /// False: styles are bold and reversed only. [`TopOptions::from_environment`] follows `NO_COLOR`.
    pub color: bool,
    pub glyphs: Glyphs,
    /// Largest first, names and ids ascending.
    pub sort: Column,
    /// As typed behind `/`.
    pub filter: Filter,
    pub tree: bool,
    /// Own cost and losses.
    pub figures: &'a dyn OwnFigures,
    pub terminal: &'a dyn TerminalWatch,
}

impl Default for TopOptions<'_> {
    fn default() -> Self {
        Self {
            refresh_hertz: 4,
            color: true,
            glyphs: Glyphs::Unicode,
            sort: Column::Cpu,
            filter: Filter::default(),
            tree: false,
            figures: &NoFacts,
            terminal: &NoFacts,
        }
    }
}

impl TopOptions<'_> {
    /// The defaults, without color where `NO_COLOR` is set or the terminal is dumb, in ASCII where it has no better
    /// letters.
    pub fn from_environment() -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = variable("TERM").is_some_and(|term| term == "dumb");
        let glyphs = Glyphs::from_environment(variable, std::env::consts::OS);
        Self { color: !no_color && !dumb, glyphs, ..Self::default() }
    }
}
