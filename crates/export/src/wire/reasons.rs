//! Why there was no value, as it was recorded.

use ortscope_core::schema::{Text, UnavailabilityRow};

/// Intervals that are remembered; a recording has few.
const MAX_INTERVALS: usize = 10_000;

/// What the table `unavailability` says.
#[derive(Debug, Clone, Default)]
pub struct Reasons {
    intervals: Vec<(Text, u64, u64, String)>,
}

impl Reasons {
    pub fn add(&mut self, row: &UnavailabilityRow) {
        if self.intervals.len() < MAX_INTERVALS {
            let reason = match &row.hint {
                Some(hint) if !hint.is_empty() => format!("{}; {hint}", row.reason),
                _ => row.reason.to_string(),
            };
            self.intervals.push((row.track.clone(), row.from_ns, row.to_ns.unwrap_or(u64::MAX), reason));
        }
    }

    /// The reason for a field like `energy.power_w`: of the track of that name, or of what it is a part of (`power_w`,
    /// `energy`; `gpu` for `gpu_percent`).
    pub fn why(&self, field: &str, time_ns: u64) -> Option<&str> {
        let last = field.rsplit('.').next().unwrap_or(field);
        let device = last.split('_').next().unwrap_or(last);
        let group = field.split('.').next().unwrap_or(field);
        [field, last, device, group].iter().find_map(|name| {
            let at_the_time = |interval: &&(Text, u64, u64, String)| {
                interval.0.eq_ignore_ascii_case(name) && interval.1 <= time_ns && time_ns < interval.2
            };
            self.intervals.iter().find(at_the_time).map(|(_, _, _, reason)| reason.as_str())
        })
    }
}
