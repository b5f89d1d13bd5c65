//! Times of OpenVINO's primitives.
//!
//! Its plug-in writes an event for every primitive of every execution, with the right start. The duration is OpenVINO's
//! counter, and that of a CPU is the mean of all executions so far, the first one included, in which a primitive may take
//! a hundred times as long as later. Such means are taken apart here: n × mean − (n − 1) × the mean before. Primitives of
//! a CPU run one after the other, so that none lasts longer than to the start of the next. Other devices report times of
//! the execution itself; which of both a file has is seen by what fits the starts better, over all executions so far.

use std::collections::HashMap;

use ortscope_core::schema::Text;

use super::thread::Pending;

/// Primitives whose means are remembered; those of more are left as they are.
const MAX_NAMES: usize = 100_000;
/// Primitives of one execution; more go out as they are.
const MAX_PRIMITIVES: usize = 100_000;

/// Profiles count in microseconds: an end can lie so far behind the start that it meets.
const ROUNDING_NS: i64 = 1000;

#[derive(Debug, Default)]
pub(super) struct Primitives {
    /// The execution that is being read.
    execution: Option<u64>,
    rows: Vec<Pending>,
    /// By name: executions so far, and their mean.
    means: HashMap<Text, (u64, u64)>,
    /// How far the reported durations are from what the starts allow, and how far the means taken apart.
    off_reported: u128,
    off_own: u128,
}

/// Rows of a whole execution, and how many of them had to be mended.
#[derive(Debug, Default)]
pub(super) struct Released {
    pub rows: Vec<Pending>,
    pub mended: u64,
}

impl Primitives {
    /// Takes one primitive; gives back the execution before it, once that is over.
    pub(super) fn push(&mut self, pending: Pending, execution: u64) -> Released {
        let is_next = self.execution != Some(execution) || self.rows.len() >= MAX_PRIMITIVES;
        let before = if is_next { self.release() } else { Released::default() };
        self.execution = Some(execution);
        self.rows.push(pending);
        before
    }

    /// Forgets all executions: what follows is of another session.
    pub(super) fn start_anew(&mut self) {
        self.means.clear();
        (self.off_reported, self.off_own) = (0, 0);
    }

    pub(super) fn release(&mut self) -> Released {
        let mut rows = std::mem::take(&mut self.rows);
        rows.sort_by_key(|pending| pending.start_ns);
        let mut own = Vec::with_capacity(rows.len());
        for (index, pending) in rows.iter().enumerate() {
            let reported = pending.row.duration_ns;
            let taken_apart = self.take_apart(&pending.row.name, reported);
            let room = rows.get(index + 1).map(|next| next.start_ns.abs_diff(pending.start_ns));
            if let Some(room) = room {
                self.off_reported += u128::from(reported.abs_diff(room));
                self.off_own += u128::from(taken_apart.abs_diff(room));
            }
            own.push(taken_apart.min(room.unwrap_or(u64::MAX)));
        }
        let mut mended = 0;
        if self.off_own < self.off_reported {
            mended = rows.len() as u64;
            for (pending, duration_ns) in rows.iter_mut().zip(own) {
                pending.row.duration_ns = duration_ns;
                pending.end_ns = pending.start_ns.saturating_add_unsigned(duration_ns);
            }
        }
        // The plug-in gives threads to events so that none overlap; where none does, the device has one lane.
        let overlaps = |pair: &[Pending]| pair[0].end_ns > pair[1].start_ns.saturating_add(ROUNDING_NS);
        if !rows.windows(2).any(overlaps) {
            rows.iter_mut().for_each(|pending| pending.row.thread = 0);
        }
        Released { rows, mended }
    }

    fn take_apart(&mut self, name: &Text, mean_ns: u64) -> u64 {
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
