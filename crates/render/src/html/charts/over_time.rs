//! Latency over time: the median, the 99th percentile, and the range of all inferences.

use super::axis::{Scale, Ticks};
use super::{Frame, HEIGHT, band, dots, line};
use ortscope_result::OverTime;
use ortscope_result::OverTimePoint;

/// Points that are drawn.
const MAX_POINTS: usize = 2000;

pub(in crate::html) fn over_time(over_time: &OverTime, caption: &str, most: usize) -> String {
    let together = over_time.points.len().div_ceil(most.clamp(50, MAX_POINTS)).max(1);
    let points = join(&over_time.points, together);
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let single = points.iter().all(|point| point.n == 1);
    let time = Scale::linear(first.offset_seconds, last.offset_seconds);
    let low = points.iter().map(|point| point.min_ms).fold(f64::INFINITY, f64::min);
    let high = points.iter().map(|point| point.max_ms).fold(0.0, f64::max);
    let scale = match high / low.max(1e-9) > 4.0 {
        true => Scale::logarithmic(low * 0.9, high * 1.1),
        false => Scale::linear((low - (high - low) * 0.1).max(0.0), high + (high - low) * 0.1),
    };
    let at = |value: fn(&OverTimePoint) -> f64| {
        points.iter().map(move |point| (time.share(point.offset_seconds), scale.share(value(point))))
    };
    let shapes = match single {
        true => format!("<path class=\"dots\" d=\"{}\"/>", dots(at(|point| point.median_ms))),
        false => {
            let range: Vec<(f64, f64, f64)> = at(|point| point.min_ms)
                .zip(at(|point| point.max_ms))
                .map(|((x, low), (_, high))| (x, low, high))
                .collect();
            format!(
                "<path class=\"range\" d=\"{}\"/><path class=\"p99\" d=\"{}\"/><path class=\"median\" d=\"{}\"/>",
                band(&range),
                line(at(|point| point.p99_ms)),
                line(at(|point| point.median_ms))
            )
        }
    };
    let legend = match single {
        true => String::new(),
        false => "<p class=\"legend\"><span class=\"key k-median\">median</span><span class=\"key k-p99\">p99</span>\
                  <span class=\"key k-range\">min to max</span></p>"
            .to_owned(),
    };
    let frame = Frame {
        caption: match together {
            1 => caption.to_owned(),
            points => format!("{caption}; {points} points are drawn as one, with the mean of their medians"),
        },
        legend,
        x: Ticks::time(&time, 6),
        y: Ticks::latency(&scale, 5, "latency"),
        data: Some(readings(&points, single)),
    };
    frame.show(&shapes, &warm_up(over_time, &time))
}

/// The warm-up as a shaded part.
fn warm_up(over_time: &OverTime, time: &Scale) -> String {
    let Some(end) = over_time.warm_up_ends_seconds else { return String::new() };
    let width = super::coordinate(time.share(end) * 100.0);
    format!(
        "<rect class=\"warmup\" x=\"0\" y=\"0\" width=\"{width}%\" height=\"{HEIGHT}\"/>\
         <text class=\"marktext\" x=\"{width}%\" y=\"12\" dx=\"4\">warm-up ends</text>"
    )
}

/// So many neighbours together. Extremes and p99 are the largest of theirs, so that nothing looks better than it was;
/// the median is the mean of theirs.
fn join(points: &[OverTimePoint], together: usize) -> Vec<OverTimePoint> {
    let merge = |part: &[OverTimePoint]| {
        part.iter().copied().reduce(|one, next| OverTimePoint {
            offset_seconds: one.offset_seconds,
            n: one.n + next.n,
            min_ms: one.min_ms.min(next.min_ms),
            median_ms: (one.median_ms * one.n as f64 + next.median_ms * next.n as f64)
                / (one.n + next.n) as f64,
            p99_ms: one.p99_ms.max(next.p99_ms),
            max_ms: one.max_ms.max(next.max_ms),
        })
    };
    points.chunks(together).filter_map(merge).collect()
}

/// For tooltips: columns of equal length, the first is the time.
fn readings(points: &[OverTimePoint], single: bool) -> serde_json::Value {
    let column = |value: fn(&OverTimePoint) -> f64| -> Vec<f64> {
        points.iter().map(|point| rounded(value(point))).collect()
    };
    let times: Vec<f64> = points.iter().map(|point| (point.offset_seconds * 1e4).round() / 1e4).collect();
    match single {
        true => {
            serde_json::json!({"unit": "ms", "names": ["latency"], "t": times, "v": [column(|point| point.median_ms)]})
        }
        false => serde_json::json!({
            "unit": "ms",
            "names": ["max", "p99", "median", "min"],
            "t": times,
            "n": points.iter().map(|point| point.n).collect::<Vec<_>>(),
            "v": [column(|point| point.max_ms), column(|point| point.p99_ms), column(|point| point.median_ms), column(|point| point.min_ms)],
        }),
    }
}

/// Four significant digits: enough for a tooltip.
pub(super) fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return 0.0;
    }
    let scale = 10_f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}
