//! The parser for almost every event: one line, no escapes, nothing unusual. Anything else is left to the [tolerant
//! parser].
//!
//! It jumps from quote to quote. It accepts only a complete object whose end does not depend on what follows, so that
//! the result does not depend on how the file is split into pieces.
//!
//! [tolerant parser]: super::tolerant

use super::fields::{Fields, Span};
use super::keys::{Key, Reads};
use super::number::{leading_number, scaled};
use super::words::{end_of_nested, find_quote, is_plain};

/// Parses the event at the start of `bytes`, which is a `{`, and returns its text. `None` if it does not end in these
/// bytes or is not simple; then the fields are meaningless.
#[inline]
pub(super) fn parse<'a>(bytes: &'a [u8], fields: &mut Fields) -> Option<&'a str> {
    fields.clear();
    let length = Parser { bytes, at: 1 }.event(fields)?;
    let event = bytes.get(..length)?;
    // Checked last: an escape or a line break may have misled the parser, but then it is in the parsed text.
    if is_plain(event) { std::str::from_utf8(event).ok() } else { None }
}

struct Parser<'a> {
    bytes: &'a [u8],
    /// Next byte to look at.
    at: usize,
}

impl Parser<'_> {
    /// The next byte that is not a blank, without consuming it.
    #[inline(always)]
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.bytes.get(self.at)?;
            if byte != b' ' {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// The text between quotes, the first of which is the next byte.
    #[inline(always)]
    fn text(&mut self) -> Option<Span> {
        let start = self.at + 1;
        let end = find_quote(self.bytes, start)?;
        self.at = end + 1;
        Some(Span::new(start, end))
    }

    /// Consumes the colon after a key; returns the first byte of the value without consuming it.
    #[inline(always)]
    fn colon(&mut self) -> Option<u8> {
        // As ONNX Runtime writes it.
        if let [b' ', b':', after, first, ..] = *self.bytes.get(self.at..)? {
            let is_spaced = after == b' ';
            let first = if is_spaced { first } else { after };
            if first != b' ' {
                self.at += 2 + usize::from(is_spaced);
                return Some(first);
            }
        }
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        self.peek()
    }

    /// Parses the members of the event and of its arguments; returns the length of the event.
    fn event(&mut self, fields: &mut Fields) -> Option<usize> {
        let mut args_start = 0;
        if self.peek()? == b'}' {
            return Some(self.at + 1);
        }
        loop {
            if self.peek()? != b'"' {
                return None;
            }
            let name_span = self.text()?;
            let name = name_span.bytes_of(self.bytes);
            let key = if args_start > 0 { Key::of_args(name) } else { Key::of_event(name) };
            let first = self.colon()?;
            if first == b'{' && key == Key::Args {
                args_start = self.at;
                self.at += 1;
                if self.peek()? != b'}' {
                    continue;
                }
            } else {
                self.value(first, key, name_span, fields)?;
            }
            let mut after = self.peek()?;
            if after == b'}' && args_start > 0 {
                self.at += 1;
                fields.set_text(Key::Args, Span::new(args_start, self.at));
                args_start = 0;
                after = self.peek()?;
            }
            match after {
                b',' => self.at += 1,
                b'}' if args_start == 0 => return Some(self.at + 1),
                _ => return None,
            }
        }
    }

    /// A value other than the arguments, whose first byte is the next.
    #[inline(always)]
    fn value(&mut self, first: u8, key: Key, name: Span, fields: &mut Fields) -> Option<()> {
        let reads = key.reads();
        if matches!(reads, Reads::Number | Reads::Time) {
            return self.number(first, key, reads, fields);
        }
        let span = match first {
            b'"' => self.text()?,
            b'{' | b'[' => {
                let start = self.at;
                self.at = end_of_nested(self.bytes, start)?;
                Span::new(start, self.at)
            }
            b'-' | b'0'..=b'9' => {
                let (_, length) = leading_number(self.bytes.get(self.at..)?)?;
                let start = self.at;
                self.at += length;
                self.is_at_end_of_number()?;
                Span::new(start, self.at)
            }
            _ => return None,
        };
        if reads == Reads::Text {
            fields.set_text(key, span);
        } else {
            fields.pass(key, name);
        }
        Some(())
    }

    /// An integer, quoted or not.
    #[inline(always)]
    fn number(&mut self, first: u8, key: Key, reads: Reads, fields: &mut Fields) -> Option<()> {
        let quote = usize::from(first == b'"');
        let (value, length) = leading_number(self.bytes.get(self.at + quote..)?)?;
        self.at += quote + length;
        if quote == 0 {
            self.is_at_end_of_number()?;
        } else if *self.bytes.get(self.at)? != b'"' {
            return None;
        }
        self.at += quote;
        fields.set_number(key, Some(scaled(value, reads)?));
        Some(())
    }

    #[inline(always)]
    fn is_at_end_of_number(&self) -> Option<()> {
        matches!(self.bytes.get(self.at)?, b',' | b'}' | b' ').then_some(())
    }
}
