//! The list of all subjects: found by key, numbered by slot, counted in tracks and bytes.

use std::collections::HashMap;

use super::subject::{Key, SubjectState};

#[derive(Debug, Default)]
pub(super) struct Subjects {
    slots: Vec<Option<Box<SubjectState>>>,
    free: Vec<usize>,
    index: HashMap<Key, usize>,
    /// Tracks with data, of all subjects.
    pub tracks: usize,
    /// Sum of what the subjects cost, as of the end of the last batch.
    pub bytes: usize,
}

impl Subjects {
    pub fn slot(&self, key: &Key) -> Option<usize> {
        self.index.get(key).copied()
    }

    pub fn get(&self, slot: usize) -> Option<&SubjectState> {
        self.slots.get(slot)?.as_deref()
    }

    pub fn get_mut(&mut self, slot: usize) -> Option<&mut SubjectState> {
        self.slots.get_mut(slot)?.as_deref_mut()
    }

    pub fn len(&self) -> usize {
        self.index.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = (usize, &SubjectState)> {
        self.slots.iter().enumerate().filter_map(|(slot, subject)| Some((slot, subject.as_deref()?)))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut SubjectState)> {
        self.slots.iter_mut().enumerate().filter_map(|(slot, subject)| Some((slot, subject.as_deref_mut()?)))
    }

    pub fn insert(&mut self, mut subject: SubjectState) -> usize {
        subject.bytes = subject.count_bytes();
        self.bytes += subject.bytes;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() - 1
        });
        self.index.insert(subject.key.clone(), slot);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some(Box::new(subject));
        }
        slot
    }

    pub fn remove(&mut self, slot: usize) -> Option<Box<SubjectState>> {
        let subject = self.slots.get_mut(slot)?.take()?;
        self.index.remove(&subject.key);
        self.free.push(slot);
        self.tracks -= subject.tracks_with_data();
        self.bytes -= subject.bytes;
        Some(subject)
    }

    /// Counts a subject's bytes again after it has changed.
    pub fn recount(&mut self, slot: usize) {
        if let Some(subject) = self.slots.get_mut(slot).and_then(Option::as_mut) {
            subject.touched = false;
            let bytes = subject.count_bytes();
            self.bytes = self.bytes - subject.bytes + bytes;
            subject.bytes = bytes;
        }
    }

    /// Memory of the list itself, without its subjects.
    pub fn list_bytes(&self) -> usize {
        self.slots.capacity() * size_of::<Option<Box<SubjectState>>>()
            + self.free.capacity() * size_of::<usize>()
            + map_bytes(self.index.capacity(), size_of::<(Key, usize)>())
    }
}

/// Memory of a hash map of this capacity: at most 7 of 8 slots are used, each with one control byte.
pub(super) fn map_bytes(capacity: usize, entry_bytes: usize) -> usize {
    (capacity * 8).div_ceil(7) * (entry_bytes + 1)
}
