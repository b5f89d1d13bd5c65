//! What may be shown where: colours, progress, and the two streams. Data goes to stdout, everything else to stderr.

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use anstyle::{AnsiColor, Style};
use ortscope_render::Paint;

use crate::exit::Failure;

/// When to use colours.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum ColorChoice {
    #[default]
    Auto,
    Always,
    Never,
}

/// The decisions for this invocation.
#[derive(Debug, Clone, Copy)]
pub struct Terminal {
    pub color: bool,
    pub quiet: bool,
    pub json: bool,
    stderr_is_terminal: bool,
}

impl Terminal {
    pub fn new(choice: ColorChoice, quiet: bool, json: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let color = match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto => {
                !set("NO_COLOR") && (set("CLICOLOR_FORCE") || (!dumb && std::io::stdout().is_terminal()))
            }
        };
        anstream::ColorChoice::write_global(if color {
            anstream::ColorChoice::Always
        } else {
            anstream::ColorChoice::Never
        });
        Self { color, quiet, json, stderr_is_terminal: std::io::stderr().is_terminal() && !dumb }
    }

    pub fn progress_bars(&self) -> bool {
        !self.quiet && self.stderr_is_terminal
    }

    pub fn progress_lines(&self) -> bool {
        !self.quiet && !self.stderr_is_terminal
    }

    /// The same choice for texts that `ortscope_render` makes.
    pub fn painter(&self) -> Paint {
        Paint { color: self.color }
    }

    pub fn paint(&self, style: Style, text: &str) -> String {
        if self.color { format!("{}{text}{}", style.render(), style.render_reset()) } else { text.to_owned() }
    }

    /// Prints each sentence as a warning on stderr.
    pub fn warn(&self, sentences: &[String]) {
        for sentence in sentences {
            print_error(&format!("{} {sentence}", self.paint(WARN, "warning:")));
        }
    }
}

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default().bold();

/// Prints data. A closed pipe (`| head`) is not an error.
pub fn print_data(text: &str) {
    let mut out = anstream::stdout().lock();
    out.write_all(harmless(text).as_bytes()).and_then(|()| out.flush()).ok();
}

/// Prints a JSON document as data.
pub fn print_json(document: &serde_json::Value) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(document).map_err(Failure::internal)?;
    print_data(&(text + "\n"));
    Ok(())
}

/// Prints a line for the person, not for the pipe.
pub fn print_error(line: &str) {
    let mut out = anstream::stderr().lock();
    writeln!(out, "{}", harmless(line)).ok();
}

/// The same text with everything in it that a terminal would obey written out, but colours: what is printed quotes names out
/// of files and from the system.
fn harmless(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let (taken, behind) = rest.split_at(colour_bytes(rest).unwrap_or(letter.len_utf8()));
        match is_obeyed(letter) && taken.len() == letter.len_utf8() {
            true => shown.extend(letter.escape_default()),
            false => shown.push_str(taken),
        }
        rest = behind;
    }
    Cow::Owned(shown)
}

/// Controls, and the marks that turn the direction of writing around.
fn is_obeyed(letter: char) -> bool {
    let turns = matches!(letter, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || (letter.is_control() && !matches!(letter, '\n' | '\t'))
}

/// How long the change of colour is with which a text begins.
fn colour_bytes(text: &str) -> Option<usize> {
    let rest = text.strip_prefix("\u{1b}[")?;
    let digits = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b';').count();
    (rest.as_bytes().get(digits) == Some(&b'm')).then_some(digits + 3)
}

/// The one form in which errors reach the user.
pub fn print_failure(terminal: &Terminal, failure: &Failure) {
    let mut lines = failure.message.lines();
    print_error(&format!("{} {}", terminal.paint(BAD, "error:"), lines.next().unwrap_or_default()));
    for line in lines {
        print_error(&format!("  {line}"));
    }
    if let Some(hint) = &failure.hint {
        print_error(&format!("{} {hint}", terminal.paint(GOOD, "hint:")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_cannot_steer_the_terminal() {
        assert_eq!(harmless("no 'a\u{1b}[2J\u{7}b'\n\tbecause ä"), "no 'a\\u{1b}[2J\\u{7}b'\n\tbecause ä");
        assert_eq!(harmless("\u{1b}[1;31mred\u{1b}[0m \u{1b}[31"), "\u{1b}[1;31mred\u{1b}[0m \\u{1b}[31");
        assert_eq!(harmless("exe.\u{202e}gpj\r"), "exe.\\u{202e}gpj\\r");
    }
}
