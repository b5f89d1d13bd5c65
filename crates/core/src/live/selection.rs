//! Which processes are kept at the full rate: those the user selected, then the busiest.

use std::collections::HashMap;

use super::ring::Ring;
use super::state::State;
use super::subject::{Importance, Key, SECOND_NS, SubjectState};
use super::subjects::map_bytes;
use crate::identity::ProcessIdentity;

/// A process without a row for this long counts as ended, even without an exit event.
const SILENT_NS: u64 = 5 * SECOND_NS;
/// An ended process keeps its rows for this long, so that its last seconds can be inspected.
const ENDED_RETENTION_NS: u64 = 60 * SECOND_NS;
/// To take a place, a process must be this much busier than the one that has it: rows at the full rate are lost by it.
const TO_REPLACE: f64 = 2.0;
/// Time over which a waiting process must prove that it is busy.
const LOOK_AGAIN_NS: u64 = SECOND_NS / 2;
/// Maximum number of waiting processes; when full, all are forgotten and seen anew.
const MAX_WAITING: usize = 4096;

#[derive(Debug, Default)]
pub(super) struct Selection {
    /// Selected by the user, even before they are seen.
    explicit: Vec<ProcessIdentity>,
    pub newest_tick_ns: u64,
    /// Second of the last choice.
    chosen_second: u64,
    /// Processes without tracks: time and CPU time at their last check.
    waiting: HashMap<ProcessIdentity, (u64, u64)>,
}

impl Selection {
    pub fn heap_bytes(&self) -> usize {
        self.explicit.capacity() * size_of::<ProcessIdentity>()
            + map_bytes(self.waiting.capacity(), size_of::<(ProcessIdentity, (u64, u64))>())
    }

    fn is_explicit(&self, key: &Key) -> bool {
        matches!(key, Key::Process(identity) if self.explicit.contains(identity))
    }

    fn is_silent(&self, process: &SubjectState) -> bool {
        let silent_ns = self.newest_tick_ns.saturating_sub(process.newest_ns.unwrap_or(0));
        process.ended_ns.is_some() || silent_ns > SILENT_NS
    }

    /// Whether a process ended so long ago that its place is free.
    fn is_gone(&self, process: &SubjectState) -> bool {
        let age_ns = self.newest_tick_ns.saturating_sub(process.newest_ns.unwrap_or(0));
        self.is_silent(process) && age_ns > ENDED_RETENTION_NS
    }
}

impl State {
    /// The user's selection; at most the limit's number, the first ones. Returns how many that are.
    pub fn select(&mut self, mut processes: Vec<ProcessIdentity>) -> usize {
        let mut seen = std::collections::BTreeSet::new();
        processes.retain(|process| seen.insert(*process));
        processes.truncate(self.limits.selected_processes);
        self.selection.explicit = processes;
        self.reselect();
        self.selection.explicit.len()
    }

    pub fn selected(&self) -> Vec<ProcessIdentity> {
        let identity = |(_, subject): (usize, &SubjectState)| match subject.key {
            Key::Process(identity) if subject.selected => Some(identity),
            _ => None,
        };
        self.subjects.iter().filter_map(identity).collect()
    }

    pub fn reselect_if_due(&mut self) {
        let second = self.selection.newest_tick_ns / SECOND_NS;
        if second != self.selection.chosen_second {
            self.selection.chosen_second = second;
            self.reselect();
        }
    }

    fn reselect(&mut self) {
        let selection = &self.selection;
        let rank = |(slot, subject): (usize, &SubjectState)| {
            let Key::Process(_) = subject.key else {
                return None;
            };
            let explicit = selection.is_explicit(&subject.key);
            let load = if subject.selected { TO_REPLACE * subject.load } else { subject.load };
            (explicit || !selection.is_gone(subject)).then_some((explicit, load, subject.selected, slot))
        };
        let mut ranked: Vec<(bool, f64, bool, usize)> = self.subjects.iter().filter_map(rank).collect();
        ranked.sort_by(|a, b| {
            let (a_first, b_first) = ((a.0, a.2), (b.0, b.2));
            b_first
                .0
                .cmp(&a_first.0)
                .then(b.1.total_cmp(&a.1))
                .then(b_first.1.cmp(&a_first.1))
                .then(a.3.cmp(&b.3))
        });
        ranked.truncate(self.limits.selected_processes);
        let mut chosen: Vec<usize> = ranked.iter().map(|ranked| ranked.3).collect();
        chosen.sort_unstable();
        let change = |(slot, subject): (usize, &SubjectState)| {
            let wanted = chosen.binary_search(&slot).is_ok();
            (subject.selected != wanted).then_some((slot, wanted))
        };
        let changes: Vec<(usize, bool)> = self.subjects.iter().filter_map(change).collect();
        for (slot, wanted) in changes {
            self.set_selected(slot, wanted);
        }
    }

    fn set_selected(&mut self, slot: usize, selected: bool) {
        let Some(subject) = self.subjects.get_mut(slot) else {
            return;
        };
        subject.selected = selected;
        if selected {
            subject.ring = Some(Ring::new(subject.tracks.len(), subject.newest_ns));
        } else if let Some(ring) = subject.ring.take() {
            self.losses.deselected_rows += ring.len() as u64;
            self.let_rings_grow_again();
        }
        self.subjects.recount(slot);
    }

    /// Whether a new process gets tracks, and if so its load as far as known. It replaces a silent or less busy
    /// process if there is one; otherwise live processes would evict each other at every tick.
    pub fn admit_process(
        &mut self,
        process: ProcessIdentity,
        time_ns: u64,
        cpu_time_ns: u64,
        tracks: usize,
    ) -> Option<f64> {
        if self.has_room_for(tracks) {
            return Some(0.0);
        }
        let load = self.selection.load_while_waiting(process, time_ns, cpu_time_ns);
        let selection = &self.selection;
        let others =
            || self.subjects.iter().filter(|(_, other)| other.importance() == Importance::OtherProcess);
        let silent = others().filter(|(_, other)| selection.is_silent(other));
        let victim = silent.min_by_key(|(_, other)| other.updated).map(|(slot, _)| slot).or_else(|| {
            let (slot, idlest) = others().min_by(|a, b| a.1.load.total_cmp(&b.1.load))?;
            let busier = load.is_some_and(|load| load > TO_REPLACE * idlest.load + 1.0);
            (busier || selection.explicit.contains(&process)).then_some(slot)
        })?;
        self.selection.waiting.remove(&process);
        self.evict(victim);
        self.evict_for(Importance::OtherProcess, tracks).then_some(load.unwrap_or(0.0))
    }
}

impl Selection {
    /// Load of a process without tracks since its last check; `None` if that was too recent.
    fn load_while_waiting(
        &mut self,
        process: ProcessIdentity,
        time_ns: u64,
        cpu_time_ns: u64,
    ) -> Option<f64> {
        if self.waiting.len() >= MAX_WAITING && !self.waiting.contains_key(&process) {
            self.waiting.clear();
        }
        let (since_ns, cpu_ns) = self.waiting.entry(process).or_insert((time_ns, cpu_time_ns));
        let elapsed_ns = time_ns.saturating_sub(*since_ns);
        if elapsed_ns < LOOK_AGAIN_NS {
            return None;
        }
        let load = 100.0 * cpu_time_ns.saturating_sub(*cpu_ns) as f64 / elapsed_ns as f64;
        (*since_ns, *cpu_ns) = (time_ns, cpu_time_ns);
        Some(load)
    }
}
