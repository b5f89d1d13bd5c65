//! `/metrics/history`: values over time, from the live memory or a recording, reduced to the resolution of a chart.

use ortscope_core::live::{self, Gap, GapReason, Point, Subject, TrackId, recorded_history};
use ortscope_core::schema::{Text, Unit};
use schemars::JsonSchema;
use serde::Serialize;

use super::catalog::{Track, tracks};
use super::{About, page};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;

#[derive(Debug, Serialize, JsonSchema)]
pub struct History {
    #[serde(flatten)]
    pub about: About,
    pub series: Vec<HistorySeries>,
    /// Pass as `cursor` to get the next series; null on the last page.
    pub next: Option<String>,
}

/// Columns of equal length. At the full rate `count` is 1 and all numbers of a point are equal.
#[derive(Debug, Serialize, JsonSchema)]
pub struct HistorySeries {
    pub track: String,
    pub metric: Text,
    pub unit: Unit,
    pub label: Option<Text>,
    pub tier: Tier,
    /// Start of each point's interval.
    pub t_ms: Vec<f64>,
    /// Width of each point's interval; 0 at the full rate.
    pub step_ms: f64,
    pub count: Vec<u64>,
    pub min: Vec<f64>,
    pub max: Vec<f64>,
    pub mean: Vec<f64>,
    pub p50: Vec<f64>,
    pub p95: Vec<f64>,
    pub p99: Vec<f64>,
    /// Parts of the range without points, with the reason.
    pub gaps: Vec<HistoryGap>,
}

/// Resolution of a series; `step` if `step_ms` was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    FullRate,
    Seconds,
    Minutes,
    Step,
}

#[derive(Debug, Serialize, JsonSchema)]
pub struct HistoryGap {
    pub from_ms: f64,
    pub to_ms: f64,
    pub why: GapKind,
    /// Text for users; set if `why` is `unavailable`.
    pub reason: Option<Text>,
    pub hint: Option<Text>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum GapKind {
    Unavailable,
    NotYet,
    Forgotten,
    Ended,
}

pub fn history(app: &App, asked: &Asked) -> Result<History, ApiError> {
    let params = &asked.params;
    let source = app.sources.of(params)?;
    let range = source.range(params)?;
    let points = params.count("points", 600)?;
    let limit = params.count("limit", 50)?;
    let step_ns = match params.number("step_ms")? {
        None => None,
        Some(step) if (range.1 - range.0) as f64 / 1e6 / step <= 20_000.0 => {
            Some((step * 1e6).max(1.0) as u64)
        }
        Some(_) => return Err(ApiError::contradiction("step_ms", "gives more than 20000 points")),
    };
    let (wanted, next) = page(wanted(&source, params)?, limit, params.text("cursor"))?;
    let mut series = Vec::new();
    for track in &wanted {
        let most =
            step_ns.map_or(points, |step| ((range.1 - range.0) / step).clamp(points as u64, 20_000) as usize);
        let history = match source.live() {
            Some(live) => live.view.history(&track.id, range.0, range.1, most).ok(),
            None => recorded_history(source.tables(), &track.id, range.0, range.1, most)?,
        };
        series.push(match history {
            Some(history) => HistorySeries::new(&source, track, history, step_ns, range.0),
            None => HistorySeries::empty(&source, track, range),
        });
    }
    Ok(History { about: About::new(&source, range), series, next })
}

/// The requested tracks, by name or by subject.
fn wanted(source: &Source, params: &Params) -> Result<Vec<Track>, ApiError> {
    let names: Vec<&str> = params.all("track").collect();
    let by_name: Vec<TrackId> = names
        .iter()
        .map(|name| {
            name.parse::<TrackId>()
                .map_err(|error| ApiError::bad_parameter("track", format!("is wrong: {error}")))
        })
        .collect::<Result<_, _>>()?;
    let (metric, pid) = (params.text("metric"), params.whole("pid")?);
    let (session, device) = (params.text("session"), params.text("device"));
    let all = tracks(source)?;
    if !by_name.is_empty() {
        let find =
            |id: &TrackId| all.iter().find(|track| track.id == *id).cloned().unwrap_or_else(|| unknown(id));
        return Ok(by_name.iter().map(find).collect());
    }
    if metric.is_none() && pid.is_none() && session.is_none() && device.is_none() {
        return Err(ApiError::contradiction("track", "is missing")
            .hint("name tracks, or a metric, pid, session or device; /metrics/catalog lists them"));
    }
    let fits = |track: &Track| {
        metric.is_none_or(|metric| *track.id.metric == *metric)
            && pid.is_none_or(
                |pid| matches!(&track.id.subject, Subject::Process(of) if i64::from(of.pid) == pid),
            )
            && session.is_none_or(|id| matches!(&track.id.subject, Subject::Session(of) if **of == *id))
            && device.is_none_or(|name| matches!(&track.id.subject, Subject::Device(of) if **of == *name))
    };
    Ok(all.into_iter().filter(fits).collect())
}

/// A track that does not exist: its series is empty, with the reason.
fn unknown(id: &TrackId) -> Track {
    Track {
        id: id.clone(),
        unit: live::unit_of_metric(&id.metric),
        label: None,
        origin: "".into(),
        method: "measured".into(),
        first_ns: 0,
        newest_ns: 0,
        ended_ns: None,
    }
}

impl HistorySeries {
    fn new(
        source: &Source,
        track: &Track,
        history: live::History,
        step_ns: Option<u64>,
        from_ns: u64,
    ) -> Self {
        let (points, tier) = match (step_ns, history.tier) {
            (Some(step), _) => (stepped(&history.points, step, from_ns), Tier::Step),
            (None, live::Tier::FullRate) => (history.points, Tier::FullRate),
            (None, live::Tier::Seconds) => (history.points, Tier::Seconds),
            (None, live::Tier::Minutes) => (history.points, Tier::Minutes),
        };
        let width_ns = points.first().map_or(0, |point| point.to_ns.saturating_sub(point.from_ns));
        let column = |of: fn(&Point) -> f64| points.iter().map(of).collect();
        Self {
            track: track.id.to_string(),
            metric: Text::clone(&track.id.metric),
            unit: track.unit,
            label: track.label.clone(),
            tier,
            t_ms: points.iter().map(|point| source.ms(point.from_ns)).collect(),
            step_ms: width_ns as f64 / 1e6,
            count: points.iter().map(|point| point.count).collect(),
            min: column(|point| point.min),
            max: column(|point| point.max),
            mean: column(|point| point.mean),
            p50: column(|point| point.p50),
            p95: column(|point| point.p95),
            p99: column(|point| point.p99),
            gaps: history.gaps.into_iter().map(|gap| HistoryGap::new(source, gap)).collect(),
        }
    }

    fn empty(source: &Source, track: &Track, (from_ns, to_ns): (u64, u64)) -> Self {
        let reason = GapReason::Unavailable {
            reason: "this source has no such track in this time".into(),
            hint: Some("/metrics/catalog lists the existing tracks".into()),
        };
        let history = live::History {
            points: Vec::new(),
            gaps: vec![Gap { from_ns, to_ns, reason }],
            tier: live::Tier::FullRate,
            covered_from_ns: None,
            interpolated: false,
        };
        Self::new(source, track, history, None, from_ns)
    }
}

impl HistoryGap {
    fn new(source: &Source, gap: Gap) -> Self {
        let (why, reason, hint) = match gap.reason {
            GapReason::Unavailable { reason, hint } => (GapKind::Unavailable, Some(reason), hint),
            GapReason::NotYet => (GapKind::NotYet, None, None),
            GapReason::Forgotten => (GapKind::Forgotten, None, None),
            GapReason::Ended => (GapKind::Ended, None, None),
        };
        Self { from_ms: source.ms(gap.from_ns), to_ms: source.ms(gap.to_ns), why, reason, hint }
    }
}

/// Points of the requested width. The percentiles of merged points are the largest of theirs, which are upper bounds of
/// the true ones.
fn stepped(points: &[Point], step_ns: u64, from_ns: u64) -> Vec<Point> {
    let bin = |point: &Point| point.from_ns.saturating_sub(from_ns) / step_ns;
    points
        .chunk_by(|a, b| bin(a) == bin(b))
        .filter_map(|group| {
            let start = from_ns + bin(group.first()?) * step_ns;
            let count: u64 = group.iter().map(|point| point.count).sum();
            let sum: f64 = group.iter().map(|point| point.mean * point.count as f64).sum();
            let most = |of: fn(&Point) -> f64| group.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
            let mut medians: Vec<f64> = group.iter().map(|point| point.p50).collect();
            medians.sort_unstable_by(f64::total_cmp);
            Some(Point {
                from_ns: start,
                to_ns: start.saturating_add(step_ns),
                count,
                min: group.iter().map(|point| point.min).fold(f64::INFINITY, f64::min),
                max: most(|point| point.max),
                mean: sum / count.max(1) as f64,
                p50: medians.get(medians.len() / 2).copied()?,
                p95: most(|point| point.p95),
                p99: most(|point| point.p99),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_keep_counts_and_extremes() {
        let point = |from_ns: u64, value: f64| Point {
            from_ns,
            to_ns: from_ns,
            count: 1,
            min: value,
            max: value,
            mean: value,
            p50: value,
            p95: value,
            p99: value,
        };
        let points: Vec<Point> = (0..10).map(|index| point(100 + index * 10, index as f64)).collect();
        let steps = stepped(&points, 50, 100);
        assert_eq!(
            steps.iter().map(|step| (step.from_ns, step.count)).collect::<Vec<_>>(),
            [(100, 5), (150, 5)]
        );
        assert_eq!((steps[0].min, steps[0].max, steps[0].mean, steps[0].p50), (0.0, 4.0, 2.0, 2.0));
    }
}
