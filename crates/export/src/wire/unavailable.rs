//! Reasons for missing values, as they were recorded and as answers and records show them.

use std::collections::BTreeMap;

use ortscope_core::schema::{Text, UnavailabilityRow};
use schemars::JsonSchema;
use serde::Serialize;

/// Why fields have no value: path of the field → reason, with a remedy where one is known.
#[derive(Debug, Clone, Default, PartialEq, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Unavailable(BTreeMap<String, String>);

impl Unavailable {
    pub fn insert(&mut self, field: impl Into<String>, reason: impl Into<String>) {
        self.0.insert(field.into(), reason.into());
    }

    /// The reason alone, for an answer with one missing field.
    pub fn one(field: &str, reason: &str) -> Self {
        Self(BTreeMap::from([(field.to_owned(), reason.to_owned())]))
    }
}

/// Collects the reasons for missing fields.
pub(super) struct Missing<'a> {
    recorded: &'a Reasons,
    time_ns: u64,
    pub(super) reasons: Unavailable,
}

impl<'a> Missing<'a> {
    pub(super) fn new(recorded: &'a Reasons, time_ns: u64) -> Self {
        Self { recorded, time_ns, reasons: Unavailable::default() }
    }

    /// A reason that was recorded at the time is better than the default one.
    pub(super) fn check(&mut self, field: &str, is_there: bool, otherwise: &str) {
        if !is_there {
            let reason = self.recorded.why(field, self.time_ns).unwrap_or(otherwise);
            self.reasons.insert(field, reason);
        }
    }
}

/// Maximum number of remembered intervals; a recording has few.
const MAX_INTERVALS: usize = 10_000;

/// The reasons recorded in the table `unavailability`.
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
