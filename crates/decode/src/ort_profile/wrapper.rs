//! The object form of a trace: `{"displayTimeUnit": "ns", "traceEvents": [ … ]}`. Everything except that list is
//! skipped.

const KEY: &[u8] = b"traceEvents";

/// Meaning of the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Inside,
    /// The list of events starts after this byte.
    List,
    /// The object ended.
    End,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Nothing,
    Key,
    Colon,
}

/// Byte by byte, like [`Frame`](super::frame::Frame).
#[derive(Debug, Clone, Default)]
pub(super) struct Wrapper {
    depth: u32,
    inside_text: bool,
    after_backslash: bool,
    /// Length of the current text, and how many of its bytes match [`KEY`].
    length: usize,
    agreed: usize,
    seen: Seen,
}

impl Wrapper {
    pub(super) fn step(&mut self, byte: u8) -> Step {
        if self.inside_text {
            self.text_step(byte);
            return Step::Inside;
        }
        let seen = std::mem::take(&mut self.seen);
        match byte {
            b'"' => {
                self.inside_text = true;
                (self.length, self.agreed) = (0, 0);
            }
            b' ' | b'\t' | b'\r' | b'\n' => self.seen = seen,
            b':' if seen == Seen::Key => self.seen = Seen::Colon,
            b'[' if seen == Seen::Colon => return Step::List,
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => {
                self.depth = self.depth.saturating_sub(1);
                if self.depth == 0 {
                    return Step::End;
                }
            }
            _ => {}
        }
        Step::Inside
    }

    fn text_step(&mut self, byte: u8) {
        if self.after_backslash {
            self.after_backslash = false;
        } else if byte == b'\\' {
            self.after_backslash = true;
        } else if byte == b'"' {
            self.inside_text = false;
            let is_key = self.length == KEY.len() && self.agreed == KEY.len() && self.depth == 1;
            self.seen = if is_key { Seen::Key } else { Seen::Nothing };
            return;
        }
        if self.agreed == self.length && KEY.get(self.agreed) == Some(&byte) {
            self.agreed += 1;
        }
        self.length = self.length.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn first_step(text: &str) -> Option<(usize, Step)> {
        let mut wrapper = Wrapper::default();
        text.bytes().map(|byte| wrapper.step(byte)).enumerate().find(|(_, step)| *step != Step::Inside)
    }

    #[test]
    fn the_list_is_found_after_other_members() {
        let before = r#"{"a": {"traceEvents": [1]}, "b": "traceEvents", "c": ["}"], "traceEvents" : ["#;
        assert_eq!(first_step(&format!("{before}]}}")), Some((before.len() - 1, Step::List)));
    }

    #[test]
    fn other_objects_end() {
        for text in [r#"{"traceEvent": [], "\traceEvents": []}"#, r#"{"traceEvents": {"a": []}}"#, "{}"] {
            assert_eq!(first_step(text), Some((text.len() - 1, Step::End)), "{text}");
        }
    }
}
