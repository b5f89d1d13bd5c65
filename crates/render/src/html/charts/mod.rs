//! Charts as inline SVG. The data lies in a nested drawing that stretches with the page; texts and grid lines lie
//! around it in percent, so they keep their size. Everything is drawn here: scripts only add tooltips and zoom.

mod axis;
mod histogram;
mod lanes;
mod over_time;
mod series;

use self::axis::Ticks;
use super::escape::{coordinate, escape};

pub(super) use histogram::histogram;
pub(super) use lanes::lanes;
pub(super) use over_time::over_time;
pub(super) use series::series;

/// Width of the nested drawings, in their own unit.
const WIDTH: f64 = 1000.0;
/// Height of a chart in pixels.
const HEIGHT: f64 = 200.0;

/// Everything of a chart but its data.
struct Frame {
    caption: String,
    /// Above the chart.
    legend: String,
    x: Ticks,
    y: Ticks,
    /// For scripts: what the readings are.
    data: Option<serde_json::Value>,
}

impl Frame {
    /// The figure around `inside`, the shapes of the nested drawing, and `over`, texts and lines in percent.
    fn show(&self, inside: &str, over: &str) -> String {
        let mut grid = String::new();
        let mut y_labels = String::new();
        for (share, label) in &self.y.marks {
            let y = coordinate(HEIGHT * (1.0 - share));
            grid += &format!("<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{y}\" y2=\"{y}\"/>");
            let baseline = coordinate((HEIGHT * (1.0 - share) + 4.0).clamp(10.0, HEIGHT - 1.0));
            y_labels += &format!(
                "<text x=\"100%\" y=\"{baseline}\" dx=\"-8\" text-anchor=\"end\">{}</text>",
                escape(label)
            );
        }
        let mut x_labels = String::new();
        for (share, label) in &self.x.marks {
            let x = coordinate(share * 100.0);
            grid += &format!("<line class=\"grid\" x1=\"{x}%\" x2=\"{x}%\" y1=\"0\" y2=\"{HEIGHT}\"/>");
            x_labels += &axis::x_label(*share, label);
        }
        let data = self.data.as_ref().map_or(String::new(), |data| {
            format!("<script type=\"application/json\" class=\"data\">{}</script>", super::escape::data(data))
        });
        let title = |axis: &Ticks| escape(&axis.title);
        format!(
            "<figure class=\"chart\"><figcaption>{}</figcaption>{}<div class=\"plot\">\
             <div class=\"ytitle\">{}</div>\
             <svg class=\"ys\" width=\"100%\" height=\"{HEIGHT}\" aria-hidden=\"true\">{y_labels}</svg>\
             <svg class=\"area\" width=\"100%\" height=\"{HEIGHT}\" role=\"img\" aria-label=\"{}\">{grid}\
             <svg class=\"shapes\" width=\"100%\" height=\"{HEIGHT}\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\">{inside}</svg>\
             {over}</svg>\
             <svg class=\"xs\" width=\"100%\" height=\"18\" aria-hidden=\"true\">{x_labels}</svg>\
             <div class=\"xtitle\">{}</div></div>{data}</figure>\n",
            super::escape::running(&self.caption),
            self.legend,
            title(&self.y),
            escape(&self.caption),
            title(&self.x),
        )
    }
}

/// A point of the nested drawing, from shares of its width and height.
fn point(x: f64, y: f64) -> String {
    format!("{} {}", coordinate(x * WIDTH), coordinate((1.0 - y) * HEIGHT))
}

/// A line through points given as shares.
fn line(points: impl Iterator<Item = (f64, f64)>) -> String {
    let parts: Vec<String> = points.map(|(x, y)| point(x, y)).collect();
    if parts.is_empty() { String::new() } else { format!("M{}", parts.join("L")) }
}

/// Separate dots: strokes of no length, which keep their roundness when the drawing is stretched.
fn dots(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("M{}h0", point(x, y))).collect()
}

/// The area between two lines, both from left to right.
fn band(points: &[(f64, f64, f64)]) -> String {
    let upper: Vec<String> = points.iter().map(|(x, _, high)| point(*x, *high)).collect();
    let lower: Vec<String> = points.iter().rev().map(|(x, low, _)| point(*x, *low)).collect();
    if upper.is_empty() { String::new() } else { format!("M{}L{}Z", upper.join("L"), lower.join("L")) }
}
