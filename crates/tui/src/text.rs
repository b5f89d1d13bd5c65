//! Text from elsewhere made harmless, and text cut and padded to a width in cells of the terminal.
//!
//! Names of programs, models and devices are chosen by others: a newline would break the table, an escape sequence
//! could change the terminal, a change of direction could make one program look like another.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Longer texts are cut first.
const MAX_CHARS: usize = 512;
/// Marks on one letter; real writing needs two.
const MAX_MARKS: usize = 2;
/// Stands for what must not reach the terminal.
const REPLACEMENT: char = '?';

/// The text without anything that could move the cursor, or hide or reverse adjacent text.
pub fn harmless(text: &str) -> String {
    let mut clean = String::with_capacity(text.len().min(MAX_CHARS));
    let mut marks = MAX_MARKS;
    for char in text.chars().take(MAX_CHARS) {
        match char.width() {
            _ if is_invisible(char) => {}
            None => {
                clean.push(REPLACEMENT);
                marks = 0;
            }
            Some(0) if marks < MAX_MARKS => {
                clean.push(char);
                marks += 1;
            }
            // A mark without a letter would sit on the border of the column.
            Some(0) => {}
            Some(_) => {
                clean.push(char);
                marks = 0;
            }
        }
    }
    clean
}

/// Invisible characters that change the display: joiners, direction, variants, tags.
fn is_invisible(char: char) -> bool {
    matches!(char,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
        | '\u{fff0}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

/// Cells that a harmless text takes.
pub fn cells(text: &str) -> usize {
    text.width()
}

/// The text in exactly `width` cells, from the left; `more` ends it where it had to be cut.
pub fn fit_left(text: &str, width: usize, more: char) -> String {
    let mut fitted = cut(text, width, more);
    let missing = width.saturating_sub(cells(&fitted));
    fitted.extend(std::iter::repeat_n(' ', missing));
    fitted
}

/// The same, pushed to the right: for numbers.
pub fn fit_right(text: &str, width: usize, more: char) -> String {
    let fitted = cut(text, width, more);
    let missing = width.saturating_sub(cells(&fitted));
    format!("{}{fitted}", " ".repeat(missing))
}

/// The text in at most `width` cells.
pub fn cut(text: &str, width: usize, more: char) -> String {
    if cells(text) <= width {
        return text.to_owned();
    }
    let room = width.saturating_sub(more.width().unwrap_or(1));
    let mut used = 0;
    let mut kept: String = text
        .chars()
        .take_while(|char| {
            used += char.width().unwrap_or(0);
            used <= room
        })
        .collect();
    if width > 0 {
        kept.push(more);
    }
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn terminal_control_characters_are_replaced() {
        assert_eq!(harmless("a\nb\tc\u{1b}[31md\u{9b}2J\u{7f}"), "a?b?c?[31md?2J?");
        assert_eq!(harmless("evil\u{202e}gpj.exe\u{200b}\u{e0041}"), "evilgpj.exe");
        assert_eq!(harmless("\u{301}e\u{301}\u{301}\u{301}\u{301}"), "e\u{301}\u{301}");
        assert_eq!(harmless(&"x".repeat(100_000)).len(), MAX_CHARS);
    }

    #[test]
    fn wide_characters_are_never_cut_in_half() {
        assert_eq!(fit_left("推論サーバ", 7, '…'), "推論サ…");
        assert_eq!(fit_left("推論サーバ", 6, '…'), "推論… ");
        assert_eq!(fit_left("推論", 6, '…'), "推論  ");
        assert_eq!(fit_right("12.5", 6, '~'), "  12.5");
        assert_eq!(fit_right("1234567", 6, '~'), "12345~");
        assert_eq!((cut("ab", 1, '~').as_str(), cut("ab", 0, '~').as_str()), ("~", ""));
    }

    proptest! {
        #[test]
        fn any_text_fits_exactly(text in "\\PC*|.*", width in 0_usize..40) {
            let clean = harmless(&text);
            prop_assert!(!clean.chars().any(char::is_control));
            prop_assert_eq!(cells(&fit_left(&clean, width, '~')), width);
            prop_assert_eq!(cells(&fit_right(&clean, width, '~')), width);
        }
    }
}
