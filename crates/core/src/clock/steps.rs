//! Changes of other clocks: the wall clock is set, the machine sleeps. Durations never come from them, but comparing
//! a recording with other logs requires knowing about them.

/// Simultaneous readings of all clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    pub monotonic_ns: u64,
    /// Lead of a clock that continues during sleep over one that stops; only its growth is meaningful. `None` if the
    /// system lacks either clock, or they were not read close enough in time.
    pub asleep_ns: Option<i64>,
    /// Whether the monotonic clock continues during sleep, as on Windows.
    pub monotonic_goes_on: bool,
    /// Wall time since 1970, and how well it is known.
    pub unix_ns: u64,
    pub error_ns: u64,
}

/// Something that happened between two readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClockStep {
    /// The machine slept for this long. Monotonic time stopped, or it continued and nothing could be measured.
    Slept { nanos: u64, monotonic_went_on: bool },
    /// The wall clock was set forward, or back if negative.
    WallSet { nanos: i64 },
}

/// Smaller differences are clock drift (corrections of up to 500 ppm) and the time between readings.
const MIN_NS: u64 = 200_000_000;

/// Detects clock changes between successive readings.
#[derive(Debug, Default)]
pub struct ClockWatch {
    last: Option<ClockReading>,
}

impl ClockWatch {
    /// Changes since the previous reading.
    pub fn look(&mut self, now: ClockReading) -> impl Iterator<Item = ClockStep> + use<> {
        let steps = self.last.replace(now).map(|last| steps(last, now));
        steps.into_iter().flatten().flatten()
    }
}

fn steps(last: ClockReading, now: ClockReading) -> [Option<ClockStep>; 2] {
    let elapsed = now.monotonic_ns.saturating_sub(last.monotonic_ns);
    let slept = match (last.asleep_ns, now.asleep_ns) {
        (Some(last), Some(now)) => u64::try_from(now.saturating_sub(last)).unwrap_or(0),
        _ => 0,
    };
    let monotonic_went_on = now.monotonic_goes_on;
    let passed = i128::from(elapsed) + if monotonic_went_on { 0 } else { i128::from(slept) };
    let set = i128::from(now.unix_ns) - i128::from(last.unix_ns) - passed;
    let certain = MIN_NS + last.error_ns + now.error_ns;
    [
        (slept >= MIN_NS).then_some(ClockStep::Slept { nanos: slept, monotonic_went_on }),
        (set.unsigned_abs() >= u128::from(certain)).then(|| ClockStep::WallSet {
            nanos: i64::try_from(set).unwrap_or(if set < 0 { i64::MIN } else { i64::MAX }),
        }),
    ]
}

impl std::fmt::Display for ClockStep {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Slept { nanos, monotonic_went_on } => {
                let time = if *monotonic_went_on {
                    "nothing was measured in that time"
                } else {
                    "no time passed in this recording"
                };
                write!(f, "the machine slept for {}; {time}", length(*nanos))
            }
            Self::WallSet { nanos } => {
                let way = if *nanos < 0 { "back" } else { "forward" };
                write!(
                    f,
                    "the wall clock was set {way} by {}; durations are not affected",
                    length(nanos.unsigned_abs())
                )
            }
        }
    }
}

fn length(nanos: u64) -> String {
    let seconds = nanos as f64 / 1e9;
    match seconds {
        ..120.0 => format!("{seconds:.1} s"),
        ..7200.0 => format!("{:.1} min", seconds / 60.0),
        _ => format!("{:.1} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;
    const HOUR: u64 = 3600 * SECOND;

    fn reading(monotonic: u64, asleep: Option<u64>, wall: u64) -> ClockReading {
        ClockReading {
            monotonic_ns: monotonic,
            asleep_ns: asleep.map(|nanos| nanos as i64),
            monotonic_goes_on: false,
            unix_ns: wall,
            error_ns: 50,
        }
    }

    fn all(readings: &[ClockReading]) -> Vec<ClockStep> {
        let mut watch = ClockWatch::default();
        readings.iter().flat_map(|reading| watch.look(*reading)).collect()
    }

    #[test]
    fn an_hour_forward_an_hour_back_and_a_night_asleep() {
        let wall = 1_700_000_000 * SECOND;
        let found = all(&[
            reading(SECOND, Some(4 * SECOND), wall),
            reading(2 * SECOND, Some(4 * SECOND), wall + SECOND),
            reading(3 * SECOND, Some(4 * SECOND), wall + HOUR + 2 * SECOND),
            reading(4 * SECOND, Some(4 * SECOND), wall + 3 * SECOND),
            // Asleep for eight hours, which the wall clock knows.
            reading(5 * SECOND, Some(4 * SECOND + 8 * HOUR), wall + 4 * SECOND + 8 * HOUR),
        ]);
        let hour = HOUR as i64;
        let wanted = [
            ClockStep::WallSet { nanos: hour },
            ClockStep::WallSet { nanos: -hour },
            ClockStep::Slept { nanos: 8 * HOUR, monotonic_went_on: false },
        ];
        assert_eq!(found, wanted);
        let words: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert!(words[0].contains("set forward by 60.0 min") && words[1].contains("set back by 60.0 min"));
        assert!(words[2].contains("slept for 8.0 h"), "{words:?}");
    }

    /// The counter of Windows continues during sleep; another clock stops.
    #[test]
    fn a_night_asleep_in_which_monotonic_time_goes_on() {
        let reading = |monotonic: u64, asleep: i64, wall: u64| ClockReading {
            asleep_ns: Some(asleep),
            monotonic_goes_on: true,
            ..reading(monotonic, None, wall)
        };
        let (wall, night) = (1_700_000_000 * SECOND, 8 * HOUR);
        let found = all(&[
            // The two begin to count at different moments.
            reading(SECOND, -3 * SECOND as i64, wall),
            reading(2 * SECOND, -3 * SECOND as i64 - 15_000_000, wall + SECOND),
            reading(3 * SECOND + night, -3 * SECOND as i64 + night as i64, wall + 2 * SECOND + night),
            reading(4 * SECOND + night, -3 * SECOND as i64 + night as i64, wall + HOUR + 3 * SECOND + night),
        ]);
        let nanos = night + 15_000_000;
        let wanted =
            [ClockStep::Slept { nanos, monotonic_went_on: true }, ClockStep::WallSet { nanos: HOUR as i64 }];
        assert_eq!(found, wanted);
        assert_eq!(found[0].to_string(), "the machine slept for 8.0 h; nothing was measured in that time");
    }

    #[test]
    fn slow_corrections_and_missing_clocks_report_no_step() {
        // 500 ppm for a minute, checked every second, without a second clock.
        let slewed =
            |second: u64| reading(second * SECOND, None, 1000 * SECOND + second * (SECOND + 500_000));
        assert_eq!(all(&(0..60).map(slewed).collect::<Vec<_>>()), []);
        let extreme = [reading(u64::MAX, None, 0), reading(0, Some(7), u64::MAX)];
        assert_eq!(all(&extreme), [ClockStep::WallSet { nanos: i64::MAX }]);
    }
}
