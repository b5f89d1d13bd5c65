//! The little argument parsing that tasks need: flags, one or more words, and what stands after `--`.

use std::fmt;

/// A command line that makes no sense; `main` turns it into exit code 2.
#[derive(Debug)]
pub(crate) struct UsageError(pub(crate) String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

#[derive(Debug)]
pub(crate) struct Arguments {
    words: Vec<String>,
    trailing: Vec<String>,
}

impl Arguments {
    pub(crate) fn new(mut words: Vec<String>) -> Self {
        let trailing = match words.iter().position(|word| word == "--") {
            Some(at) => {
                let trailing = words.split_off(at + 1);
                words.pop();
                trailing
            }
            None => Vec::new(),
        };
        Self { words, trailing }
    }

    /// Takes a flag out; true when it was given.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.words.len();
        self.words.retain(|word| word != name);
        self.words.len() != before
    }

    /// Takes an option with its value out, written `--name value` or `--name=value`.
    pub(crate) fn value(&mut self, name: &str) -> Result<Option<String>, UsageError> {
        let with_value = format!("{name}=");
        let Some(at) = self.words.iter().position(|word| word == name || word.starts_with(&with_value))
        else {
            return Ok(None);
        };
        let word = self.words.remove(at);
        if let Some(value) = word.strip_prefix(&with_value) {
            return Ok(Some(value.to_owned()));
        }
        if at < self.words.len() {
            return Ok(Some(self.words.remove(at)));
        }
        Err(UsageError(format!("`{name}` needs a value")))
    }

    /// Takes the next word that is not a flag.
    pub(crate) fn word(&mut self) -> Option<String> {
        let at = self.words.iter().position(|word| !word.starts_with('-'))?;
        Some(self.words.remove(at))
    }

    /// What stands after `--`.
    pub(crate) fn trailing(&mut self) -> Vec<String> {
        std::mem::take(&mut self.trailing)
    }

    /// Everything that is left, in order, for another program's command line; `--` is kept when something follows it.
    pub(crate) fn rest(mut self) -> Vec<String> {
        let mut rest = std::mem::take(&mut self.words);
        if !self.trailing.is_empty() {
            rest.push("--".to_owned());
            rest.append(&mut self.trailing);
        }
        rest
    }

    /// Nothing may be left: an unknown word is an error, never ignored.
    pub(crate) fn finish(self) -> Result<(), UsageError> {
        match self.words.first().or(self.trailing.first()) {
            Some(word) => Err(UsageError(format!("unexpected argument `{word}`"))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Arguments {
        Arguments::new(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn flags_words_and_the_rest_are_told_apart() {
        let mut given = arguments("model.onnx --quick -- --runs 10");
        assert!(given.flag("--quick"));
        assert!(!given.flag("--quick"));
        assert_eq!(given.word().as_deref(), Some("model.onnx"));
        assert_eq!(given.trailing(), ["--runs", "10"]);
        assert!(given.finish().is_ok());
    }

    #[test]
    fn options_have_values() {
        let mut given = arguments("--seed 7 --soak=20m --full");
        assert_eq!(given.value("--seed").expect("a value").as_deref(), Some("7"));
        assert_eq!(given.value("--soak").expect("a value").as_deref(), Some("20m"));
        assert!(given.value("--seed").expect("none").is_none() && given.flag("--full"));
        assert!(arguments("--seed").value("--seed").is_err());
    }

    #[test]
    fn the_rest_keeps_the_order_for_another_program() {
        let mut given = arguments("--full -p ortscope-core -- --ignored");
        assert!(given.flag("--full"));
        assert_eq!(given.rest(), ["-p", "ortscope-core", "--", "--ignored"]);
    }

    #[test]
    fn an_unknown_word_is_an_error() {
        assert!(arguments("--frobnicate").finish().is_err());
        assert!(arguments("-- stray").finish().is_err());
    }
}
