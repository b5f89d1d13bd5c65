//! Results of queries.

use serde::Serialize;

use super::bucket::Bucket;
use super::subject::{MINUTE_SECONDS, SECOND_NS};
use super::track::TrackId;
use super::unavailable::UnavailableInterval;
use crate::schema::{Text, Unit};

/// The resolution that answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Every value as it came.
    FullRate,
    /// Buckets of one second.
    Seconds,
    /// Buckets of one minute, or of several where the points would be too many.
    Minutes,
}

/// A value at the full rate (then all numbers are the same and `to_ns` is `from_ns`) or a bucket of values.
///
/// Of buckets, count is exact, mean, min and max are within 8 parts in a million, percentiles within 1 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Point {
    pub from_ns: u64,
    /// End of the bucket, itself outside.
    pub to_ns: u64,
    pub count: u64,
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
}

/// Why a part of the range has no points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "why")]
pub enum GapReason {
    /// The reason given by the source.
    Unavailable { reason: Text, hint: Option<Text> },
    /// Before the first value.
    NotYet,
    /// No longer in memory: read it from the recording.
    Forgotten,
    /// The process or device had ended.
    Ended,
}

/// A part of the range without points.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    pub from_ns: u64,
    pub to_ns: u64,
    pub reason: GapReason,
}

/// The past of a track. Buckets count if they touch the range, so the first and the last can reach beyond it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct History {
    pub tier: Tier,
    pub points: Vec<Point>,
    /// From here on the tier has everything; `None` if it has nothing.
    pub covered_from_ns: Option<u64>,
    /// Minutes were merged: percentiles of such points are interpolated and may be off by more than 1 %.
    pub interpolated: bool,
    /// In the order of time; they can overlap.
    pub gaps: Vec<Gap>,
}

/// Values at the full rate.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Rows {
    /// Ascending.
    pub times_ns: Vec<u64>,
    pub values: Vec<f64>,
    /// From here on all rows are there; `None` if the track is not kept at the full rate (a process that is not
    /// selected).
    pub covered_from_ns: Option<u64>,
}

/// Percentiles of a session's latest inferences. One that the number of runs cannot bound is `None`, as in reports.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LatencyPercentiles {
    /// Inferences behind the numbers.
    pub count: u64,
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p95: Option<f64>,
    pub p99: Option<f64>,
    pub p99_9: Option<f64>,
    /// Start of the summarized range: later than requested if the rows do not reach back that far.
    pub from_ns: u64,
}

impl LatencyPercentiles {
    /// Minimum sample sizes: with fewer runs even the largest value is not a 97.5 % upper bound of the percentile.
    pub const RUNS_NEEDED: [(f64, usize); 5] = [(0.5, 6), (0.9, 36), (0.95, 72), (0.99, 368), (0.999, 3688)];

    pub(super) fn of(mut values: Vec<f64>, from_ns: u64) -> Self {
        values.sort_unstable_by(f64::total_cmp);
        let percentile = |(q, needed): (f64, usize)| {
            let position = q * values.len().checked_sub(1)? as f64;
            let (below, above) =
                (values.get(position.floor() as usize)?, values.get(position.ceil() as usize)?);
            (values.len() >= needed).then_some(below + (above - below) * position.fract())
        };
        let [p50, p90, p95, p99, p99_9] = Self::RUNS_NEEDED.map(percentile);
        Self { count: values.len() as u64, p50, p90, p95, p99, p99_9, from_ns }
    }
}

/// Description of a track.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrackInfo {
    pub id: TrackId,
    pub unit: Unit,
    pub description: &'static str,
    /// Name of the program or model, if known.
    pub label: Option<Text>,
    /// Where the numbers come from: a device's source, otherwise the table.
    pub source: Text,
    /// measured, attributed or estimated.
    pub method: Text,
    /// Whether rows are kept at the full rate.
    pub full_rate: bool,
    pub first_ns: u64,
    pub newest_ns: u64,
    /// When the process or device ended, if it did.
    pub ended_ns: Option<u64>,
}

/// The newest value of a track.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CurrentValue {
    pub id: TrackId,
    pub unit: Unit,
    pub value: f64,
    pub timestamp_ns: u64,
    /// Zero for values from after `now_ns`.
    pub age_ns: u64,
}

/// The newest values of all tracks, and the tracks without a value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Current {
    pub now_ns: u64,
    pub values: Vec<CurrentValue>,
    pub unavailable: Vec<UnavailableInterval>,
}

impl Point {
    pub(super) fn of_value(time_ns: u64, value: f64) -> Self {
        let [min, max, mean, p50, p95, p99] = [value; 6];
        Self { from_ns: time_ns, to_ns: time_ns, count: 1, min, max, mean, p50, p95, p99 }
    }

    pub(super) fn of_bucket(bucket: &Bucket, width_ns: u64) -> Self {
        let from_ns = bucket.index.saturating_mul(width_ns);
        Self {
            from_ns,
            to_ns: from_ns.saturating_add(width_ns),
            count: bucket.count.into(),
            min: bucket.min.into(),
            max: bucket.max.into(),
            mean: bucket.mean.into(),
            p50: bucket.p50.into(),
            p95: bucket.p95.into(),
            p99: bucket.p99.into(),
        }
    }
}

/// Puts neighboring minutes together until they are at most `max_points`.
pub(super) fn merge_minutes(points: &[Point], max_points: usize) -> Vec<Point> {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return Vec::new();
    };
    let minute_ns = MINUTE_SECONDS * SECOND_NS;
    let minutes = (last.from_ns - first.from_ns) / minute_ns + 1;
    // Groups start at multiples of their width, so that a chart does not flicker while it moves on.
    let mut together = minutes.div_ceil(max_points.max(1) as u64);
    loop {
        let group = |point: &Point| point.from_ns / minute_ns / together;
        let groups = points.chunk_by(|a, b| group(a) == group(b));
        if max_points > 0 && together < minutes * 2 && groups.clone().count() > max_points {
            together += 1;
            continue;
        }
        return groups.filter_map(|points| merge(points, together * minute_ns)).collect();
    }
}

fn merge(points: &[Point], width_ns: u64) -> Option<Point> {
    let count: u64 = points.iter().map(|point| point.count).sum();
    let sum: f64 = points.iter().map(|point| point.mean * point.count as f64).sum();
    let from_ns = points.first()?.from_ns / width_ns * width_ns;
    let min = points.iter().map(|point| point.min).fold(f64::INFINITY, f64::min);
    let max = points.iter().map(|point| point.max).fold(f64::NEG_INFINITY, f64::max);
    let [p50, p95, p99] = [0.50, 0.95, 0.99].map(|q| quantile_of_all(points, q * count as f64, min, max));
    let to_ns = from_ns.saturating_add(width_ns);
    Some(Point { from_ns, to_ns, count, min, max, mean: sum / count.max(1) as f64, p50, p95, p99 })
}

/// The value below which `wanted` of all values lie, if those of each point are spread evenly between its percentiles.
fn quantile_of_all(points: &[Point], wanted: f64, min: f64, max: f64) -> f64 {
    let (mut low, mut high) = (min, max);
    for _ in 0..48 {
        let middle = low + (high - low) / 2.0;
        let below: f64 = points.iter().map(|point| point.count as f64 * share_below(point, middle)).sum();
        if below < wanted { low = middle } else { high = middle }
    }
    high
}

fn share_below(point: &Point, value: f64) -> f64 {
    let marks = [(point.min, 0.0), (point.p50, 0.5), (point.p95, 0.95), (point.p99, 0.99), (point.max, 1.0)];
    if value < point.min {
        return 0.0;
    }
    let upper = marks.iter().position(|(mark, _)| *mark > value);
    let Some((above, below)) =
        upper.and_then(|upper| Some((marks.get(upper)?, marks.get(upper.checked_sub(1)?)?)))
    else {
        return 1.0;
    };
    below.1 + (above.1 - below.1) * (value - below.0) / (above.0 - below.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::testing::quantile;
    use crate::random::Random;

    #[test]
    fn too_few_runs_have_no_percentile() {
        let runs = |count: usize| LatencyPercentiles::of((1..=count).map(|run| run as f64).collect(), 0);
        assert_eq!((runs(0).count, runs(0).p50), (0, None));
        assert_eq!((runs(5).p50, runs(7).p50, runs(7).p90), (None, Some(4.0), None));
        let many = runs(10_001);
        assert_eq!((many.p90, many.p99, many.p99_9), (Some(9001.0), Some(9901.0), Some(9991.0)));
    }

    #[test]
    fn merged_minutes_keep_sums_and_come_near_the_percentiles() {
        let mut random = Random::new(8);
        let minute_ns = 60 * SECOND_NS;
        let all: Vec<Vec<f64>> = (0..1440)
            .map(|minute| (0..200).map(|_| 50.0 + f64::from(minute % 7) + random.normal()).collect())
            .collect();
        let points: Vec<Point> = all
            .iter()
            .enumerate()
            .map(|(minute, values)| Point {
                from_ns: minute as u64 * minute_ns,
                to_ns: (minute as u64 + 1) * minute_ns,
                count: 200,
                min: quantile(values, 0.0),
                max: quantile(values, 1.0),
                mean: values.iter().sum::<f64>() / 200.0,
                p50: quantile(values, 0.5),
                p95: quantile(values, 0.95),
                p99: quantile(values, 0.99),
            })
            .collect();
        for max_points in [1, 2, 7, 100, 1000, 1439] {
            let merged = merge_minutes(&points, max_points);
            assert!(merged.len() <= max_points && merged.len() > max_points / 3, "{}", merged.len());
            assert_eq!(merged.iter().map(|point| point.count).sum::<u64>(), 1440 * 200);
            assert!(merged.is_sorted_by(|a, b| a.to_ns <= b.from_ns));
        }
        let day = merge_minutes(&points, 1)[0];
        let values: Vec<f64> = all.concat();
        for (got, q) in [(day.p50, 0.5), (day.p95, 0.95), (day.p99, 0.99)] {
            assert!((got / quantile(&values, q) - 1.0).abs() < 0.01, "{q}: {got}");
        }
        assert!((day.mean - values.iter().sum::<f64>() / values.len() as f64).abs() < 1e-9);
    }
}
