//! Distribution of full-rate rows: rings grow as they fill while memory allows.

use std::cmp::Reverse;

use super::ring::Ring;
use super::state::State;
use super::subject::{Key, SECOND_NS, SubjectState};

/// Rows a ring starts with.
const FIRST_ROWS: usize = 256;
/// A session without an inference for this long gives its rows to others.
const IDLE_SESSION_NS: u64 = 600 * SECOND_NS;

impl State {
    /// Lets a full ring grow if permitted; otherwise it overwrites from now on.
    pub fn grow_ring(&mut self, slot: usize) {
        let Some((session, rows, empty)) = self.subjects.get(slot).and_then(|subject| {
            let ring = subject.ring.as_ref()?;
            Some((matches!(subject.key, Key::Session(_)), ring.allowance(), ring.len() == 0))
        }) else {
            return;
        };
        let most = if session { self.limits.inference_samples } else { self.limits.ring_samples };
        let mut more = rows.max(FIRST_ROWS).min(most.saturating_sub(rows));
        if session {
            more = more.min(self.inferences_left_for(slot));
        }
        more = more.min(self.rows_left_in_bytes(slot, empty));
        let Some(ring) = self.subjects.get_mut(slot).and_then(|subject| subject.ring.as_mut()) else {
            return;
        };
        if more == 0 {
            ring.settled = true;
        } else {
            ring.allow(rows + more);
        }
    }

    /// Lets every ring request space again after memory was freed.
    pub fn let_rings_grow_again(&mut self) {
        for (_, subject) in self.subjects.iter_mut() {
            if let Some(ring) = &mut subject.ring {
                ring.settled = false;
            }
        }
    }

    /// How many more inferences a session may keep, after others released the part above their share.
    fn inferences_left_for(&mut self, slot: usize) -> usize {
        let limit = self.limits.inference_samples;
        let newest_ns = self.subjects.get(slot).and_then(|subject| subject.newest_ns).unwrap_or(0);
        loop {
            let sessions = || {
                self.subjects.iter().filter_map(|(slot, subject)| match (&subject.key, &subject.ring) {
                    (Key::Session(_), Some(ring)) => Some((slot, subject, ring)),
                    _ => None,
                })
            };
            let total: usize = sessions().map(|(.., ring)| ring.allowance()).sum();
            if total < limit {
                return limit - total;
            }
            let mine = sessions().find(|(other, ..)| *other == slot).map_or(0, |(.., ring)| ring.allowance());
            let sharing =
                sessions().filter(|(other, _, ring)| *other == slot || ring.allowance() > 0).count();
            let share = (limit / sharing.max(1)).max(1);
            let others = || sessions().filter(|(other, _, ring)| *other != slot && ring.allowance() > 0);
            let idle = |subject: &SubjectState| {
                newest_ns.saturating_sub(subject.newest_ns.unwrap_or(0)) > IDLE_SESSION_NS
            };
            let idlest = others()
                .filter(|(_, subject, _)| idle(subject))
                .min_by_key(|(_, subject, _)| subject.updated);
            let largest = others().max_by_key(|(.., ring)| ring.allowance());
            let victim = match (idlest, largest) {
                (Some((idlest, ..)), _) => Some((idlest, 0)),
                (None, Some((largest, _, ring))) if mine < share && ring.allowance() > share => {
                    Some((largest, share))
                }
                _ => None,
            };
            let Some((victim, rows)) = victim else {
                return 0;
            };
            self.shrink_ring(victim, rows);
        }
    }

    /// How many more rows fit into the bytes for the full rate. A ring that has none at all takes them from a large
    /// one that is worth no more.
    fn rows_left_in_bytes(&mut self, slot: usize, empty: bool) -> usize {
        let Some((row_bytes, importance)) = self.subjects.get(slot).and_then(|subject| {
            let ring = subject.ring.as_ref()?;
            // An empty ring does not know yet which columns will have values.
            let row_bytes = if empty { 8 * (1 + subject.tracks.len()) } else { ring.row_bytes() };
            Some((row_bytes, subject.importance()))
        }) else {
            return 0;
        };
        loop {
            let rings = || {
                self.subjects
                    .iter()
                    .filter_map(|(slot, subject)| Some((slot, subject, subject.ring.as_ref()?)))
            };
            let used: usize = rings().map(|(.., ring)| ring.heap_bytes()).sum();
            let rows = self.limits.full_rate_bytes.saturating_sub(used) / row_bytes;
            if rows > 0 || !empty {
                return rows;
            }
            let worth = |(other, subject, ring): &(usize, &SubjectState, &Ring)| {
                *other != slot && subject.importance() <= importance && ring.allowance() >= 2 * FIRST_ROWS
            };
            let key = |(_, subject, ring): &(usize, &SubjectState, &Ring)| {
                (Reverse(subject.importance()), ring.heap_bytes())
            };
            let Some((victim, _, ring)) = rings().filter(worth).max_by_key(key) else {
                return 0;
            };
            let rows = ring.allowance() / 2;
            self.shrink_ring(victim, rows);
        }
    }

    fn shrink_ring(&mut self, slot: usize, rows: usize) {
        if let Some(ring) = self.subjects.get_mut(slot).and_then(|subject| subject.ring.as_mut()) {
            // A ring that lost everything may ask for its share when its session wakes up.
            ring.settled = rows > 0;
            self.losses.shared_out_rows += ring.allow(rows);
        }
        self.subjects.recount(slot);
    }
}
