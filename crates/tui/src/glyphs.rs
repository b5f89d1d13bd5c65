//! Graphics made of characters: sparklines and bars, in Unicode or, for consoles without such glyphs, ASCII.

const UNICODE_LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const ASCII_LEVELS: [char; 8] = ['_', '.', '-', ':', '=', '+', '*', '#'];

/// Which characters the terminal can show.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Glyphs {
    #[default]
    Unicode,
    Ascii,
}

impl Glyphs {
    /// The default for the environment: the fonts of the old Windows console and the Linux console have no block
    /// elements, and a locale other than UTF-8 would garble them.
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>, os: &str) -> Self {
        let set = |name| variable(name).is_some_and(|value| !value.is_empty());
        if variable("TERM").is_some_and(|term| term == "dumb" || term == "linux") {
            return Self::Ascii;
        }
        if os == "windows" {
            let modern = set("WT_SESSION") || set("TERM_PROGRAM") || set("TERM") || set("ConEmuANSI");
            return if modern { Self::Unicode } else { Self::Ascii };
        }
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(|name| variable(name).filter(|value| !value.is_empty()));
        // No locale at all is common in containers, whose terminals are UTF-8 nevertheless.
        let utf8 = locale.is_none_or(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        if utf8 { Self::Unicode } else { Self::Ascii }
    }

    /// Ends a text that was cut.
    pub fn more(self) -> char {
        match self {
            Self::Unicode => '…',
            Self::Ascii => '~',
        }
    }

    /// Stands between parts of a line.
    pub fn dot(self) -> &'static str {
        match self {
            Self::Unicode => "·",
            Self::Ascii => "|",
        }
    }

    /// Arrow of the sort column.
    pub fn arrow(self, descending: bool) -> char {
        match (self, descending) {
            (Self::Unicode, true) => '▾',
            (Self::Unicode, false) => '▴',
            (Self::Ascii, true) => 'v',
            (Self::Ascii, false) => '^',
        }
    }

    /// The line of a panel's title.
    pub fn rule(self) -> char {
        match self {
            Self::Unicode => '─',
            Self::Ascii => '-',
        }
    }

    /// Prefixes of tree rows: (child, last child, line, empty).
    pub fn branches(self) -> [&'static str; 4] {
        match self {
            Self::Unicode => ["├─", "└─", "│ ", "  "],
            Self::Ascii => ["|-", "`-", "| ", "  "],
        }
    }

    /// The picture of one value between 0 and `most`. Zero is a line, so that it differs from no value.
    pub fn level(self, value: f64, most: f64) -> char {
        let levels = match self {
            Self::Unicode => UNICODE_LEVELS,
            Self::Ascii => ASCII_LEVELS,
        };
        let share = if most > 0.0 { (value / most).clamp(0.0, 1.0) } else { 0.0 };
        let index = (share * (levels.len() - 1) as f64).round() as usize;
        levels.get(index).copied().unwrap_or(' ')
    }

    /// Draws the values in `width` cells, the newest at the right end. A cell with several values shows the largest,
    /// so that short peaks stay visible. Missing values are gaps.
    pub fn sparkline(self, values: &[Option<f64>], width: usize, most: f64) -> String {
        let cell = |index: usize| {
            let from = index * values.len() / width;
            let to = ((index + 1) * values.len() / width).max(from + 1);
            let largest =
                values.get(from..to.min(values.len()))?.iter().flatten().copied().reduce(f64::max)?;
            Some(self.level(largest, most))
        };
        (0..width).map(|index| cell(index).unwrap_or(' ')).collect()
    }

    /// A bar of `width` cells that is filled to the share, 0 to 1.
    pub fn bar(self, share: f64, width: usize) -> (String, String) {
        let full = (share.clamp(0.0, 1.0) * width as f64).round() as usize;
        let (fill, rest) = match self {
            Self::Unicode => ("█", "░"),
            Self::Ascii => ("#", "."),
        };
        (fill.repeat(full.min(width)), rest.repeat(width - full.min(width)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_keep_peaks_and_gaps() {
        let values: Vec<Option<f64>> =
            vec![None, None, Some(0.0), Some(0.0), Some(100.0), Some(0.0), Some(50.0), None];
        assert_eq!(Glyphs::Unicode.sparkline(&values, 4, 100.0), " ▁█▅");
        assert_eq!(Glyphs::Ascii.sparkline(&values, 8, 100.0), "  __#_= ");
        assert_eq!(Glyphs::Unicode.sparkline(&[], 3, 100.0), "   ");
        assert_eq!(Glyphs::Unicode.sparkline(&[Some(1.0)], 2, 0.0), "▁▁");
        assert_eq!(Glyphs::Unicode.sparkline(&values, 0, 1.0), "");
    }

    #[test]
    fn bars_fill_exactly() {
        assert_eq!(Glyphs::Ascii.bar(0.5, 4), ("##".into(), "..".into()));
        assert_eq!(Glyphs::Ascii.bar(7.0, 2), ("##".into(), String::new()));
        assert_eq!(Glyphs::Ascii.bar(f64::NAN, 2), (String::new(), "..".into()));
    }

    #[test]
    fn old_consoles_get_ascii() {
        let with = |pairs: &[(&str, &str)], os| {
            let find =
                |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
            Glyphs::from_environment(find, os)
        };
        assert_eq!(with(&[("TERM", "xterm-256color")], "linux"), Glyphs::Unicode);
        assert_eq!(with(&[("TERM", "linux")], "linux"), Glyphs::Ascii);
        assert_eq!(with(&[("LANG", "C")], "linux"), Glyphs::Ascii);
        assert_eq!(with(&[("LANG", "C"), ("LC_ALL", "de_DE.UTF-8")], "linux"), Glyphs::Unicode);
        assert_eq!(with(&[], "windows"), Glyphs::Ascii);
        assert_eq!(with(&[("WT_SESSION", "1")], "windows"), Glyphs::Unicode);
    }
}
