//! Finds the end of an event byte by byte, with all state kept between calls, so that the result does not depend on how
//! the file is split into pieces.

/// How an unclosed event ends: the next line starts the next event, exactly as ONNX Runtime writes it. Without this a
/// stray quote would swallow the rest of the file.
pub(super) const NEXT_EVENT: &[u8] = b"\n{\"cat\"";

/// How an event ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The last byte was its closing bracket.
    Closed,
    /// The next event has begun: the last bytes are [`NEXT_EVENT`].
    Interrupted,
}

/// Finds the end of one event.
#[derive(Debug, Clone, Default)]
pub(super) struct Frame {
    depth: u32,
    inside_text: bool,
    after_backslash: bool,
    /// Number of matched bytes of [`NEXT_EVENT`].
    matched: usize,
}

impl Frame {
    /// Scans more bytes of the event, starting with its opening bracket. Returns the number of scanned bytes when
    /// the end is found.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> Option<(usize, End)> {
        for (at, byte) in bytes.iter().enumerate() {
            if let Some(end) = self.step(*byte) {
                return Some((at + 1, end));
            }
        }
        None
    }

    #[inline]
    fn step(&mut self, byte: u8) -> Option<End> {
        if NEXT_EVENT.get(self.matched) == Some(&byte) {
            self.matched += 1;
            if self.matched == NEXT_EVENT.len() {
                return Some(End::Interrupted);
            }
        } else {
            self.matched = usize::from(byte == b'\n');
        }
        if self.after_backslash {
            self.after_backslash = false;
            return None;
        }
        match byte {
            b'"' => self.inside_text = !self.inside_text,
            b'\\' => self.after_backslash = self.inside_text,
            b'{' | b'[' if !self.inside_text => self.depth = self.depth.saturating_add(1),
            b'}' | b']' if !self.inside_text => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Some(End::Closed);
                }
            }
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end_of(text: &str) -> Option<(&str, End)> {
        let mut frame = Frame::default();
        frame.scan(text.as_bytes()).map(|(length, end)| (&text[..length], end))
    }

    #[test]
    fn brackets_in_texts_are_ignored() {
        let event = r#"{"a":"}\"}","b":{"c":[1,"]"]}}"#;
        assert_eq!(end_of(&format!("{event},\n")), Some((event, End::Closed)));
        assert_eq!(end_of(&event[..event.len() - 1]), None);
    }

    #[test]
    fn a_stray_quote_ends_with_the_line() {
        let cut = "{\"name\":\"a\"b\",\"args\":{}},\n{\"cat\"";
        assert_eq!(end_of(&format!("{cut} : 1")), Some((cut, End::Interrupted)));
        assert_eq!(
            end_of("{\"name\":\"a\n\n{\"cat\""),
            Some(("{\"name\":\"a\n\n{\"cat\"", End::Interrupted))
        );
    }

    #[test]
    fn the_split_into_pieces_does_not_matter() {
        let text = b"{\"a\\\"\":[{}], \"b\" : \"\n{\\\"ca\"}";
        for cut in 0..text.len() {
            let mut frame = Frame::default();
            assert_eq!(frame.scan(&text[..cut]), None);
            assert_eq!(frame.scan(&text[cut..]), Some((text.len() - cut, End::Closed)));
        }
    }
}
