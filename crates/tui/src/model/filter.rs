//! The text typed after `/`: words that the name must contain, `!words` that it must not.

use super::snapshot::Process;

/// Longer input is not taken.
const MAX_FILTER_CHARS: usize = 80;

/// Words that must all match, ignoring case; a number also matches a process id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    text: String,
    words: Vec<(bool, String)>,
}

impl Filter {
    pub fn new(text: &str) -> Self {
        let text: String = text.chars().filter(|char| !char.is_control()).take(MAX_FILTER_CHARS).collect();
        let word = |word: &str| match word.strip_prefix('!') {
            Some(rest) => (false, rest.to_lowercase()),
            None => (true, word.to_lowercase()),
        };
        // A lone exclamation mark is the beginning of a word that is still being typed.
        let words = text.split_whitespace().map(word).filter(|(_, word)| !word.is_empty()).collect();
        Self { text, words }
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    pub(crate) fn matches(&self, process: &Process) -> bool {
        if self.words.is_empty() {
            return true;
        }
        let name = process.name.to_lowercase();
        let pid = process.identity.pid.to_string();
        self.words.iter().all(|(wanted, word)| (name.contains(word.as_str()) || pid == *word) == *wanted)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_must_hold_and_excluded_ones_must_not() {
        let process = |pid, name: &str| Process::named(pid, name);
        let matches = |filter: &str, name| Filter::new(filter).matches(&process(42, name));
        assert!(matches("", "x") && matches("PY", "python3") && matches("py !4", "python3"));
        assert!(!matches("py !3", "python3") && !matches("ruby", "python3") && matches("!", "python3"));
        assert!(matches("42", "x") && !matches("!42", "x") && !matches("4", "x"));
        assert_eq!(Filter::new(&"x".repeat(1000)).text().len(), MAX_FILTER_CHARS);
        assert_eq!(Filter::new("a\nb\u{1b}").text(), "ab");
    }
}
