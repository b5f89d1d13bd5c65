//! The three clocks of event tracing, and the meaning of their ticks.

use std::fmt;

/// Units of 100 nanoseconds since 1601-01-01 UTC, as in Windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct FileTime(pub u64);

/// 1970-01-01 in [`FileTime`].
const UNIX_EPOCH_TICKS: i128 = 116_444_736_000_000_000;
const TICKS_PER_SECOND: u64 = 10_000_000;
const NANOS_PER_SECOND: u64 = 1_000_000_000;

impl FileTime {
    /// Nanoseconds since 1970-01-01 UTC, clamped to the years 1677 to 2262.
    pub fn unix_ns(self) -> i64 {
        saturate((i128::from(self.0) - UNIX_EPOCH_TICKS) * 100)
    }

    pub fn from_unix_ns(nanos: i64) -> Self {
        // Cannot be negative: the smallest i64 is in 1677.
        Self((i128::from(nanos).div_euclid(100) + UNIX_EPOCH_TICKS) as u64)
    }
}

impl fmt::Display for FileTime {
    /// `2024-05-06T07:08:09.1234567Z`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.0 / TICKS_PER_SECOND, self.0 % TICKS_PER_SECOND);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01, so that the leap day is the last of its year; 1601-01-01 is day 584694.
        let days = days + 584_694;
        let era = days / 146_097;
        let of_era = days % 146_097;
        let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * of_year + 2) / 153;
        let day = of_year - (153 * month_from_march + 2) / 5 + 1;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ClockKind {
    /// Ticks of the performance counter; the header has its frequency.
    PerformanceCounter,
    /// Ticks are [`FileTime`]s.
    SystemTime,
    /// Ticks are cycles of the processor; the header has its nominal frequency in MHz.
    ProcessorCycles,
    /// An undocumented number; treated like the performance counter.
    Unknown(u32),
}

impl ClockKind {
    pub(crate) const fn from_raw(raw: u32) -> Self {
        match raw {
            1 => Self::PerformanceCounter,
            2 => Self::SystemTime,
            3 => Self::ProcessorCycles,
            other => Self::Unknown(other),
        }
    }

    pub const fn raw(self) -> u32 {
        match self {
            Self::PerformanceCounter => 1,
            Self::SystemTime => 2,
            Self::ProcessorCycles => 3,
            Self::Unknown(raw) => raw,
        }
    }
}

/// Converts the ticks of a file to times. All results increase with the ticks and are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    kind: ClockKind,
    ticks_per_second: u64,
    /// Ticks of the header's event, at the time `start`.
    start_ticks: u64,
    start: FileTime,
}

impl Clock {
    /// A frequency of 0 becomes that of [`FileTime`].
    pub fn new(kind: ClockKind, ticks_per_second: u64, start_ticks: u64, start: FileTime) -> Self {
        let ticks_per_second = match kind {
            ClockKind::SystemTime => TICKS_PER_SECOND,
            _ if ticks_per_second == 0 => TICKS_PER_SECOND,
            _ => ticks_per_second,
        };
        Self { kind, ticks_per_second, start_ticks, start }
    }

    pub fn kind(&self) -> ClockKind {
        self.kind
    }

    pub fn ticks_per_second(&self) -> u64 {
        self.ticks_per_second
    }

    pub fn start_ticks(&self) -> u64 {
        self.start_ticks
    }

    pub fn start(&self) -> FileTime {
        self.start
    }

    pub fn file_time(&self, ticks: u64) -> FileTime {
        if self.kind == ClockKind::SystemTime {
            return FileTime(ticks);
        }
        let time = i128::from(self.start.0) + self.scaled(ticks, TICKS_PER_SECOND);
        FileTime(time.clamp(0, i128::from(u64::MAX)) as u64)
    }

    /// Negative before the start: the events of merged files can be older than their header.
    pub fn nanos_since_start(&self, ticks: u64) -> i64 {
        saturate(self.nanos(ticks))
    }

    /// With the full resolution of the clock, whereas [`Self::file_time`] rounds to 100 ns.
    pub fn unix_ns(&self, ticks: u64) -> i64 {
        if self.kind == ClockKind::SystemTime {
            return FileTime(ticks).unix_ns();
        }
        let start = (i128::from(self.start.0) - UNIX_EPOCH_TICKS) * 100;
        saturate(start + self.nanos(ticks))
    }

    /// Converts a time after the start to ticks, for selecting a time range.
    pub fn ticks_after_start(&self, nanos: i64) -> u64 {
        let ticks =
            (i128::from(nanos) * i128::from(self.ticks_per_second)).div_euclid(i128::from(NANOS_PER_SECOND));
        (i128::from(self.start_ticks) + ticks).clamp(0, i128::from(u64::MAX)) as u64
    }

    /// The duration of a number of ticks.
    pub fn nanos_of(&self, ticks: u64) -> u64 {
        let nanos = u128::from(ticks) * u128::from(NANOS_PER_SECOND) / u128::from(self.ticks_per_second);
        u64::try_from(nanos).unwrap_or(u64::MAX)
    }

    fn nanos(&self, ticks: u64) -> i128 {
        self.scaled(ticks, NANOS_PER_SECOND)
    }

    /// Rounds down, also before the start, so that a larger tick never gives an earlier time.
    fn scaled(&self, ticks: u64, units_per_second: u64) -> i128 {
        let since = i128::from(ticks) - i128::from(self.start_ticks);
        let product = since * i128::from(units_per_second);
        // The common case fits into 64 bits, where the division is several times faster.
        match (u64::try_from(product), self.ticks_per_second) {
            (Ok(product), frequency) => i128::from(product / frequency),
            (Err(_), frequency) => product.div_euclid(i128::from(frequency)),
        }
    }
}

fn saturate(nanos: i128) -> i64 {
    nanos.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_of_known_moments() {
        assert_eq!(FileTime(0).to_string(), "1601-01-01T00:00:00.0000000Z");
        assert_eq!(FileTime::from_unix_ns(0).to_string(), "1970-01-01T00:00:00.0000000Z");
        assert_eq!(
            FileTime::from_unix_ns(951_782_400_000_000_100).to_string(),
            "2000-02-29T00:00:00.0000001Z"
        );
        assert_eq!(
            FileTime::from_unix_ns(1_735_689_599_000_000_000).to_string(),
            "2024-12-31T23:59:59.0000000Z"
        );
        assert_eq!(FileTime(u64::MAX).to_string(), "60056-05-28T05:36:10.9551615Z");
    }

    #[test]
    fn each_clock_counts_in_its_unit() {
        let start = FileTime::from_unix_ns(1_000_000_000_000_000_000);
        let counter = Clock::new(ClockKind::PerformanceCounter, 3_000_000, 5_000, start);
        assert_eq!(counter.nanos_since_start(5_003), 1_000);
        assert_eq!(counter.nanos_since_start(4_999), -334, "rounded down before the start too");
        assert_eq!(counter.unix_ns(3_005_000), 1_000_000_001_000_000_000);
        assert_eq!(counter.file_time(3_005_000), FileTime(start.0 + 10_000_000));
        assert_eq!(counter.ticks_after_start(1_000), 5_003);
        let cycles = Clock::new(ClockKind::ProcessorCycles, 2_400_000_000, 0, start);
        assert_eq!(cycles.nanos_since_start(24), 10);
        let system = Clock::new(ClockKind::SystemTime, 77, start.0, start);
        assert_eq!(system.unix_ns(start.0 + 1), 1_000_000_000_000_000_100);
        assert_eq!(system.nanos_since_start(start.0 + 3), 300);
    }

    proptest! {
        #[test]
        fn times_rise_with_ticks(
            raw in 0_u32..5, frequency: u64, start_ticks: u64, start: u64, a: u64, b: u64,
        ) {
            let clock = Clock::new(ClockKind::from_raw(raw), frequency, start_ticks, FileTime(start));
            let (early, late) = (a.min(b), a.max(b));
            prop_assert!(clock.file_time(early) <= clock.file_time(late));
            prop_assert!(clock.unix_ns(early) <= clock.unix_ns(late));
            prop_assert!(clock.nanos_since_start(early) <= clock.nanos_since_start(late));
            prop_assert!(clock.nanos_of(early) <= clock.nanos_of(late));
        }

        #[test]
        fn ticks_of_a_moment_are_not_after_it(nanos in -1_000_000_000_i64..1_000_000_000_000, frequency in 1_u64..10_000_000_000) {
            let clock = Clock::new(ClockKind::PerformanceCounter, frequency, 1 << 40, FileTime(1 << 57));
            prop_assert!(clock.nanos_since_start(clock.ticks_after_start(nanos)) <= nanos);
            prop_assert!(clock.nanos_since_start(clock.ticks_after_start(nanos) + 1) >= nanos);
        }
    }
}
