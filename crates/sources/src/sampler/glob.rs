//! Patterns for process names: `*` matches any characters, `?` one character.

use std::fmt;

/// Longer patterns are rejected: names have at most a few dozen characters.
pub const MAX_PATTERN_BYTES: usize = 256;

/// A pattern for the whole name. ASCII case is ignored, as on Windows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Glob(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GlobError {
    #[error("the pattern for process names is empty")]
    Empty,
    #[error("the pattern for process names has {0} bytes; the limit is {MAX_PATTERN_BYTES}")]
    TooLong(usize),
}

impl Glob {
    pub fn new(pattern: &str) -> Result<Self, GlobError> {
        match pattern.len() {
            0 => Err(GlobError::Empty),
            length if length > MAX_PATTERN_BYTES => Err(GlobError::TooLong(length)),
            _ => Ok(Self(pattern.to_owned())),
        }
    }

    /// Names are bytes and need not be UTF-8; `?` matches one byte where they are not.
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.0.as_bytes();
        let (mut at, mut in_name) = (0, 0);
        // Where to continue when the text after the last star does not match: one byte later in the name.
        let mut back: Option<(usize, usize)> = None;
        while in_name < name.len() {
            match pattern.get(at) {
                Some(b'*') => {
                    back = Some((at + 1, in_name));
                    at += 1;
                }
                Some(byte) if *byte == b'?' || byte.eq_ignore_ascii_case(&name[in_name]) => {
                    at += 1;
                    in_name += if *byte == b'?' { character_length(&name[in_name..]) } else { 1 };
                }
                _ => {
                    let Some((after_star, from)) = back else {
                        return false;
                    };
                    (at, in_name) = (after_star, from + 1);
                    back = Some((after_star, from + 1));
                }
            }
        }
        pattern[at..].iter().all(|byte| *byte == b'*')
    }
}

/// Length of the character at the start; 1 if it is not UTF-8.
fn character_length(bytes: &[u8]) -> usize {
    let valid = |length: usize| bytes.get(..length).is_some_and(|part| std::str::from_utf8(part).is_ok());
    (1..=4).find(|length| valid(*length)).unwrap_or(1)
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &[u8]) -> bool {
        Glob::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn stars_question_marks_and_case() {
        assert!(matches("python*", b"python3.13"));
        assert!(matches("PYTHON?", b"python3"));
        assert!(matches("*worker*", b"my worker 7"));
        assert!(matches("a*b*c", b"a-b-b-c"));
        assert!(matches("*", b""));
        assert!(!matches("python", b"python3"));
        assert!(!matches("?", b""));
        assert!(!matches("a*b", b"a-c"));
    }

    #[test]
    fn names_may_contain_any_bytes() {
        assert!(matches("evil*", b"evil\n) (\xff\xfe"));
        assert!(matches("a?b", "aüb".as_bytes()));
        assert!(matches("a?b", b"a\xffb"));
    }

    #[test]
    fn many_stars_do_not_take_exponential_time() {
        let pattern = "*a".repeat(100);
        assert!(!matches(&pattern, &b"a".repeat(99)));
        assert!(matches(&pattern, &b"a".repeat(4000)));
    }

    #[test]
    fn empty_and_long_patterns_are_rejected() {
        assert_eq!(Glob::new(""), Err(GlobError::Empty));
        assert_eq!(Glob::new(&"x".repeat(300)), Err(GlobError::TooLong(300)));
    }
}
