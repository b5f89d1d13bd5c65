//! When one thread ran: its slices on processors, newest last, bounded.
//!
//! Each slice stores the cumulative total at its end, so the run time between two points in time is the difference of
//! two totals found by binary search.

use std::collections::VecDeque;

/// When space is short, slices within the same millisecond are joined: sums over whole milliseconds stay exact.
const JOIN_NS: u64 = 1_000_000;

/// Ran from `begin_ns` to `end_ns`; `total_ns` is the cumulative run time at the end. A joined slice ran only part of
/// its span, and so did one interrupted by interrupts or by the host of a virtual machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    pub begin_ns: u64,
    pub end_ns: u64,
    pub total_ns: u64,
}

#[derive(Debug, Clone, Default)]
pub struct Slices {
    ring: VecDeque<Slice>,
    /// The total before the oldest kept slice.
    base_ns: u64,
    /// Start of the kept history, if something was dropped.
    floor_ns: u64,
}

impl Slices {
    pub fn len(&self) -> usize {
        self.ring.len()
    }

    pub fn total_ns(&self) -> u64 {
        self.ring.back().map_or(self.base_ns, |slice| slice.total_ns)
    }

    pub fn last_end_ns(&self) -> Option<u64> {
        self.ring.back().map(|slice| slice.end_ns)
    }

    pub fn iter(&self) -> impl Iterator<Item = &Slice> {
        self.ring.iter()
    }

    /// Adds `ran_ns` up to `end_ns`. `since_ns` is when the thread was switched in, if that was seen: without it the
    /// slice would begin too late by the time that others took. A thread cannot run before the end of its previous
    /// slice, so the span is cut there; the kernel's account and the monotonic clock run at slightly different rates.
    pub fn push(&mut self, since_ns: Option<u64>, end_ns: u64, ran_ns: u64) {
        let earliest_ns = self.last_end_ns().unwrap_or(0).max(self.floor_ns);
        if ran_ns == 0 {
            return;
        }
        let total_ns = self.total_ns().saturating_add(ran_ns);
        if end_ns <= earliest_ns {
            // It arrived late and its place is taken, but the total must include it.
            match self.ring.back_mut() {
                Some(last) => last.total_ns = total_ns,
                None => self.base_ns = total_ns,
            }
            return;
        }
        let begin_ns = end_ns.saturating_sub(ran_ns).min(since_ns.unwrap_or(u64::MAX)).max(earliest_ns);
        self.ring.push_back(Slice { begin_ns, end_ns, total_ns });
    }

    /// The total at a point in time, interpolated within a slice.
    pub fn total_at(&self, at_ns: u64) -> u64 {
        let index = self.ring.partition_point(|slice| slice.end_ns <= at_ns);
        let before_ns = match index.checked_sub(1) {
            Some(previous) => self.ring[previous].total_ns,
            None => self.base_ns,
        };
        let Some(slice) = self.ring.get(index) else { return before_ns };
        let Some(inside_ns) = at_ns.checked_sub(slice.begin_ns) else { return before_ns };
        let (span_ns, ran_ns) = (slice.end_ns - slice.begin_ns, slice.total_ns - before_ns);
        if span_ns == ran_ns {
            return before_ns + inside_ns;
        }
        before_ns + (u128::from(ran_ns) * u128::from(inside_ns) / u128::from(span_ns.max(1))) as u64
    }

    /// Drops slices that ended before this time; returns their number.
    pub fn drop_before(&mut self, at_ns: u64) -> usize {
        let count = self.ring.partition_point(|slice| slice.end_ns <= at_ns);
        if count > 0 {
            self.base_ns = self.ring[count - 1].total_ns;
            self.floor_ns = self.ring[count - 1].end_ns;
            self.ring.drain(..count);
        }
        count
    }

    /// Joins slices in the same millisecond; returns the number saved.
    pub fn join(&mut self) -> usize {
        let before = self.ring.len();
        let mut kept: usize = 0;
        for index in 1..before {
            let (last, slice) = (self.ring[kept], self.ring[index]);
            if last.begin_ns / JOIN_NS == slice.end_ns.saturating_sub(1) / JOIN_NS {
                self.ring[kept] = Slice { begin_ns: last.begin_ns, ..slice };
            } else {
                kept += 1;
                self.ring[kept] = slice;
            }
        }
        self.ring.truncate((kept + 1).min(before));
        before - self.ring.len()
    }

    /// Drops the older half.
    pub fn drop_half(&mut self) -> usize {
        match self.ring.get(self.ring.len() / 2).map(|slice| slice.begin_ns) {
            Some(begin_ns) => self.drop_before(begin_ns),
            None => 0,
        }
    }

    /// Releases unused memory.
    pub fn shrink(&mut self) {
        if self.ring.capacity() > 4 * self.ring.len().max(8) {
            self.ring.shrink_to(2 * self.ring.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn totals_between_any_two_moments() {
        let mut slices = Slices::default();
        slices.push(None, 10, 4);
        slices.push(None, 30, 10);
        assert_eq!([0, 6, 8, 10, 20, 25, 30, 99].map(|at| slices.total_at(at)), [0, 0, 2, 4, 4, 9, 14, 14]);
        assert_eq!(slices.drop_before(15), 1);
        assert_eq!(slices.total_at(25) - slices.total_at(15), 5);
        assert_eq!(slices.floor_ns, 10);
    }

    #[test]
    fn a_slice_longer_than_its_room_keeps_its_sum() {
        let mut slices = Slices::default();
        slices.push(None, 100, 50);
        slices.push(None, 110, 15);
        assert_eq!(slices.total_at(110), 65);
        assert_eq!(slices.total_at(100), 50);
        assert_eq!(slices.total_at(105), 57);
        slices.push(None, 90, 5);
        assert_eq!(slices.total_ns(), 70);
    }

    #[test]
    fn stolen_time_does_not_move_the_start_of_a_slice() {
        let mut slices = Slices::default();
        // On a processor from 1000 to 2000, of which 200 were stolen.
        slices.push(Some(1000), 2000, 800);
        assert_eq!([1000, 1050, 1500, 2000].map(|at| slices.total_at(at)), [0, 40, 400, 800]);
        // Clocks with different rates do not move the start beyond the observed one.
        slices.push(Some(3000), 3100, 101);
        assert_eq!([2999, 3100].map(|at| slices.total_at(at)), [800, 901]);
    }

    #[test]
    fn joining_keeps_every_millisecond() {
        let mut slices = Slices::default();
        for number in 1..=1000u64 {
            slices.push(None, number * 50_000, 20_000);
        }
        slices.push(None, 60 * MS, 5 * MS);
        let exact: Vec<u64> = (0..=61).map(|ms| slices.total_at(ms * MS)).collect();
        let saved = slices.join();
        assert!(saved > 850, "{saved}");
        assert_eq!(exact, (0..=61).map(|ms| slices.total_at(ms * MS)).collect::<Vec<_>>());
        assert_eq!(Slices::default().join(), 0);
    }
}
