//! Inference sessions that are observed: how fast they are now and were in the last minute.

use std::collections::BTreeMap;

use ortscope_core::live::{Current, LatencyPercentiles, LiveView, Subject, TrackId, TrackInfo};
use ortscope_core::schema::Text;

use super::past::{Shown, last_minute};
use crate::text::harmless;

const SECOND_NS: u64 = 1_000_000_000;
/// Time window of percentiles and rates: enough runs for a p99 of a fast model, short enough to mean "now".
pub const LATENCY_SECONDS: u64 = 10;
/// A session without an inference for this long leaves the panel.
const FORGOTTEN_NS: u64 = 600 * SECOND_NS;
/// Maximum number of sessions, the most recently active ones.
const MAX_SESSIONS: usize = 32;
/// Over less time a rate is meaningless.
const MIN_RATE_NS: u64 = SECOND_NS / 2;

/// A session at a point in time.
#[derive(Debug, Clone, PartialEq)]
pub struct Session {
    pub session_id: Text,
    /// Original name of the model.
    pub model_name: Option<Text>,
    /// Name of the model, safe for a terminal; the identifier if there is none.
    pub name: String,
    /// Time of its newest inference.
    pub newest_ns: u64,
    /// Call into ONNX Runtime, in nanoseconds, of the last [`LATENCY_SECONDS`].
    pub latency_ns: LatencyPercentiles,
    /// Inferences that succeeded.
    pub inferences_per_second: Option<f64>,
    /// In the last minute.
    pub failures: u64,
    pub queue_depth: Option<f64>,
    /// Median latency of each second of the last minute, in nanoseconds.
    pub latency_past_ns: Vec<Option<f64>>,
}

impl Session {
    pub fn all(current: &Current, tracks: &[TrackInfo], view: &LiveView) -> Vec<Self> {
        let now_ns = current.now_ns;
        let mut newest: BTreeMap<&Text, (u64, Option<f64>)> = BTreeMap::new();
        for value in &current.values {
            if let Subject::Session(id) = &value.id.subject {
                let known = newest.entry(id).or_default();
                known.0 = known.0.max(value.timestamp_ns);
                if &*value.id.metric == "queue_depth" {
                    known.1 = Some(value.value);
                }
            }
        }
        let mut active: Vec<(&Text, (u64, Option<f64>))> = newest
            .into_iter()
            .filter(|(_, (newest_ns, _))| now_ns.saturating_sub(*newest_ns) < FORGOTTEN_NS)
            .collect();
        if active.is_empty() {
            return Vec::new();
        }
        active.sort_by_key(|(id, (newest_ns, _))| (std::cmp::Reverse(newest_ns / SECOND_NS / 60), *id));
        active.truncate(MAX_SESSIONS);
        let known = labels(tracks);
        let session = |(id, (newest_ns, queue_depth)): (&Text, (u64, Option<f64>))| {
            let (label, first_ns) = known.get(id).cloned().unwrap_or_default();
            let mut session = Self::of(view, id, label, now_ns, first_ns);
            (session.newest_ns, session.queue_depth) = (newest_ns, queue_depth);
            session
        };
        active.into_iter().map(session).collect()
    }

    fn of(view: &LiveView, id: &Text, label: Option<Text>, now_ns: u64, first_ns: u64) -> Self {
        let window_ns = LATENCY_SECONDS * SECOND_NS;
        let nothing = LatencyPercentiles {
            count: 0,
            p50: None,
            p90: None,
            p95: None,
            p99: None,
            p99_9: None,
            from_ns: now_ns.saturating_sub(window_ns),
        };
        let latency_ns = view.latency(id, "latency_ns", now_ns, window_ns).unwrap_or(nothing);
        let elapsed_ns = now_ns.saturating_sub(latency_ns.from_ns.max(first_ns));
        let rate = || latency_ns.count as f64 * SECOND_NS as f64 / elapsed_ns as f64;
        let minute_ns = 60 * SECOND_NS;
        let failures = view.history(
            &TrackId::session(id, "failures"),
            now_ns.saturating_sub(minute_ns),
            now_ns.saturating_add(1),
            100,
        );
        let clean = label.as_deref().map(|label| harmless(label.trim())).filter(|label| !label.is_empty());
        Self {
            session_id: id.clone(),
            name: clean.unwrap_or_else(|| harmless(id)),
            model_name: label,
            newest_ns: 0,
            inferences_per_second: (elapsed_ns >= MIN_RATE_NS).then(rate),
            latency_ns,
            failures: failures.map_or(0, |past| past.points.iter().map(|point| point.count).sum()),
            queue_depth: None,
            latency_past_ns: last_minute(view, &TrackId::session(id, "latency_ns"), now_ns, Shown::Median),
        }
    }
}

/// Label and first value of each session.
fn labels(tracks: &[TrackInfo]) -> BTreeMap<Text, (Option<Text>, u64)> {
    let mut labels: BTreeMap<Text, (Option<Text>, u64)> = BTreeMap::new();
    for track in tracks {
        if let Subject::Session(id) = &track.id.subject {
            let known = labels.entry(id.clone()).or_insert((track.label.clone(), track.first_ns));
            known.1 = known.1.min(track.first_ns);
        }
    }
    labels
}
