//! Who gives way when tracks or bytes are short.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::state::State;
use super::subject::{Importance, Key, SubjectState, Track};
use super::tier::Tier;

/// Eviction order when the memory is full.
#[derive(Debug, Clone, Copy)]
enum Stage {
    Seconds(Importance),
    Minutes(Importance),
    Tracks(Importance),
}

const STAGES: [Stage; 15] = [
    Stage::Seconds(Importance::OtherProcess),
    Stage::Seconds(Importance::SelectedProcess),
    Stage::Minutes(Importance::OtherProcess),
    Stage::Seconds(Importance::Device),
    Stage::Seconds(Importance::System),
    Stage::Tracks(Importance::OtherProcess),
    Stage::Seconds(Importance::Session),
    Stage::Minutes(Importance::SelectedProcess),
    Stage::Minutes(Importance::Device),
    Stage::Minutes(Importance::System),
    Stage::Minutes(Importance::Session),
    Stage::Tracks(Importance::SelectedProcess),
    Stage::Tracks(Importance::Device),
    Stage::Tracks(Importance::Session),
    Stage::Tracks(Importance::System),
];

/// Tracks.
impl State {
    pub fn has_room_for(&self, tracks: usize) -> bool {
        self.subjects.tracks + tracks <= self.limits.tracks && self.subjects.len() < self.limits.tracks
    }

    /// Evicts a subject of at most the newcomer's importance; `false` if there is none.
    pub fn evict_for(&mut self, newcomer: Importance, tracks: usize) -> bool {
        while !self.has_room_for(tracks) {
            let worth_less =
                |subject: &SubjectState| subject.importance() <= newcomer && subject.key != Key::System;
            let candidates = self.subjects.iter().filter(|(_, subject)| worth_less(subject));
            let victim = candidates.min_by_key(|(_, subject)| (subject.importance(), subject.updated));
            let Some((slot, _)) = victim else {
                return false;
            };
            self.evict(slot);
        }
        true
    }

    /// A newcomer can have more tracks than announced, because rates appear with the second row.
    pub fn keep_within_tracks(&mut self) {
        while self.subjects.tracks > self.limits.tracks {
            let victim =
                self.subjects.iter().min_by_key(|(_, subject)| (subject.importance(), subject.updated));
            let Some((slot, _)) = victim else {
                return;
            };
            self.evict(slot);
        }
    }

    pub fn evict(&mut self, slot: usize) {
        // Slots are reused: what this batch knows of them is void.
        self.forget_known_slots();
        if let Some(subject) = self.subjects.remove(slot) {
            self.losses.evicted_tracks += subject.tracks_with_data() as u64;
            if subject.ring.is_some() {
                self.let_rings_grow_again();
            }
        }
    }
}

/// Bytes.
impl State {
    pub fn keep_within_budget(&mut self) {
        for stage in STAGES {
            if self.bytes() <= self.limits.total_bytes {
                return;
            }
            match stage {
                Stage::Seconds(importance) => {
                    let buckets = self.forget_buckets(importance, |track| &mut track.seconds);
                    self.losses.second_buckets += buckets;
                }
                Stage::Minutes(importance) => {
                    let buckets = self.forget_buckets(importance, |track| &mut track.minutes);
                    self.losses.minute_buckets += buckets;
                }
                Stage::Tracks(importance) => self.evict_while_full(importance),
            }
        }
    }

    /// Forgets the oldest blocks of one tier of subjects of this importance until it is enough or there are none.
    fn forget_buckets(&mut self, importance: Importance, tier: impl Fn(&mut Track) -> &mut Tier) -> u64 {
        let mut surplus = self.bytes().saturating_sub(self.limits.total_bytes);
        let mut oldest = BinaryHeap::new();
        for (slot, subject) in
            self.subjects.iter_mut().filter(|(_, subject)| subject.importance() == importance)
        {
            for (index, track) in subject.tracks.iter_mut().enumerate() {
                oldest.extend(tier(track).oldest_packed().map(|first| Reverse((first, slot, index))));
            }
        }
        let mut buckets = 0;
        let mut changed = Vec::new();
        while surplus > 0
            && let Some(Reverse((_, slot, index))) = oldest.pop()
        {
            let track = self.subjects.get_mut(slot).and_then(|subject| subject.tracks.get_mut(index));
            let Some(tier) = track.map(&tier) else {
                continue;
            };
            let before = tier.heap_bytes();
            buckets += tier.forget_oldest();
            surplus = surplus.saturating_sub(before - tier.heap_bytes());
            oldest.extend(tier.oldest_packed().map(|first| Reverse((first, slot, index))));
            changed.push(slot);
        }
        changed.sort_unstable();
        changed.dedup();
        for slot in changed {
            self.subjects.recount(slot);
        }
        buckets
    }

    fn evict_while_full(&mut self, importance: Importance) {
        let of_importance = |(_, subject): &(usize, &SubjectState)| subject.importance() == importance;
        let mut victims: Vec<(u64, usize)> = self
            .subjects
            .iter()
            .filter(of_importance)
            .map(|(slot, subject)| (subject.updated, slot))
            .collect();
        victims.sort_unstable();
        for (_, slot) in victims {
            if self.bytes() <= self.limits.total_bytes {
                return;
            }
            self.evict(slot);
        }
    }
}
