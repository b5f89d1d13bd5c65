//! Times of OpenVINO primitives.
//!
//! The plug-in writes an event for every primitive of every execution, with the correct start. The duration is
//! OpenVINO's counter, which on a CPU is the mean of all executions so far, including the first one, in which a
//! primitive may take a hundred times as long as later. These means are corrected here: n × mean − (n − 1) × the
//! previous mean. Primitives of a CPU run one after the other, so none lasts beyond the start of the next one. Other
//! devices report times of the execution itself; which of the two a file has is determined by what fits the starts
//! better, over all executions so far.

use std::collections::HashMap;

use ortscope_core::schema::Text;

use super::thread::Pending;

/// Limit for primitives with known means; others are unchanged.
const MAX_NAMES: usize = 100_000;
/// Limit for primitives per execution; beyond it they are emitted unchanged.
const MAX_PRIMITIVES: usize = 100_000;

/// Profiles count in microseconds, so an end can be this far behind the next start.
const ROUNDING_NS: i64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Primitives {
    /// The current execution.
    execution: Option<u64>,
    rows: Vec<Pending>,
    /// By name: number of executions so far, and their mean.
    means: HashMap<Text, (u64, u64)>,
    /// Deviation of the reported durations, and of the corrected ones, from what the starts allow.
    off_reported: u128,
    off_own: u128,
}

/// Rows of a whole execution, and the number of corrected ones.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub rows: Vec<Pending>,
    pub corrected: u64,
}

impl Primitives {
    /// Adds one primitive; returns the previous execution once it is complete.
    pub(super) fn push(&mut self, pending: Pending, execution: u64) -> Released {
        let is_next = self.execution != Some(execution) || self.rows.len() >= MAX_PRIMITIVES;
        let before = if is_next { self.release() } else { Released::default() };
        self.execution = Some(execution);
        self.rows.push(pending);
        before
    }

    /// Drops all executions: another session follows.
    pub(super) fn reset(&mut self) {
        self.means.clear();
        (self.off_reported, self.off_own) = (0, 0);
    }

    pub(super) fn release(&mut self) -> Released {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|pending| pending.start_ns);
        let mut own = Vec::with_capacity(rows.len());
        for (index, pending) in rows.iter().enumerate() {
            let reported = pending.row.duration_ns;
            let corrected_ns = self.correct_mean(&pending.row.name, reported);
            let limit_ns = rows.get(index + 1).map(|next| next.start_ns.abs_diff(pending.start_ns));
            if let Some(limit_ns) = limit_ns {
                self.off_reported += u128::from(reported.abs_diff(limit_ns));
                self.off_own += u128::from(corrected_ns.abs_diff(limit_ns));
            }
            own.push(corrected_ns.min(limit_ns.unwrap_or(u64::MAX)));
        }
        let mut corrected = 0;
        if self.off_own < self.off_reported {
            corrected = rows.len() as u64;
            for (pending, duration_ns) in rows.iter_mut().zip(own) {
                pending.row.duration_ns = duration_ns;
                pending.end_ns = pending.start_ns.saturating_add_unsigned(duration_ns);
            }
        }
        // The plug-in assigns threads such that events do not overlap; if none do, the device has one lane.
        let overlaps = |pair: &[Pending]| pair[0].end_ns > pair[1].start_ns.saturating_add(ROUNDING_NS);
        if !rows.windows(2).any(overlaps) {
            rows.iter_mut().for_each(|pending| pending.row.thread = 0);
        }
        Released { rows, corrected }
    }

    fn correct_mean(&mut self, name: &Text, mean_ns: u64) -> u64 {
        if self.means.len() >= MAX_NAMES && !self.means.contains_key(name) {
            return mean_ns;
        }
        let (count, before_ns) = self.means.entry(Text::clone(name)).or_default();
        let total = |count: u64, mean_ns: u64| u128::from(count) * u128::from(mean_ns);
        let own = total(*count + 1, mean_ns).saturating_sub(total(*count, *before_ns));
        (*count, *before_ns) = (*count + 1, mean_ns);
        u64::try_from(own).unwrap_or(u64::MAX)
    }
}
