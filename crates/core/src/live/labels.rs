//! Names of processes and sessions that arrived before their first value.

use std::collections::{HashMap, VecDeque};

use super::subject::Key;
use super::subjects::map_bytes;
use crate::schema::Text;

/// Maximum number of pending names. When full, the oldest is dropped: its subject then has no name.
const MAX_LABELS: usize = 4096;

/// A text of at most this many bytes: names and reasons come from elsewhere and must not fill the memory.
pub(super) fn shortened(text: &Text, most_bytes: usize) -> Text {
    if text.len() <= most_bytes { text.clone() } else { text[..text.floor_char_boundary(most_bytes)].into() }
}

#[derive(Debug, Default)]
pub(super) struct Labels {
    labels: HashMap<Key, Text>,
    /// Keys in the order in which they came; some may be taken already.
    order: VecDeque<Key>,
    text_bytes: usize,
}

impl Labels {
    pub fn keep(&mut self, key: Key, label: Text) {
        self.text_bytes += label.len();
        match self.labels.insert(key.clone(), label) {
            Some(before) => self.text_bytes -= before.len(),
            None => self.order.push_back(key),
        }
        while self.order.len() > MAX_LABELS {
            if let Some(oldest) = self.order.pop_front() {
                self.take(&oldest);
            }
        }
    }

    pub fn take(&mut self, key: &Key) -> Option<Text> {
        let label = self.labels.remove(key)?;
        self.text_bytes -= label.len();
        Some(label)
    }

    pub fn heap_bytes(&self) -> usize {
        map_bytes(self.labels.capacity(), size_of::<(Key, Text)>())
            + self.order.capacity() * size_of::<Key>()
            + self.text_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(&*shortened(&"abc".into(), 3), "abc");
        assert_eq!(&*shortened(&"aäöü".into(), 4), "aä");
    }

    #[test]
    fn the_newest_names_stay() {
        let key = |number: usize| Key::Session(number.to_string().into());
        let mut labels = Labels::default();
        for number in 0..10_000 {
            labels.keep(key(number), "model".into());
        }
        labels.keep(key(9_999), "another".into());
        assert_eq!(labels.take(&key(0)), None);
        assert_eq!(labels.take(&key(9_999)).as_deref(), Some("another"));
        assert_eq!(labels.take(&key(9_998)).as_deref(), Some("model"));
        assert_eq!(labels.text_bytes, (MAX_LABELS - 2) * "model".len());
        assert!(labels.order.len() <= MAX_LABELS);
    }
}
