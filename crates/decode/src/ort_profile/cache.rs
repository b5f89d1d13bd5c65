//! Caches values derived from texts, so that a name that a profile repeats a million times is allocated once.
//!
//! The size is fixed: every text has two slots, and the newer one stays. An evicted text is allocated again, which only
//! costs time; no file can make the cache slow or large.

use std::sync::Arc;

use ortscope_core::schema::Text;

/// Number of two-slot sets. Almost all names of a model with 10,000 nodes fit. Fuzzing creates a cache for every few
/// bytes, so it uses fewer.
const SETS: usize = if cfg!(fuzzing) { 16 } else { 1 << 13 };
/// Longer texts are not cached because together they could be large.
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

    /// The value for `text`; `make` is called only if it is unknown.
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

/// Not cryptographic; a collision costs an allocation.
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
    fn a_text_is_converted_once() {
        let mut cache = Cache::new();
        let first = cache.get("Conv", Text::clone);
        let again = cache.get("Conv", |_| panic!("it is known"));
        assert!(Arc::ptr_eq(&first, &again));
        assert_eq!(&*cache.get("Conv2", Text::clone), "Conv2");
        assert_eq!(&*cache.get("", Text::clone), "");
    }

    #[test]
    fn many_texts_stay_correct_and_long_ones_are_not_cached() {
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
