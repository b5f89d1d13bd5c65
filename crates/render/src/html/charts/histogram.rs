//! The distribution of latencies as bars.

use super::super::escape::{coordinate, escape};
use super::axis::{Scale, Ticks};
use super::{Frame, HEIGHT, WIDTH};
use ortscope_core::units::{counted, milliseconds, percent, prefixed};
use ortscope_result::Histogram;

/// Height of one line of names at the top, in pixels.
const NAME_LINE: f64 = 14.0;
/// A bar that is not empty can be seen.
const MIN_BAR: f64 = 2.0;
/// Share of the width for the bar of the outliers, and for the gap before it.
const TAIL: f64 = 0.05;
const TAIL_GAP: f64 = 0.02;

pub(in crate::html) fn histogram(
    histogram: &Histogram,
    marks: &[(&'static str, f64)],
    caption: &str,
) -> String {
    let bins = histogram.counts.len() - usize::from(histogram.tail && histogram.counts.len() > 1);
    let (Some(low), Some(high)) = (histogram.edges_ms.first(), histogram.edges_ms.get(bins)) else {
        return String::new();
    };
    let body = if histogram.tail { 1.0 - TAIL - TAIL_GAP } else { 1.0 };
    let scale = Scale::logarithmic(*low, *high);
    let head = NAME_LINE * (marks.len() + usize::from(histogram.tail)) as f64 / HEIGHT;
    let most = histogram.counts.iter().copied().max().unwrap_or(0).max(1);
    let heights = Scale::linear(0.0, most as f64 / (1.0 - head));
    let n = histogram.n().max(1);
    let mut bars = String::new();
    for (index, (edges, bin)) in histogram.edges_ms.windows(2).zip(&histogram.counts).enumerate() {
        if *bin == 0 {
            continue;
        }
        let (left, right) = match index < bins {
            true => (scale.share(edges[0]) * body, scale.share(edges[1]) * body),
            false => (1.0 - TAIL, 1.0),
        };
        let (left, right) = if right > left { (left * WIDTH, right * WIDTH) } else { (0.0, WIDTH) };
        let height = (heights.share(*bin as f64) * HEIGHT).max(MIN_BAR);
        let tip = format!(
            "{} to {}: {} ({})",
            milliseconds(edges[0]),
            milliseconds(edges[1]),
            counted(*bin, "inference"),
            percent(*bin as f64 / n as f64)
        );
        bars += &format!(
            "<rect{} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
            if index < bins { "" } else { " class=\"tail\"" },
            coordinate(left + 0.5),
            coordinate(HEIGHT - height),
            coordinate((right - left - 1.0).max(0.5)),
            coordinate(height),
            escape(&tip)
        );
    }
    let mut x = Ticks::latency(&scale, 6, "latency");
    for (share, _) in &mut x.marks {
        *share *= body;
    }
    let frame = Frame {
        caption: caption.to_owned(),
        legend: String::new(),
        x,
        y: Ticks::values(&heights, 4, |value| prefixed(value.round(), "")),
        data: None,
    };
    let over = mark_lines(marks, &scale, body) + &tail_name(histogram, marks.len());
    frame.show(&format!("<g class=\"bars\">{bars}</g>"), &over)
}

/// Lines at percentiles, each with its name on a line of its own, so that none lies over another.
fn mark_lines(marks: &[(&'static str, f64)], scale: &Scale, body: f64) -> String {
    let mut out = String::new();
    for (index, (name, value)) in marks.iter().enumerate() {
        let share = scale.share(*value) * body;
        let x = coordinate(share * 100.0);
        let y = 11.0 + NAME_LINE * index as f64;
        let (anchor, shift) = if share > 0.8 { ("end", -4) } else { ("start", 4) };
        out += &format!(
            "<line class=\"mark\" x1=\"{x}%\" x2=\"{x}%\" y1=\"{}\" y2=\"{HEIGHT}\"/>\
             <text class=\"marktext\" x=\"{x}%\" y=\"{}\" dx=\"{shift}\" text-anchor=\"{anchor}\">{name} {}</text>",
            coordinate(y - 9.0),
            coordinate(y),
            escape(&milliseconds(*value))
        );
    }
    out
}

fn tail_name(histogram: &Histogram, line: usize) -> String {
    let (Some(count), [.., from, to]) = (histogram.counts.last(), histogram.edges_ms.as_slice()) else {
        return String::new();
    };
    if !histogram.tail {
        return String::new();
    }
    let text = format!(
        "{} above {}, up to {}",
        counted(*count, "inference"),
        milliseconds(*from),
        milliseconds(*to)
    );
    format!(
        "<text class=\"marktext\" x=\"100%\" y=\"{}\" text-anchor=\"end\">{}</text>",
        coordinate(11.0 + NAME_LINE * line as f64),
        escape(&text)
    )
}
