//! Everything about one process: memory with its trend, processor time, threads, handles, I/O.

use ortscope_analyze::theil_sen::{mann_kendall_z, theil_sen};
use ortscope_core::identity::ProcessIdentity;
use ortscope_core::live::{LiveView, TrackId};

use super::metric::Metric;
use super::past::{Shown, last_minute};
use super::snapshot::{Process, Snapshot};
use crate::facts::{ProcessFacts, ThreadFacts};
use crate::text::harmless;

/// Threads that are listed.
const MAX_THREADS: usize = 64;
/// Seconds with a value that a trend needs.
const MIN_TREND_SECONDS: usize = 10;
/// Above this normal score a trend is certain to 99 %.
const CERTAIN_SCORE: f64 = 2.33;
/// More points than 24 hours of minutes.
const MAX_POINTS: usize = 1_500;

/// How memory changes, over the last minute.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Slope {
    pub bytes_per_minute: f64,
    /// The Mann-Kendall test detects a trend with 99 % certainty; otherwise it is noise.
    pub certain: bool,
}

/// The process in the detail pane.
#[derive(Debug, Clone, PartialEq)]
pub struct Detail {
    pub process: Process,
    pub parent_name: Option<String>,
    pub command_line: Option<String>,
    /// The system's own peak, or else the highest that was seen.
    pub peak_bytes: Option<f64>,
    /// The peak is the highest value since observation began.
    pub peak_is_seen: bool,
    pub slope: Option<Slope>,
    pub memory_past_bytes: Vec<Option<f64>>,
    pub cpu_past_percent: Vec<Option<f64>>,
    pub threads: Vec<ThreadFacts>,
}

impl Detail {
    pub fn of(
        snapshot: &Snapshot,
        identity: ProcessIdentity,
        view: &LiveView,
        facts: &dyn ProcessFacts,
    ) -> Option<Self> {
        let process = snapshot.process(identity)?.clone();
        let at_ns = snapshot.at_ns;
        let track = |metric: Metric| TrackId::process(identity, metric.track());
        let memory_past_bytes = last_minute(view, &track(Metric::Rss), at_ns, Shown::Mean);
        let told = process.values.get(Metric::PeakRss);
        let seen = || {
            let past = view.history(&track(Metric::Rss), 0, at_ns.saturating_add(1), MAX_POINTS).ok()?;
            past.points.iter().map(|point| point.max).reduce(f64::max)
        };
        let parent = process
            .parent_pid
            .and_then(|pid| snapshot.processes.iter().find(|process| process.identity.pid == pid));
        let mut threads = facts.threads(identity);
        threads.truncate(MAX_THREADS);
        Some(Self {
            parent_name: parent.map(|parent| parent.name.clone()),
            command_line: facts.command_line(identity).map(|line| harmless(&line)),
            peak_bytes: told.or_else(seen),
            peak_is_seen: told.is_none(),
            slope: slope(&memory_past_bytes),
            memory_past_bytes,
            cpu_past_percent: last_minute(view, &track(Metric::Cpu), at_ns, Shown::Mean),
            threads,
            process,
        })
    }
}

/// The median of all pairwise slopes: one jump, or one odd second, does not make a trend.
fn slope(past_bytes: &[Option<f64>]) -> Option<Slope> {
    let seconds = past_bytes.iter().enumerate();
    let points: Vec<(f64, f64)> =
        seconds.filter_map(|(second, bytes)| Some((second as f64, (*bytes)?))).collect();
    if points.len() < MIN_TREND_SECONDS {
        return None;
    }
    let line = theil_sen(&points)?;
    let bytes: Vec<f64> = points.iter().map(|(_, bytes)| *bytes).collect();
    let certain = mann_kendall_z(&bytes).abs() > CERTAIN_SCORE;
    Some(Slope { bytes_per_minute: 60.0 * line.slope, certain })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_growth_is_a_trend_and_noise_is_not() {
        let past = |bytes: &dyn Fn(u32) -> f64| (0..60).map(|second| Some(bytes(second))).collect::<Vec<_>>();
        let growing = past(&|second| 1e6 + 1000.0 * f64::from(second));
        assert_eq!(slope(&growing), Some(Slope { bytes_per_minute: 60_000.0, certain: true }));
        assert_eq!(
            slope(&past(&|second| f64::from(second * 37 % 60))).map(|slope| slope.certain),
            Some(false)
        );
        assert_eq!(slope(&growing[..9]), None);
    }
}
