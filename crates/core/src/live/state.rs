//! All that is behind the lock: rows come in here.

use std::sync::LazyLock;

use super::declared::MAX_TRACKS;
use super::labels::Labels;
use super::limits::{Limits, Losses};
use super::mapping::{Derived, TablePlan};
use super::selection::Selection;
use super::subject::{Arrival, Key, SubjectState};
use super::subjects::Subjects;
use super::unavailable::Unavailable;
use crate::batch::Batch;
use crate::identity::ProcessIdentity;
use crate::schema::{TableId, Text};

/// Further sessions are looked up by their text.
const MAX_KNOWN_SESSIONS: usize = 32;

static PLANS: LazyLock<Vec<TablePlan>> = LazyLock::new(TablePlan::all);

pub(super) fn plan_of(table: TableId) -> Option<&'static TablePlan> {
    PLANS.iter().find(|plan| plan.table == table)
}

/// The table whose rows make the tracks of a subject.
pub(super) fn table_of(key: &Key) -> TableId {
    match key {
        Key::System => TableId::SystemSamples,
        Key::Session(_) => TableId::Inferences,
        Key::Process(_) => TableId::ProcessSamples,
        Key::Device { .. } => TableId::DeviceSamples,
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub limits: Limits,
    pub losses: Losses,
    pub subjects: Subjects,
    pub unavailable: Unavailable,
    pub selection: Selection,
    pub labels: Labels,
    /// Rows received.
    pub rows: u64,
    /// Subjects whose bytes may have changed in this batch.
    pub touched: Vec<usize>,
    /// Slots of the sessions of this batch by the address of their text.
    known_sessions: Vec<(usize, usize)>,
}

impl State {
    pub fn new(mut limits: Limits) -> Self {
        limits.total_bytes = limits.total_bytes.max(Limits::MIN_TOTAL_BYTES);
        limits.late_seconds = limits.late_seconds.min(Limits::MAX_LATE_SECONDS);
        Self { limits, ..Self::default() }
    }

    pub fn forget_known_slots(&mut self) {
        self.known_sessions.clear();
    }

    /// Takes some rows of a batch.
    pub fn take(&mut self, batch: &Batch, rows: std::ops::Range<usize>) {
        // Addresses of texts mean something only as long as the batch is alive.
        self.known_sessions.clear();
        if let Some(plan) = plan_of(batch.table()) {
            for row in rows {
                if let Some(slot) = self.slot_of_row(plan, batch, row) {
                    self.take_row(plan, batch, row, slot);
                }
            }
        } else {
            self.take_notes(batch, rows);
        }
    }

    fn slot_of_row(&mut self, plan: &'static TablePlan, batch: &Batch, row: usize) -> Option<usize> {
        let key = match plan.table {
            TableId::Inferences => return self.slot_of_session(plan, batch, row),
            TableId::ProcessSamples => {
                let number = |nth| plan.owner_number(batch, nth, row);
                let Some(identity) = identity(number(0)?, number(1)?) else {
                    self.losses.invalid_rows += 1;
                    return None;
                };
                let key = Key::Process(identity);
                let time_ns = *batch.times_ns().get(row)?;
                // Also for rows without space: time shows which processes have gone silent.
                self.selection.newest_tick_ns = time_ns;
                if let Some(slot) = self.subjects.slot(&key) {
                    return Some(slot);
                }
                let Some(load) = self.admit_process(identity, time_ns, number(2)?, plan.tracks.len()) else {
                    self.losses.refused_rows += 1;
                    return None;
                };
                return self.slot_or_new(plan, key, load);
            }
            TableId::DeviceSamples => {
                let text = |nth| plan.owner_text(batch, nth, row);
                Key::Device { device: text(0)?.clone(), metric: text(1)?.clone() }
            }
            _ => Key::System,
        };
        self.slot_or_new(plan, key, 0.0)
    }

    /// Rows of a session share its text, so its address finds it without hashing.
    #[inline]
    fn slot_of_session(&mut self, plan: &'static TablePlan, batch: &Batch, row: usize) -> Option<usize> {
        let session = plan.owner_text(batch, 0, row)?;
        let address = session.as_ptr().addr();
        let known = self.known_sessions.iter().find(|(known, _)| *known == address);
        if let Some((_, slot)) = known {
            return Some(*slot);
        }
        let slot = self.slot_or_new(plan, Key::Session(session.clone()), 0.0)?;
        if self.known_sessions.len() >= MAX_KNOWN_SESSIONS {
            self.known_sessions.clear();
        }
        self.known_sessions.push((address, slot));
        Some(slot)
    }

    fn slot_or_new(&mut self, plan: &'static TablePlan, key: Key, load: f64) -> Option<usize> {
        if let Some(slot) = self.subjects.slot(&key) {
            return Some(slot);
        }
        let mut subject = SubjectState::new(key, plan.tracks.len());
        if !self.evict_for(subject.importance(), plan.tracks.len()) {
            self.losses.refused_rows += 1;
            return None;
        }
        subject.label = self.labels.take(&subject.key);
        subject.load = load;
        let slot = self.subjects.insert(subject);
        self.known_sessions.clear();
        Some(slot)
    }

    #[inline]
    fn take_row(&mut self, plan: &'static TablePlan, batch: &Batch, row: usize, slot: usize) {
        let Some(subject) = self.subjects.get_mut(slot) else {
            return;
        };
        let time_ns = batch.times_ns()[row];
        self.rows += 1;
        subject.updated = self.rows;
        subject.touch(slot, &mut self.touched);
        let arrival = subject.arrive(time_ns, &self.limits, &mut self.losses);
        if arrival == Arrival::Skip {
            return;
        }
        let mut values = [f64::NAN; MAX_TRACKS];
        let tracks = plan.tracks.iter().zip(&mut subject.tracks);
        for ((plan, track), value) in tracks.zip(&mut values) {
            match plan.derive(batch, row, &mut track.baseline) {
                Derived::Value(number) if (number as f32).is_finite() => *value = number,
                Derived::Value(_) => self.losses.not_finite_values += 1,
                Derived::CounterWentBack => self.losses.counters_back += 1,
                Derived::None => {}
            }
        }
        if let Key::Device { .. } = subject.key {
            note_origin(subject, plan, batch, row);
        }
        if subject.ended_ns.is_some_and(|ended_ns| ended_ns < time_ns) {
            subject.ended_ns = None;
        }
        self.store(slot, time_ns, &values, arrival);
    }

    /// Puts the values of a row where they belong.
    #[inline]
    pub fn store(&mut self, slot: usize, time_ns: u64, values: &[f64; MAX_TRACKS], arrival: Arrival) {
        let wants_more = |subject: &SubjectState| subject.ring.as_ref().is_some_and(|ring| ring.wants_more());
        if self.subjects.get(slot).is_some_and(wants_more) {
            self.grow_ring(slot);
        }
        let Some(subject) = self.subjects.get_mut(slot) else {
            return;
        };
        let values = &values[..subject.tracks.len()];
        if let Some(ring) = &mut subject.ring {
            ring.push(time_ns, values);
        }
        if arrival == Arrival::Take {
            if subject.newest_ns == Some(time_ns) {
                subject.last_row.copy_from_slice(values);
            }
            let new_tracks = subject.take(time_ns, values, &self.limits);
            self.subjects.tracks += new_tracks;
        }
    }

    /// Ends a batch: selects processes anew if a second has passed, counts bytes and enforces the limit.
    pub fn settle(&mut self) {
        self.keep_within_tracks();
        self.reselect_if_due();
        for slot in self.touched.drain(..) {
            self.subjects.recount(slot);
        }
        self.keep_within_budget();
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>()
            + self.subjects.bytes
            + self.subjects.list_bytes()
            + self.unavailable.heap_bytes()
            + self.labels.heap_bytes()
            + self.selection.heap_bytes()
            + self.known_sessions.capacity() * size_of::<(usize, usize)>()
            + self.touched.capacity() * size_of::<usize>()
    }
}

fn note_origin(subject: &mut SubjectState, plan: &TablePlan, batch: &Batch, row: usize) {
    if let (Some(source), Some(method)) = (plan.owner_text(batch, 2, row), plan.owner_text(batch, 3, row)) {
        let known =
            |(known_source, known_method): &(Text, Text)| known_source == source && known_method == method;
        if !subject.origin.as_ref().is_some_and(known) {
            subject.origin = Some((source.clone(), method.clone()));
        }
    }
}

pub(super) fn identity(pid: u64, start: u64) -> Option<ProcessIdentity> {
    Some(ProcessIdentity { pid: pid.try_into().ok()?, start })
}
