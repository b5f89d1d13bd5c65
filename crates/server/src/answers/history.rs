//! `/metrics/history`: values over time, of live memory or a recording, in the points a chart can show.

use ortscope_core::live::{GapReason, History, Point, Subject, Tier, TrackId, recorded_history};
use serde_json::{Value, json};

use super::catalog::{Track, tracks};
use super::{Answer, about, number, page};
use crate::app::{App, Asked};
use crate::data::Source;
use crate::error::ApiError;
use crate::params::Params;

pub fn history(app: &App, asked: &Asked) -> Result<Answer, ApiError> {
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
            Some(history) => series_json(&source, track, &history, step_ns, range.0),
            None => empty_series(&source, track, range),
        });
    }
    let mut answer = about(&source, range);
    answer.insert("series".into(), series.into());
    answer.insert("next".into(), next.into());
    Answer::json(&answer)
}

/// The tracks that are asked for, by name or by what they are about.
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
            .hint("name tracks, or a metric, pid, session or device; /metrics/catalog lists what there is"));
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

/// A track of which nothing is known: its series is empty and says so.
fn unknown(id: &TrackId) -> Track {
    Track {
        id: id.clone(),
        unit: ortscope_core::live::unit_of_metric(&id.metric),
        label: None,
        origin: "".into(),
        method: "measured".into(),
        first_ns: 0,
        newest_ns: 0,
        ended_ns: None,
    }
}

fn series_json(
    source: &Source,
    track: &Track,
    history: &History,
    step_ns: Option<u64>,
    from_ns: u64,
) -> Value {
    let (points, tier) = match step_ns {
        Some(step) => (stepped(&history.points, step, from_ns), "step"),
        None => (history.points.clone(), tier_name(history.tier)),
    };
    let width = points.first().map_or(0, |point| point.to_ns.saturating_sub(point.from_ns));
    let column = |of: fn(&Point) -> f64| points.iter().map(|point| number(of(point))).collect::<Vec<_>>();
    let gaps: Vec<Value> = history
        .gaps
        .iter()
        .map(|gap| {
            let (why, reason, hint) = match &gap.reason {
                GapReason::Unavailable { reason, hint } => ("unavailable", Some(reason), hint.as_ref()),
                GapReason::NotYet => ("not_yet", None, None),
                GapReason::Forgotten => ("forgotten", None, None),
                GapReason::Ended => ("ended", None, None),
            };
            json!({
                "from_ms": number(source.ms(gap.from_ns)), "to_ms": number(source.ms(gap.to_ns)),
                "why": why, "reason": reason, "hint": hint,
            })
        })
        .collect();
    json!({
        "track": track.id,
        "metric": track.id.metric,
        "unit": track.unit,
        "label": track.label,
        "tier": tier,
        "t_ms": points.iter().map(|point| number(source.ms(point.from_ns))).collect::<Vec<_>>(),
        "step_ms": number(width as f64 / 1e6),
        "count": points.iter().map(|point| point.count).collect::<Vec<_>>(),
        "min": column(|point| point.min),
        "max": column(|point| point.max),
        "mean": column(|point| point.mean),
        "p50": column(|point| point.p50),
        "p95": column(|point| point.p95),
        "p99": column(|point| point.p99),
        "gaps": gaps,
    })
}

fn empty_series(source: &Source, track: &Track, (from_ns, to_ns): (u64, u64)) -> Value {
    json!({
        "track": track.id, "metric": track.id.metric, "unit": track.unit, "label": track.label, "tier": "full_rate",
        "t_ms": [], "step_ms": 0, "count": [], "min": [], "max": [], "mean": [], "p50": [], "p95": [], "p99": [],
        "gaps": [{
            "from_ms": number(source.ms(from_ns)), "to_ms": number(source.ms(to_ns)), "why": "unavailable",
            "reason": "this source has no such track in this time", "hint": "/metrics/catalog lists the tracks there are",
        }],
    })
}

fn tier_name(tier: Tier) -> &'static str {
    match tier {
        Tier::FullRate => "full_rate",
        Tier::Seconds => "seconds",
        Tier::Minutes => "minutes",
    }
}

/// Points of a width that was asked for. Percentiles of several points together are those of the largest of them: at
/// least as large as the true ones.
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
