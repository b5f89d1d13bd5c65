//! Unavailable values with their reasons, so that a user finds the reason without leaving the view.

use ortscope_core::live::Current;

use super::metric::Metric;
use super::snapshot::Process;
use crate::text::harmless;

/// More reasons are not listed.
const MOST: usize = 200;

/// Something without a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// The track, metric or device, as its source names it.
    pub track: String,
    pub reason: String,
    pub hint: Option<String>,
}

impl Missing {
    pub fn of(current: &Current, processes: &[Process]) -> Vec<Self> {
        let mut missing: Vec<Self> = Vec::new();
        for interval in &current.unavailable {
            let one = Self {
                track: harmless(&interval.track),
                reason: harmless(&interval.reason),
                hint: interval.hint.as_deref().map(harmless),
            };
            // Reasons often repeat for every process: one line is enough.
            if missing.len() < MOST && !missing.contains(&one) {
                missing.push(one);
            }
        }
        if processes.is_empty() {
            return missing;
        }
        // The peak has a substitute: the highest observed value.
        for metric in Metric::ALL.into_iter().filter(|metric| *metric != Metric::PeakRss) {
            let known = missing.iter().any(|missing| missing.is_about(metric));
            if !known && processes.iter().all(|process| process.values.get(metric).is_none()) {
                missing.push(Self {
                    track: metric.track().to_owned(),
                    reason: "no source gives it per process here".to_owned(),
                    hint: None,
                });
            }
        }
        missing
    }

    pub fn is_about(&self, metric: Metric) -> bool {
        // A rate is named by its counter in the schema: context_switches, read_bytes.
        let counter = metric.track().trim_end_matches("_per_second");
        let last = self.track.rsplit(['/', '.']).next().unwrap_or_default();
        last == metric.track() || last == counter
    }
}
