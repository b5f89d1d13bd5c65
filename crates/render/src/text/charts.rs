//! Charts of characters: bars and sparklines.

use super::layout::{WIDTH, wrap};
use super::{Page, Style};
use crate::blocks::series_value;
use ortscope_core::units::{cut, milliseconds, moment};
use ortscope_result::{Histogram, OverTime, Series};

/// Rows of a histogram.
const MAX_BARS: usize = 16;
/// Width of its longest bar.
const BAR: usize = 60;
/// Width of a sparkline.
const SPARK: usize = 60;
const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

fn caption(page: &mut Page, text: &str) {
    page.line("");
    for line in wrap(text, WIDTH) {
        let line = page.paint(Style::Bold, &line);
        page.line(&line);
    }
}

pub(super) fn histogram(page: &mut Page, histogram: &Histogram, marks: &[(&'static str, f64)], title: &str) {
    caption(page, title);
    let bars = bars(histogram, marks);
    let most = bars.iter().map(|(_, _, count)| *count).max().unwrap_or(0).max(1);
    let last = bars.len().saturating_sub(1);
    for (index, (low, high, count)) in bars.into_iter().enumerate() {
        let filled = (count as f64 / most as f64 * BAR as f64).ceil() as usize;
        let bar = "█".repeat(filled.min(BAR));
        let inside = |value: f64| value >= low && (value < high || index == last);
        let names: Vec<&str> =
            marks.iter().filter(|(_, value)| inside(*value)).map(|(name, _)| *name).collect();
        let text = format!("{:>8}  {bar:<BAR$}  {count:>9}  {}", milliseconds(low), names.join(" "));
        page.line(&cut(text.trim_end(), WIDTH));
    }
}

/// A terminal has fewer rows than a chart has bars: neighbours go together, and all above p99 into one row.
fn bars(histogram: &Histogram, marks: &[(&'static str, f64)]) -> Vec<(f64, f64, u64)> {
    let bins = histogram.counts.len();
    let tail = marks.last().map_or(bins, |(_, value)| {
        histogram.edges_ms.partition_point(|edge| edge <= value).clamp(1, bins.max(1))
    });
    let together = tail.min(bins).div_ceil(MAX_BARS - 1).max(1);
    let mut bars = Vec::new();
    let mut from = 0;
    while from < bins {
        let to = if from < tail { (from + together).min(tail) } else { bins };
        let count = histogram.counts.get(from..to).unwrap_or_default().iter().sum();
        if let (Some(low), Some(high)) = (histogram.edges_ms.get(from), histogram.edges_ms.get(to)) {
            bars.push((*low, *high, count));
        }
        from = to;
    }
    bars
}

pub(super) fn over_time(page: &mut Page, over_time: &OverTime, title: &str) {
    let (Some(first), Some(last)) = (over_time.points.first(), over_time.points.last()) else { return };
    caption(page, title);
    let points = |value: fn(&ortscope_result::OverTimePoint) -> f64| -> Vec<(f64, f64)> {
        over_time.points.iter().map(|point| (point.offset_seconds, value(point))).collect()
    };
    let ascii = page.options.ascii;
    for (name, points) in [("median", points(|point| point.median_ms)), ("max", points(|point| point.max_ms))]
    {
        let (low, high) = extent(&points);
        let text =
            format!("{name:<8}{}  {} .. {}", spark(&points, ascii), milliseconds(low), milliseconds(high));
        page.line(&cut(&text, WIDTH));
    }
    let span = format!("{:<8}{} .. {}", "", moment(first.offset_seconds), moment(last.offset_seconds));
    let span = page.paint(Style::Dim, &span);
    page.line(&span);
}

pub(super) fn series(page: &mut Page, series: &[(String, &Series)], title: &str) {
    caption(page, title);
    for (name, series) in series {
        let points: Vec<(f64, f64)> =
            series.points.iter().map(|point| (point.offset_seconds, point.max)).collect();
        let text = format!(
            "{:<16}{}  {} .. {}",
            cut(name, 15),
            spark(&points, page.options.ascii),
            series_value(series.unit, series.min),
            series_value(series.unit, series.max)
        );
        page.line(&cut(&text, WIDTH));
    }
}

fn extent(points: &[(f64, f64)]) -> (f64, f64) {
    let values = || points.iter().map(|(_, value)| *value);
    (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
}

/// The largest value of each stretch of time, on a scale from the smallest to the largest.
fn spark(points: &[(f64, f64)], ascii: bool) -> String {
    let (Some(first), Some(last)) = (points.first(), points.last()) else { return String::new() };
    let span = (last.0 - first.0).max(f64::MIN_POSITIVE);
    let mut cells: Vec<Option<f64>> = vec![None; SPARK];
    for (time, value) in points {
        let cell = (((time - first.0) / span * SPARK as f64) as usize).min(SPARK - 1);
        cells[cell] = Some(cells[cell].map_or(*value, |known: f64| known.max(*value)));
    }
    let (low, high) = extent(points);
    let level = |value: f64| {
        let share = if high > low { (value - low) / (high - low) } else { 0.0 };
        ((share * 7.0).round() as usize).min(7)
    };
    let glyph = |value: f64| match ascii {
        true => char::from(b"_.-=+*%#"[level(value)]),
        false => LEVELS[level(value)],
    };
    cells.into_iter().map(|cell| cell.map_or(' ', glyph)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparklines_show_the_largest_value() {
        let points: Vec<(f64, f64)> =
            (0..600).map(|index| (f64::from(index), if index == 300 { 9.0 } else { 1.0 })).collect();
        let line = spark(&points, false);
        assert_eq!(line.chars().count(), SPARK);
        assert_eq!(line.chars().filter(|glyph| *glyph == '█').count(), 1);
        assert_eq!(spark(&[(1.0, 2.0)], true).trim(), "_");
    }
}
