//! Rows that are about tracks without being values: names, ends, ticks and intervals without a value.

use super::declared::MAX_TRACKS;
use super::labels::shortened;
use super::state::{State, identity, plan_of, table_of};
use super::subject::{Arrival, Key, SubjectState};
use crate::batch::Batch;
use crate::schema::{ProcessRow, SampleEndRow, SessionRow, TableId, Text, TickRow, UnavailabilityRow};

/// Longer names of programs and models are cut.
const MAX_LABEL_BYTES: usize = 256;

impl State {
    pub fn take_notes(&mut self, batch: &Batch, rows: std::ops::Range<usize>) {
        let (skip, count) = (rows.start, rows.len());
        match batch.table() {
            TableId::Sessions => {
                for row in batch.rows::<SessionRow>().skip(skip).take(count) {
                    self.label(Key::Session(row.session_id), &row.model_name);
                }
            }
            TableId::Processes => {
                for row in batch.rows::<ProcessRow>().skip(skip).take(count) {
                    let Some(identity) = identity(row.pid, row.process_start) else {
                        self.losses.invalid_rows += 1;
                        continue;
                    };
                    if &*row.event == "exited" {
                        self.end(&Key::Process(identity), row.timestamp_ns);
                    } else {
                        self.label(Key::Process(identity), &row.name);
                    }
                }
            }
            TableId::Unavailability => {
                for row in batch.rows::<UnavailabilityRow>().skip(skip).take(count) {
                    let limit = self.limits.unavailable_intervals;
                    self.losses.unavailable_intervals += self.unavailable.add(&row, limit);
                }
            }
            TableId::Ticks => {
                for row in batch.rows::<TickRow>().skip(skip).take(count) {
                    if let Some(table) = TableId::by_name(&row.table) {
                        self.tick(table, row.timestamp_ns);
                    }
                }
            }
            TableId::SampleEnds => {
                for row in batch.rows::<SampleEndRow>().skip(skip).take(count) {
                    if let Some(key) = key_of_end(&row) {
                        self.end(&key, row.timestamp_ns);
                    }
                }
            }
            _ => {}
        }
    }

    /// All things of a sampled table were read: those without a row at this time are unchanged.
    fn tick(&mut self, table: TableId, time_ns: u64) {
        let Some(plan) = plan_of(table).filter(|plan| plan.table != TableId::Inferences) else {
            return;
        };
        let unchanged = |subject: &SubjectState| {
            table_of(&subject.key) == table
                && subject.ended_ns.is_none()
                && subject.newest_ns.is_some_and(|newest_ns| newest_ns < time_ns)
        };
        let slots: Vec<usize> =
            self.subjects.iter().filter(|(_, subject)| unchanged(subject)).map(|(slot, _)| slot).collect();
        for slot in slots {
            let Some(subject) = self.subjects.get_mut(slot) else {
                continue;
            };
            self.rows += 1;
            subject.updated = self.rows;
            subject.touch(slot, &mut self.touched);
            let arrival = subject.arrive(time_ns, &self.limits, &mut self.losses);
            if arrival != Arrival::Take {
                continue;
            }
            let mut values = [f64::NAN; MAX_TRACKS];
            let tracks = plan.tracks.iter().zip(&mut subject.tracks).zip(&subject.last_row);
            for (((plan, track), last), value) in tracks.zip(&mut values) {
                *value = plan.repeat(time_ns, *last, &mut track.baseline);
            }
            self.store(slot, time_ns, &values, arrival);
        }
        if table == TableId::ProcessSamples {
            self.selection.newest_tick_ns = time_ns;
        }
    }

    fn label(&mut self, key: Key, label: &Text) {
        let label = shortened(label, MAX_LABEL_BYTES);
        match self.subjects.slot(&key) {
            Some(slot) => {
                if let Some(subject) = self.subjects.get_mut(slot) {
                    subject.label = Some(label);
                    subject.touch(slot, &mut self.touched);
                }
            }
            None => self.labels.keep(key, label),
        }
    }

    fn end(&mut self, key: &Key, time_ns: u64) {
        self.labels.take(key);
        if let Some(slot) = self.subjects.slot(key)
            && let Some(subject) = self.subjects.get_mut(slot)
        {
            subject.ended_ns = Some(time_ns);
        }
    }
}

/// The subject that a row of `sample_ends` names: values of the key columns as a JSON list.
fn key_of_end(row: &SampleEndRow) -> Option<Key> {
    let values: Vec<serde_json::Value> = serde_json::from_str(&row.key).ok()?;
    match (TableId::by_name(&row.table)?, values.as_slice()) {
        (TableId::ProcessSamples, [pid, start]) => {
            Some(Key::Process(identity(pid.as_u64()?, start.as_u64()?)?))
        }
        (TableId::DeviceSamples, [device, metric]) => {
            Some(Key::Device { device: device.as_str()?.into(), metric: metric.as_str()?.into() })
        }
        _ => None,
    }
}
