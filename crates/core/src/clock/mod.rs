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
    fn now_ns(&self) -> u64;

    /// How long a thread that waits for `deadline_ns` should really sleep before it looks again.
    ///
    /// Virtual time answers zero after moving itself, so that waiting costs nothing in tests.
    fn real_wait(&self, deadline_ns: u64) -> Duration;
}

/// The machine's monotonic clock (`CLOCK_MONOTONIC`, QPC on Windows). It does not count suspended time on Linux.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now_ns(&self) -> u64 {
        now_ns()
    }

    fn real_wait(&self, deadline_ns: u64) -> Duration {
        Duration::from_nanos(deadline_ns.saturating_sub(now_ns()))
    }
}

/// Reads the machine's monotonic clock. Costs one vDSO call (about 30 ns); used around every inference.
#[inline]
pub fn now_ns() -> u64 {
    os::monotonic_ns()
}

/// The name of the clock behind [`now_ns`], for reports.
pub fn clock_name() -> &'static str {
    os::NAME
}

/// How a foreign clock maps to ours: `monotonic = foreign + offset`, known to `error`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockDomain {
    pub name: String,
    pub offset_ns: i64,
    pub error_ns: u64,
}

impl ClockDomain {
    /// The stamp on our clock; `None` if it would lie before our clock's start or beyond its range.
    pub fn to_monotonic(&self, foreign_ns: u64) -> Option<u64> {
        foreign_ns.checked_add_signed(self.offset_ns)
    }
}

/// Readings further apart cannot be compared: the thread was descheduled between them.
const TOGETHER_NS: u64 = 10_000_000;

/// How far another clock is ahead of the monotonic one; `None` if it cannot be read, or not close enough in time.
pub fn ahead_of_monotonic(read: impl Fn() -> Option<u64>) -> Option<i64> {
    (0..3).find_map(|_| {
        let before = now_ns();
        let other = read()?;
        let after = now_ns();
        let moment = (after - before <= TOGETHER_NS).then(|| before.midpoint(after))?;
        other.checked_signed_diff(moment)
    })
}

/// One reading of monotonic and wall time together. A recording keeps one every minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WallAnchor {
    // The aliases are the names in recordings made before 0.2.
    #[serde(alias = "monotonic_nanos")]
    pub monotonic_ns: u64,
    #[serde(alias = "unix_nanos")]
    pub unix_ns: u64,
    /// Uncertainty of the wall time: half the time the reading took.
    #[serde(alias = "error_nanos")]
    pub error_ns: u64,
}

impl WallAnchor {
    pub fn now() -> Self {
        let before = now_ns();
        let wall = SystemTime::now();
        let after = now_ns();
        let unix = wall.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self {
            monotonic_ns: before + (after - before) / 2,
            unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX),
            error_ns: (after - before).div_ceil(2),
        }
    }

    /// Wall time of a monotonic stamp, as nanoseconds since 1970.
    pub fn unix_ns_at(&self, monotonic_ns: u64) -> u64 {
        if monotonic_ns >= self.monotonic_ns {
            self.unix_ns.saturating_add(monotonic_ns - self.monotonic_ns)
        } else {
            self.unix_ns.saturating_sub(self.monotonic_ns - monotonic_ns)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a thread that was delayed between two readings mistook the delay for sleep of the machine.
    #[test]
    fn clocks_are_compared_at_one_moment_or_not_at_all() {
        const HOUR: u64 = 3_600_000_000_000;
        // A busy machine may hold us up more than once.
        let ahead = (0..1000).find_map(|_| ahead_of_monotonic(|| Some(now_ns() + HOUR))).expect("a moment");
        assert!(ahead.abs_diff(HOUR as i64) <= TOGETHER_NS, "{ahead}");
        assert_eq!(ahead_of_monotonic(|| None), None);
        let held_up = || {
            std::thread::sleep(Duration::from_millis(20));
            Some(now_ns())
        };
        assert_eq!(ahead_of_monotonic(held_up), None);
    }

    #[test]
    fn monotonic_never_goes_back() {
        let mut last = now_ns();
        for _ in 0..10_000 {
            let now = now_ns();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn domains_map_both_ways_and_refuse_the_impossible() {
        let domain = ClockDomain { name: "qpc".into(), offset_ns: -500, error_ns: 100 };
        assert_eq!(domain.to_monotonic(1_500), Some(1_000));
        assert_eq!(domain.to_monotonic(400), None);
    }

    #[test]
    fn anchors_convert_before_and_after() {
        let anchor = WallAnchor { monotonic_ns: 1_000, unix_ns: 5_000, error_ns: 1 };
        assert_eq!(anchor.unix_ns_at(1_500), 5_500);
        assert_eq!(anchor.unix_ns_at(500), 4_500);
        assert!(WallAnchor::now().unix_ns > 1_600_000_000_000_000_000);
    }
}
