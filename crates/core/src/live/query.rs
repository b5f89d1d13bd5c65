//! Query evaluation: data is copied out under the lock, everything else happens after it.

use super::bucket::{Accumulator, Bucket};
use super::declared::{TrackDef, unit_of_metric};
use super::found::{Data, Found, MINUTE_NS, bucket_range};
use super::history::{
    Current, CurrentValue, Gap, GapReason, History, LatencyPercentiles, Point, Rows, Tier, TrackInfo,
    merge_minutes,
};
use super::state::{State, plan_of, table_of};
use super::subject::{Key, SECOND_NS};
use super::tier::Gathered;
use super::track::{Subject, TrackId};
use super::unavailable::UnavailableInterval;
use crate::schema::{Text, Unit};

/// Rows at the full rate as they came, and from where on all are there.
pub(super) type CoveredRows = (Vec<(u64, f64)>, Option<u64>);

/// The raw data of a history, copied out of the memory.
#[derive(Debug)]
pub(super) struct Material {
    tier: Tier,
    covered_from_ns: Option<u64>,
    gaps: Vec<Gap>,
    data: Data,
}

impl State {
    fn find(&self, id: &TrackId) -> Option<Found<'_>> {
        let key = match &id.subject {
            Subject::System => Key::System,
            Subject::Session(session) => Key::Session(session.clone()),
            Subject::Process(process) => Key::Process(*process),
            Subject::Device(device) => Key::Device { device: device.clone(), metric: id.metric.clone() },
        };
        let subject = self.subjects.get(self.subjects.slot(&key)?)?;
        let column = match key {
            Key::Device { .. } => 0,
            _ => plan_of(table_of(&key))?.tracks.iter().position(|track| *track.def.metric == *id.metric)?,
        };
        let track = subject.tracks.get(column).filter(|track| track.first_ns.is_some())?;
        Some(Found { subject, column, track })
    }

    /// Collects what answers the range with at most `max_points`; `None` if nothing is known of the track.
    pub fn gather(&self, id: &TrackId, from_ns: u64, to_ns: u64, max_points: usize) -> Option<Material> {
        let about = |interval: &&UnavailableInterval| interval.is_about(id);
        let intervals: Vec<&UnavailableInterval> = self.unavailable.iter().filter(about).collect();
        let Some(found) = self.find(id) else {
            let gaps =
                intervals.iter().filter_map(|interval| gap_of(interval, interval.to_ns, from_ns, to_ns));
            return (!intervals.is_empty()).then(|| Material {
                tier: Tier::FullRate,
                covered_from_ns: None,
                gaps: gaps.collect(),
                data: Data::Values(Vec::new()),
            });
        };
        let tier = found.choose(from_ns, to_ns, max_points, self.limits.retention_seconds);
        let covered_from_ns = found.covered_from_ns(tier);
        let mut gaps: Vec<Gap> = intervals
            .iter()
            .filter_map(|interval| {
                let end = interval.to_ns.or_else(|| found.first_value_from(interval.from_ns));
                gap_of(interval, end, from_ns, to_ns)
            })
            .collect();
        gaps.extend(found.own_gaps(covered_from_ns, from_ns, to_ns));
        gaps.sort_by_key(|gap| (gap.from_ns, gap.to_ns));
        Some(Material { tier, covered_from_ns, gaps, data: found.copy(tier, from_ns, to_ns) })
    }

    pub fn rows(&self, id: &TrackId, from_ns: u64, to_ns: u64) -> Option<CoveredRows> {
        let found = self.find(id)?;
        let Some(ring) = &found.subject.ring else {
            return Some((Vec::new(), None));
        };
        let (rows, _) = ring.select(found.column, from_ns, to_ns);
        Some((rows, found.covered_from_ns(Tier::FullRate)))
    }

    pub fn tracks(&self) -> Vec<TrackInfo> {
        let infos = self.each_track().map(|(id, def, found)| {
            let table: Text = table_of(&found.subject.key).def().name.into();
            let (source, method) = found.subject.origin.clone().unwrap_or((table, "measured".into()));
            TrackInfo {
                unit: unit_of(&id, def),
                id,
                description: def.doc,
                label: found.subject.label.clone(),
                source,
                method,
                full_rate: found.subject.ring.is_some(),
                first_ns: found.track.first_ns.unwrap_or(0),
                newest_ns: found.track.newest.map_or(0, |(time_ns, _)| time_ns),
                ended_ns: found.subject.ended_ns,
            }
        });
        infos.collect()
    }

    pub fn current(&self, now_ns: u64) -> Current {
        let values = self.each_track().filter_map(|(id, def, found)| {
            let (timestamp_ns, value) = found.track.newest?;
            let unit = unit_of(&id, def);
            Some(CurrentValue { id, unit, value, timestamp_ns, age_ns: now_ns.saturating_sub(timestamp_ns) })
        });
        let has_value_again = |interval: &UnavailableInterval| {
            let track = interval.track.parse::<TrackId>().ok();
            let found = track.as_ref().and_then(|id| self.find(id));
            found.and_then(|found| found.track.newest).is_some_and(|(time_ns, _)| time_ns >= interval.from_ns)
        };
        let lasting = self.unavailable.iter().filter(|interval| {
            interval.from_ns <= now_ns
                && interval.to_ns.is_none_or(|end| end > now_ns)
                && !has_value_again(interval)
        });
        Current { now_ns, values: values.collect(), unavailable: lasting.cloned().collect() }
    }

    /// Every track with data.
    fn each_track(&self) -> impl Iterator<Item = (TrackId, &'static TrackDef, Found<'_>)> {
        self.subjects.iter().flat_map(|(_, subject)| {
            let plans = plan_of(table_of(&subject.key)).map_or(&[][..], |plan| &plan.tracks);
            let tracks = subject.tracks.iter().enumerate().zip(plans);
            tracks.filter(|((_, track), _)| track.first_ns.is_some()).map(move |((column, track), plan)| {
                (track_id(&subject.key, plan.def), plan.def, Found { subject, column, track })
            })
        })
    }
}

impl Material {
    pub fn into_history(self, from_ns: u64, to_ns: u64, max_points: usize) -> History {
        let mut interpolated = false;
        let points = match self.data {
            Data::Values(mut rows) => {
                sort_rows(&mut rows);
                rows.iter().map(|(time_ns, value)| Point::of_value(*time_ns, *value)).collect()
            }
            Data::Seconds(closed, open) => points(closed, open, from_ns, to_ns, SECOND_NS),
            Data::Minutes(closed, open) => {
                let points = points(closed, open, from_ns, to_ns, MINUTE_NS);
                interpolated = points.len() > max_points;
                if interpolated { merge_minutes(&points, max_points) } else { points }
            }
        };
        History {
            tier: self.tier,
            points,
            covered_from_ns: self.covered_from_ns,
            interpolated,
            gaps: self.gaps,
        }
    }
}

pub(super) fn into_rows((mut rows, covered_from_ns): CoveredRows) -> Rows {
    sort_rows(&mut rows);
    let (times_ns, values) = rows.into_iter().unzip();
    Rows { times_ns, values, covered_from_ns }
}

pub(super) fn into_percentiles((rows, covered_from_ns): CoveredRows, from_ns: u64) -> LatencyPercentiles {
    let values = rows.into_iter().map(|(_, value)| value).collect();
    LatencyPercentiles::of(values, from_ns.max(covered_from_ns.unwrap_or(0)))
}

/// Rows of concurrent streams come in the order of their ends: equal times keep that order.
fn sort_rows(rows: &mut [(u64, f64)]) {
    if !rows.is_sorted_by_key(|(time_ns, _)| *time_ns) {
        rows.sort_by_key(|(time_ns, _)| *time_ns);
    }
}

fn points(
    closed: Gathered,
    open: Vec<(u64, Accumulator)>,
    from_ns: u64,
    to_ns: u64,
    width_ns: u64,
) -> Vec<Point> {
    let (from, to) = bucket_range(from_ns, to_ns, width_ns);
    let open = open.into_iter().filter_map(|(index, mut values)| values.close(index));
    let buckets: Vec<Bucket> = closed.unpack(from, to).into_iter().chain(open).collect();
    buckets.iter().map(|bucket| Point::of_bucket(bucket, width_ns)).collect()
}

fn gap_of(interval: &UnavailableInterval, end_ns: Option<u64>, from_ns: u64, to_ns: u64) -> Option<Gap> {
    let gap = Gap {
        from_ns: interval.from_ns.max(from_ns),
        to_ns: end_ns.unwrap_or(u64::MAX).min(to_ns),
        reason: GapReason::Unavailable { reason: interval.reason.clone(), hint: interval.hint.clone() },
    };
    (gap.from_ns < gap.to_ns).then_some(gap)
}

fn track_id(key: &Key, def: &TrackDef) -> TrackId {
    let (subject, metric) = match key {
        Key::System => (Subject::System, def.metric.into()),
        Key::Session(session) => (Subject::Session(session.clone()), def.metric.into()),
        Key::Process(process) => (Subject::Process(*process), def.metric.into()),
        Key::Device { device, metric } => (Subject::Device(device.clone()), metric.clone()),
    };
    TrackId { subject, metric }
}

fn unit_of(id: &TrackId, def: &TrackDef) -> Unit {
    match id.subject {
        Subject::Device(_) => unit_of_metric(&id.metric),
        _ => def.unit,
    }
}
