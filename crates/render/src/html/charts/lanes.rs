//! The operator timeline: one row per lane, one rectangle per operator. It is complete without a script; the script
//! zooms, filters and writes names into the rectangles.

use std::collections::BTreeMap;

use super::super::escape::{coordinate, escape};
use super::axis::{self, Scale, Ticks};
use crate::palette::{colour, is_strong};
use ortscope_core::units::{milliseconds, percent};
use ortscope_result::{Lane, Rectangle, Timeline};

/// Height of a lane and of the rectangles in it, in pixels.
const LANE: f64 = 26.0;
const BAR: f64 = 20.0;
/// Merged operators are drawn lower, so that they do not hide the others.
const MERGED_BAR: f64 = 7.0;
/// Width of the drawing in its own unit.
const SPAN: f64 = 100_000.0;
/// What is shorter could not be seen at all.
const MIN_WIDTH: f64 = 12.0;
/// Types in the legend.
const MAX_KEYS: usize = 14;

pub(in crate::html) fn lanes(timeline: &Timeline, caption: &str, id: &str) -> String {
    let height = LANE * timeline.lanes.len() as f64;
    let mut labels = String::new();
    let mut stripes = String::new();
    for (index, lane) in timeline.lanes.iter().enumerate() {
        labels += &format!("<div class=\"lane\" title=\"{0}\">{0}</div>", escape(&lane.label));
        if index % 2 == 1 {
            stripes += &format!(
                "<rect class=\"stripe\" x=\"0\" y=\"{}\" width=\"100%\" height=\"{LANE}\"/>",
                coordinate(LANE * index as f64)
            );
        }
    }
    let rectangles: String = timeline.rectangles.iter().map(|rectangle| draw(timeline, rectangle)).collect();
    let ticks = Ticks::time(&Scale::linear(0.0, timeline.duration_ms / 1e3), 6);
    let x_labels: String = ticks.marks.iter().map(|(share, label)| axis::x_label(*share, label)).collect();
    format!(
        "<figure class=\"chart timeline\" data-ns=\"{}\"><figcaption id=\"{id}-caption\">{}</figcaption>{}\
         <div class=\"tools\" hidden><button type=\"button\" data-do=\"in\">Zoom in</button>\
         <button type=\"button\" data-do=\"out\">Zoom out</button>\
         <button type=\"button\" data-do=\"reset\">Reset</button>\
         <label>Find <input type=\"search\" name=\"find\" placeholder=\"name or type, !not\" size=\"18\"></label>\
         <output></output></div>\
         <div class=\"lanes\"><div class=\"names\">{labels}</div>\
         <div class=\"track\" tabindex=\"0\" role=\"group\" aria-labelledby=\"{id}-caption\">\
         <svg class=\"area\" width=\"100%\" height=\"{height}\">{stripes}\
         <svg class=\"shapes\" width=\"100%\" height=\"{height}\" viewBox=\"0 0 {SPAN} {height}\" preserveAspectRatio=\"none\">{rectangles}</svg>\
         <g class=\"texts\"></g></svg>\
         <svg class=\"xs\" width=\"100%\" height=\"18\">{x_labels}</svg></div></div>\
         <div class=\"xtitle\">{}</div>\
         <p class=\"help\" hidden>Wheel zooms at the pointer, dragging moves, a double click shows all, Esc goes back one step. \
         With the keyboard: arrows move, + and − zoom, 0 shows all.</p></figure>\n",
        coordinate(timeline.duration_ms * 1e6),
        escape(caption),
        legend(timeline),
        escape(&ticks.title)
    )
}

fn is_whole(lane: Option<&Lane>) -> bool {
    lane.is_none_or(|lane| lane.kind == "run" || lane.kind == "executor")
}

fn draw(timeline: &Timeline, rectangle: &Rectangle) -> String {
    let whole = timeline.duration_ms.max(1e-9);
    let left = (rectangle.start_ms / whole * SPAN).clamp(0.0, SPAN);
    let width = (rectangle.duration_ms / whole * SPAN).clamp(MIN_WIDTH, SPAN);
    let top = LANE * rectangle.lane as f64 + (LANE - BAR) / 2.0;
    let merged = rectangle.operators > 1;
    let (top, height) = if merged { (top + BAR - MERGED_BAR, MERGED_BAR) } else { (top, BAR) };
    let lane = timeline.lanes.get(rectangle.lane);
    let class = match lane.map(|lane| &*lane.kind) {
        _ if is_whole(lane) => "whole".to_owned(),
        Some("wait") => format!("c{} wait", colour(&rectangle.op_type)),
        _ if is_strong(&rectangle.op_type) => format!("c{} strong", colour(&rectangle.op_type)),
        _ => format!("c{}", colour(&rectangle.op_type)),
    };
    let share = percent(rectangle.duration_ms / whole);
    // For sums over a part of the run: how many operators it stands for, and which share of it they fill.
    let merged_data = match merged {
        true => format!(
            " data-n=\"{}\" data-busy=\"{:.3}\"",
            rectangle.operators,
            (rectangle.busy_ms / rectangle.duration_ms.max(1e-9)).clamp(0.0, 1.0)
        ),
        false => String::new(),
    };
    let tip = match merged {
        true => format!(
            "{} short operators, mostly {}\n{} within {}",
            rectangle.operators,
            rectangle.op_type,
            milliseconds(rectangle.busy_ms),
            milliseconds(rectangle.duration_ms)
        ),
        false => format!(
            "{}\n{} · {} · {share} of the run\n{}",
            rectangle.name,
            rectangle.op_type,
            milliseconds(rectangle.duration_ms),
            rectangle.execution_provider
        ),
    };
    format!(
        "<rect class=\"{class}\"{merged_data} x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"><title>{}</title></rect>",
        coordinate(left),
        coordinate(top),
        coordinate(width),
        coordinate(height),
        escape(tip.trim_end())
    )
}

/// Types by their time in this run.
fn legend(timeline: &Timeline) -> String {
    let mut by_type: BTreeMap<&str, f64> = BTreeMap::new();
    for rectangle in &timeline.rectangles {
        if !is_whole(timeline.lanes.get(rectangle.lane)) {
            *by_type.entry(&rectangle.op_type).or_default() += rectangle.busy_ms;
        }
    }
    let mut order: Vec<(&str, f64)> = by_type.into_iter().collect();
    order.sort_by(|left, right| right.1.total_cmp(&left.1));
    let mut out = String::from("<p class=\"legend\">");
    for (op_type, _) in order.iter().take(MAX_KEYS) {
        let name = if op_type.is_empty() { "(no type)" } else { op_type };
        out += &format!(
            "<span class=\"key\"><svg class=\"swatch\" width=\"12\" height=\"12\"><rect class=\"c{}\" width=\"12\" height=\"12\" rx=\"2\"/></svg>{}</span>",
            colour(op_type),
            escape(name)
        );
    }
    if order.len() > MAX_KEYS {
        out += &format!("<span class=\"key\">and {} more</span>", order.len() - MAX_KEYS);
    }
    out + "</p>"
}
