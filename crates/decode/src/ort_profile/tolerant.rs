//! Parses events that are not simple: escapes, line breaks, and errors of writers.
//!
//! Up to version 1.30 ONNX Runtime does not escape node names, so that a quote or a backslash in a name makes the file
//! invalid. Here a quote ends a text only where JSON can continue after it, and a text with an invalid escape is
//! considered unescaped. Values are decoded into a scratch text; there is no recursion.

use super::escapes::{copy, escape_width, unescape};
use super::fields::{Fields, Span};
use super::keys::{Key, Reads};
use super::number;

/// Irregularities.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Repairs {
    pub bad_commas: u32,
    /// The first invalid JSON: its offset in the event, and a description.
    pub problem: Option<(usize, &'static str)>,
}

/// Result of parsing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Found {
    pub repairs: Repairs,
    /// Length of the event, if it has an end.
    pub length: Option<usize>,
}

/// Parses the event at the start of `frame`. Spans refer to `scratch`.
pub(super) fn parse(frame: &[u8], fields: &mut Fields, scratch: &mut String) -> Found {
    scratch.clear();
    fields.clear();
    let mut parser = Parser { bytes: frame, at: 1, scratch, repairs: Repairs::default() };
    let is_closed = parser.members(fields, false);
    Found { repairs: parser.repairs, length: is_closed.then_some(parser.at) }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Decoded values.
    scratch: &'a mut String,
    repairs: Repairs,
}

impl Parser<'_> {
    fn byte(&self, at: usize) -> Option<u8> {
        self.bytes.get(at).copied()
    }

    fn problem(&mut self, sentence: &'static str) {
        self.repairs.problem.get_or_insert((self.at, sentence));
    }

    /// Offset of the next byte that is not white space, starting at `at`.
    fn after_space(&self, mut at: usize) -> usize {
        while matches!(self.byte(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            at += 1;
        }
        at
    }

    /// Parses the members of the event, including those of its arguments, up to the closing bracket. `false` if it
    /// is missing.
    fn members(&mut self, fields: &mut Fields, in_args: bool) -> bool {
        let mut is_first = true;
        loop {
            let mut commas = 0u32;
            loop {
                self.at = self.after_space(self.at);
                if self.byte(self.at) != Some(b',') {
                    break;
                }
                commas += 1;
                self.at += 1;
            }
            let ended = matches!(self.byte(self.at), None | Some(b'}'));
            let wanted = u32::from(!is_first && !ended);
            self.repairs.bad_commas += commas.abs_diff(wanted);
            if ended {
                let is_closed = self.byte(self.at).is_some();
                if !is_closed {
                    self.problem("an event is not closed");
                }
                self.at += 1;
                return is_closed;
            }
            is_first = false;
            if self.byte(self.at) == Some(b'"') {
                self.member(fields, in_args);
            } else {
                self.problem("a key is not in quotes");
                self.skip_junk();
            }
        }
    }

    fn member(&mut self, fields: &mut Fields, in_args: bool) {
        let name_span = self.text(true);
        let name = name_span.bytes_of(self.scratch.as_bytes());
        let key = if in_args { Key::of_args(name) } else { Key::of_event(name) };
        self.at = self.after_space(self.at);
        if self.byte(self.at) != Some(b':') {
            self.problem("a key has no value");
            return;
        }
        self.at = self.after_space(self.at + 1);
        let value = match self.byte(self.at) {
            Some(b'"') => self.text(false),
            Some(b'{') if key == Key::Args => {
                let start = self.at;
                self.at += 1;
                self.members(fields, true);
                self.raw_text(start)
            }
            Some(b'{' | b'[') => self.nested(),
            Some(b',' | b'}' | b']') | None => {
                self.problem("a key has no value");
                return;
            }
            Some(_) => self.word(),
        };
        match key.reads() {
            Reads::Text => fields.set_text(key, value),
            reads @ (Reads::Number | Reads::Time) => {
                fields.set_number(key, number::parse(value.bytes_of(self.scratch.as_bytes()), reads));
            }
            Reads::Nothing => fields.pass(key, name_span),
        }
    }

    /// Skips what cannot be a member, at least one byte.
    fn skip_junk(&mut self) {
        self.at += 1;
        while !matches!(self.byte(self.at), None | Some(b'"' | b',' | b'}')) {
            self.at += 1;
        }
    }

    /// A number or a word such as null or NaN.
    fn word(&mut self) -> Span {
        let start = self.at;
        while !matches!(self.byte(self.at), None | Some(b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.raw_text(start)
    }

    /// The raw text since `start`.
    fn raw_text(&mut self, start: usize) -> Span {
        self.at = self.at.min(self.bytes.len());
        let raw = self.bytes.get(start..self.at).unwrap_or_default();
        self.append(|scratch| copy(scratch, raw))
    }

    fn append(&mut self, write: impl FnOnce(&mut String) -> bool) -> Span {
        let start = self.scratch.len();
        if !write(self.scratch) {
            self.problem("a text is not UTF-8");
        }
        Span::new(start, self.scratch.len())
    }

    /// A list or an object as raw text.
    fn nested(&mut self) -> Span {
        let start = self.at;
        let (mut depth, mut inside_text) = (0usize, false);
        while let Some(byte) = self.byte(self.at) {
            self.at += 1;
            match byte {
                b'\\' if inside_text => self.at += 1,
                b'"' => inside_text = !inside_text,
                b'{' | b'[' if !inside_text => depth += 1,
                b'}' | b']' if !inside_text => {
                    depth -= 1;
                    if depth == 0 {
                        break;
                    }
                }
                _ => {}
            }
        }
        if depth > 0 {
            self.problem("a list or an object is not closed");
        }
        self.raw_text(start)
    }

    /// A text whose opening quote is the next byte, decoded.
    fn text(&mut self, is_key: bool) -> Span {
        let start = self.at + 1;
        let mut end = start;
        let mut escapes = Escapes::None;
        let closed = loop {
            match self.byte(end) {
                None => break false,
                Some(b'"') => {
                    if self.closes(end, is_key) {
                        break true;
                    }
                    self.problem("a quote inside a text is not escaped");
                    end += 1;
                }
                Some(b'\\') => {
                    // A path that ends in an unescaped backslash.
                    if self.byte(end + 1) == Some(b'"') && !is_key && self.arguments_follow(end + 2) {
                        escapes = Escapes::Broken;
                        end += 1;
                        continue;
                    }
                    let width = escape_width(self.bytes.get(end..).unwrap_or_default());
                    escapes = if width == 0 { Escapes::Broken } else { escapes.max(Escapes::Good) };
                    end += width.max(1);
                }
                Some(_) => end += 1,
            }
        };
        if !closed {
            self.problem("a text is not closed");
        }
        if escapes == Escapes::Broken {
            self.problem("a backslash inside a text is not escaped");
        }
        let raw = self.bytes.get(start..end.min(self.bytes.len())).unwrap_or_default();
        self.at = end + 1;
        let write = if escapes == Escapes::Good { unescape } else { copy };
        self.append(|scratch| write(scratch, raw))
    }

    /// Whether the quote at `at` can end a text, judging by what follows.
    fn closes(&self, at: usize, is_key: bool) -> bool {
        let next = self.after_space(at + 1);
        match self.byte(next) {
            None => true,
            Some(b':') => is_key,
            Some(b'}' | b']') => !is_key,
            // A key follows the comma; a second comma or the end is a common error.
            Some(b',') => {
                !is_key && matches!(self.byte(self.after_space(next + 1)), None | Some(b'"' | b',' | b'}'))
            }
            // A missing comma.
            Some(b'"') => !is_key && self.is_key_at(next),
            Some(_) => false,
        }
    }

    /// Whether a short text followed by a colon starts here.
    fn is_key_at(&self, at: usize) -> bool {
        let rest = self.bytes.get(at + 1..).unwrap_or_default();
        let Some(length) = rest.iter().take(64).position(|byte| *byte == b'"') else { return false };
        self.byte(self.after_space(at + length + 2)) == Some(b':')
    }

    fn arguments_follow(&self, at: usize) -> bool {
        let comma = self.after_space(at);
        let key = self.after_space(comma + 1);
        self.byte(comma) == Some(b',')
            && self.bytes.get(key..).is_some_and(|rest| rest.starts_with(b"\"args\""))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Escapes {
    None,
    Good,
    /// At least one invalid: the writer does not escape.
    Broken,
}
