//! One clock for everything: monotonic nanoseconds since an arbitrary start of the machine.
//!
//! Two processes that read [`SystemClock`] read the same clock, so stamps from a worker and from its observer can be
//! compared. A source with a clock of its own declares a [`ClockDomain`]; wall time enters only through [`WallAnchor`].

mod os;
mod steps;
mod virtual_time;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

pub use steps::{ClockReading, ClockStep, ClockWatch};
pub use virtual_time::VirtualClock;

/// Monotonic time, real or virtual.
pub trait Clock: Send + Sync + std::fmt::Debug {
    fn now_nanos(&self) -> u64;

    /// How long a thread that waits for `deadline_nanos` should really sleep before it looks again.
    ///
    /// Virtual time answers zero after moving itself, so that waiting costs nothing in tests.
    fn real_wait(&self, deadline_nanos: u64) -> Duration;
}

/// The machine's monotonic clock (`CLOCK_MONOTONIC`, QPC on Windows). It does not count suspended time on Linux.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_nanos(&self) -> u64 {
        now_nanos()
    }

    fn real_wait(&self, deadline_nanos: u64) -> Duration {
        Duration::from_nanos(deadline_nanos.saturating_sub(now_nanos()))
    }
}

/// Reads the machine's monotonic clock. Costs one vDSO call (about 30 ns); used around every inference.
#[inline]
pub fn now_nanos() -> u64 {
    os::monotonic_nanos()
}

/// The name of the clock behind [`now_nanos`], for reports.
pub fn clock_name() -> &'static str {
    os::NAME
}

/// How a foreign clock maps to ours: `monotonic = foreign + offset`, known to `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockDomain {
    pub name: String,
    pub offset_nanos: i64,
    pub error_nanos: u64,
}

impl ClockDomain {
    /// The stamp on our clock; `None` if it would lie before our clock's start or beyond its range.
    pub fn to_monotonic(&self, foreign_nanos: u64) -> Option<u64> {
        foreign_nanos.checked_add_signed(self.offset_nanos)
    }
}

/// Two readings that are further apart tell nothing about their clocks: the thread was held up between them.
const TOGETHER_NANOS: u64 = 10_000_000;

/// How far another clock is ahead of the monotonic one; `None` if it cannot be read, or not at one moment with the other.
pub fn ahead_of_monotonic(read: impl Fn() -> Option<u64>) -> Option<i64> {
    (0..3).find_map(|_| {
        let before = now_nanos();
        let other = read()?;
        let after = now_nanos();
        let moment = (after - before <= TOGETHER_NANOS).then(|| before.midpoint(after))?;
        other.checked_signed_diff(moment)
    })
}

/// One reading of monotonic and wall time together. A recording keeps one every minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallAnchor {
    pub monotonic_nanos: u64,
    pub unix_nanos: u64,
    /// Half the time the reading took: the wall time is known no better than this.
    pub error_nanos: u64,
}

impl WallAnchor {
    pub fn now() -> Self {
        let before = now_nanos();
        let wall = SystemTime::now();
        let after = now_nanos();
        let unix = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            monotonic_nanos: before + (after - before) / 2,
            unix_nanos: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            error_nanos: (after - before).div_ceil(2),
        }
    }

    /// Wall time of a monotonic stamp, as nanoseconds since 1970.
    pub fn unix_nanos_at(&self, monotonic_nanos: u64) -> u64 {
        if monotonic_nanos >= self.monotonic_nanos {
            self.unix_nanos.saturating_add(monotonic_nanos - self.monotonic_nanos)
        } else {
            self.unix_nanos.saturating_sub(self.monotonic_nanos - monotonic_nanos)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that was held up between two readings took the delay for time that the machine had slept.
    #[test]
    fn clocks_are_compared_at_one_moment_or_not_at_all() {
        const HOUR: u64 = 3_600_000_000_000;
        // A busy machine may hold us up more than once.
        let ahead =
            (0..1000).find_map(|_| ahead_of_monotonic(|| Some(now_nanos() + HOUR))).expect("a moment");
        assert!(ahead.abs_diff(HOUR as i64) <= TOGETHER_NANOS, "{ahead}");
        assert_eq!(ahead_of_monotonic(|| None), None);
        let held_up = || {
            std::thread::sleep(Duration::from_millis(20));
            Some(now_nanos())
        };
        assert_eq!(ahead_of_monotonic(held_up), None);
    }

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = now_nanos();
        for _ in 0..10_000 {
            let now = now_nanos();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn domains_map_both_ways_and_refuse_the_impossible() {
        let domain = ClockDomain { name: "qpc".into(), offset_nanos: -500, error_nanos: 100 };
        assert_eq!(domain.to_monotonic(1_500), Some(1_000));
        assert_eq!(domain.to_monotonic(400), None);
    }

    #[test]
    fn anchors_convert_before_and_after() {
        let anchor = WallAnchor { monotonic_nanos: 1_000, unix_nanos: 5_000, error_nanos: 1 };
        assert_eq!(anchor.unix_nanos_at(1_500), 5_500);
        assert_eq!(anchor.unix_nanos_at(500), 4_500);
        assert!(WallAnchor::now().unix_nanos > 1_600_000_000_000_000_000);
    }
}
