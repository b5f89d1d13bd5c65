//! Remembers what texts turn into, so that a name that a profile repeats a million times is allocated once.
//!
//! The size is fixed: every text has two places, and the newer one stays. A text that lost its place is allocated
//! again, which costs time and changes nothing; no file can make the cache slow or large.

use std::sync::Arc;

use ortscope_core::schema::Text;

/// Sets of two places. A model of 10,000 nodes has its names in here almost completely. Fuzzing makes a cache for every few
/// bytes: most of its time would go into empty places, and few places are lost sooner.
const SETS: usize = if cfg!(fuzzing) { 16 } else { 1 << 13 };
/// Longer texts are not remembered: together they could be much.
const MAX_TEXT_BYTES: usize = 512;

#[derive(Debug, Clone)]
struct Entry<V> {
    hash: u64,
    key: Text,
    value: V,
}

#[derive(Debug)]
pub(super) struct Cache<V> {
    sets: Vec<[Option<Entry<V>>; 2]>,
}

impl<V: Clone> Cache<V> {
    pub(super) fn new() -> Self {
        Self { sets: (0..SETS).map(|_| [None, None]).collect() }
    }

    /// What `text` turns into; `make` is asked only if it is not known.
    #[inline]
    pub(super) fn get(&mut self, text: &str, make: impl FnOnce(&Text) -> V) -> V {
        let hash = hash_of(text.as_bytes());
        let Some(set) = self.sets.get_mut((hash >> 32) as usize % SETS) else {
            return make(&Text::from(text));
        };
        for entry in set.iter().flatten() {
            if entry.hash == hash && *entry.key == *text {
                return entry.value.clone();
            }
        }
        let key: Text = Arc::from(text);
        let value = make(&key);
        if text.len() <= MAX_TEXT_BYTES {
            set.swap(0, 1);
            set[0] = Some(Entry { hash, key, value: value.clone() });
        }
        value
    }
}

/// Of no cryptographic use; a collision costs an allocation.
#[inline]
fn hash_of(bytes: &[u8]) -> u64 {
    const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(MULTIPLIER).rotate_left(29);
    let (words, rest) = bytes.as_chunks();
    let mut hash = bytes.len() as u64;
    for word in words {
        hash = mix(hash, u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    mix(mix(hash, u64::from_le_bytes(last)), MULTIPLIER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_made_once() {
        let mut cache = Cache::new();
        let first = cache.get("Conv", Text::clone);
        let again = cache.get("Conv", |_| panic!("it is known"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(&*cache.get("Conv2", Text::clone), "Conv2");
        assert_eq!(&*cache.get("", Text::clone), "");
    }

    #[test]
    fn many_texts_stay_right_and_long_ones_are_not_kept() {
        let mut cache = Cache::new();
        let name = |number: usize| format!("/layers.{number}/attention/MatMul_{}", number * 7);
        for number in 0..100_000 {
            let text = name(number);
            assert_eq!(*cache.get(&text, Text::clone), text);
        }
        for number in 0..10_000 {
            cache.get(&name(number), Text::clone);
        }
        let mut made = 0;
        for number in 0..10_000 {
            cache.get(&name(number), |text| {
                made += 1;
                text.clone()
            });
        }
        assert!(made < 3_500, "{made} of 10,000 lost their place");
        let long = "x".repeat(MAX_TEXT_BYTES + 1);
        let first = cache.get(&long, Text::clone);
        assert!(!Arc::ptr_eq(&first, &cache.get(&long, Text::clone)));
    }
}
