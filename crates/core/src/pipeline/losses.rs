//! Every loss is counted, by place and kind.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Counts losses by place and kind. Shared by emitters, pump and sinks.
#[derive(Debug, Default)]
pub struct LossCounter {
    counts: Mutex<BTreeMap<(String, String), Count>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Count {
    total: u64,
    reported: u64,
}

impl LossCounter {
    pub fn add(&self, place: &str, kind: &str, count: u64) {
        if count == 0 {
            return;
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.entry((place.to_owned(), kind.to_owned())).or_default().total += count;
    }

    /// All losses so far: (place, kind, count).
    pub fn totals(&self) -> Vec<(String, String, u64)> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|((place, kind), count)| (place.clone(), kind.clone(), count.total)).collect()
    }

    /// Losses added since the last call; the pump turns them into rows of the `losses` table.
    pub fn take_new(&self) -> Vec<(String, String, u64)> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut new = Vec::new();
        for ((place, kind), count) in counts.iter_mut() {
            if count.total > count.reported {
                new.push((place.clone(), kind.clone(), count.total - count.reported));
                count.reported = count.total;
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_accumulate_and_new_losses_are_returned_once() {
        let losses = LossCounter::default();
        losses.add("ring", "inferences", 3);
        losses.add("ring", "inferences", 0);
        assert_eq!(losses.take_new(), [("ring".into(), "inferences".into(), 3)]);
        assert!(losses.take_new().is_empty());
        losses.add("ring", "inferences", 2);
        assert_eq!(losses.take_new(), [("ring".into(), "inferences".into(), 2)]);
        assert_eq!(losses.totals(), [("ring".into(), "inferences".into(), 5)]);
    }
}
