//! Removing identifying data from texts.

use std::collections::{BTreeMap, HashMap};

use ortscope_core::batch::Batch;
use ortscope_core::schema::{Column, ColumnData, TableId, Text};
use serde_json::Value;

use crate::columns::{batch_of, empty_text};
use crate::manifest::Manifest;

/// Replacement for removed text.
const REMOVED: &str = "[removed]";
/// Keys whose values are removed whole, in documents and fingerprints.
const IDENTIFYING_KEYS: &[(&str, &str)] = &[
    ("command", "command lines"),
    ("command_line", "command lines"),
    ("cmdline", "command lines"),
    ("argv", "command lines"),
    ("args", "command lines"),
    ("arguments", "command lines"),
    ("environment", "environments"),
    ("env", "environments"),
    ("user", "user and host names"),
    ("username", "user and host names"),
    ("user_name", "user and host names"),
    ("host", "user and host names"),
    ("hostname", "user and host names"),
    ("host_name", "user and host names"),
    ("computer_name", "user and host names"),
    ("home", "directories"),
    ("cwd", "directories"),
    ("working_directory", "directories"),
];
/// Parts of keys whose values are removed whole.
const SECRET_PARTS: &[&str] =
    &["password", "passwd", "secret", "api_key", "apikey", "access_token", "auth_token"];
/// Names that do not identify a person.
const COMMON_NAMES: &[&str] =
    &["root", "user", "admin", "administrator", "localhost", "runner", "ubuntu", "default"];

/// Redacts texts and counts the removals.
#[derive(Debug)]
pub(super) struct Redactor {
    /// Names of this user and this machine.
    names: Vec<String>,
    removed: BTreeMap<&'static str, u64>,
}

impl Redactor {
    pub fn new(manifest: &Manifest) -> Self {
        let variables = ["USER", "LOGNAME", "USERNAME", "HOSTNAME", "COMPUTERNAME"];
        let mut names: Vec<String> = variables.iter().filter_map(|name| std::env::var(name).ok()).collect();
        // Linux provides the host name in a file; elsewhere the environment has it.
        names.extend(std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
        let in_fingerprint = ["hostname", "host", "user", "username"];
        names.extend(manifest.host.clone());
        names.extend(in_fingerprint.iter().filter_map(|key| manifest.fingerprint.get(*key).cloned()));
        Self::with_names(&names)
    }

    fn with_names(names: &[String]) -> Self {
        let mut names: Vec<String> = names.iter().map(|name| name.trim().to_owned()).collect();
        names.retain(|name| name.len() >= 3 && !COMMON_NAMES.contains(&name.to_lowercase().as_str()));
        names.sort_by_key(|name| std::cmp::Reverse(name.len()));
        names.dedup();
        Self { names, removed: BTreeMap::new() }
    }

    pub fn count(&mut self, what: &'static str, count: u64) {
        if count > 0 {
            *self.removed.entry(what).or_default() += count;
        }
    }

    /// The removals, as sentences.
    pub fn into_removed(self) -> Vec<String> {
        self.removed.iter().map(|(what, count)| format!("{what}: {count}")).collect()
    }

    pub fn manifest(&mut self, manifest: &mut Manifest) {
        if manifest.command.take().is_some() {
            self.count("command lines", 1);
        }
        if manifest.host.take().is_some() {
            self.count("user and host names", 1);
        }
        manifest.subject = self.text(&manifest.subject);
        manifest.name = manifest.name.as_ref().map(|name| self.text(name));
        for tag in &mut manifest.tags {
            *tag = self.text(tag);
        }
        for (key, value) in &mut manifest.fingerprint {
            *value = match telling(key) {
                Some(what) => {
                    self.count(what, 1);
                    REMOVED.into()
                }
                None => self.text(value),
            };
        }
        if let Some(end) = &mut manifest.end {
            end.reason = self.text(&end.reason);
        }
    }

    /// JSON value by value; any other text as a whole.
    pub fn document(&mut self, text: &str) -> String {
        if text.trim_start().starts_with(['{', '['])
            && let Ok(mut value) = serde_json::from_str::<Value>(text)
        {
            self.value(&mut value);
            let pretty = text.contains('\n');
            let json =
                if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
            return json.unwrap_or_default();
        }
        self.text(text)
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.text(text),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    match telling(key) {
                        // A number under such a key is a figure.
                        Some(what) if !value.is_number() && !value.is_null() && !value.is_boolean() => {
                            self.count(what, 1);
                            *value = Value::String(REMOVED.into());
                        }
                        _ => self.value(value),
                    }
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Shortens paths to file names and removes the names of user and machine.
    pub fn text(&mut self, text: &str) -> String {
        let (mut text, paths) = shorten_paths(text);
        self.count("directories", paths);
        for index in 0..self.names.len() {
            let (clean, found) = without_word(&text, &self.names[index]);
            self.count("user and host names", found);
            text = clean;
        }
        text
    }
}

fn telling(key: &str) -> Option<&'static str> {
    let key = key.to_lowercase();
    if SECRET_PARTS.iter().any(|part| key.contains(part)) {
        return Some("secrets");
    }
    IDENTIFYING_KEYS.iter().find(|(name, _)| *name == key).map(|(_, what)| *what)
}

/// Replaces every path by its last part, and counts them. A path begins with a slash, a drive, two backslashes or
/// `~`, and has at least one directory. It ends at a space or punctuation, or at the quote if it is quoted; a text
/// that consists of a path only may contain spaces.
fn shorten_paths(text: &str) -> (String, u64) {
    if path_start(text.as_bytes(), 0) && !text.contains('\n') && !text.contains(" /") {
        return match shortened(text) {
            Some(name) => (name.to_owned(), 1),
            None => (text.to_owned(), 0),
        };
    }
    let bytes = text.as_bytes();
    let (mut out, mut count, mut copied, mut at) = (String::with_capacity(text.len()), 0, 0, 0);
    while at < bytes.len() {
        if !path_start(bytes, at) {
            at += 1;
            continue;
        }
        let quote =
            at.checked_sub(1).map(|before| bytes[before]).filter(|byte| matches!(byte, b'"' | b'\'' | b'`'));
        let length = match quote.and_then(|quote| bytes[at..].iter().position(|byte| *byte == quote)) {
            Some(length) => length,
            None => bytes[at..].iter().position(|byte| is_path_end(*byte)).unwrap_or(bytes.len() - at),
        };
        // Both ends are ASCII signs or the ends of the text, so the cut is between letters.
        if let Some(name) = shortened(&text[at..at + length]) {
            out.push_str(&text[copied..at]);
            out.push_str(name);
            copied = at + length;
            count += 1;
        }
        at += length.max(1);
    }
    out.push_str(&text[copied..]);
    (out, count)
}

/// Whether a path begins here: not in the middle of a word, where a slash means something else.
fn path_start(bytes: &[u8], at: usize) -> bool {
    let is_inside = at.checked_sub(1).is_some_and(|before| {
        let before = bytes[before];
        before.is_ascii_alphanumeric()
            || matches!(before, b'/' | b'\\' | b'_' | b'.' | b'-' | b'~' | b':')
            || before >= 0x80
    });
    let begins = |sign: &[u8]| bytes[at..].starts_with(sign);
    let drive = bytes[at..].first().is_some_and(u8::is_ascii_alphabetic)
        && matches!(bytes[at..].get(1..3), Some(b":\\" | b":/"));
    !is_inside && (begins(b"/") || begins(b"~/") || begins(b"~\\") || begins(b"\\\\") || drive)
}

fn is_path_end(byte: u8) -> bool {
    byte.is_ascii_whitespace()
        || matches!(byte, b'"' | b'\'' | b'`' | b',' | b';' | b')' | b']' | b'}' | b'>' | b'<' | b'|')
}

/// The last part of a path that has more than one.
fn shortened(path: &str) -> Option<&str> {
    let parts: Vec<&str> = path.split(['/', '\\']).filter(|part| !part.is_empty()).collect();
    (parts.len() >= 2).then(|| parts.last().copied()).flatten()
}

/// The text with a word replaced, and how often. Within a longer word it stays.
fn without_word(text: &str, word: &str) -> (String, u64) {
    let is_letter =
        |letter: Option<char>| letter.is_some_and(|letter| letter.is_alphanumeric() || letter == '_');
    let (mut out, mut count, mut copied) = (String::new(), 0, 0);
    for (at, _) in text.match_indices(word) {
        let behind = at + word.len();
        if !is_letter(text[..at].chars().next_back()) && !is_letter(text[behind..].chars().next()) {
            out.push_str(&text[copied..at]);
            out.push_str(REMOVED);
            copied = behind;
            count += 1;
        }
    }
    out.push_str(&text[copied..]);
    (out, count)
}

/// Tables with texts of the machine or of the user. The others have names of operators, phases, metrics: those stay.
pub(super) fn is_identifying(table: TableId) -> bool {
    matches!(
        table,
        TableId::Sessions
            | TableId::Processes
            | TableId::Annotations
            | TableId::KernelEvents
            | TableId::Findings
            | TableId::Unavailability
    )
}

/// The batch without identifying data.
pub(super) fn redacted(batch: &Batch, redactor: &mut Redactor) -> Batch {
    let columns = batch.columns().iter().zip(batch.table().def().columns).map(|(column, def)| {
        let mut column = column.clone();
        match (def.name, &mut column.data) {
            ("command_line", ColumnData::Text(_)) => remove(&mut column, redactor),
            (_, ColumnData::Text(values)) => clean(values, redactor),
            _ => {}
        }
        column
    });
    batch_of(batch.table(), columns.collect())
}

fn remove(column: &mut Column, redactor: &mut Redactor) {
    let removed = column.valid.iter().filter(|valid| **valid).count();
    redactor.count("command lines", removed as u64);
    column.valid.fill(false);
    if let ColumnData::Text(values) = &mut column.data {
        values.fill(empty_text());
    }
}

fn clean(values: &mut [Text], redactor: &mut Redactor) {
    let mut known: HashMap<Text, Text> = HashMap::new();
    for value in values {
        let clean = known.entry(Text::clone(value)).or_insert_with(|| redactor.document(value).into());
        *value = Text::clone(clean);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_become_file_names() {
        for (text, clean) in [
            ("/home/alice/secret project/model.onnx", "model.onnx"),
            ("C:\\Users\\alice\\m.onnx", "m.onnx"),
            ("\\\\server\\share\\m.onnx", "m.onnx"),
            ("~/models/m.onnx", "m.onnx"),
            ("cannot open '/data/client x/m.onnx': no such file", "cannot open 'm.onnx': no such file"),
            ("read /a/b.txt, /c/d.txt and e/f.txt", "read b.txt, d.txt and e/f.txt"),
            ("12 ms/token at 3/4", "12 ms/token at 3/4"),
            ("a / b and /single", "a / b and /single"),
            ("https://example.com/x", "https://example.com/x"),
            ("größe=/größe/länge.bin)", "größe=länge.bin)"),
            ("", ""),
        ] {
            assert_eq!(shorten_paths(text).0, clean, "{text}");
        }
    }

    #[test]
    fn user_and_host_names_are_removed_but_not_inside_words() {
        let mut redactor = Redactor::with_names(&["bob".into(), "box-7".into(), "root".into(), "x".into()]);
        assert_eq!(
            redactor.text("bob on box-7 as root, not bobsled"),
            "[removed] on [removed] as root, not bobsled"
        );
        assert_eq!(redactor.into_removed(), ["user and host names: 2"]);
    }

    #[test]
    fn documents_lose_telling_values_and_keep_figures() {
        let mut redactor = Redactor::with_names(&["alice".into()]);
        let text = r#"{"model":{"path":"/home/alice/a/m.onnx","size":5},"command":["x","--key","1"],"env":{"A":"b"},
            "user":"alice","tokens":7,"args":3,"api_key":"abc","note":"alice ran it"}"#;
        let clean: Value = serde_json::from_str(&redactor.document(text)).expect("JSON stays JSON");
        assert_eq!(clean["model"]["path"], "m.onnx");
        assert_eq!(clean["model"]["size"], 5);
        assert_eq!((&clean["command"], &clean["env"]), (&REMOVED.into(), &REMOVED.into()));
        assert_eq!((&clean["tokens"], &clean["args"]), (&7.into(), &3.into()));
        assert_eq!(clean["note"], "[removed] ran it");
        assert!(!redactor.document(text).contains("alice"));
    }
}
