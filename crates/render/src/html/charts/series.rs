//! Readings over time, several series of one unit in one chart.

use super::super::escape::escape;
use super::axis::{Scale, Ticks};
use super::over_time::rounded;
use super::{Frame, band, line};
use crate::blocks::series_value;
use ortscope_result::{Series, SeriesUnit};

pub(in crate::html) fn series(series: &[(String, &Series)], caption: &str) -> String {
    let points = || series.iter().flat_map(|(_, series)| &series.points);
    let Some(unit) = series.first().map(|(_, series)| series.unit) else { return String::new() };
    let from = points().map(|point| point.offset_seconds).fold(f64::INFINITY, f64::min);
    let to = points().map(|point| point.offset_seconds).fold(f64::NEG_INFINITY, f64::max);
    let highest = points().map(|point| point.max).fold(f64::NEG_INFINITY, f64::max);
    let lowest = points().map(|point| point.min).fold(f64::INFINITY, f64::min);
    let time = Scale::linear(from, to);
    // From zero, so that heights compare; temperatures may be below.
    let scale = Scale::linear(lowest.min(0.0), if highest > 0.0 { highest * 1.08 } else { 1.0 });
    let (mut shapes, mut legend) = (String::new(), String::new());
    for (index, (name, series)) in series.iter().enumerate() {
        let range: Vec<(f64, f64, f64)> = series
            .points
            .iter()
            .map(|point| (time.share(point.offset_seconds), scale.share(point.min), scale.share(point.max)))
            .collect();
        let spread = series.points.iter().any(|point| point.max > point.min);
        if spread {
            shapes += &format!("<path class=\"band s{index}\" d=\"{}\"/>", band(&range));
        }
        let middle =
            series.points.iter().map(|point| (time.share(point.offset_seconds), scale.share(point.mean)));
        shapes += &format!("<path class=\"line s{index}\" d=\"{}\"/>", line(middle));
        legend += &format!(
            "<span class=\"key k-s{index}\">{} <b>{}</b> mean, {} max</span>",
            escape(name),
            escape(&series_value(unit, series.mean)),
            escape(&series_value(unit, series.max))
        );
    }
    let frame = Frame {
        caption: caption.to_owned(),
        legend: format!("<p class=\"legend\">{legend}</p>"),
        x: Ticks::time(&time, 6),
        y: Ticks::values(&scale, 4, |value| axis_value(unit, value)),
        data: Some(readings(series, unit)),
    };
    frame.show(&shapes, "")
}

/// Round numbers need no decimals.
fn axis_value(unit: SeriesUnit, value: f64) -> String {
    let text = series_value(unit, value);
    let (number, rest) = text.split_once(' ').unwrap_or((&text, ""));
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number} {rest}").trim_end().to_owned()
}

fn readings(series: &[(String, &Series)], unit: SeriesUnit) -> serde_json::Value {
    let lists: Vec<serde_json::Value> = series
        .iter()
        .map(|(name, series)| {
            let times: Vec<f64> =
                series.points.iter().map(|point| (point.offset_seconds * 1e4).round() / 1e4).collect();
            let values: Vec<f64> = series.points.iter().map(|point| rounded(point.max)).collect();
            serde_json::json!({"name": name, "t": times, "v": values})
        })
        .collect();
    serde_json::json!({"unit": unit, "series": lists})
}
