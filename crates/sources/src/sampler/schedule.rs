//! Determines when each group is due. Every group has its own grid, all grids start at the same moment, and groups that
//! are due together are read together. Pure; the sampler does the sleeping.

use super::groups::{GroupSet, MetricGroup};

/// Groups due within this time are read together, so that rounding does not split a tick.
const TOGETHER_NS: u64 = 200_000;

#[derive(Debug, Clone, Copy)]
struct Grid {
    period_ns: u64,
    next_ns: u64,
}

#[derive(Debug, Default)]
pub(super) struct Schedule {
    grids: [Option<Grid>; MetricGroup::ALL.len()],
    late: u64,
    skipped: u64,
}

impl Schedule {
    /// Sets every rate; a grid with an unchanged rate continues, the others restart at `now_ns`.
    pub fn set_rates(&mut self, now_ns: u64, rate_of: impl Fn(MetricGroup) -> Option<f64>) {
        for (grid, group) in self.grids.iter_mut().zip(MetricGroup::ALL) {
            let period_ns = rate_of(group).map(|hertz| ((1e9 / hertz) as u64).max(1));
            *grid = match (*grid, period_ns) {
                (Some(old), Some(period_ns)) if old.period_ns == period_ns => Some(old),
                // The next sample must not be delayed.
                (Some(old), Some(period_ns)) => {
                    Some(Grid { period_ns, next_ns: old.next_ns.min(now_ns.saturating_add(period_ns)) })
                }
                (None, Some(period_ns)) => Some(Grid { period_ns, next_ns: now_ns }),
                (_, None) => None,
            };
        }
    }

    /// Restarts all grids after a pause, so that nothing is late.
    pub fn restart(&mut self, now_ns: u64) {
        for grid in self.grids.iter_mut().flatten() {
            grid.next_ns = now_ns;
        }
    }

    /// Time of the next due group.
    pub fn next_ns(&self) -> u64 {
        self.grids.iter().flatten().map(|grid| grid.next_ns).min().unwrap_or(u64::MAX)
    }

    pub fn fastest_period_ns(&self) -> u64 {
        self.grids.iter().flatten().map(|grid| grid.period_ns).min().unwrap_or(u64::MAX)
    }

    /// Returns the due groups. Missed samples are not made up: two at once carry no information.
    pub fn take_due(&mut self, now_ns: u64) -> GroupSet {
        let mut due = GroupSet::default();
        let mut worst = (0, u64::MAX);
        for (grid, group) in self.grids.iter_mut().zip(MetricGroup::ALL) {
            let Some(grid) = grid else {
                continue;
            };
            if grid.next_ns > now_ns.saturating_add(TOGETHER_NS.min(grid.period_ns / 4)) {
                continue;
            }
            due = due.with(group);
            let behind = now_ns.saturating_sub(grid.next_ns);
            if grid.period_ns < worst.1 {
                worst = (behind, grid.period_ns);
            }
            let missed = behind / grid.period_ns;
            self.skipped += missed;
            grid.next_ns += (missed + 1) * grid.period_ns;
        }
        // Late by more than half a period of the fastest group: the sample no longer represents its time.
        self.late += u64::from(worst.0 > worst.1 / 2);
        due
    }

    /// Ticks that were more than half a period late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// Group samples that were skipped because the next one was already due.
    pub fn skipped(&self) -> u64 {
        self.skipped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn rates(group: MetricGroup) -> Option<f64> {
        match group {
            MetricGroup::Cpu => Some(50.0),
            MetricGroup::Memory => Some(10.0),
            MetricGroup::Details => Some(1.0),
            _ => None,
        }
    }

    #[test]
    fn groups_have_their_rates_and_slow_ones_coincide_with_fast_ones() {
        let mut schedule = Schedule::default();
        schedule.set_rates(5, rates);
        let (mut cpu, mut memory, mut details, mut ticks) = (0, 0, 0, 0);
        while schedule.next_ns() < 5 + 10 * SECOND {
            let due = schedule.take_due(schedule.next_ns());
            ticks += 1;
            cpu += u32::from(due.has(MetricGroup::Cpu));
            memory += u32::from(due.has(MetricGroup::Memory));
            details += u32::from(due.has(MetricGroup::Details));
        }
        assert_eq!((ticks, cpu, memory, details), (500, 500, 100, 10));
        assert_eq!((schedule.late(), schedule.skipped()), (0, 0));
    }

    #[test]
    fn late_and_skipped_ticks_are_counted_and_not_made_up() {
        let mut schedule = Schedule::default();
        schedule.set_rates(0, |group| (group == MetricGroup::Cpu).then_some(100.0));
        schedule.take_due(0);
        schedule.take_due(16_000_000);
        assert_eq!((schedule.late(), schedule.skipped()), (1, 0));
        // Due at 20 ms, woken at 55 ms: 30, 40 and 50 ms were missed.
        let due = schedule.take_due(55_000_000);
        assert!(due.has(MetricGroup::Cpu));
        assert_eq!((schedule.late(), schedule.skipped()), (2, 3));
        assert_eq!(schedule.next_ns(), 60_000_000);
    }

    #[test]
    fn new_rates_take_effect_at_once_without_affecting_others() {
        let mut schedule = Schedule::default();
        schedule.set_rates(0, |group| (group == MetricGroup::Cpu).then_some(0.1));
        schedule.take_due(0);
        assert_eq!(schedule.next_ns(), 10 * SECOND);
        schedule.set_rates(SECOND, |group| (group == MetricGroup::Cpu).then_some(100.0));
        assert_eq!(schedule.next_ns(), SECOND + 10_000_000);
        schedule.set_rates(SECOND + 1, |group| (group == MetricGroup::Cpu).then_some(100.0));
        assert_eq!(schedule.next_ns(), SECOND + 10_000_000);
        schedule.set_rates(SECOND, |_| None);
        assert_eq!(schedule.next_ns(), u64::MAX);
    }

    #[test]
    fn rounding_does_not_split_ticks() {
        let mut schedule = Schedule::default();
        schedule.set_rates(0, |group| match group {
            MetricGroup::Cpu => Some(30.0),
            MetricGroup::Memory => Some(10.0),
            _ => None,
        });
        let mut ticks = 0;
        while schedule.next_ns() < SECOND - 1000 {
            schedule.take_due(schedule.next_ns());
            ticks += 1;
        }
        assert_eq!(ticks, 30);
    }
}
