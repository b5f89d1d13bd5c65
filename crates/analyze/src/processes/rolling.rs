//! Means over the last seconds, from one reading a second: what "now" means for people, without keeping every sample.

use std::collections::VecDeque;

const NANOS: u64 = 1_000_000_000;
/// The longest mean.
const MAX_SECONDS: u64 = 60;

/// CPU time about once a second, the newest last.
#[derive(Debug, Default)]
pub(super) struct Rolling {
    readings: VecDeque<(u64, u64)>,
}

impl Rolling {
    pub(super) fn push(&mut self, at_ns: u64, cpu_ns: u64) {
        let is_due = self.readings.back().is_none_or(|(last_ns, _)| at_ns >= last_ns + NANOS);
        if !is_due {
            return;
        }
        self.readings.push_back((at_ns, cpu_ns));
        while self.readings.len() > MAX_SECONDS as usize + 1 {
            self.readings.pop_front();
        }
    }

    /// Percent of one core over the `seconds` before the reading `now`; `None` if it was not watched for that long.
    pub(super) fn percent(&self, seconds: u64, now: (u64, u64)) -> Option<f64> {
        let from_ns = now.0.checked_sub(seconds * NANOS)?;
        let later = self.readings.partition_point(|(at_ns, _)| *at_ns <= from_ns);
        let (at_ns, cpu_ns) = *self.readings.get(later.checked_sub(1)?)?;
        let used_ns = now.1.checked_sub(cpu_ns)?;
        Some(used_ns as f64 / (now.0 - at_ns) as f64 * 100.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_seconds_alone_count() {
        let mut rolling = Rolling::default();
        // Idle for 100 s, then busy for 20, read ten times a second.
        let cpu_ns = |tenth: u64| tenth.saturating_sub(1000) * NANOS / 10;
        for tenth in 0..=1200u64 {
            rolling.push(tenth * NANOS / 10, cpu_ns(tenth));
        }
        let now = (120 * NANOS, cpu_ns(1200));
        assert_eq!(rolling.percent(10, now), Some(100.0));
        let minute = rolling.percent(60, now).expect("watched for longer");
        assert!((minute - 100.0 / 3.0).abs() < 1e-9, "{minute}");
        assert!(rolling.readings.len() <= 61);
    }

    #[test]
    fn a_short_observation_has_no_mean() {
        let mut rolling = Rolling::default();
        rolling.push(5 * NANOS, 0);
        assert_eq!(rolling.percent(10, (14 * NANOS, NANOS)), None);
        assert_eq!(rolling.percent(10, (15 * NANOS, NANOS)), Some(10.0));
        // A clock that went back is ignored.
        rolling.push(6 * NANOS, 10 * NANOS);
        assert_eq!(rolling.percent(9, (15 * NANOS, NANOS)), None);
    }
}
