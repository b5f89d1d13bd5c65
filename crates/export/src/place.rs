//! Where the files of a recording stand in a directory that other recordings share: names made of models and hosts, which
//! may hold anything.

use std::collections::BTreeMap;

use ortscope_core::schema::{SessionRow, Text};

use crate::error::ExportError;
use crate::source::RowSource;

/// Sessions that are remembered.
const MAX_SESSIONS: usize = 100_000;
/// Letters of a part of a path.
const MAX_LETTERS: usize = 100;

/// A text as one part of a path, on every system: letters, digits, `.`, `_`, `-`; the rest becomes `_`.
pub(crate) fn path_part(text: &str) -> String {
    let clean = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '.' | '_' | '-' => letter,
        letter if letter.is_alphanumeric() => letter,
        _ => '_',
    };
    let part: String = text.chars().take(MAX_LETTERS).map(clean).collect();
    let part = part.trim_matches(['.', ' ']);
    if part.is_empty() { "unknown".to_owned() } else { part.to_owned() }
}

/// The model of every session.
#[derive(Debug, Default)]
pub(crate) struct Models {
    by_session: BTreeMap<Text, Text>,
    subject: Text,
}

impl Models {
    pub(crate) fn read(source: &RowSource<'_>) -> Result<Self, ExportError> {
        let mut models = Self { by_session: BTreeMap::new(), subject: source.info.subject.as_str().into() };
        for row in source.all_rows::<SessionRow>().take(MAX_SESSIONS) {
            let row = row?;
            if !row.model_name.is_empty() {
                models.by_session.insert(row.session_id, row.model_name);
            }
        }
        Ok(models)
    }

    /// Of a session that nobody told about, what the recording is of.
    pub(crate) fn of(&self, session_id: &Text) -> Text {
        Text::clone(self.by_session.get(session_id).unwrap_or(&self.subject))
    }

    /// The one model of the recording; several are `mixed`.
    pub(crate) fn only(&self) -> Text {
        let mut all = self.by_session.values();
        match all.next() {
            None => Text::clone(&self.subject),
            Some(first) if all.all(|other| other == first) => Text::clone(first),
            Some(_) => "mixed".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_paths_are_harmless_everywhere() {
        assert_eq!(path_part("squeezenet.onnx"), "squeezenet.onnx");
        assert_eq!(path_part("../../etc/passwd"), "_.._etc_passwd");
        assert_eq!(path_part("C:\\a b=\"c\"*?|<>"), "C__a_b__c______");
        assert_eq!(
            (path_part(""), path_part("..."), path_part("模型")),
            ("unknown".into(), "unknown".into(), "模型".into())
        );
        assert_eq!(path_part(&"x".repeat(1_000)).len(), 100);
    }
}
